"""What the person at the terminal types. A question has a prompt where it can be seen, and Ctrl-C is theirs to press."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any

from clicket.cli.chat_desk import Interrupted
from clicket.cli.terminal import Terminal

__all__ = ["Told", "ask", "can_ask", "pressed_as_news", "told_to_leave"]


class Told(KeyboardInterrupt):
    """Somebody asked the process to end (TERM): no question is answered any more."""


def can_ask() -> bool:
    """Is there a person who could answer?"""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(terminal: Terminal, prompt: str, *, remember: bool = False) -> str:
    """A line. `EOFError`: there are no more; `KeyboardInterrupt`: Ctrl-C. What is remembered comes back with the arrow keys."""
    if terminal.json or not terminal.out.is_terminal:  # stdout is for results
        terminal.err.print(prompt, end="", markup=False)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
    editing = _editing()
    if editing is not None:
        editing.set_auto_history(remember)
    return input(prompt)


def _editing() -> Any:
    """Python's line editor; where it was built without one, the terminal's own must do."""
    try:
        import readline
    except ImportError:
        return None
    return readline


@contextmanager
def pressed_as_news(news: SimpleQueue[Any]) -> Iterator[None]:
    """While a turn is shown Ctrl-C and TERM are news like any other: nothing is torn in the middle of a line."""

    def put(number: int, _: FrameType | None) -> None:
        news.put(Interrupted(leaves=number == signal.SIGTERM))

    with _handled({signal.SIGINT: put, signal.SIGTERM: put}):
        yield


@contextmanager
def told_to_leave() -> Iterator[None]:
    """TERM is taken like Ctrl-C, but there is no asking back."""

    def leave(*_: Any) -> None:
        raise Told

    with _handled({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: leave}):
        yield


@contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):  # signals are the main thread's; whoever runs us in another one handles them
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
