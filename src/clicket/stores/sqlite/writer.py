"""Group commit. All appends that arrive in one turn of the loop become one transaction.

In `process` mode a transaction is a copy into the page cache, about as long as a hop to a thread, so it is made on the loop
itself. It never waits there: a locked file, a slow disk or `power` mode (which waits for fsync) moves the work to the writer
thread. Only one of the two writes at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import apsw

from clicket.bridge import Workers, fulfil
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import dump_unit
from clicket.ports import Append, Done, Duplicate, Owner, Stale, Unstorable
from clicket.stores.liveness import host_clock
from clicket.stores.sqlite import cache, owners
from clicket.stores.sqlite.records import StatsBatch
from clicket.stores.sqlite.schema import EVENT_BITS

__all__ = ["Writer", "unavailable"]

logger = logging.getLogger("clicket.stores.sqlite")
T = TypeVar("T")

_MAX_GROUP = 256
_SLOW = 0.010
_SLOW_FOR = 5.0
_CHECKPOINT_PAGES = 2_000
_RESTART_PAGES = 16_000

_INSERT_CALL = """INSERT INTO calls
    (id, thread, caller, tool, state, seq, fence, claims, owner, priority, bytes, waiting_for, created_at, ended_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_UPDATE_CALL = """UPDATE calls SET state = ?, seq = ?, bytes = bytes + ?, waiting_for = ?, ended_at = ?, request = 0
    WHERE key = ? AND seq = ? AND fence = ?"""
_END_CALL = f"{_UPDATE_CALL} AND ended_at IS NULL"
_REQUEST = "UPDATE calls SET seq = ?, bytes = bytes + ?, request = max(request, ?) WHERE key = ? AND seq = ?"
_GIVE_BACK = "UPDATE calls SET owner = NULL WHERE key = ?"
_INSERT_EVENTS = "INSERT INTO events (row, body) VALUES (?, ?)"
_INSERT_ARTIFACT = "INSERT OR IGNORE INTO artifacts (call, name) VALUES (?, ?)"

_Outcome = ClicketError | None
_Waiting = tuple[Append, Done, bytes]


class Writer:
    """Owns the writing connection. `append` and `run` are called on the loop."""

    def __init__(
        self, path: Path, connection: apsw.Connection, workers: Workers, identity: Owner, *, inline: bool, busy: float
    ) -> None:
        self.path = path
        self.connection = connection
        self.owner = 0
        self._identity = identity
        self._renew_by = float("inf")
        self._names = (str(path), f"{path}-wal", f"{path}-shm")
        self._files = [_identity(name) for name in self._names]
        self._look_at = 0
        self._gave_up = float("-inf")
        self._hits: list[tuple[str, float]] = []
        self._tallies = StatsBatch()
        self._version: int | None = None
        self._workers = workers
        self._inline = inline
        self._busy_timeout = int(busy * 1000)
        self._queue: deque[_Waiting] = deque()
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._scheduled = False
        self._in_thread = False
        self._job_was_last = False
        self._threaded_until = 0.0
        self._pages = 0
        self._idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        connection.set_wal_hook(self._wal_grew)

    def append(self, change: Append, done: Done) -> None:
        try:
            body = b"" if change.unit is None else dump_unit(change.unit)
            if change.stats is not None:
                change.stats.cause.encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # Found here, it is one call's trouble; found inside the transaction, it would be the whole group's.
            refusal = Unstorable(f"events of call {change.id} cannot be written as JSON: {error}")
            self._loop.call_soon(done, change, refusal)
            return
        self._queue.append((change, done, body))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def run(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run a write of another kind in the writer thread, in its own transaction, between groups."""
        return await self.alone(lambda: _transaction(self.connection, job))

    async def run_briefly(self, job: Callable[[apsw.Connection], T]) -> T:
        """As `run`, for a job no longer than an append: made where appends are, if nothing stands in its way."""
        started = perf_counter()
        if not self._inline or self._in_thread or started < self._threaded_until:
            return await self.run(job)
        try:
            value = _transaction(self.connection, job, busy=0)
        except apsw.BusyError:  # nothing was written, and waiting is for the thread
            return await self.run(job)
        if perf_counter() - started > _SLOW:
            self._threaded_until = started + _SLOW_FOR
        await asyncio.sleep(0)  # who writes one after the other must not keep the loop for itself
        return value

    async def alone(self, job: Callable[[], T]) -> T:
        """Run something in the writer thread while nothing else writes."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, future))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        return await future

    def enrol(self, connection: apsw.Connection) -> None:
        """Say, inside a transaction, that this owner lives."""
        self.owner = owners.register(connection, self._identity, self.owner or None)
        self._renew_by = host_clock() + self._identity.lease / 2

    def others_wrote(self) -> bool:
        """Did another connection commit since the last look? Asked on the loop; while our thread writes, it can wait."""
        if self._in_thread:
            return False
        try:
            version = self.connection.pragma("data_version")
        except apsw.Error:
            return False
        before, self._version = self._version, version
        return before is not None and version != before

    async def drain(self) -> None:
        """Wait until everything handed over so far has been written or refused."""
        while self._scheduled or self._in_thread or self._queue or self._jobs:
            future: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(future)
            await future

    def _flush(self) -> None:
        self._scheduled = False
        if self._in_thread:
            return
        if self._jobs and not (self._queue and self._job_was_last):  # who runs job after job starves no append
            self._job_was_last = True
            job, future = self._jobs.popleft()
            self._to_thread(job, lambda value, error: fulfil(future, value, error))
            return
        if not self._queue:
            self._wake_idle()
            return
        self._job_was_last = False
        queue = self._queue
        group = [queue.popleft() for _ in range(min(len(queue), _MAX_GROUP))]
        if self._inline:
            started = perf_counter()
            if started >= self._threaded_until:
                self.connection.set_busy_timeout(0)
                outcomes = self._write(group)
                if outcomes is not None:
                    if perf_counter() - started > _SLOW:
                        # The disk is slow just now: the loop must not feel it a second time.
                        self._threaded_until = started + _SLOW_FOR
                    self._deliver(group, outcomes)
                    return
        self._to_thread(
            lambda: self._write_patiently(group), lambda value, error: self._thread_wrote(group, value, error)
        )

    def _to_thread(self, function: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._in_thread = True

        def finished(value: Any, error: BaseException | None) -> None:
            self._in_thread = False
            done(value, error)
            self._go_on()

        self._workers.submit(function, finished)

    def _go_on(self) -> None:
        if (self._queue or self._jobs) and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        elif self._pages >= _CHECKPOINT_PAGES and not self._in_thread and not self._scheduled:
            pages, self._pages = self._pages, 0
            self._to_thread(lambda: self._checkpoint(pages), lambda value, error: None)
        else:
            self._wake_idle()

    def _wake_idle(self) -> None:
        if not (self._scheduled or self._in_thread):
            idle, self._idle = self._idle, []
            for future in idle:
                fulfil(future)

    def _thread_wrote(
        self, group: list[_Waiting], outcomes: list[_Outcome] | None, error: BaseException | None
    ) -> None:
        if outcomes is None:
            failure = StoreUnavailable(f"{self.path}: the write failed: {error}")
            outcomes = [failure] * len(group)
        self._deliver(group, outcomes)

    def _deliver(self, group: list[_Waiting], outcomes: list[_Outcome]) -> None:
        for (change, done, _), outcome in zip(group, outcomes, strict=True):
            try:
                done(change, outcome)
            except Exception:
                logger.exception("the follow-up of an append to call %s failed", change.id)
        if not self._in_thread:
            self._go_on()

    # The transaction itself: on the loop, or in the writer thread.

    def _write_patiently(self, group: list[_Waiting]) -> list[_Outcome]:
        # Who comes after one that waited in vain has waited as long.
        waited = perf_counter() - self._gave_up < 1.0
        self.connection.set_busy_timeout(100 if waited else self._busy_timeout)
        outcomes = self._write(group)
        if outcomes is None:
            self._gave_up = perf_counter()
            failure = StoreUnavailable(
                f"{self.path} is locked by another process for over {self._busy_timeout / 1000:g} s. "
                "Nothing was written; end the other writer or try again."
            )
            return [failure] * len(group)
        return outcomes

    def _write(self, group: list[_Waiting]) -> list[_Outcome] | None:
        """One transaction. None: the file is locked and nothing was written."""
        connection = self.connection
        if self._was_replaced():
            return [replaced(self.path)] * len(group)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return None
        except apsw.Error as error:
            return [unavailable(self.path, error)] * len(group)
        self._hits.clear()
        self._tallies.clear()
        try:
            if host_clock() > self._renew_by:  # we slept: who writes again, lives again
                self.enrol(connection)
            outcomes = [self._apply(connection, change, body) for change, _, body in group]
            if self._hits:
                hits, self._hits = self._hits, []
                cache.count_hits(connection, hits)
            self._tallies.write(connection)
            connection.execute("COMMIT")
        except apsw.Error as error:
            _rollback(connection)
            if len(group) > 1 and isinstance(error, apsw.TooBigError | apsw.ConstraintError | apsw.MismatchError):
                # One member cannot be stored: the others must not suffer for it.
                alone = [self._write([member]) for member in group]
                return [outcome[0] if outcome else unavailable(self.path, error) for outcome in alone]
            return [self._undone(error)] * len(group)
        except Exception as error:
            _rollback(connection)
            return [StoreUnavailable(f"{self.path}: the write failed: {error!r}.")] * len(group)
        return outcomes

    def _undone(self, error: apsw.Error) -> StoreUnavailable:
        """A commit that the disk refused may still stand in the log, and be found there after a crash: write over it."""
        failure = unavailable(self.path, error)
        if isinstance(error, apsw.IOError | apsw.FullError):
            try:
                _transaction(self.connection, self.enrol)
            except apsw.Error:
                return StoreUnavailable(
                    f"{failure.message} What was refused now may be found there after a crash: ask for it by its id.",
                    **failure.details,
                )
        return failure

    def _was_replaced(self) -> bool:
        """Is a file another than the one that was opened? With each group one of the three is looked at."""
        at = self._look_at = (self._look_at + 1) % 3
        found, known = _identity(self._names[at]), self._files[at]
        if known is None:
            self._files[at] = found
        return known is not None and found != known

    def _apply(self, connection: apsw.Connection, change: Append, body: bytes) -> _Outcome:
        last = change.last
        ended_at = change.ended_at
        size = len(body)
        ends = ended_at is not None and change.fence != -1
        for _, weight in change.artifacts:
            size += weight
        if change.expect == 0:
            owner = self.owner if change.owned and ended_at is None else None
            row = (
                change.id,
                change.call.thread,
                change.call.caller,
                change.call.tool,
                change.state.value,
                last,
                change.fence,
                owner,
            )
            rest = (change.call.priority, size, change.waiting_for, change.call.created_at, ended_at)
            connection.execute(_INSERT_CALL, row + rest)
            if connection.changes() == 0:
                return Duplicate(f"the id {change.id!r} is taken in thread {change.call.thread!r}")
            change.key = connection.last_insert_rowid()
        else:
            where = (change.key, change.expect)
            if change.fence == -1:
                connection.execute(_REQUEST, (last, size, change.request, *where))
            else:
                news = (change.state.value, last, size, change.waiting_for, ended_at, *where, change.fence)
                connection.execute(_END_CALL if ends else _UPDATE_CALL, news)
                if ends and connection.changes() == 0:  # a late word of its owner's, perhaps: it ends nothing
                    ends = False
                    connection.execute(_UPDATE_CALL, news)
            if connection.changes() == 0:
                return Stale(f"call {change.id} was changed by another writer")
            if not change.owned:
                connection.execute(_GIVE_BACK, (change.key,))
        if body:
            connection.execute(_INSERT_EVENTS, (change.key << EVENT_BITS | change.expect + 1, body))
        for name, _ in change.artifacts:
            connection.execute(_INSERT_ARTIFACT, (change.key, name))
        if change.cache is not None:
            if change.cache.hit:
                self._hits.append((change.cache.key, ended_at or change.call.created_at))
            else:
                cache.missed(connection, change.cache.item)
        if ends:
            self._tallies.count(change)
        return None

    # The write-ahead log is folded back in the writer thread, never inside a commit.

    def _wal_grew(self, _: apsw.Connection, database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, pages: int) -> None:
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if pages >= _RESTART_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self.connection.set_busy_timeout(100)
            self.connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            logger.info("%s: the checkpoint waits for later: %s", self.path, error)


def _transaction(connection: apsw.Connection, job: Callable[[apsw.Connection], T], busy: int = 5_000) -> T:
    connection.set_busy_timeout(busy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = job(connection)
        connection.execute("COMMIT")
    except BaseException:
        _rollback(connection)
        raise
    return value


def _identity(path: str) -> tuple[int, int] | None:
    """Which file that is, whatever its name."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def replaced(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} was removed or replaced while it was open. What is written now would be lost, so nothing is: close this "
        "runtime, and put the file back or start with the new one.",
        path=str(path),
    )


def _rollback(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def unavailable(path: Path, error: apsw.Error) -> StoreUnavailable:
    """SQLite's complaint in words that say what to do."""
    advice = {
        apsw.FullError: "The disk is full: free some space; clicket goes on by itself.",
        apsw.BusyError: "Another process holds the file: end it or try again.",
        apsw.ReadOnlyError: "The file or its folder cannot be written: check its permissions.",
        apsw.CantOpenError: "The file cannot be opened: check that its folder exists and may be written.",
        apsw.CorruptError: "The file is damaged: stop, and restore it from a backup. Nothing was overwritten.",
        apsw.NotADBError: "The file is damaged: stop, and restore it from a backup. Nothing was overwritten.",
    }.get(type(error), "Look at the disk and the system log.")
    return StoreUnavailable(
        f"{path}: {str(error) or type(error).__name__}. {advice}", path=str(path), sqlite=type(error).__name__
    )
