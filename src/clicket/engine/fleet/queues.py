"""Which queues this process claims from: those of tools whose labels it has, in the version that it has.

Which tools other processes run, in which versions, is in their entries among the workers (`worker_entry.py`). A queue of another version is
left alone while a worker that takes calls has that version, and claimed from when none has it any more. A worker that is cordoned or
draining claims nothing, so it serves no queue. It still holds its sessions: a call of such a session may run there, and the next one of
its thread must not run beside it. So the calls in the queue of a holder wait until it takes calls again, or has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from clicket.model.ports import LATER, Backlog, Capacity, QueueName, put_away
from clicket.model.worker import WorkerInfo
from clicket.tools import Registry, Tool

__all__ = ["FIRST_VERSION", "Queues", "is_served"]

FIRST_VERSION = "1"
"""The version of tools that name none. Their queue has the tool's name alone."""


class Queues:
    """`worker`: the id of this worker, which is its name in queues. `living`: lists the living workers. `labels`: what this process
    has. `factories`: the deps that it makes. `gives_away`: calls are run by other processes. `shares`: others may use the store."""

    def __init__(
        self,
        store: Capacity,
        registry: Registry,
        *,
        worker: str,
        living: Callable[[], Awaitable[Sequence[WorkerInfo]]],
        labels: frozenset[str],
        factories: Collection[str] = (),
        gives_away: bool,
        shares: bool,
    ) -> None:
        self._store = store
        self._registry = registry
        self._living = living
        self._labels = labels
        self._factories = frozenset(factories)
        self._gives_away = gives_away
        self._shares = shares
        self._adopted: dict[str, set[str]] = {}
        self.worker = worker
        self.backlog: Sequence[Backlog] = ()
        """As it was read last."""

    # Labels and deps.

    def runs(self, tool: Tool) -> bool:
        """Has this process every label that the tool needs, and does it make every dep?"""
        return self.has_labels(tool) and self._factories.issuperset(tool.traits.deps)

    def has_labels(self, tool: Tool) -> bool:
        return tool.options.labels <= self._labels

    def missing(self, tool: Tool) -> str:
        """Why calls of the tool cannot run here, and what to do."""
        labels = ", ".join(sorted(tool.options.labels - self._labels))
        return (
            f"{tool.name!r} runs only where there is {labels}, and this runtime does not have that label. Give it to the runtime "
            f"(Runtime(labels=[…]), CLICKET_LABELS), or leave the call to workers that have it (engine='workers')."
        )

    def offered(self) -> dict[str, str]:
        """The tools whose calls run here, with their versions: for the entry of this worker."""
        return (
            {} if self._gives_away else {tool.name: tool.options.version for tool in self._registry if self.runs(tool)}
        )

    # Names.

    def queue_of(self, tool: Tool, holder: str = "") -> str:
        """The queue in which calls of the tool wait that are accepted here."""
        return str(QueueName(tool.name, _version_of(tool), holder))

    def claimed_from(self, tools: Iterable[str]) -> frozenset[str]:
        """The queues from which this process claims calls of these tools."""
        names: set[str] = set()
        for name in tools:
            tool = self._registry.get(name)
            if tool is None:
                continue
            names.add(self.queue_of(tool))
            if tool.traits.one_call_per_thread:
                names.add(self.queue_of(tool, self.worker))
            names.update(self._adopted.get(name, ()))
        return frozenset(names)

    def by_queue(self, rooms: Mapping[str, int]) -> dict[str, int]:
        """The room for calls of each tool, by the name of its queue: for processes that leave calls to others."""
        found: dict[str, int] = {}
        for name, room in rooms.items():
            tool = self._registry.get(name)
            if tool is not None:
                found[self.queue_of(tool)] = room
        return found

    def has_version(self, tool: Tool, version: str) -> bool:
        """Is it the version of the tool here?"""
        return (version or FIRST_VERSION) == tool.options.version

    def all(self) -> frozenset[str]:
        """The queues of every tool whose calls this process may continue."""
        names = frozenset(name for name in self._registry.names if self._continues(name))
        later = frozenset(map(put_away, names))
        return (
            self.claimed_from(names) | names | later
        )  # a call that was never given away has no queue but its tool's name

    def _continues(self, name: str) -> bool:
        tool = self._registry.get(name)
        return tool is not None and (self._gives_away or self.runs(tool))

    # What other processes run.

    async def refresh(self) -> None:
        """Read the backlog, and find the queues of our tools from which no other worker will claim."""
        if not self._shares:
            return
        own = self.claimed_from(self._registry.names)
        self.backlog = await self._store.backlog()
        waiting = [name for each in self.backlog if (name := QueueName.of(each.queue)).holder != LATER]
        strange = [queue for queue in waiting if self._continues(queue.tool) and str(queue) not in own]
        known = {QueueName.of(queue) for queues in self._adopted.values() for queue in queues}
        if not strange and not known:
            return
        workers = await self._living()
        self._adopted = {}
        for queue in {*strange, *known}:
            if not (_is_held(queue, workers) if queue.holder else is_served(queue, workers)):
                self._adopted.setdefault(queue.tool, set()).add(str(queue))

    async def is_held(self, tool: Tool, holder: str) -> bool:
        """Does this worker live, and have the tool in our version? Then sessions of the tool that it began are there."""
        return _is_held(QueueName(tool.name, _version_of(tool), holder), await self._living())

    async def leave(self) -> None:
        """The runtime closes."""
        self.backlog = ()


def is_served(queue: QueueName, workers: Iterable[WorkerInfo]) -> bool:
    """Does one of these workers claim from the queue?"""
    return any(
        worker.state == "active" and _has_tool(worker, queue) and queue.holder in ("", worker.id) for worker in workers
    )


def _is_held(queue: QueueName, workers: Iterable[WorkerInfo]) -> bool:
    """Is the holder that the queue names one of these living workers? It may be cordoned or draining."""
    return any(worker.id == queue.holder and _has_tool(worker, queue) for worker in workers)


def _has_tool(worker: WorkerInfo, queue: QueueName) -> bool:
    return worker.tools.get(queue.tool) == (queue.version or FIRST_VERSION)


def _version_of(tool: Tool) -> str:
    version = tool.options.version
    return "" if version == FIRST_VERSION else version
