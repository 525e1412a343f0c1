"""Appends become transactions. Those of one iteration of the loop share one commit, unless one call is alone: then it is a group of one.

In `process` mode a transaction is a copy into the page cache, about as long as a hop to a thread, so it is made on the loop
itself; the append of a call that is alone is written before `append` returns. The loop never waits for the file: a lock, a slow
disk or `power` mode (which waits for fsync) moves the work to the writer thread. Only one of the two writes at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from clicket import system
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import dump_unit
from clicket.model.ports import Append, Done, Owner, Unstorable
from clicket.stores.sqlite import cache, owners
from clicket.stores.sqlite.appends import Appends, Waiting
from clicket.stores.sqlite.checkpoint import Checkpointer
from clicket.stores.sqlite.failures import replaced, unavailable
from clicket.stores.sqlite.open_files import OpenFiles
from clicket.stores.sqlite.records import StatsBatch
from clicket.system.bridge import ThreadPool, fulfil

__all__ = ["Writer"]

logger = logging.getLogger("clicket.stores.sqlite")
T = TypeVar("T")

_MAX_GROUP = 256
_SLOW, _VERY_SLOW = 0.010, 0.050
_SLOW_AGAIN = 0.1
"""Two slow writes on the loop within this time, or a very slow one, mean a slow disk. A single one may have been slow because
another process had the processor."""
_SLOW_FIRST, _SLOW_MOST = 0.25, 5.0
"""Seconds for which a slow disk moves writes to the thread; twice as many when the loop finds it slow again right after."""
_CHECK_FILES_EVERY = 0.25
"""Seconds for which the files may have been replaced before that is noticed. After an idle time it is noticed at once."""
_CHECKPOINT_PAGES = 2_500
_COMMIT_PAGES = 20
"""Pages that a commit writes at most, as a rule: how often to look how many were written."""
_HUGE_LOG = 64_000
"""Pages of a log that is cut, rather than written over."""

_Outcome = ClicketError | None


class Writer:
    """Owns the writing connection. `append` and `run` are called on the loop."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        thread_pool: ThreadPool,
        checkpointer: Checkpointer,
        identity: Owner,
        *,
        inline: bool,
        busy: float,
    ) -> None:
        self.path = path
        self.connection = connection
        self.owner = 0
        self._cursor = connection.cursor()
        self._appends = Appends(connection)
        self._identity = identity
        self._files = OpenFiles(path)
        self.renew_by = float("inf")
        self._check_files_at, self._gave_up = 0.0, float("-inf")
        self._stats = StatsBatch(connection)
        self._version: int | None = None
        self.version_of_iteration: int | None = None
        """As of `data_version`, while something waits to be written: calls that share a commit share one look."""
        self._version_cursor = connection.cursor()
        self._thread_pool = thread_pool
        self._inline = inline
        self._busy_timeout = int(busy * 1000)
        self._busy_set = -1
        self._queue: deque[Waiting] = deque()
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._scheduled = False
        self._in_thread = False
        self._job_was_last = False
        self._threaded_until = float("-inf")
        self._slow_for = 0.0
        self._slow_at = float("-inf")
        self._commits = 0
        self._pages_copied = 0
        self._log_is_long = False
        self._checkpointer = checkpointer
        checkpointer.ended = self._checkpoint_ended
        self._idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    def append(self, change: Append, done: Done) -> None:
        try:
            body = b"" if change.unit is None else dump_unit(change.unit)
            if change.stats is not None and change.stats.cause:
                change.stats.cause.encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            # Found here, it fails one call; found inside the transaction, it would fail the whole group.
            refusal = Unstorable(f"events of call {change.id} cannot be written as JSON: {error}")
            self._loop.call_soon(done, change, refusal)
            return
        if self._inline and not (change.group or self._in_thread or self._jobs):
            if self._queue:  # what waits for company has it now: one commit for all
                self._queue.append((change, done, body))
                self._flush()
                return
            started = system.uptime()
            if started >= self._threaded_until:
                outcomes = self._write([(change, done, body)], busy=0)
                if outcomes is not None:
                    self._committed(started)
                    self._call_back(change, done, outcomes[0])
                    return
        self._queue.append((change, done, body))
        if not self._scheduled:
            self._schedule()

    async def run(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run a write of another kind in the writer thread, in its own transaction, between groups."""
        return await self.alone(lambda: self._transaction(job))

    async def run_briefly(self, job: Callable[[apsw.Connection], T]) -> T:
        """As `run`, for a job no longer than an append: on the loop, if the loop may write now."""
        started = system.uptime()
        if not self._inline or self._in_thread or started < self._threaded_until:
            return await self.run(job)
        try:
            value = self._transaction(job, busy=0)
        except apsw.BusyError:  # nothing was written, and only the thread may wait
            return await self.run(job)
        self._committed(started)
        await asyncio.sleep(0)  # a task that writes in a loop must let other tasks run
        return value

    async def alone(self, job: Callable[[], T]) -> T:
        """Run something in the writer thread while nothing else writes."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, future))
        self._schedule()
        return await future

    def register_or_renew(self, connection: apsw.Connection) -> None:
        """Register this owner, or renew its lease, inside a transaction."""
        self.owner = self._appends.owner = owners.register(connection, self._identity, self.owner or None)
        self.renew_by = system.uptime() + self._identity.lease / 2

    def data_version(self) -> int | None:
        """A number that changes when another connection commits, but not this one. On the loop; None while the thread writes."""
        if self._in_thread:
            return None
        try:
            version: int = self._version_cursor.execute("PRAGMA data_version").get
        except apsw.Error:
            return None
        if self._scheduled:
            self.version_of_iteration = version
        return version

    def others_wrote(self) -> bool:
        """Did another connection commit since the last call? False while the thread writes: a later call will see it."""
        version = self.data_version()
        if version is None:
            return False
        before, self._version = self._version, version
        return before is not None and version != before

    async def drain(self) -> None:
        """Wait until everything handed over so far has been written or refused."""
        while self._scheduled or self._in_thread or self._queue or self._jobs:
            future: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(future)
            await future

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        self.version_of_iteration = None
        if self._in_thread:
            return
        if self._log_is_long:
            self._log_is_long = False
            self._to_thread(self._end_log, lambda value, error: None)
            return
        if self._jobs and not (self._queue and self._job_was_last):  # jobs and groups take turns
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
            started = system.uptime()
            if started >= self._threaded_until:
                outcomes = self._write(group, busy=0)
                if outcomes is not None:
                    self._committed(started)
                    self._deliver(group, outcomes)
                    return
        self._to_thread(
            lambda: self._write_patiently(group), lambda value, error: self._thread_wrote(group, value, error)
        )

    def _committed(self, started: float) -> None:
        """After a write on the loop: count it, and note if it was slow."""
        self._commits += 1
        if self._commits * _COMMIT_PAGES >= _CHECKPOINT_PAGES:
            self._look_at_log()
        now = system.uptime()
        if now - started > _SLOW:
            self._was_slow(started, now)

    def _was_slow(self, started: float, now: float) -> None:
        """The loop must not wait for a slow disk again and again: for some time writes go to the thread."""
        if now - started > _VERY_SLOW or started < self._slow_at + _SLOW_AGAIN:
            again = started < self._threaded_until + _SLOW_AGAIN
            self._slow_for = min(self._slow_for * 2, _SLOW_MOST) if again else _SLOW_FIRST
            self._threaded_until = now + self._slow_for
        self._slow_at = now

    def _to_thread(self, function: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._in_thread = True

        def finished(value: Any, error: BaseException | None) -> None:
            self._in_thread = False
            self._look_at_log()
            done(value, error)
            self._go_on()

        self._thread_pool.submit(function, finished)

    def _go_on(self) -> None:
        if self._in_thread:
            return
        if self._queue or self._jobs:
            self._schedule()
        elif self._idle:
            self._wake_idle()

    def _wake_idle(self) -> None:
        if not (self._scheduled or self._in_thread):
            idle, self._idle = self._idle, []
            for future in idle:
                fulfil(future)

    def _thread_wrote(self, group: list[Waiting], outcomes: list[_Outcome] | None, error: BaseException | None) -> None:
        if outcomes is None:
            failure = StoreUnavailable(f"{self.path}: the write failed: {error}")
            outcomes = [failure] * len(group)
        self._deliver(group, outcomes)

    def _deliver(self, group: list[Waiting], outcomes: list[_Outcome]) -> None:
        for (change, done, _), outcome in zip(group, outcomes, strict=True):
            self._call_back(change, done, outcome)
        self._go_on()

    def _call_back(self, change: Append, done: Done, outcome: _Outcome) -> None:
        try:
            done(change, outcome)
        except Exception:
            logger.exception("the callback of an append to call %s failed", change.id)

    # Transactions: on the loop, or in the writer thread.

    def _write_patiently(self, group: list[Waiting]) -> list[_Outcome]:
        # A group that comes right after one that waited in vain has waited as long in the queue.
        waited = system.uptime() - self._gave_up < 1.0
        outcomes = self._write(group, busy=100 if waited else self._busy_timeout)
        if outcomes is None:
            self._gave_up = system.uptime()
            failure = StoreUnavailable(
                f"{self.path} is locked by another process for over {self._busy_timeout / 1000:g} s. "
                "Nothing was written; end the other writer or try again."
            )
            return [failure] * len(group)
        return outcomes

    def _write(self, group: list[Waiting], busy: int) -> list[_Outcome] | None:
        """One transaction. None: the file is locked, nothing was written."""
        now = system.uptime()
        if now >= self._check_files_at and self._were_replaced(now):
            return [replaced(self.path)] * len(group)
        execute = self._cursor.execute
        stats = self._stats
        try:
            if self._busy_set != busy:
                self._set_busy(busy)
            execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return None
        except apsw.Error as error:
            return [unavailable(self.path, error)] * len(group)
        self._appends.hits.clear()
        stats.clear()
        try:
            if now > self.renew_by:  # after a pause other processes may have given this owner up
                self.register_or_renew(self.connection)
            outcomes = [self._appends.apply(change, body, stats.count) for change, _, body in group]
            if self._appends.hits:
                hits, self._appends.hits = self._appends.hits, []
                cache.count_hits(self.connection, hits)
            stats.write()
            execute("COMMIT")
        except Exception as error:
            self._roll_back()
            if len(group) > 1 and isinstance(error, apsw.TooBigError | apsw.ConstraintError | apsw.MismatchError):
                # One append cannot be stored; the others can.
                each = [self._write([member], busy) for member in group]
                return [outcome[0] if outcome else unavailable(self.path, error) for outcome in each]
            return [self._undone(error)] * len(group)
        return outcomes

    def _roll_back(self) -> None:
        _rollback(self.connection)
        self._appends.period = None

    def _undone(self, error: Exception) -> StoreUnavailable:
        """A commit that the disk refused may still be in the log, and be found there after a crash: write over it."""
        if not isinstance(error, apsw.Error):
            return StoreUnavailable(f"{self.path}: the write failed: {error!r}.")
        failure = unavailable(self.path, error)
        if isinstance(error, apsw.IOError | apsw.FullError):
            try:
                self._transaction(self.register_or_renew)
            except apsw.Error:
                text = f"{failure.message} What was refused now may be found there after a crash: ask for it by its id."
                return StoreUnavailable(text, lasting=failure.lasting, **failure.details)
        return failure

    def _transaction(self, job: Callable[[apsw.Connection], T], busy: int = 5_000) -> T:
        connection = self.connection
        self._set_busy(busy)
        connection.execute("BEGIN IMMEDIATE")
        try:
            value = job(connection)
            connection.execute("COMMIT")
        except BaseException:
            _rollback(connection)
            raise
        return value

    def _set_busy(self, milliseconds: int) -> None:
        if milliseconds != self._busy_set:
            self.connection.set_busy_timeout(milliseconds)
            self._busy_set = milliseconds

    def _were_replaced(self, now: float) -> bool:
        if self._files.were_replaced():
            return True
        self._check_files_at = now + _CHECK_FILES_EVERY
        return False

    # The write-ahead log.

    def _look_at_log(self) -> None:
        """Start a checkpoint if enough pages were written since the last one. Called on the loop."""
        self._commits = 0
        try:
            pages, _ = self.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        except apsw.Error:
            return
        if pages - self._pages_copied >= _CHECKPOINT_PAGES and not (self._checkpointer.is_running or self._log_is_long):
            self._pages_copied = pages
            self._checkpointer.start()

    def _checkpoint_ended(self, log_is_long: bool) -> None:
        if log_is_long:
            self._log_is_long = True
            self._schedule()

    def _end_log(self) -> None:
        """Copy the rest of the log while nothing is written, so that it starts anew."""
        try:
            self._set_busy(100)
            if self._checkpointer.copy(self.connection) > _HUGE_LOG:
                self._checkpointer.copy(self.connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            logger.info("%s: the checkpoint is put off: %s", self.path, error)


def _rollback(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
