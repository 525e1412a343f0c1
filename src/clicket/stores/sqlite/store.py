"""`sqlite:///path`: the journal in one file, artifacts in a folder beside it. Reads never wait for writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event
from clicket.model.ended import Ended
from clicket.model.figures import Figure
from clicket.model.ports import (
    Append,
    Audited,
    Backlog,
    Bus,
    CacheEntry,
    CacheStats,
    CallPlace,
    DocumentWrite,
    Done,
    Found,
    Keep,
    NoBus,
    OnHint,
    OnRemove,
    Owner,
    Presence,
    Query,
    ScanEnd,
    Stored,
    StoredDocument,
    Sweep,
    TakenTokens,
    ThreadCounts,
    ThreadName,
    ToolHealth,
    picked,
)
from clicket.stores.fair_order import last_caller
from clicket.stores.news import news_by_call
from clicket.stores.sqlite import cache, listing, owners, queues, records, retention
from clicket.stores.sqlite.checkpoint import Checkpointer, end_old_log
from clicket.stores.sqlite.failures import unavailable
from clicket.stores.sqlite.files import ArtifactFiles, sync
from clicket.stores.sqlite.rows import at_one_moment, conditions, read_events, select
from clicket.stores.sqlite.schema import connect, prepare
from clicket.stores.sqlite.sweeps import Sweeps
from clicket.stores.sqlite.writer import Writer
from clicket.system.bridge import ThreadPool
from clicket.system.private_files import make_folder

__all__ = ["SqliteStore"]

T = TypeVar("T")
_BRIEF = 64 * 1024
"""Bytes of a document that is written on the loop."""
_LOOK_EVERY = 0.025
"""Seconds between two looks whether other processes wrote."""
"""Rows of health that are removed in one transaction."""


class SqliteStore:
    """`durability`: "process" survives the end of the process, "power" also the end of the machine."""

    def __init__(self, path: str | Path, *, durability: str = "process", busy: float = 5.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self.url = f"sqlite:///{self.path}"
        self.durability = durability
        self.on_hint: OnHint = _ignore_hint
        self.bus: Bus = NoBus()
        self._busy = busy
        self._last_caller = ""
        self._files = ArtifactFiles(Path(f"{self.path}.artifacts"), sync=durability == "power")
        self._writer: Writer | None = None
        self._reader: apsw.Connection | None = None
        self._peek: apsw.Connection | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._threads: list[ThreadPool] = []

    async def open(self, owner: Owner) -> None:
        self._writing, self._reading = ThreadPool(1, "clicket-sqlite-writer"), ThreadPool(1, "clicket-sqlite-reader")
        self._filing = ThreadPool(1, "clicket-sqlite-files")
        self._sweeps = Sweeps(self._read, self._write, self._filing, self._files)
        copying = ThreadPool(1, "clicket-sqlite-checkpoint")
        self._threads = [self._writing, self._reading, self._filing, copying]
        connections: tuple[apsw.Connection, ...] = ()
        try:
            connections = connection, reader, peek = await self._writing.run(self._connect)
            self._reader, self._peek = reader, peek
            self._checkpointer = Checkpointer(self.path, copying)
            inline = self.durability == "process"
            self._writer = Writer(
                self.path, connection, self._writing, self._checkpointer, owner, inline=inline, busy=self._busy
            )
            await self._write(self._writer.register_or_renew)
            self._look()
        except BaseException:
            self._writer = self._peek = None
            for each in connections:
                await self._writing.run(each.close)
            self._close_threads()
            raise

    def _connect(self) -> tuple[apsw.Connection, ...]:
        """Connections that write, read in a thread, and read on the loop."""
        power = self.durability == "power"
        try:
            made = make_folder(self.path.parent)
            if power:
                for folder in made:  # a store in a folder that is gone after a power loss is gone, too
                    sync(folder.parent)
            connection = connect(self.path, busy=self._busy, synchronous="FULL" if power else "NORMAL")
            try:
                prepare(self.path, connection)
                if power:
                    end_old_log(connection)
                reader, peek = (connect(self.path, busy=b, synchronous="NORMAL", create=False) for b in (self._busy, 0))
                for each in (reader, peek):
                    each.execute("PRAGMA query_only=ON")
            except BaseException:
                connection.close()
                raise
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: {error.strerror}. Choose a folder that can be written.") from error
        return connection, reader, peek

    def _look(self) -> None:
        """SQLite sends no notification of commits, but it says whether there were any: a poll costs a few microseconds."""
        if self._writer is not None:
            if self._writer.others_wrote():
                self.on_hint("any", 0)
            self._looking = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._writer is None:
            return
        writer, reader, peek = self._writer, self._reader, self._peek
        await writer.drain()
        with contextlib.suppress(ClicketError):
            await self._write(lambda c: owners.sign_off(c, writer.owner))
        await writer.drain()
        self._writer = self._peek = None
        if peek is not None:
            peek.close()
        if reader is not None:
            await self._reading.run(reader.close)
        await self._checkpointer.close()
        await self._writing.run(lambda: self._checkpointer.close_last(writer.connection))
        self._close_threads()

    def _close_threads(self) -> None:
        for thread_pool in self._threads:
            thread_pool.close()

    def append(self, change: Append, done: Done) -> None:
        if self._writer is None:
            done(change, StoreUnavailable(f"{self.path} is closed."))
        else:
            self._writer.append(change, done)

    async def _write(self, job: Callable[[apsw.Connection], T], *, brief: bool = False) -> T:
        if self._writer is None:
            raise StoreUnavailable(f"{self.path} is closed.")
        try:
            return await (self._writer.run_briefly(job) if brief else self._writer.run(job))
        except apsw.Error as error:
            raise unavailable(self.path, error) from error

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        reader = self._reader
        if self._writer is None or reader is None:
            raise StoreUnavailable(f"{self.path} is closed.")
        try:
            return await self._reading.run(lambda: at_one_moment(reader, job))
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise StoreUnavailable(
                f"{self.path}: a row is not what clicket wrote ({error}). Nothing was changed; restore a backup."
            ) from error

    # Reading.

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        where, values = conditions({"id": id, "thread": thread, "caller": caller})
        return await self._read(lambda c: select(c, f"WHERE {where} AND state <> 'swept' ORDER BY key DESC", values))

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        found = await self._read(lambda c: read_events(c, key, call_id, after))
        return [event for event in found if event.seq > after]

    news = news_by_call

    async def history(self, query: Query) -> list[Stored]:
        if query.metadata:
            return await picked(query, self.history, has_columns=True)
        return await self._read(lambda c: listing.history(c, query))

    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        return await self._read(lambda c: listing.scan_end(c, query, calls))

    async def ended(
        self, *, caller: str | None, tool: str | None, since: float, before: int | None, limit: int
    ) -> list[Ended]:
        return await self._read(lambda c: listing.ended(c, caller, tool, since, before, limit))

    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        return await self._read(lambda c: listing.places(c, before, limit))

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        return await self._read(lambda c: [listing.thread_counts(c, *each, limit) for each in threads])

    # Owning.

    async def renew(self) -> None:
        if self._writer is not None:
            await self._write(self._writer.register_or_renew)

    async def owners(self) -> list[Presence]:
        return await self._read(lambda c: owners.presences(c, self._owner))

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        if not await self._read(lambda c: owners.dead_owners(c, self._owner)):
            return []
        return await self._write(lambda c: owners.claim_orphans(c, self._owner, tools, limit))

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        sql = "SELECT 1 FROM calls WHERE owner IS NULL AND ended_at IS NULL LIMIT 1"
        if not tools or await self._read(lambda c: c.execute(sql).get) is None:  # looking costs no writer anything
            return []
        after = self._last_caller
        claimed = await self._write(lambda c: owners.claim_waiting(c, self._owner, tools, limit, after))
        self._last_caller = last_caller(claimed, after)
        return claimed

    async def claim(self, key: int) -> Stored | None:
        return await self._write(lambda c: owners.claim_one(c, self._owner, key))

    async def owned(self) -> list[int]:
        sql = "SELECT key FROM calls WHERE owner = ? AND ended_at IS NULL"
        return await self._read(lambda c: [row[0] for row in c.execute(sql, (self._owner,))])

    async def hand_back(self, keys: Sequence[int]) -> None:
        sql = "UPDATE calls SET owner = NULL WHERE key = ? AND owner = ? AND ended_at IS NULL"
        await self._write(lambda c: c.executemany(sql, [(key, self._owner) for key in keys]))

    async def signals(self) -> list[int]:
        if self._writer is None:
            return []
        sql = "SELECT key FROM calls WHERE owner = ? AND ended_at IS NULL AND signal = 1"
        return await self._read(lambda c: [row[0] for row in c.execute(sql, (self._owner,))])

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        def held(connection: apsw.Connection) -> bool:
            if count and self._writer is not None:
                self._writer.register_or_renew(connection)  # it may have been given up: slots need a known owner
            return owners.hold(connection, self._owner, name, count, capacity)

        return await self._write(held)

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        look = self._write if count else self._read
        return await look(lambda c: queues.take(c, name, rate, burst, count))

    async def backlog(self) -> list[Backlog]:
        return await self._read(queues.backlog)

    @property
    def _owner(self) -> int:
        return self._writer.owner if self._writer is not None else 0

    # Artifacts.

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        if keep_until is not None:
            self._files.path(name)  # a wrong name is not pinned
            await self._write(lambda c: retention.pin(c, name, keep_until))
        # After its pin: a sweep that has not seen that yet spares the file, as it is young.
        await self._filing.run(lambda: self._files.put(name, chunks))

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await self._filing.run(lambda: self._files.read(name, start, end))

    # Cached results.

    def cache_get(self, key: str, now: float, found: Found) -> None:
        """On the loop: a look at a table in memory, by its key, takes less than a hop to a thread, and readers never wait."""
        if self._peek is None:
            found(None, StoreUnavailable(f"{self.path} is closed."))
            return
        try:
            item = cache.get(self._peek, key, now)
        except apsw.Error as error:
            found(None, unavailable(self.path, error))
        else:
            found(item, None)

    async def cache_clear(self, tag: str | None) -> int:
        return await self._write(lambda c: cache.clear(c, tag))

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        return await self._read(lambda c: cache.items(c, after, limit))

    async def cache_remove(self, keys: Sequence[str]) -> int:
        return await self._write(lambda c: cache.remove(c, keys))

    async def cache_stats(self) -> CacheStats:
        return await self._read(cache.stats)

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        return await self._write(lambda c: cache.sweep(c, now, max_bytes, limit))

    # Retention.

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        return await self._sweeps.sweep(keep, limit, dry=dry, on_remove=on_remove)

    async def release(self, caller: str, thread: str) -> None:
        await self._sweeps.release(caller, thread)

    async def remove(self, keys: Sequence[int]) -> Sweep:
        return await self._write(lambda c: retention.remove(c, keys))

    async def unpin(self, names: Sequence[str]) -> None:
        await self._write(lambda c: retention.unpin(c, names))

    # What is kept beside calls.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return await self._read(lambda c: records.tool_health(c, caller, thread))

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        """On the loop, as `cache_get`: what is committed is seen at once, and in `power` mode only once it is on the disk."""
        if self._peek is None:
            return None
        try:
            return records.tool_health(self._peek, caller, thread, tool)
        except (apsw.Error, ValueError):
            return None  # the awaited call reports the error

    def health_stamp(self) -> int | None:
        writer = self._writer
        if writer is None:
            return None
        return writer.data_version() if writer.version_of_iteration is None else writer.version_of_iteration

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        return await self._write(lambda c: records.put_tool_health(c, caller, thread, health, expect))

    async def figures(self, caller: str | None = None) -> list[Figure]:
        return await self._read(lambda c: records.figures(c, caller))

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        return await self._read(lambda c: records.document(c, kind, key))

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        """On the loop, as `tool_health_now`."""
        if self._peek is None:
            return None
        try:
            return (records.document(self._peek, kind, key),)
        except (apsw.Error, ValueError):
            return None  # the awaited call reports the error

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        brief = len(body) <= _BRIEF
        return await self._write(lambda c: records.put_document(c, kind, key, body, expect), brief=brief)

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        brief = sum(len(write.body) for write in writes) <= _BRIEF
        return await self._write(lambda c: records.put_documents(c, writes), brief=brief)

    async def delete_document(self, kind: str, key: str) -> bool:
        return await self._write(lambda c: records.delete_document(c, kind, key))

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return await self._read(lambda c: records.documents(c, kind, after, limit))

    async def audit(self, bodies: Sequence[bytes]) -> None:
        await self._write(lambda c: records.audit(c, bodies))

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        return await self._read(lambda c: records.audited(c, before, limit))

    async def compact(self) -> None:
        """Give the space of what was removed back to the disk. Writers wait meanwhile; it needs room for a second copy."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable(f"{self.path} is closed.")

        def vacuum() -> None:
            writer.connection.execute("VACUUM")
            with contextlib.suppress(apsw.BusyError):  # a reader is active: the log is cut later
                self._checkpointer.copy(writer.connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)

        try:
            await writer.alone(vacuum)
        except apsw.Error as error:
            raise unavailable(self.path, error) from error

    async def size(self) -> int:
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal")]
        return await self._filing.run(lambda: sum(f.stat().st_size for f in files if f.exists()) + self._files.size())


def _ignore_hint(kind: str, key: int) -> None:
    """The default: no engine is attached."""
