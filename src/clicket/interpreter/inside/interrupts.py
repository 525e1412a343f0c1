"""SIGINT stops the running block, once, and nothing else. An interrupt that is early waits for its block; a late one is ignored."""

from __future__ import annotations

# `_signal` and not `signal`, which imports `enum` and would double the start-up time.
import _signal  # type: ignore[import-not-found]
import _thread
import select

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Interrupts"]

globals()["__builtins__"] = BUILTINS

_TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)
_set_handler, _set_timer, _set_mask = _signal.signal, _signal.setitimer, _signal.pthread_sigmask
_SIGINT, _UNBLOCK = _signal.SIGINT, _signal.SIG_UNBLOCK
_select = select.select  # unlike `poll`, it may be called again from a signal handler
_thread_id = _thread.get_ident


class Interrupts:
    def __init__(self, commands: int) -> None:
        self._main = _thread_id()
        self._commands = (commands,)
        self._open = False  # code of the program runs: an interrupt may be raised
        self._held = False  # a frame is being written: an interrupt has to wait
        self._over = True  # between commands: an interrupt is for the next command if that has arrived, else ignored
        self._pending = False
        self.seen = False
        self._handler = self._on_signal  # one bound method, so that it can be recognised

    def restore(self) -> None:
        """Install our handler, unblock SIGINT, and stop the timers of earlier blocks."""
        _set_handler(_SIGINT, self._handler)
        _set_mask(_UNBLOCK, (_SIGINT,))
        for timer in _TIMERS:
            _set_timer(timer, 0)

    def wait(self) -> None:
        """Wait for a command. An interrupt that arrives before it was meant for the previous block."""
        _select(self._commands, (), ())
        self._over = False

    def finish(self) -> None:
        """The command is done but for its answer. A pending interrupt is for the next command, if that has arrived."""
        self._over = True
        if self._pending and not _select(self._commands, (), (), 0)[0]:
            self._pending = False

    def open(self) -> None:
        """From here on interrupts are raised, also a pending one."""
        self._open = True
        self._raise_pending()

    def close(self) -> None:
        self._open = False

    def is_main(self) -> bool:
        """Is this the main thread, where interrupts are raised?"""
        return _thread_id() == self._main

    def hold(self) -> bool:
        """Delay interrupts until `release`. False in other threads than the main one, where none is raised."""
        if self._held or _thread_id() != self._main:
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
        if not self._over or _select(self._commands, (), (), 0)[0]:
            self._pending = True
