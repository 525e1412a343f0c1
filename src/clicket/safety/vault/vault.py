"""Secrets at rest: arguments that a later run needs are encrypted, and compared by a keyed hash.

With keys (`CLICKET_SECRET_KEY`; the first encrypts, all decrypt) any runtime that has one of them can continue a call. Without
keys nothing is encrypted, and the hash has a random key: only this process can compare then.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from clicket import system
from clicket.errors import UsageError
from clicket.model.arguments import weigh
from clicket.model.codec import canonical, decode, encode
from clicket.safety.vault.shapes import MASK, has_marker

__all__ = ["Identity", "Vault", "resembles", "restored", "still_masked"]

_MIN_KEY = 16
_SALT, _NONCE = 16, 12
Identity = tuple[str, str, str]
"""Caller, thread and id: data sealed for one call cannot be opened for another."""


class Vault:
    def __init__(self, keys: Sequence[str] = ()) -> None:
        for key in keys:
            if len(key) < _MIN_KEY:
                raise UsageError(
                    f"CLICKET_SECRET_KEY (secret_key) has a key of fewer than {_MIN_KEY} characters. Make one with: "
                    'python -c "import secrets; print(secrets.token_urlsafe(32))".'
                )
        self._derive: Callable[[bytes, bytes, bytes], bytes] | None = _hkdf() if keys else None
        self._keys: dict[str, bytes] = {}
        self._macs: dict[str, bytes] = {}
        for key in keys:
            assert self._derive is not None
            name = self._derive(key.encode(), b"", b"clicket name")[:4].hex()
            self._keys[name] = key.encode()
            self._macs[name] = self._derive(key.encode(), b"", b"clicket equality")
        if not keys:
            self._macs[system.random_hex(4)] = system.random_bytes(32)

    @classmethod
    def of(cls, setting: str | None) -> Vault:
        """From the setting: keys, separated by commas."""
        return cls([key.strip() for key in (setting or "").split(",") if key.strip()])

    @property
    def seals(self) -> bool:
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"<vault, {len(self._keys)} keys>"

    # A call's arguments.

    def keep(self, identity: Identity, kind: str, arguments: Any, metadata: Any) -> dict[str, str]:
        """What an event stores beside masked arguments: a hash to compare them with, and, with a key, the sealed arguments."""
        kept = {"arguments_hash": self.hash(canonical(arguments), identity)}
        if self._keys:
            whole = {"arguments": arguments, "metadata": metadata} if metadata else {"arguments": arguments}
            kept["sealed"] = self._seal(encode(whole), _bound(identity, kind))
        return kept

    def unseal(self, identity: Identity, kind: str, data: dict[str, Any]) -> dict[str, Any] | None:
        """`arguments` (and `metadata`) in plain text; None: they are not there, or none of our keys opens them."""
        sealed = data.get("sealed")
        plain = self._open(sealed, _bound(identity, kind)) if type(sealed) is str else None
        whole = None if plain is None else decode(plain)
        return whole if type(whole) is dict and type(whole.get("arguments")) is dict else None

    # Other bytes of a call.

    def seal(self, identity: Identity, kind: str, plain: bytes) -> str:
        """Encrypt bytes for this call and this kind alone. Only if `seals`."""
        return self._seal(plain, _bound(identity, kind))

    def unsealed(self, identity: Identity, kind: str, text: str) -> bytes | None:
        """The decrypted bytes; None: none of our keys opens them."""
        return self._open(text, _bound(identity, kind))

    def equal(self, identity: Identity, kept: str, shown: Any, given: Any) -> bool:
        """Is `kept` the hash of these arguments? Without its key, `given` is compared with the masked arguments instead."""
        told = self._matches(kept, canonical(given), identity)
        return resembles(shown, given) if told is None else told

    # Refused arguments: the record has their size and hash.

    def fingerprint(self, given: Any, sensitive: frozenset[str]) -> dict[str, Any]:
        """Size and hash of refused arguments. A plain hash of a secret could be found by guessing, so secrets get a keyed one."""
        size, raw = weigh(given)
        if sensitive or has_marker(raw.decode("utf-8", "replace")):
            return {"size": size, "sha256": None, "keyed": self.hash(raw, ("", "", ""))}
        return {"size": size, "sha256": sha256(raw).hexdigest()}

    def same_refused(self, given: Any, kept: dict[str, Any]) -> bool:
        size, raw = weigh(given)
        if type(kept.get("keyed")) is str:
            told = self._matches(kept["keyed"], raw, ("", "", ""))
            return size == kept.get("size") if told is None else told
        return kept.get("sha256") is not None and sha256(raw).hexdigest() == kept["sha256"]

    # Hashing and sealing.

    def hash(self, data: bytes, identity: Identity) -> str:
        name, key = next(iter(self._macs.items()))
        return f"{name}:{_mac(key, data, identity)}"

    def verifies(self, kept: str, data: bytes, identity: Identity) -> bool:
        """Is `kept` the hash of these bytes with one of our keys?"""
        return self._matches(kept, data, identity) is True

    def _matches(self, kept: Any, data: bytes, identity: Identity) -> bool | None:
        name, _, value = str(kept).partition(":")  # the store may hold anything
        key = self._macs.get(name)
        return None if key is None else hmac.compare_digest(_mac(key, data, identity).encode(), value.encode())

    def _seal(self, plain: bytes, bound: bytes) -> str:
        # Each blob has its own key, so that a random nonce never repeats under the same key.
        name, key = next(iter(self._keys.items()))
        salt, nonce = system.random_bytes(_SALT), system.random_bytes(_NONCE)
        sealed = _cipher(self._key(key, salt)).encrypt(nonce, plain, bound)
        return f"1.{name}.{b64encode(salt + nonce + sealed).decode()}"

    def _open(self, text: str, bound: bytes) -> bytes | None:
        version, name, rest = [*text.split(".", 2), "", ""][:3]
        key = self._keys.get(name)
        if version != "1" or key is None:
            return None
        from cryptography.exceptions import InvalidTag

        try:
            blob = b64decode(rest, validate=True)
            salt, nonce, sealed = blob[:_SALT], blob[_SALT : _SALT + _NONCE], blob[_SALT + _NONCE :]
            plain: bytes = _cipher(self._key(key, salt)).decrypt(nonce, sealed, bound)
        except (InvalidTag, ValueError):
            return None
        return plain

    def _key(self, key: bytes, salt: bytes) -> bytes:
        assert self._derive is not None
        return self._derive(key, salt, b"clicket sealing")


def _mac(key: bytes, data: bytes, identity: Identity) -> str:
    return hmac.new(key, encode(identity) + b"\n" + data, sha256).hexdigest()


def _bound(identity: Identity, kind: str) -> bytes:
    return encode(["clicket", kind, *identity])


def _hkdf() -> Callable[[bytes, bytes, bytes], bytes]:
    try:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ModuleNotFoundError:
        raise UsageError(
            "CLICKET_SECRET_KEY (secret_key) needs the package 'cryptography', which is not installed. "
            "Install it with: pip install 'clicket[secrets]'."
        ) from None

    def derive(key: bytes, salt: bytes, purpose: bytes) -> bytes:
        derived: bytes = HKDF(algorithm=SHA256(), length=32, salt=salt or None, info=purpose).derive(key)
        return derived

    return derive


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


# Masks and what they stand for.


def resembles(shown: Any, given: Any) -> bool:
    """Could `shown` be `given` with secrets masked? A mask matches anything; everything else must be equal."""
    if type(shown) is str and MASK in shown:
        return shown == MASK or (type(given) is str and _fits(shown.split(MASK), given))
    if type(shown) is dict and type(given) is dict:
        if any(MASK in key for key in shown):
            return len(shown) == len(given)
        return shown.keys() == given.keys() and all(resembles(shown[key], given[key]) for key in shown)
    if type(shown) is list and type(given) is list:
        return len(shown) == len(given) and all(map(resembles, shown, given))
    return canonical(shown) == canonical(given)


def _fits(parts: list[str], text: str) -> bool:
    """Does the text have the parts between the masks, in their order?"""
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at = len(first)
    end = len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def restored(edited: Any, shown: Any, real: Any) -> Any:
    """Edited arguments whose editor saw only masks: where the editor changed nothing, the real value is put back."""
    if edited == shown and type(edited) is type(shown):
        return real
    if type(edited) is dict and type(shown) is dict and type(real) is dict:
        return {
            key: restored(item, shown[key], real[key]) if key in shown and key in real else item
            for key, item in edited.items()
        }
    if type(edited) is list and type(shown) is list and type(real) is list and len(edited) == len(shown):
        return [restored(*each) for each in zip(edited, shown, real, strict=True)]
    return edited


def still_masked(value: Any, before: Any = None) -> bool:
    """Is there a mask that no real value belongs to? A call must not run with it."""
    if value == before:
        return False
    if type(value) is str:
        return MASK in value
    if type(value) is dict:
        old = before if type(before) is dict else {}
        return any(still_masked(item, old.get(key)) for key, item in value.items())
    return type(value) is list and any(map(still_masked, value))
