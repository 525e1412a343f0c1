"""Access tokens that are signed (JWT, RFC 9068), judged by the issuer's keys alone.

Of the header only `alg`, `kid` and `typ` are read. Keys and addresses in it (`jwk`, `jku`, `x5c`, `x5u`) are never used.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from clicket import system
from clicket.safety.oauth.claims import Claims, check_claims, check_times, decode_claims
from clicket.safety.oauth.config import OAuthConfig
from clicket.safety.oauth.key_cache import KeyCache
from clicket.safety.oauth.key_set import Key, KeySet, require_jose
from clicket.safety.oauth.refusals import TokenRefused

__all__ = ["SignedTokens", "is_signed"]

_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_MAX_CACHED = 1_000


def is_signed(token: str) -> bool:
    """Does the token have the form of a JWT?"""
    return token.count(".") == 2


class SignedTokens:
    """Verifies a signature once for each token and key; times are checked at each use."""

    def __init__(self, config: OAuthConfig, keys: KeyCache, *, now: Callable[[], float] = system.now) -> None:
        require_jose()
        import jwt

        self._config = config
        self._keys = keys
        self._now = now
        self._jws = jwt.PyJWS(algorithms=list(config.algorithms))
        self._verified: dict[bytes, tuple[Key, Claims]] = {}

    async def validate(self, token: str) -> Claims:
        """The claims of a valid token. Raises `TokenRefused` or `IssuerUnavailable`."""
        digest = sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is None:
            self._header(token)  # what cannot be valid causes no request for keys
        keys = await self._keys.keys()
        if known is not None and any(each is known[0] for each in keys.keys):
            claims = known[1]
        else:
            key, claims = await self._verify(token, keys)
            if len(self._verified) >= _MAX_CACHED:
                self._verified.clear()
            self._verified[digest] = (key, claims)
        check_times(claims, self._now(), self._config.leeway)
        return claims

    async def _verify(self, token: str, keys: KeySet) -> tuple[Key, Claims]:
        import jwt

        algorithm, kid = self._header(token)
        key = keys.find(kid, algorithm)
        if key is None:
            keys = await self._keys.after_unknown()
            key = keys.find(kid, algorithm)
        if key is None:
            raise TokenRefused("the token is signed with a key that the authorization server does not have.")
        try:
            payload = self._jws.decode(token, key.made[algorithm], algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, TypeError):
            raise TokenRefused("the token's signature is wrong.") from None
        claims = decode_claims(payload)
        check_claims(claims, self._config.issuer)
        if claims.exp is None:
            raise TokenRefused("the token never expires. Tokens need `exp`.")
        return key, claims

    def _header(self, token: str) -> tuple[str, str | None]:
        """The algorithm of a token, and the name of its key; raises `TokenRefused`."""
        import jwt

        try:
            header: dict[str, Any] = self._jws.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRefused("the token is malformed.") from None
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
        if algorithm not in self._config.algorithms:
            raise TokenRefused("the token is signed with an algorithm that is not accepted here.")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise TokenRefused("the token is not an access token.")
        if "crit" in header or "b64" in header:
            raise TokenRefused("the token's header demands an extension that is not supported.")
        if kid is not None and not isinstance(kid, str):
            raise TokenRefused("the token is malformed.")
        return str(algorithm), kid
