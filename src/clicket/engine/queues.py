"""Which queues this process claims from: those of tools whose labels it has, in the version that it has.

Every process that runs calls writes a small document into the store: its name, and its tools with their versions. Whether it is alive, the
store knows. A queue of another version is left alone while a living process has that version, and taken when none has any more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from clicket.errors import ClicketError
from clicket.ports import Backlog, Owner, QueueName, Store
from clicket.tools import Registry, Tool

__all__ = ["FIRST_VERSION", "Queues", "is_served"]

SERVED = "served"
"""The kind of the documents; the key is the name of the process."""
FIRST_VERSION = "1"
"""The version of tools that name none. Their queue has the tool's name alone."""
_PAGE = 500
_Identity = tuple[str, str, int, str]


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a process runs: the versions of its tools by their names."""

    owner: Owner
    tools: dict[str, str]


class Queues:
    """`owner`: this process, as the store knows it. `labels`: what this process has. `gives_away`: calls are run by other processes."""

    def __init__(
        self, store: Store, registry: Registry, owner: Owner, *, labels: frozenset[str], gives_away: bool, shares: bool
    ) -> None:
        self._store = store
        self._registry = registry
        self._owner = owner
        self._labels = labels
        self._gives_away = gives_away
        self._shares = shares
        self._adopted: dict[str, set[str]] = {}
        self._written: dict[str, str] | None = None
        self.backlog: Sequence[Backlog] = ()
        """As it was read last."""
        self.name = os.urandom(6).hex()
        """Of this process, in the names of queues."""

    # Labels.

    def runs(self, tool: Tool) -> bool:
        """Has this process every label that the tool needs?"""
        return tool.options.labels <= self._labels

    def missing(self, tool: Tool) -> str:
        """Why calls of the tool cannot run here, and what to do."""
        labels = ", ".join(sorted(tool.options.labels - self._labels))
        return (
            f"{tool.name!r} runs only where there is {labels}, and this runtime does not have that label. Give it to the runtime "
            f"(Runtime(labels=[…]), CLICKET_LABELS), or leave the call to workers that have it (engine='workers')."
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
                names.add(self.queue_of(tool, self.name))
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
        names = (name for name in self._registry.names if self._continues(name))
        return self.claimed_from(names)

    def _continues(self, name: str) -> bool:
        tool = self._registry.get(name)
        return tool is not None and (self._gives_away or self.runs(tool))

    # What other processes run.

    async def refresh(self) -> None:
        """Write what this process runs, if that has changed, and find the queues of our tools that no living process serves."""
        if not self._shares:
            return
        tools = {tool.name: tool.options.version for tool in self._registry if self.runs(tool)}
        if tools != self._written and not self._gives_away and (tools or self._written is not None):
            body = msgspec.json.encode(Served(owner=self._owner, tools=tools))
            await self._store.put_document(SERVED, self.name, body, None)
            self._written = tools
        own = self.claimed_from(self._registry.names)
        self.backlog = await self._store.backlog()
        waiting = [QueueName.of(each.queue) for each in self.backlog]
        strange = [queue for queue in waiting if self._continues(queue.tool) and str(queue) not in own]
        known = {QueueName.of(queue) for queues in self._adopted.values() for queue in queues}
        if not strange and not known:
            return
        served = await self.served()
        self._adopted = {}
        for queue in {*strange, *known}:
            if not is_served(queue, served):
                self._adopted.setdefault(queue.tool, set()).add(str(queue))

    async def served(self) -> dict[str, dict[str, str]]:
        """The versions of the tools of every living process, by the name of the process. What dead ones left is removed."""
        found: dict[str, Served] = {}
        after = ""
        while page := await self._store.documents(SERVED, after=after, limit=_PAGE):
            for document in page:
                try:
                    found[document.key] = msgspec.json.decode(document.body, type=Served)
                except msgspec.MsgspecError:
                    await self._store.delete_document(SERVED, document.key)
            after = page[-1].key
        alive = {_identity(each.owner) for each in await self._store.owners() if each.alive}  # after the documents
        for name in [name for name, each in found.items() if _identity(each.owner) not in alive]:
            del found[name]
            await self._store.delete_document(SERVED, name)
        return {name: each.tools for name, each in found.items()}

    async def leave(self) -> None:
        """The runtime closes."""
        self.backlog = ()
        if self._written is not None:
            self._written = None
            with contextlib.suppress(ClicketError):  # without the store, other processes find out by its lease
                await self._store.delete_document(SERVED, self.name)


def is_served(queue: QueueName, served: dict[str, dict[str, str]]) -> bool:
    """Does a living process claim from the queue? `served`: as `Queues.served` returns it."""
    version = queue.version or FIRST_VERSION
    if queue.holder:
        return served.get(queue.holder, {}).get(queue.tool) == version
    return any(tools.get(queue.tool) == version for tools in served.values())


def _version_of(tool: Tool) -> str:
    version = tool.options.version
    return "" if version == FIRST_VERSION else version


def _identity(owner: Owner) -> _Identity:
    return (owner.host, owner.boot, owner.pid, owner.started)
