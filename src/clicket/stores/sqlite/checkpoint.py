"""The write-ahead log is copied back into the database by a thread with its own connection, while the writer goes on.

Such a checkpoint is passive: it waits for no lock and holds none that the writer needs. Under steady writing it cannot reach the
end of the log, which then grows. When the log is long, the writer is asked to pause for the rest, so that the log starts anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import apsw

from clicket.bridge import Workers

__all__ = ["Checkpointer"]

logger = logging.getLogger("clicket.stores.sqlite")

_LONG_LOG = 2_500
_SHORT_REST = 200
_MAX_PASSES = 5


class Checkpointer:
    """`ended` is called on the loop after each checkpoint, with whether the log has become long."""

    def __init__(self, path: Path, connection: apsw.Connection, workers: Workers) -> None:
        self.is_running = False
        self.ended: Callable[[bool], None] = lambda log_is_long: None
        self._path = path
        self._connection = connection
        self._workers = workers

    def start(self) -> None:
        """Begin a checkpoint, unless one is running. Called on the loop."""
        if not self.is_running:
            self.is_running = True
            self._workers.submit(self._run, self._finished)

    async def close(self) -> None:
        """After the checkpoint that is running."""
        await self._workers.run(self._connection.close)

    def _run(self) -> bool:
        before = 0
        for _ in range(_MAX_PASSES):
            # `frames`: how long the log was when the pass began. A log that was copied to its end starts anew, and is short.
            frames, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
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
