"""`sqlite:///path`: the journal in one file, artifacts in a folder beside it. Reads never wait for writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from clicket.bridge import Workers
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event, load_events
from clicket.ports import Append, Done, Owner, Query, Stored, Sweep
from clicket.stores.liveness import host_clock, is_dead
from clicket.stores.sqlite.files import ArtifactFiles
from clicket.stores.sqlite.schema import EVENT_BITS, connect, prepare
from clicket.stores.sqlite.writer import Writer, unavailable

__all__ = ["SqliteStore"]

T = TypeVar("T")
_COLUMNS = "key, id, fence, claims, owner"


class SqliteStore:
    """`durability`: "process" survives the end of the process, "power" also the end of the machine."""

    def __init__(self, path: str | Path, *, durability: str = "process", busy: float = 5.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self.url = f"sqlite:///{self.path}"
        self.durability = durability
        self._busy = busy
        self._files = ArtifactFiles(Path(f"{self.path}.artifacts"), sync=durability == "power")
        self._writer: Writer | None = None
        self._reader: apsw.Connection | None = None
        self._threads: list[Workers] = []

    async def open(self, owner: Owner) -> None:
        self._writing, self._reading = Workers(1, "clicket-sqlite-writer"), Workers(1, "clicket-sqlite-reader")
        self._filing = Workers(1, "clicket-sqlite-files")
        self._threads = [self._writing, self._reading, self._filing]
        connections: tuple[apsw.Connection, ...] = ()
        try:
            connections = connection, reader = await self._writing.run(self._connect)
            self._reader = reader
            inline = self.durability == "process"
            self._writer = Writer(self.path, connection, self._writing, inline=inline, busy=self._busy)
            self._writer.owner = await self._write(lambda c: _register(c, owner))
        except BaseException:
            self._writer = None
            for each in connections:
                await self._writing.run(each.close)
            self._close_threads()
            raise

    def _connect(self) -> tuple[apsw.Connection, apsw.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = connect(
                self.path, busy=self._busy, synchronous="FULL" if self.durability == "power" else "NORMAL"
            )
            try:
                prepare(self.path, connection)
                reader = connect(self.path, busy=self._busy, synchronous="NORMAL", create=False)
                reader.execute("PRAGMA query_only=ON")
            except BaseException:
                connection.close()
                raise
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: {error.strerror}. Choose a folder that can be written.") from error
        return connection, reader

    async def close(self) -> None:
        if self._writer is None:
            return
        writer, reader = self._writer, self._reader
        await writer.drain()
        with contextlib.suppress(ClicketError):
            await self._write(lambda c: _sign_off(c, writer.owner))
        await writer.drain()
        self._writer = None

        def end() -> None:
            with contextlib.suppress(apsw.Error):
                writer.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            writer.connection.close()

        if reader is not None:
            await self._reading.run(reader.close)
        await self._writing.run(end)
        self._close_threads()

    def _close_threads(self) -> None:
        for workers in self._threads:
            workers.close()

    def append(self, change: Append, done: Done) -> None:
        if self._writer is None:
            done(change, StoreUnavailable(f"{self.path} is closed."))
        else:
            self._writer.append(change, done)

    async def _write(self, job: Callable[[apsw.Connection], T]) -> T:
        if self._writer is None:
            raise StoreUnavailable(f"{self.path} is closed.")
        try:
            return await self._writer.run(job)
        except apsw.Error as error:
            raise unavailable(self.path, error) from error

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        reader = self._reader
        if self._writer is None or reader is None:
            raise StoreUnavailable(f"{self.path} is closed.")
        try:
            return await self._reading.run(lambda: job(reader))
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        except msgspec.MsgspecError as error:
            raise StoreUnavailable(
                f"{self.path}: a row of events is not what clicket wrote ({error}). Nothing was changed; restore a backup."
            ) from error

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        where, values = _conditions({"id": id, "thread": thread, "caller": caller})
        return await self._read(lambda c: _select(c, f"WHERE {where} ORDER BY key DESC", values))

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        found = await self._read(lambda c: _events(c, key, call_id, after))
        return [event for event in found if event.seq > after]

    async def history(self, query: Query) -> list[Stored]:
        state = query.state.value if query.state is not None else None
        where, values = _conditions(
            {"thread": query.thread, "tool": query.tool, "state": state, "caller": query.caller}
        )
        if query.active:
            where += " AND ended_at IS NULL"
        if query.since is not None:
            where, values = where + " AND created_at >= ?", [*values, query.since]
        if query.before is not None:
            where, values = where + " AND key < ?", [*values, query.before]
        return await self._read(
            lambda c: _select(c, f"WHERE {where} ORDER BY key DESC LIMIT ?", [*values, query.limit])
        )

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        writer = self._writer
        if not tools or writer is None:
            return []
        if not await self._read(lambda c: _dead_owners(c, writer.owner)):
            return []
        return await self._write(lambda c: _claim(c, writer.owner, tools, limit))

    async def renew(self) -> None:
        writer = self._writer
        if writer is not None:
            sql = "UPDATE owners SET renewed = ? WHERE id = ?"
            await self._write(lambda c: c.execute(sql, (host_clock(), writer.owner)))

    async def requests(self) -> list[int]:
        writer = self._writer
        if writer is None:
            return []
        sql = "SELECT key FROM calls WHERE owner = ? AND ended_at IS NULL AND cancel = 1"
        return await self._read(lambda c: [row[0] for row in c.execute(sql, (writer.owner,))])

    async def put_artifact(self, name: str, chunks: Sequence[bytes]) -> None:
        await self._filing.run(lambda: self._files.put(name, chunks))

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await self._filing.run(lambda: self._files.read(name, start, end))

    async def sweep(self, before: float, limit: int) -> Sweep:
        swept = await self._write(lambda c: _sweep(c, before, limit))
        if not swept.more:
            used = await self._read(lambda c: {row[0] for row in c.execute("SELECT DISTINCT name FROM artifacts")})
            swept.artifacts, swept.bytes = await self._filing.run(lambda: self._files.sweep(used))
        return swept

    async def size(self) -> int:
        def measure() -> int:
            files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal")]
            return sum(f.stat().st_size for f in files if f.exists()) + self._files.size()

        return await self._filing.run(measure)


def _conditions(wanted: dict[str, Any]) -> tuple[str, list[Any]]:
    """Column names come from this file alone; values are always bound."""
    given = {column: value for column, value in wanted.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given) or "1", list(given.values())


def _select(connection: apsw.Connection, clause: str, values: Sequence[Any]) -> list[Stored]:
    rows = list(connection.execute(f"SELECT {_COLUMNS} FROM calls {clause}", values))  # noqa: S608  # see _conditions
    return [
        Stored(key=key, fence=fence, claims=claims, owner=owner, events=_events(connection, key, id, 0))
        for key, id, fence, claims, owner in rows
    ]


def _events(connection: apsw.Connection, key: int, call_id: str, after: int) -> list[Event]:
    """From the row that holds `after` on, so a few earlier events may come along."""
    low, high = key << EVENT_BITS, (key + 1) << EVENT_BITS
    if after:
        start = connection.execute("SELECT max(row) FROM events WHERE row > ? AND row <= ?", (low, low | after)).get
        low = (start or low + 1) - 1
    rows = connection.execute("SELECT body FROM events WHERE row > ? AND row < ? ORDER BY row", (low, high))
    return [event for (body,) in rows for event in load_events(call_id, body)]


def _register(connection: apsw.Connection, owner: Owner) -> int:
    connection.execute(
        "INSERT INTO owners (host, boot, pid, started, lease, renewed) VALUES (?, ?, ?, ?, ?, ?)",
        (owner.host, owner.boot, owner.pid, owner.started, owner.lease, host_clock()),
    )
    return connection.last_insert_rowid()


def _sign_off(connection: apsw.Connection, owner: int) -> None:
    connection.execute("UPDATE calls SET owner = NULL WHERE owner = ? AND ended_at IS NULL", (owner,))
    connection.execute("DELETE FROM owners WHERE id = ?", (owner,))


def _dead_owners(connection: apsw.Connection, mine: int) -> list[int]:
    """Owners whose calls nobody works on: dead ones, and 0 for calls that were handed back or whose owner left no trace."""
    owners: dict[int, bool] = {mine: False}
    for id, host, boot, pid, started, lease, renewed in connection.execute("SELECT * FROM owners"):
        if id != mine:
            owners[id] = is_dead(Owner(host=host, boot=boot, pid=pid, started=started, lease=lease), renewed)
    held = {row[0] for row in connection.execute("SELECT DISTINCT owner FROM calls WHERE ended_at IS NULL")}
    dead = [owner for owner, gone in owners.items() if gone]
    return dead + [owner or 0 for owner in held if owner is None or owner not in owners]


def _claim(connection: apsw.Connection, mine: int, tools: frozenset[str], limit: int) -> list[Stored]:
    dead = _dead_owners(connection, mine)
    marks, names = ",".join("?" * len(dead)), ",".join("?" * len(tools))
    clause = f"WHERE ended_at IS NULL AND ifnull(owner, 0) IN ({marks}) AND tool IN ({names}) ORDER BY key LIMIT ?"
    found = _select(connection, clause, [*dead, *tools, limit])
    for stored in found:
        stored.fence += 1
        stored.claims += 1
        stored.owner = mine
        connection.execute(
            "UPDATE calls SET owner = ?, fence = ?, claims = ?, cancel = 0 WHERE key = ?",
            (mine, stored.fence, stored.claims, stored.key),
        )
    connection.execute(
        f"DELETE FROM owners WHERE id IN ({marks}) AND id NOT IN (SELECT ifnull(owner, 0) FROM calls WHERE ended_at IS NULL)",  # noqa: S608  # marks are question marks
        dead,
    )
    return found


def _sweep(connection: apsw.Connection, before: float, limit: int) -> Sweep:
    keys = [
        r[0]
        for r in connection.execute(
            "SELECT key FROM calls WHERE ended_at < ? ORDER BY ended_at LIMIT ?", (before, limit)
        )
    ]
    for key in keys:
        connection.execute("DELETE FROM events WHERE row > ? AND row < ?", (key << EVENT_BITS, (key + 1) << EVENT_BITS))
        connection.execute("DELETE FROM artifacts WHERE call = ?", (key,))
        connection.execute("DELETE FROM calls WHERE key = ?", (key,))
    return Sweep(calls=len(keys), more=len(keys) == limit)
