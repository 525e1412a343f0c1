"""Authenticates requests. The key is looked up for every request, so a revoked key fails at once in every process.

While no key exists, authentication is off: requests from this machine act as the runtime itself, and all others are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clicket.engine.approvers import Approver
from clicket.errors import StoreUnavailable
from clicket.ports import Store
from clicket.runtime import Runtime
from clicket.server import keys
from clicket.server.host_check import is_loopback
from clicket.server.problems import Refused

__all__ = ["Authenticator", "Principal", "principal_of"]

_EVERYTHING = frozenset(keys.SCOPES)
_CHECK_EVERY = 1.0
_MAX_CACHED = 1_000
_LINK_HOLDER = "approval link"
_CHALLENGE = (b"www-authenticate", b'Bearer realm="clicket"')


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated key. `own` is the runtime that acts for it; `sees` is the runtime with the calls that it may read."""

    id: str
    name: str
    scopes: frozenset[str]
    own: Runtime
    sees: Runtime
    holder: str = ""

    @property
    def approver(self) -> Approver:
        """The person behind the key, under all names; without a key the program itself."""
        return Approver(self.name, frozenset({self.id, self.name, self.holder} - {""}))

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes

    def in_name_of(self, runtime: Runtime, caller: str) -> Runtime:
        """The runtime that acts for another caller. What this key makes there, the person behind it does not approve."""
        return runtime.acting_for(caller, self.scopes, self.approver.names)

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


class Authenticator:
    """`static_keys` come from the settings; all others are in the store. `store()` is called while the runtime is open."""

    def __init__(self, runtime: Runtime, store: Callable[[], Store], static_keys: Iterable[str] = ()) -> None:
        self._runtime = runtime
        self._store = store
        self._static = keys.parse_static(static_keys)
        self._principals: dict[tuple[str, frozenset[str]], Principal] = {}
        self._decoded: dict[str, tuple[bytes, keys.Key]] = {}
        self._has_keys = bool(self._static)
        self.checked_at = float("-inf")
        self._anonymous: Principal | None = None

    async def is_off(self, *, patient: bool = False) -> bool:
        """True while no key exists. The store is checked once a second; the first key turns authentication on for good.

        `patient`: while the store does not answer, its last answer is used.
        """
        if self._has_keys:
            return False
        now = time.monotonic()
        if now - self.checked_at > _CHECK_EVERY:
            try:
                self._has_keys = bool(await self._store().documents(keys.KIND, limit=1))
            except StoreUnavailable:
                if not patient or self.checked_at == float("-inf"):
                    raise
                return True
            self.checked_at = now
        return not self._has_keys

    async def count(self) -> int:
        """How many keys are valid now."""
        now = time.time()
        stored = await keys.listed(self._store())
        return len(self._static) + sum(key.is_valid(now) for key in stored)

    async def authenticate(
        self, headers: list[tuple[bytes, bytes]], client: tuple[str, int] | None, *, patient: bool = False
    ) -> Principal:
        """The principal of a request; raises `Refused`. While authentication is off, only requests from this machine are accepted,
        whatever address the server listens on."""
        text = _key_in(headers)
        if text is None:
            if await self.is_off(patient=patient) and (client is None or is_loopback(client[0])):
                return self.anonymous()
            raise _unauthorized("this server needs a key. Send it as `Authorization: Bearer ck_…`.")
        key = self._static.get(keys.hash_of(text)) if self._static else None
        if key is None:
            key = await self._stored(text)
        if key is None or not key.is_valid(time.time()):
            raise _unauthorized("the key is unknown, revoked or expired. `clicket keys create` makes a new one.")
        return self._principal(key)

    def anonymous(self) -> Principal:
        """The principal of requests that need no key: the runtime itself, with every scope."""
        if self._anonymous is None:
            self._anonymous = Principal(id="", name="", scopes=_EVERYTHING, own=self._runtime, sees=self._runtime)
        return self._anonymous

    def token_holder(self) -> Principal:
        """The principal of requests that a token in their path authorises: it has no scope."""
        return Principal(id="", name="", scopes=frozenset(), own=self._runtime, sees=self._runtime)

    def link_holder(self) -> Principal:
        """The principal of requests by an approval link: it has no scope and no calls."""
        nothing = self._runtime.acting_for(_LINK_HOLDER)
        return Principal(id=_LINK_HOLDER, name=_LINK_HOLDER, scopes=frozenset(), own=nothing, sees=nothing)

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
        store = self._store()
        now = store.document_now(keys.KIND, parts[1])
        document = await store.document(keys.KIND, parts[1]) if now is None else now[0]
        if document is None:
            return None
        known = self._decoded.get(parts[1])
        if known is None or known[0] != document.body:
            known = (document.body, keys.read(document.body))
            if len(self._decoded) >= _MAX_CACHED:
                self._decoded.clear()
            self._decoded[parts[1]] = known
        return known[1] if keys.matches(known[1], parts[2]) else None

    def _principal(self, key: keys.Key) -> Principal:
        scopes = frozenset(key.scopes)
        principal = self._principals.get((key.id, scopes))
        if principal is None:
            runtime = self._runtime
            own = runtime.acting_for(key.id, scopes)
            sees = runtime if "admin" in scopes else own
            principal = Principal(id=key.id, name=key.name, scopes=scopes, own=own, sees=sees, holder=key.holder)
            if len(self._principals) >= _MAX_CACHED:
                self._principals.clear()
            self._principals[key.id, scopes] = principal
        return principal


def _key_in(headers: list[tuple[bytes, bytes]]) -> str | None:
    found: list[str] = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not rest.strip():
                raise _unauthorized("write the key as `Authorization: Bearer ck_…`; no other scheme is supported.")
            found.append(rest.strip())
        elif name == b"x-api-key":
            found.append(value.decode("latin-1").strip())
    if len(found) > 1:
        raise _unauthorized("two keys were sent. Send one, in Authorization or in X-API-Key.")
    return found[0] if found else None


def _unauthorized(text: str) -> Refused:
    return Refused("unauthorized", text, _CHALLENGE)


def principal_of(scope: Any) -> Principal:
    """The principal that the middleware found for this request."""
    principal: Principal = scope["clicket.principal"]
    return principal
