"""Where the calls of a seed are stored, and what an observer reads there, without a part in it: a model behind a network, or SQLite."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import Node
from tests.simulation.network import Network, NetworkSession
from tests.simulation.store_model import StoreModel

from clicket.model import Event
from clicket.ports import Store, Stored
from clicket.stores.liveness import this_process
from clicket.stores.sqlite import SqliteStore
from clicket.stores.sqlite.rows import select

__all__ = ["ModelPlace", "Place", "Seen", "SqlitePlace", "disk_fails", "only", "store_of", "template"]

only: list[str] = []
"""The store of every seed, if it is not left to the seed: "model"; "sqlite"; "disk", which is SQLite whose disk fails."""


def store_of(chance: random.Random, given: str) -> str:
    drawn = "sqlite" if chance.random() < 0.3 else "model"
    return (only[0] if only else given or drawn).replace("disk", "sqlite")


def disk_fails(chance: random.Random, given: str) -> bool:
    drawn = chance.random() < 0.4
    return "disk" in (given, *only) or (drawn and not given)


class Seen(NamedTuple):
    """A call as it is stored at this moment."""

    id: str
    thread: str
    tool: str
    state: str
    waiting_for: str | None
    ended_at: float | None
    seq: int
    """The number of its last event: some come after the end."""
    events: Callable[[], list[Event]]


class Place(Protocol):
    def open(self, node: Node, moment: Callable[..., None]) -> Store:
        """`moment`: called when something happens that `moments.py` may wait for."""
        ...

    def calls(self, id: str | None = None) -> Iterator[Seen]:
        """All calls, or those of an id."""
        ...

    def swept(self) -> Iterator[Seen]:
        """Calls that retention removed, as far as this is known without a look at what is there."""
        ...

    def erased(self) -> Collection[tuple[str, str, float]]:
        """Id, thread and end of calls that were there for a moment: their creation was answered with an error, and then erased."""
        ...

    def slots(self) -> dict[str, int]:
        """Slots that are held, by name."""
        ...

    def documents(self, kind: str) -> list[tuple[str, bytes, float]]:
        """Keys, bodies, and when each was written last."""
        ...

    def forget(self, node: Node) -> None:
        """The node has crashed."""
        ...

    def close(self) -> None: ...


class ModelPlace:
    def __init__(self, network: Network, *, bus: bool) -> None:
        self.model, self._network, self._bus = StoreModel(claims_by_append=bus), network, bus

    def open(self, node: Node, moment: Callable[..., None]) -> Store:
        return NetworkSession(self._network, node, self.model, bus=self._bus)

    def calls(self, id: str | None = None) -> Iterator[Seen]:
        return (_seen(call) for call in self.model.calls.values() if id is None or call.id == id)

    def swept(self) -> Iterator[Seen]:
        return map(_seen, self.model.swept)

    def erased(self) -> Collection[tuple[str, str, float]]:
        return self.model.erased

    def slots(self) -> dict[str, int]:
        return {name: sum(held.values()) for name, held in self.model.slots.items() if sum(held.values())}

    def documents(self, kind: str) -> list[tuple[str, bytes, float]]:
        return [(each.key, each.body, each.updated_at) for each in self.model.documents_of(kind, "", 1_000)]

    def forget(self, node: Node) -> None:
        sessions = self.model.sessions
        self.model.sessions = {me: each for me, each in sessions.items() if each._node is not node}  # type: ignore[attr-defined]

    def close(self) -> None:
        pass


def _seen(call: Any) -> Seen:
    return Seen(
        call.id, call.thread, call.tool, call.state.value, call.waiting_for, call.ended_at, call.last, call.events
    )


_SEEN = "SELECT key, id, thread, tool, state, waiting_for, ended_at, seq FROM calls WHERE state <> 'swept'"


class SqlitePlace:
    """A file in memory. The bytes are real, and so is SQLite; the writer's thread is a callback. With a disk it can fail."""

    def __init__(self, durability: str, disk: Callable[[Path], SimulatedDisk] | None = None) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="clicket-", dir="/dev/shm"))
        self.folder = self._root / "disk"
        self.folder.mkdir()
        self.durability = durability
        self.path = self.folder / "calls.db"
        shutil.copy(template(), self.path)
        self.disk = None if disk is None else disk(self.folder)
        self._reader: apsw.Connection | None = None

    def open(self, node: Node, moment: Callable[..., None]) -> Store:
        store = SqliteStore(str(self.path), durability=self.durability)
        claim = store.claim_orphans

        async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
            claimed = await claim(tools, limit)
            if claimed:
                moment("claimed", node)
            return claimed

        store.claim_orphans = claim_orphans  # type: ignore[method-assign]
        return store

    @contextlib.contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """With a disk the observer leaves no open file behind: a process that closes, or opens, may be the only one that has it open."""
        if self._reader is None:
            self._reader = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY, vfs="unix")
        try:
            yield self._reader
        finally:
            if self.disk is not None:
                self._reader.close()
                self._reader = None

    def calls(self, id: str | None = None) -> Iterator[Seen]:
        sql, values = (_SEEN, ()) if id is None else (f"{_SEEN} AND id = ?", (id,))
        with self._read() as reader:
            rows = list(reader.execute(sql, values))
        for key, *row in rows:
            yield Seen(*row, events=partial(self._events, key))  # type: ignore[misc]

    def _events(self, key: int) -> list[Event]:
        with self._read() as reader:
            return select(reader, "WHERE key = ?", (key,))[0].events

    def swept(self) -> Iterator[Seen]:
        return iter(())  # no network delays the record of an end, so each call is seen before it is old

    def erased(self) -> Collection[tuple[str, str, float]]:
        return ()  # a file answers every append

    def slots(self) -> dict[str, int]:
        with self._read() as reader:
            return dict(reader.execute("SELECT name, sum(held) FROM slots WHERE held > 0 GROUP BY name"))

    def documents(self, kind: str) -> list[tuple[str, bytes, float]]:
        with self._read() as reader:
            return list(reader.execute("SELECT key, body, updated_at FROM documents WHERE kind = ?", (kind,)))

    def forget(self, node: Node) -> None:
        """Without a disk its connections stay open, idle: a transaction is over within one callback."""
        if self.disk is not None:
            self.disk.forget(node)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self.disk is not None:
            self.disk.close()
        shutil.rmtree(self._root, ignore_errors=True)


_made: list[Path] = []


def template() -> Path:
    """An empty store: to make one takes longer than a seed."""
    if not _made:
        path = Path(tempfile.mkdtemp(prefix="clicket-", dir="/dev/shm")) / "empty.db"

        async def make() -> None:
            store = SqliteStore(str(path))
            await store.open(this_process(1.0))
            await store.close()

        asyncio.run(make())
        _made.append(path)
        atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    return _made[0]
