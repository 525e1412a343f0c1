"""`Runtime.workers`: the runtimes over a store, and their states, which an operator may change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from clicket.engine.drive.draining import Draining
from clicket.engine.fleet.worker_entry import WorkerEntry
from clicket.engine.fleet.worker_list import listed_workers, set_worker_state
from clicket.errors import PermissionDenied
from clicket.model.ports import Store
from clicket.model.worker import WorkerInfo, WorkerState

__all__ = ["Workers"]

_DONE = {"draining": "worker.drained", "cordoned": "worker.cordoned", "active": "worker.uncordoned"}


class Workers:
    """The workers of a store: those that are alive, and for an hour those that were lost. `id`: this runtime's own."""

    def __init__(
        self,
        store: Store,
        entry: WorkerEntry,
        draining: Draining,
        caller: str | None,
        record: Callable[..., Awaitable[None]],
    ) -> None:
        self._store = store
        self._draining = draining
        self._caller = caller
        self._record = record
        self._entry = entry
        self.id: str = entry.id

    @property
    def state(self) -> WorkerState:
        """The state of this runtime, as it knows it."""
        return self._entry.state

    async def list(self) -> Sequence[WorkerInfo]:
        """Every worker, the one that started first before the others."""
        self._check_caller()
        return await listed_workers(self._store)

    async def drain(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker finish what runs there. What waits there goes to other workers, and it takes nothing new. A worker process
        ends then; any other runtime stays open. The worker finds it within a third of its lease. `Conflict`: it is lost."""
        return await self._set(id, "draining", by)

    async def cordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take no new calls; those that it holds go on there. `Conflict`: it is lost, or ends."""
        return await self._set(id, "cordoned", by)

    async def uncordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take calls again. `Conflict`: it is lost, or ends."""
        return await self._set(id, "active", by)

    async def until_drained(self) -> None:
        """Wait until an operator has drained this runtime, and none of its calls runs any more. Then it may be closed."""
        await self._draining.until_drained()

    async def until_idle(self) -> None:
        """Wait until no call runs in this runtime, and none waits that it could take."""
        await self._draining.until_idle()

    def _check_caller(self) -> None:
        if self._caller is not None:
            raise PermissionDenied("workers are for the operator of this runtime, not for one of its callers.")

    async def _set(self, id: str, state: WorkerState, by: str) -> WorkerInfo:
        self._check_caller()
        worker, changed = await set_worker_state(self._store, id, state)
        if changed:
            await self._record(_DONE[state], by=by, worker=id)
        return worker
