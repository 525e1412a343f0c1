"""The entry of this runtime among the workers of its store: written before it claims calls, renewed with its lease and when its tools
change, removed when it closes and its calls were handed back.

An entry is a small document. The worker writes what it is and does, an operator writes its state. Both write a whole document, and
only over the version that they know: so one write of the worker renews its entry and detects a state that an operator wrote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket import system
from clicket.engine.inputs import Inputs
from clicket.errors import ClicketError
from clicket.model.ports import Clock, Owner, Records
from clicket.model.version import version
from clicket.model.worker import WorkerInfo, WorkerRole, WorkerState
from clicket.tools import Tool

__all__ = ["WORKER", "Identity", "Load", "StoredWorker", "WorkerEntry", "host_name", "worker_id"]

logger = logging.getLogger("clicket.engine")
WORKER = "worker"
"""The kind of the documents; the key is the worker's id."""
_TRIES = 5


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker offers, and how much of it is in use. `listed`: a runtime without tools, as commands open it, is not a worker.
    `tools`: those whose calls run there, with their versions; from this, other processes conclude which queues it serves."""

    listed: bool
    tools: dict[str, str]
    running: int
    capacity: int


class StoredWorker(msgspec.Struct, frozen=True, kw_only=True):
    """The document: the worker, and the owner that it is to the store, which decides whether it is alive."""

    worker: WorkerInfo
    owner: Owner


def host_name(owner: Owner) -> str:
    """The name of the host, without what tells apart containers that share it."""
    return owner.host.partition("/")[0]


def worker_id(owner: Owner) -> str:
    """A new name for a worker of this process; it stays readable in the journal when the worker is no more."""
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", host_name(owner))[:64].strip("-.") or "host"
    return f"{host}-{owner.pid}-{system.random_hex(3)}"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this runtime is among the workers. `owner`: who it is to the store."""

    owner: Owner
    id: str
    role: WorkerRole
    labels: tuple[str, ...] = ()


class WorkerEntry:
    """`load()`: what this runtime offers now."""

    def __init__(
        self,
        store: Records,
        clock: Clock,
        who: Identity,
        *,
        load: Callable[[], Load],
        inputs: Inputs,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._who = who
        self._load = load
        self._inputs = inputs
        self._spawn = spawn
        self._started_at = clock.now()
        self._version = 0
        self._written: dict[str, str] | None = None
        self._soon = False
        self._removed = False
        self.id = who.id
        self.state: WorkerState = "active"

    @property
    def is_active(self) -> bool:
        """May this worker take calls?"""
        return self.state == "active"

    def has(self, tool: Tool) -> bool:
        """Is the tool in the entry, in this version? Before that, other processes do not know that this worker has it."""
        return self._written is not None and self._written.get(tool.name) == tool.options.version

    async def update(self) -> None:
        """Write the entry, unless it has the tools that this worker offers. Raises `StoreUnavailable`."""
        if self._load().tools != self._written:
            await self.renew()

    async def renew(self) -> None:
        """Write the entry, and take over the state that an operator wrote. Raises `StoreUnavailable`."""
        for _ in range(_TRIES):
            load = self._load()
            if self._removed or not (load.listed or self._version or self._who.role != "runtime"):
                return
            if await self._store.put_document(WORKER, self.id, self._body(load), self._version):
                self._version += 1
                self._written = load.tools
                return
            await self._read()

    def renew_soon(self) -> None:
        """What the worker offers has changed."""
        if not self._soon:
            self._soon = True
            self._spawn(self._renew_now())

    def close(self, *, running: bool) -> None:
        """The runtime begins to close; while its calls still run, it is listed as draining."""
        self.state = "draining"
        if running:
            self.renew_soon()

    async def remove(self) -> None:
        """The runtime has closed."""
        self._removed = True
        try:
            await self._store.delete_document(WORKER, self.id)
        except ClicketError as error:
            logger.warning("the entry of worker %s is left behind: %s", self.id, error)

    async def _renew_now(self) -> None:
        self._soon = False
        try:
            await self.renew()
        except ClicketError as error:
            logger.warning("the entry of worker %s could not be written: %s", self.id, error)

    async def _read(self) -> None:
        """Another process wrote the entry, or removed it because this worker seemed lost: then it is written anew, as it was."""
        document = await self._store.document(WORKER, self.id)
        self._version = 0 if document is None else document.version
        if document is None:
            return
        try:
            state = msgspec.json.decode(document.body, type=StoredWorker).worker.state
        except msgspec.MsgspecError:
            logger.warning("the entry of worker %s was damaged; it is written anew", self.id)
            return
        if state not in (self.state, "lost"):
            self.state = state
            self._inputs.worker_is(state)

    def _body(self, load: Load) -> bytes:
        worker = WorkerInfo(
            id=self.id,
            host=host_name(self._who.owner),
            pid=self._who.owner.pid,
            version=version(),
            role=self._who.role,
            state=self.state,
            tools=load.tools,
            labels=self._who.labels,
            running=load.running,
            capacity=load.capacity,
            started_at=self._started_at,
            seen_at=self._clock.now(),
        )
        return msgspec.json.encode(StoredWorker(worker=worker, owner=self._who.owner))
