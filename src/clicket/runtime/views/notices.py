"""`Runtime.notices`: what webhook endpoints get, and whether they got it. They are the operator's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from clicket.engine import Engine
from clicket.errors import PermissionDenied
from clicket.model.notice import Notice, NoticeFigures, NoticePage
from clicket.model.ports import Clock, Store
from clicket.runtime.settings import Settings
from clicket.safety.vault import Vault

if TYPE_CHECKING:  # a runtime without webhooks does not import them
    from clicket.telemetry.webhooks import ApprovalLinks, Outbox, Webhooks

__all__ = ["Notices", "notices"]


class Notices:
    """Notices that were delivered or given up are kept for `notice_retention` seconds."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        vault: Vault,
        webhooks: Webhooks | None,
        caller: str | None,
        record: Callable[..., Awaitable[None]],
        *,
        public_url: str | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._vault = vault
        self._webhooks = webhooks
        self._public_url = public_url
        self._caller = caller
        self._record = record

    async def list(
        self, *, state: str | None = None, type: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NoticePage:
        """Notices without their payloads, the newest first, in pages of up to 1,000; `cursor` of one page fetches the next. `state`:
        "pending", "delivered" or "failed". `type`: such as "call.ended"."""
        return await self._outbox().page(state=state, type=type, limit=limit, cursor=cursor)

    async def get(self, id: str) -> Notice:
        """One notice, with its payload and its last attempts. `NotFound`: there is none."""
        return await self._outbox().get(id)

    async def replay(self, id: str, *, by: str = "") -> Notice:
        """Send a notice again that was delivered or given up, under the same id, also to an endpoint that is disabled. `Conflict`: it
        is not over yet."""
        notice = await self._outbox().replay(id)
        await self._record("notice.replayed", by=by, notice=id, endpoint=notice.endpoint)
        return notice

    async def emit(self, kind: str, data: dict[str, Any], *, key: Sequence[Any], at: float) -> None:
        """Record a fact for the endpoints that want it; it is durable when this returns. `key` and `at` name the fact: with the
        same ones it is the same notice, so this may be repeated."""
        await self._outbox().emit(kind, data, key=key, at=at)

    async def figures(self) -> NoticeFigures:
        """Delivered and failed since this process began; pending, and the age of the oldest, in the whole store."""
        return await self._outbox().figures()

    @property
    def links(self) -> ApprovalLinks:
        """Links to the approver page, for the server."""
        from clicket.telemetry.webhooks import ApprovalLinks

        return ApprovalLinks(self._store, self._vault, self._clock.now, self._public_url)

    def _outbox(self) -> Outbox:
        if self._caller is not None:
            raise PermissionDenied("notices are for the operator of this runtime, not for one of its callers.")
        if self._webhooks is not None:
            return self._webhooks.outbox
        from clicket.telemetry.webhooks import Outbox

        return Outbox(self._store, self._clock.now)


class _Audit(Protocol):
    @property
    def record(self) -> Callable[..., Awaitable[None]]: ...


class _Runtime(Protocol):
    settings: Settings
    _caller: str | None

    @property
    def audit(self) -> _Audit: ...

    @property
    def _opened(self) -> Engine: ...


class _Notices:
    """What webhooks get: `await rt.notices.list()`, `get(id)`, `replay(id)`."""

    def __get__(self, runtime: _Runtime, owner: Any = None) -> Notices:
        engine = runtime._opened
        url = runtime.settings.server.public_url
        return Notices(
            engine.store,
            engine.clock,
            engine.vault,
            engine.webhooks,
            runtime._caller,
            runtime.audit.record,
            public_url=url,
        )


notices = _Notices()
