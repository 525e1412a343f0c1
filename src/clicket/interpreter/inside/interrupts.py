"""SIGINT stops the block that runs, once, and nothing else. One that comes too early waits for its block; one that comes too
late is forgotten."""

from __future__ import annotations

# `_signal` and not `signal`: the latter draws in `enum`, which costs more than the whole worker.
import _signal  # type: ignore[import-not-found]
import _thread
import select

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Interrupts"]

globals()["__builtins__"] = BUILTINS

_TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)
_set_handler, _set_timer, _set_mask = _signal.signal, _signal.setitimer, _signal.pthread_sigmask
_SIGINT, _UNBLOCK = _signal.SIGINT, _signal.SIG_UNBLOCK
_select = select.select  # unlike `poll`, it may be called again from the handler
_who_am_i = _thread.get_ident


class Interrupts:
    def __init__(self, commands: int) -> None:
        self._main = _who_am_i()
        self._line = (commands,)
        self._open = False  # the program's code runs: an interrupt may be raised
        self._held = False  # a frame is being written: an interrupt has to wait
        self._over = (
            True  # the last command is done with: an interrupt is for the next, when that is there, or for nobody
        )
        self._pending = False
        self.seen = False
        self._handler = self._on_signal  # one bound method, so that it can be recognised

    def restore(self) -> None:
        """The handler is ours again, SIGINT is not blocked, and no timer of an earlier block goes off."""
        _set_handler(_SIGINT, self._handler)
        _set_mask(_UNBLOCK, (_SIGINT,))
        for timer in _TIMERS:
            _set_timer(timer, 0)

    def wait(self) -> None:
        """Until there is a command. An interrupt that arrives before it was meant for a block that had just ended."""
        _select(self._line, (), ())
        self._over = False

    def finish(self) -> None:
        """The command is done with, but for the answer. An interrupt that waits is for the next, if that has come already."""
        self._over = True
        if self._pending and not _select(self._line, (), (), 0)[0]:
            self._pending = False

    def open(self) -> None:
        """From here on an interrupt is raised, also one that is already there."""
        self._open = True
        self._raise_pending()

    def close(self) -> None:
        self._open = False

    def hold(self) -> bool:
        """Interrupts wait until `release`. False in other threads than the main one, where none is ever raised."""
        if self._held or _who_am_i() != self._main:
            return False
        self._held = True
        return True

    def release(self) -> None:
        self._held = False
        if self._open:
            self._raise_pending()

    def _raise_pending(self) -> None:
        if self._pending:
            self._pending = False
            self.seen = True
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._open and not self._held:
            self.seen = True
            raise KeyboardInterrupt
        if not self._over or _select(self._line, (), (), 0)[0]:
            self._pending = True
