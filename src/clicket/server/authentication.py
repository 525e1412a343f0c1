"""Authenticates requests, by API key or by access token (`access_tokens`). The key is looked up for every request, so a revoked key
fails at once in every process.

While no key exists and the settings have no `[oauth]`, authentication is off: requests from this machine act as the runtime itself, and
all others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clicket import system
from clicket.engine.people.approvers import Approver
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.ports import Store
from clicket.runtime.runtime import Runtime
from clicket.safety.oauth.resource_server import AccessToken
from clicket.server import keys
from clicket.server.access_tokens import AccessTokens
from clicket.server.challenges import Challenges
from clicket.server.host_check import is_loopback
from clicket.server.problems import Refused

__all__ = ["UNAUTHENTICATED", "Authenticator", "Principal", "principal_of", "with_challenge"]

_EVERYTHING = frozenset(keys.SCOPES)
_CHECK_EVERY = 1.0
_MAX_CACHED = 1_000


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated key, or the subject of an access token. `own` is the runtime that acts for it; `sees` is the runtime with the
    calls that it may read."""

    id: str
    name: str
    scopes: frozenset[str]
    own: Runtime
    sees: Runtime
    holder: str = ""
    by_token: bool = False
    """By an access token: what it may not do is refused as OAuth has it."""
    expires_at: float | None = None
    """Of the access token, in seconds since the epoch; None: it is a key, or its end is not known."""

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


class _NoRuntime:
    """In place of the runtime of a caller: everything that a handler asks of it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise Refused("unauthorized", "this request was sent to a route that needs no key, so it acts for no caller.")


_NO_RUNTIME: Any = _NoRuntime()
UNAUTHENTICATED = Principal(id="", name="no key", scopes=frozenset(), own=_NO_RUNTIME, sees=_NO_RUNTIME)
"""The principal of requests to public routes. It has no scope. What a token in the path or a link allows, its handler decides."""


class Authenticator:
    """`static_keys` come from the settings; all others are in the store. `store()` is called while the runtime is open.
    `access_tokens`: None if only keys are accepted. `needs_key`: also while no key exists."""

    def __init__(
        self,
        runtime: Runtime,
        store: Callable[[], Store],
        static_keys: Iterable[str] = (),
        access_tokens: AccessTokens | None = None,
        *,
        needs_key: bool = False,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._static = keys.parse_static(static_keys)
        self._access_tokens = access_tokens
        self._principals: dict[tuple[str, frozenset[str]], Principal] = {}
        self._decoded: dict[str, tuple[bytes, keys.Key]] = {}
        self._has_keys = bool(self._static) or access_tokens is not None or needs_key
        self.checked_at = float("-inf")
        self._anonymous: Principal | None = None

    async def is_off(self, *, patient: bool = False) -> bool:
        """True while no key exists and no access token is accepted. The store is checked once a second; the first key turns
        authentication on for good.

        `patient`: while the store does not answer, its last answer is used.
        """
        if self._has_keys:
            return False
        now = system.monotonic()
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
        now = system.now()
        stored = await keys.listed(self._store())
        return len(self._static) + sum(key.is_valid(now) for key in stored)

    async def authenticate(
        self,
        headers: list[tuple[bytes, bytes]],
        client: tuple[str, int] | None,
        *,
        path: str = "",
        patient: bool = False,
    ) -> Principal:
        """The principal of a request; raises `Refused`. While authentication is off, only requests from this machine are accepted,
        whatever address the server listens on. `path`: access tokens may be for `/mcp` alone."""
        text, is_bearer = _key_in(headers)
        if text is None:
            if await self.is_off(patient=patient) and (client is None or is_loopback(client[0])):
                return self.anonymous()
            more = " An access token is sent in the same way." if self._access_tokens is not None else ""
            raise _unauthorized(f"this server needs a key. Send it as `Authorization: Bearer ck_…`.{more}")
        key = self._static.get(keys.hash_of(text)) if self._static else None
        if key is None:
            # A text that begins like a key is never sent to the authorization server.
            if self._access_tokens is not None and is_bearer and not text.startswith("ck_"):
                return self._of_token(await self._access_tokens.accept(text, path))
            key = await self._stored(text)
        if key is None or not key.is_valid(system.now()):
            raise _unauthorized(
                "the key is unknown, revoked or expired. `clicket keys create` makes a new one.", "invalid_token"
            )
        return self._principal(key)

    def anonymous(self) -> Principal:
        """The principal of requests while authentication is off: the runtime itself, with every scope."""
        if self._anonymous is None:
            self._anonymous = Principal(id="", name="", scopes=_EVERYTHING, own=self._runtime, sees=self._runtime)
        return self._anonymous

    def _of_token(self, token: AccessToken) -> Principal:
        """The principal of an access token. Its subject is a name of the person, as the holder of a key is."""
        known = self._principals.get((token.caller, token.scopes))
        if known is None:
            own = self._runtime.acting_for(token.caller, token.scopes)
            sees = self._runtime if "admin" in token.scopes else own
            known = Principal(
                id=token.caller,
                name=token.caller,
                scopes=token.scopes,
                own=own,
                sees=sees,
                holder=token.subject,
                by_token=True,
            )
            self._remember(known)
        return msgspec.structs.replace(known, expires_at=token.expires_at)

    def _remember(self, principal: Principal) -> None:
        if len(self._principals) >= _MAX_CACHED:
            self._principals.clear()
        self._principals[principal.id, principal.scopes] = principal

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
            self._remember(principal)
        return principal


def _key_in(headers: list[tuple[bytes, bytes]]) -> tuple[str | None, bool]:
    """The text that authenticates a request, and whether it was sent as a bearer token."""
    found: list[tuple[str, bool]] = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not rest.strip():
                raise _unauthorized("write the key as `Authorization: Bearer ck_…`; no other scheme is supported.")
            found.append((rest.strip(), True))
        elif name == b"x-api-key":
            found.append((value.decode("latin-1").strip(), False))
    if len(found) > 1:
        raise _unauthorized("two keys were sent. Send one, in Authorization or in X-API-Key.")
    return found[0] if found else (None, False)


def _unauthorized(text: str, challenge: str = "") -> Refused:
    return Refused("unauthorized", text, challenge=challenge)


def principal_of(scope: Any) -> Principal:
    """The principal that the middleware found for this request."""
    principal: Principal = scope["clicket.principal"]
    return principal


def with_challenge(error: ClicketError, scope: Any, challenges: Challenges, path: str) -> ClicketError:
    """The error with the header that tells a client how to authenticate, where it needs one: requests without a valid key or token,
    and those of a token that lacks a scope."""
    if not isinstance(error, Refused):
        return error
    principal: Principal | None = scope.get("clicket.principal")
    lacks_scope = error.code == "missing_scope" and principal is not None and principal.by_token
    if not (error.challenge or lacks_scope or error.code == "unauthorized"):
        return error
    said = error.challenge or ("insufficient_scope" if lacks_scope else "")
    error.headers = (*error.headers, challenges.header(scope, path, said, error.needed))
    return error
