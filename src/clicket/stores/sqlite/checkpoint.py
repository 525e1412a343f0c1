"""The write-ahead log is copied back into the database by a thread with its own connection, while the writer goes on.

Such a checkpoint is passive: it waits for no lock and holds none that the writer needs. Under steady writing it cannot reach the
end of the log, which then grows. When the log is long, the writer is asked to pause for the rest, so that the log starts anew.

A checkpoint whose fsync failed is the last one of the process. SQLite syncs the database only in a checkpoint that reaches the
end of the log, but counts what earlier ones copied as done. Linux drops pages that it could not write, and the next fsync
succeeds: SQLite would start the log anew, and those pages would be lost. So the log is kept, and nothing is copied any more.
The first process that opens the file after all have closed it copies the whole log (`end_old_log`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import apsw

from clicket.stores.sqlite.schema import connect
from clicket.system.bridge import ThreadPool

__all__ = ["Checkpointer", "end_old_log"]

logger = logging.getLogger("clicket.stores.sqlite")

_LONG_LOG = 2_500
_SHORT_REST = 200
_MAX_PASSES = 5


class Checkpointer:
    """`ended` is called on the loop after each checkpoint, with whether the log has become long."""

    def __init__(self, path: Path, thread_pool: ThreadPool) -> None:
        self.is_running = False
        self.ended: Callable[[bool], None] = lambda log_is_long: None
        self._path = path
        self._connection: apsw.Connection | None = None
        """Made for the first checkpoint: most stores that are opened write less than one needs."""
        self._thread_pool = thread_pool
        self._keeps_log = False
        self._reader: apsw.Connection | None = None
        """Its open transaction keeps other processes from starting the log anew."""

    def start(self) -> None:
        """Begin a checkpoint, unless one is running. Called on the loop."""
        if not self.is_running and not self._keeps_log:
            self.is_running = True
            self._thread_pool.submit(self._run, self._finished)

    async def close(self) -> None:
        """After the checkpoint that is running."""
        if self.is_running or self._connection is not None:
            await self._thread_pool.run(self._close)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def close_last(self, connection: apsw.Connection) -> None:
        """Close the store's last connection. Called in its thread."""
        with contextlib.suppress(apsw.Error):
            self.copy(connection)
        if self._keeps_log:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self._reader is not None:
            self._reader.close()
        connection.close()

    def copy(self, connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
        """Make one checkpoint: the number of pages in the log. Called in the connection's thread."""
        if self._keeps_log:
            return 0
        try:
            return connection.wal_checkpoint(mode=mode)[0]
        except apsw.IOError as error:
            if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_FSYNC:
                self._keep_log()
            raise

    def _keep_log(self) -> None:
        self._keeps_log = True
        logger.error(
            "%s: the disk failed to sync the database. Nothing that was acknowledged is lost, but the log beside it (-wal) now "
            "grows. Look at the disk and the system log, then restart every process that uses the store.",
            self._path,
        )
        self._reader = connect(self._path, busy=0, synchronous="NORMAL", create=False)
        self._reader.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()

    def _run(self) -> bool:
        if self._connection is None:
            self._connection = connect(self._path, busy=0, synchronous="NORMAL", create=False)
        before = 0
        for _ in range(_MAX_PASSES):
            # `frames`: how long the log was when the pass began. A log that was copied to its end starts anew, and is short.
            frames = self.copy(self._connection)
            if frames < _LONG_LOG:
                return False
            # A pause of the writer takes as long as the rest of the log: another pass leaves less of it.
            if frames - before <= _SHORT_REST:
                return True
            before = frames
        return True

    def _finished(self, log_is_long: bool | None, error: BaseException | None) -> None:
        self.is_running = False
        if error is not None:
            logger.info("%s: the checkpoint is put off: %s", self._path, error)
        self.ended(bool(log_is_long))


def end_old_log(connection: apsw.Connection) -> None:
    """Copy what a process that ended has left in the log, and cut the log, before anything is written behind it.

    Commits that the disk refused may be in the page cache and not on the disk. What is written behind such a gap is lost with the
    power, though its own fsync succeeds.
    """
    frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    if frames > 0 and copied == 0:
        connection.set_busy_timeout(0)
        with contextlib.suppress(apsw.BusyError):  # another process has the file open, and its log has no gaps
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
