"""Who asks. A key is looked up on every request, so that one that was revoked anywhere fails at once everywhere.

Where there is no key at all, only this machine can ask (see `listening`), and acts as the runtime's own caller.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from clicket.errors import StoreUnavailable
from clicket.runtime import Runtime
from clicket.server import keys
from clicket.server.context import Context
from clicket.server.hosts import is_loopback
from clicket.server.problems import Refused

__all__ = ["Doorkeeper", "Principal", "principal_of"]

_EVERYTHING = frozenset(keys.SCOPES)
_LOOK_EVERY = 1.0
_MOST_VIEWS = 1_000
_CHALLENGE = (b"www-authenticate", b'Bearer realm="clicket"')


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """One key at work. `own` makes calls in its name; `sees` finds what it may look at."""

    id: str
    name: str
    scopes: frozenset[str]
    own: Runtime
    sees: Runtime

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


class Doorkeeper:
    """Knows the keys of the settings, and asks the store for all others."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._static = keys.parse_static(context.options.api_keys)
        self._views: dict[tuple[str, frozenset[str]], Principal] = {}
        self._read: dict[str, tuple[bytes, keys.Key]] = {}
        self._keyed = bool(self._static)
        self._looked_at = float("-inf")
        self._everybody: Principal | None = None

    async def is_open(self, *, patient: bool = False) -> bool:
        """Is there no key at all? Looked at now and then: the first key that is made closes the door.

        `patient`: while the store does not answer, what it said last holds.
        """
        if self._keyed:
            return False
        now = time.monotonic()
        if now - self._looked_at > _LOOK_EVERY:
            try:
                self._keyed = bool(await self._context.store.documents(keys.KIND, limit=1))
            except StoreUnavailable:
                if not patient or self._looked_at == float("-inf"):
                    raise
                return True
            self._looked_at = now
        return not self._keyed

    async def count(self) -> int:
        """How many keys open the door now."""
        now = time.time()
        stored = await keys.listed(self._context.store)
        return len(self._static) + sum(key.is_valid(now) for key in stored)

    async def admit(
        self, headers: list[tuple[bytes, bytes]], client: tuple[str, int] | None, *, patient: bool = False
    ) -> Principal:
        """Whose request it is, or `Refused`. Without any key nobody from another machine is let in, whatever was bound."""
        text = _key_in(headers)
        if text is None:
            if await self.is_open(patient=patient) and (client is None or is_loopback(client[0])):
                return self.everybody()
            raise _unauthorized("this server needs a key. Send it as `Authorization: Bearer ck_…`.")
        key = self._static.get(keys.hash_of(text)) if self._static else None
        if key is None:
            key = await self._stored(text)
        if key is None or not key.is_valid(time.time()):
            raise _unauthorized("the key is unknown, revoked or expired. `clicket keys create` makes a new one.")
        return self._principal(key)

    def everybody(self) -> Principal:
        if self._everybody is None:
            runtime = self._context.runtime
            self._everybody = Principal(id="", name="", scopes=_EVERYTHING, own=runtime, sees=runtime)
        return self._everybody

    async def _stored(self, text: str) -> keys.Key | None:
        parts = text.split("_", 2)
        if (
            len(parts) != 3
            or parts[0] != "ck"
            or not parts[1].isalnum()
            or len(parts[1]) > 32
            or not parts[1].isascii()
        ):
            return None
        store = self._context.store
        now = store.document_now(keys.KIND, parts[1])
        document = await store.document(keys.KIND, parts[1]) if now is None else now[0]
        if document is None:
            return None
        known = self._read.get(parts[1])
        if known is None or known[0] != document.body:
            known = (document.body, keys.read(document.body))
            if len(self._read) >= _MOST_VIEWS:
                self._read.clear()
            self._read[parts[1]] = known
        return known[1] if keys.matches(known[1], parts[2]) else None

    def _principal(self, key: keys.Key) -> Principal:
        scopes = frozenset(key.scopes)
        principal = self._views.get((key.id, scopes))
        if principal is None:
            runtime = self._context.runtime
            own = runtime.acting_for(key.id, scopes)
            sees = runtime if "admin" in scopes else own
            principal = Principal(id=key.id, name=key.name, scopes=scopes, own=own, sees=sees)
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[key.id, scopes] = principal
        return principal


def _key_in(headers: list[tuple[bytes, bytes]]) -> str | None:
    found: list[str] = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not rest.strip():
                raise _unauthorized("write the key as `Authorization: Bearer ck_…`; no other scheme is known.")
            found.append(rest.strip())
        elif name == b"x-api-key":
            found.append(value.decode("latin-1").strip())
    if len(found) > 1:
        raise _unauthorized("two keys were sent. Send one, in Authorization or in X-API-Key.")
    return found[0] if found else None


def _unauthorized(text: str) -> Refused:
    return Refused("unauthorized", text, _CHALLENGE)


def principal_of(scope: Any) -> Principal:
    """Who was admitted with this request."""
    principal: Principal = scope["clicket.who"]
    return principal
