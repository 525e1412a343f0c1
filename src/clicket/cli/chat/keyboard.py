"""Reads what a person types, and turns Ctrl-C and TERM into updates or exceptions."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

from clicket.cli.chat.agent_runner import Interrupt
from clicket.cli.terminal import Terminal

__all__ = ["Terminated", "can_ask", "read_line", "signals_as_updates", "term_raises"]


class Terminated(KeyboardInterrupt):
    """The process got TERM: it leaves without asking anything more."""


def can_ask() -> bool:
    """Is stdin a terminal, so that a person can answer?"""
    return sys.stdin is not None and sys.stdin.isatty()


def read_line(terminal: Terminal, prompt: str, *, remember: bool = False) -> str:
    """A line of input, offered again by the arrow keys if `remember`. Raises `EOFError` at the end, `KeyboardInterrupt` on Ctrl-C."""
    if terminal.json or not terminal.out.is_terminal:  # stdout is for results
        terminal.err.print(prompt, end="", markup=False)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
    with suppress(ImportError):  # a Python without readline: the terminal's own line editing must do
        import readline

        readline.set_auto_history(remember)
    return input(prompt)


@contextmanager
def signals_as_updates(updates: SimpleQueue[Any]) -> Iterator[None]:
    """While a turn is shown, Ctrl-C and TERM become updates, so that no line is cut off in the middle."""
    with _handlers(lambda *_: updates.put(Interrupt()), lambda *_: updates.put(Interrupt(leaves=True))):
        yield


@contextmanager
def term_raises() -> Iterator[None]:
    """TERM raises `Terminated`, and Ctrl-C `KeyboardInterrupt`."""

    def terminate(*_: Any) -> None:
        raise Terminated

    with _handlers(signal.default_int_handler, terminate):
        yield


@contextmanager
def _handlers(on_interrupt: Any, on_term: Any) -> Iterator[None]:
    handlers = {signal.SIGINT: on_interrupt, signal.SIGTERM: on_term}
    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):  # only the main thread may handle signals
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
