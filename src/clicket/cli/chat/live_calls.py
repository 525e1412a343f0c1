"""The tool calls that run, redrawn in place below the printed lines; without calls, that the model is thinking."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rich.live import Live
from rich.progress import TaskID

from clicket.cli.call_progress import CallRows
from clicket.cli.terminal import Terminal
from clicket.model import Event

__all__ = ["LiveCalls"]

_MAX_EARLY = 200


class LiveCalls:
    def __init__(self, terminal: Terminal, now: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self.rows = CallRows(terminal.err, plain=terminal.plain, get_time=now)
        self._calls: dict[str, TaskID] = {}
        self._early: deque[Event] = deque(maxlen=_MAX_EARLY)
        """Events of calls that are not open yet: a fast tool may run before the turn reports its start."""
        self._thinking: TaskID | None = None
        self._live: Live | None = None

    @property
    def busy(self) -> bool:
        """Are tool calls open?"""
        return bool(self._calls)

    def think(self) -> None:
        if self._thinking is None:
            self._thinking = self.rows.add_row("thinking", state=None)
        self._show()

    def stop_thinking(self) -> None:
        if not self._calls:
            self.hide()  # before its last row is removed: Rich erases what it drew last
        if self._thinking is not None:
            self.rows.remove_task(self._thinking)
            self._thinking = None

    def open(self, call_id: str, tool: str, arguments: str) -> None:
        self._calls[call_id] = self.rows.add_row(tool, arguments)
        self.stop_thinking()
        for event in self._early:
            if event.call_id == call_id:
                self.take(event)
        self._show()

    def close(self, call_id: str) -> None:
        row = self._calls.pop(call_id, None)
        if row is not None:
            if not self._calls:
                self.hide()
            self.rows.remove_task(row)

    def take(self, event: Event) -> None:
        """Show an event of an open call."""
        row = self._calls.get(event.call_id)
        if row is None:
            self._early.append(event)
        else:
            self.rows.show(row, event)

    def clear(self) -> None:
        self.hide()
        for call_id in list(self._calls):
            self.close(call_id)
        self._early.clear()
        self.stop_thinking()

    def hide(self) -> None:
        """Free the screen. The next call or request to the model shows the rows again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self) -> None:
        if self._live is None and self._terminal.interactive:
            self._live = Live(
                get_renderable=self.rows.get_renderable,
                console=self._terminal.err,
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
