"""API keys: `ck_<id>_<secret>`. The store keeps a hash of the secret, never the secret. A key is shown once, when it is made.

The secret has 256 random bits, so a plain SHA-256 is as good as a slow hash: it cannot be guessed.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from clicket import system
from clicket.engine.people.approvers import API_KEY
from clicket.errors import NotFound, StoreUnavailable, UsageError, did_you_mean
from clicket.model.ports import Records
from clicket.model.scopes import SCOPES

__all__ = [
    "KIND",
    "SCOPES",
    "Key",
    "check_scopes",
    "create",
    "hash_of",
    "listed",
    "matches",
    "parse_static",
    "read",
    "revoke",
]

KIND = API_KEY
_MAX_NAME = 100
_TRIES = 5


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is stored. Times are seconds since the epoch."""

    id: str
    name: str
    hash: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    holder: str = ""
    """The person who has it; keys of the same holder or name belong to one person. Empty: the name says it."""

    def is_valid(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def state(self, now: float) -> str:
        return "revoked" if self.revoked_at is not None else "valid" if self.is_valid(now) else "expired"


_decoder = msgspec.json.Decoder(Key)


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes without duplicates, in the order of `SCOPES`; raises `UsageError` for an unknown one."""
    given = [scope.strip().lower() for scope in scopes if scope.strip()]
    for scope in given:
        if scope not in SCOPES:
            raise UsageError(f"there is no scope {scope!r}.{did_you_mean(scope, SCOPES)} Known: {', '.join(SCOPES)}.")
    if not given:
        raise UsageError(f"a key needs at least one scope of {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in given)


def hash_of(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def matches(key: Key, secret: str) -> bool:
    return hmac.compare_digest(key.hash, hash_of(secret))


def read(body: bytes) -> Key:
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(
            f"an API key in the store cannot be read: {error}. Revoke it and make another."
        ) from None


async def create(
    store: Records, *, name: str, scopes: Iterable[str], now: float, expires_at: float | None = None, holder: str = ""
) -> tuple[Key, str]:
    """Create a key. Returns it with its text, which is stored nowhere."""
    for what, text in (("name", name), ("holder", holder or name)):
        if not text or len(text) > _MAX_NAME or not text.isprintable():
            raise UsageError(
                f"a key's {what} must be printable text of 1 to {_MAX_NAME} characters, not {text!r:.120}."
            )
    checked = check_scopes(scopes)
    if expires_at is not None and expires_at <= now:
        raise UsageError("a key must expire later than now.")
    for _ in range(_TRIES):
        id = system.random_hex(6)
        secret = secrets.token_urlsafe(32)
        key = Key(
            id=id, name=name, hash=hash_of(secret), scopes=checked, created_at=now, expires_at=expires_at, holder=holder
        )
        if await store.put_document(KIND, id, msgspec.json.encode(key), 0):
            return key, f"ck_{id}_{secret}"
    raise StoreUnavailable("the store has all the ids that were tried. Try again.")


async def listed(store: Records) -> list[Key]:
    """All keys, also revoked and expired ones, the oldest first."""
    found: list[Key] = []
    after = ""
    while page := await store.documents(KIND, after=after, limit=1_000):
        found += [read(document.body) for document in page]
        after = page[-1].key
    return sorted(found, key=lambda key: (key.created_at, key.id))


async def revoke(store: Records, id: str, *, now: float) -> tuple[Key, bool]:
    """Revoke a key, at once and in every process. False: it was revoked already. `id` may be the key's whole text."""
    if id.startswith("ck_"):
        id = id.split("_", 2)[1]
    for _ in range(_TRIES):
        document = await store.document(KIND, id)
        if document is None:
            known = [key.id for key in await listed(store)]
            raise NotFound(f"there is no key {id!r}.{did_you_mean(id, known)} `clicket keys list` shows them.")
        key = read(document.body)
        if key.revoked_at is not None:
            return key, False
        key = msgspec.structs.replace(key, revoked_at=now)
        if await store.put_document(KIND, id, msgspec.json.encode(key), document.version):
            return key, True
    raise StoreUnavailable(f"key {id!r} is being changed by other processes. Try again.")


def parse_static(texts: Iterable[str]) -> dict[str, Key]:
    """The keys of the settings, by the hash of their secret: `name:read+call:secret`, or a bare secret with every scope."""
    found: dict[str, Key] = {}
    for number, text in enumerate(texts, start=1):
        parts = text.strip().split(":", 2)
        if len(parts) == 3 and parts[0]:
            name = parts[0]
            scopes = check_scopes(parts[1].split("+"))
            secret = parts[2]
        elif len(parts) == 1:
            name = ""
            scopes = SCOPES
            secret = parts[0]
        else:
            raise UsageError(f"api_keys: entry {number} is neither `name:scope+scope:secret` nor a bare secret.")
        if len(secret) < 16 or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise UsageError(
                f"api_keys: the secret of entry {number} must be at least 16 printable ASCII characters. "
                "`clicket keys create` makes good ones."
            )
        digest = hash_of(secret)
        id = name or f"static-{digest[:12]}"
        if digest in found or any(key.id == id for key in found.values()):
            raise UsageError(
                f"api_keys: entry {number} is there twice, or its name is. Each key needs a name of its own."
            )
        found[digest] = Key(id=id, name=name or id, hash=digest, scopes=scopes, created_at=0.0)
    return found
