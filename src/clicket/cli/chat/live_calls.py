"""The tool calls that run, redrawn in place below the printed lines. Only on a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from clicket.cli.formatting import MARKS, STYLES, duration, short
from clicket.cli.terminal import Terminal, clean
from clicket.kernel import State
from clicket.model import Event

__all__ = ["LiveCalls"]

_MAX_CALLS = 8
_BAR_WIDTH = 24
_MAX_EARLY = 200


class _Call(msgspec.Struct):
    """A tool call that has no result yet."""

    tool: str
    arguments: str
    began: float
    state: State = State.PENDING
    status: str = ""
    percentage: float | None = None
    took: float | None = None


class LiveCalls:
    """The open tool calls, each with its state, progress and time; without calls, whether the model is thinking."""

    def __init__(self, terminal: Terminal, now: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._now = now
        self._calls: dict[str, _Call] = {}
        self._early: deque[Event] = deque(maxlen=_MAX_EARLY)
        """Events of calls that are not open yet: a fast tool may run before the turn reports its start."""
        self._thinking_since: float | None = None
        self._live: Live | None = None
        self._spinner = Spinner("line" if terminal.plain else "dots")

    @property
    def busy(self) -> bool:
        """Are tool calls open?"""
        return bool(self._calls)

    def think(self) -> None:
        self._thinking_since = self._thinking_since or self._now()
        self._show()

    def stop_thinking(self) -> None:
        self._thinking_since = None
        if not self._calls:
            self.hide()

    def open(self, call_id: str, tool: str, arguments: str) -> None:
        self._thinking_since = None
        self._calls[call_id] = _Call(tool, arguments, self._now())
        for event in self._early:
            if event.call_id == call_id:
                self.take(event)
        self._show()

    def close(self, call_id: str) -> None:
        if self._calls.pop(call_id, None) is not None and not self._calls:
            self.hide()

    def take(self, event: Event) -> None:
        """Show an event of an open call."""
        call, data = self._calls.get(event.call_id), event.data
        if call is None:
            self._early.append(event)
            return
        call.state = event.state
        if event.type == "progress":
            call.percentage, call.status = data.get("percentage"), short(str(data.get("status", "")), 40)
        elif event.type == "output":
            call.status = short(data.get("content", ""), 40)
        elif event.type in ("approval_requested", "approval_given"):
            call.status = "waits for your approval" if event.type == "approval_requested" else ""
        elif event.state is State.RETRYING:
            call.status = short(str((data.get("error") or {}).get("message", "")), 40)
        elif event.is_terminal:
            call.status, call.percentage, call.took = "", None, data.get("duration")

    def clear(self) -> None:
        self._calls.clear()
        self._early.clear()
        self._thinking_since = None
        self.hide()

    def hide(self) -> None:
        """Free the screen. The next change shows the calls again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self) -> None:
        if self._live is None and self._terminal.interactive:
            self._live = Live(
                get_renderable=self.draw, console=self._terminal.err, transient=True, refresh_per_second=8,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._live.start(refresh=True)

    def draw(self) -> Table:
        table = Table.grid(padding=(0, 1, 0, 0))
        calls, since = list(self._calls.values()), self._thinking_since  # copied: Rich draws in another thread
        for call in calls[:_MAX_CALLS]:
            running, style = call.took is None, STYLES[call.state]
            mark = self._spinner if running else Text(MARKS[call.state], style)
            what = Text(clean(call.tool), "bold").append(f" {short(call.arguments, 40)}", "bright_black not bold")
            took = duration(self._now() - call.began if running else call.took)
            percentage = call.percentage
            bar = "" if percentage is None else ProgressBar(total=100, completed=percentage, width=_BAR_WIDTH)
            table.add_row("", mark, what, Text(str(call.state), style), bar, call.status, Text(took, "bright_black"))
        if len(calls) > _MAX_CALLS:
            table.add_row("", "", Text(f"and {len(calls) - _MAX_CALLS} more", "bright_black"))
        if since is not None and not calls:
            took = duration(self._now() - since)
            table.add_row("", self._spinner, Text("thinking", "cyan"), Text(took, "bright_black"))
        return table
