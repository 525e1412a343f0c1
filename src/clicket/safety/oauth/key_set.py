"""A set of public keys (RFC 7517). Only keys that can verify signatures of an allowed algorithm are taken; the rest is left out.

A key is bound to its kind: an RSA key never verifies an HMAC. Shared secrets (`oct`) and private keys in the set are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["Key", "KeySet", "require_jose"]

_MAX_KEYS = 100
_MAX_KID = 512
_RSA_BITS = range(2048, 8192 + 1)
_OF_KIND: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms of each kind of key."""


def require_jose() -> None:
    """Raise `UsageError` if the package for signed tokens is not installed."""
    try:
        import cryptography
        import jwt
    except ModuleNotFoundError:
        raise UsageError("signed access tokens need an extra. Install it with: pip install 'clicket[oauth]'.") from None
    del cryptography, jwt


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """`made` has the key for each of its algorithms, as the library takes it."""

    kid: str | None
    made: Mapping[str, Any]


class KeySet(msgspec.Struct, frozen=True, kw_only=True):
    keys: tuple[Key, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any], algorithms: Iterable[str]) -> KeySet:
        listed = document.get("keys")
        allowed = frozenset(algorithms)
        found = [_key(each, allowed) for each in (listed if isinstance(listed, list) else [])[:_MAX_KEYS]]
        return cls(keys=tuple(key for key in found if key is not None))

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The key that signed a token with this header; a token without `kid` needs a set with one key that fits."""
        fits = [key for key in self.keys if algorithm in key.made and (kid is None or key.kid == kid)]
        return fits[0] if len(fits) == 1 else None


def _key(given: Any, allowed: frozenset[str]) -> Key | None:
    import jwt

    if not isinstance(given, dict) or "d" in given or given.get("use", "sig") != "sig":
        return None
    operations, kid = given.get("key_ops"), given.get("kid")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    if kid is not None and not (isinstance(kid, str) and len(kid) <= _MAX_KID):
        return None
    kind, curve = given.get("kty"), given.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return None
    only = given.get("alg")
    algorithms = [each for each in _OF_KIND.get((kind, curve), ()) if each in allowed and only in (None, each)]
    try:
        made = {each: jwt.PyJWK.from_dict(given, each) for each in algorithms}
        bits = next((each.key.key_size for each in made.values()), 0) if kind == "RSA" else None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):  # one broken key must not take the others away
        return None
    if not made or (bits is not None and bits not in _RSA_BITS):
        return None
    return Key(kid=kid, made=made)
