"""What is under way in a turn, drawn again and again below the lines that stay. Only a terminal has one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from clicket.cli.terminal import Terminal, clean
from clicket.cli.words import MARKS, STYLES, duration, short
from clicket.kernel import State
from clicket.model import Event

__all__ = ["Board"]

_MOST = 8
_BAR = 24
_EARLY = 200


class _Call(msgspec.Struct):
    """A tool call that has no result yet."""

    tool: str
    arguments: str
    began: float
    state: State = State.PENDING
    doing: str = ""
    share: float | None = None
    took: float | None = None


class Board:
    """The model that is asked, and the tool calls that are open, each with its state, progress and time."""

    def __init__(self, terminal: Terminal, now: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._now = now
        self._calls: dict[str, _Call] = {}
        self._early: deque[Event] = deque(maxlen=_EARLY)
        """Events of calls that are not open yet: a fast tool may run before the turn says that it is called."""
        self._thinking: float | None = None
        self._live: Live | None = None
        self._spinner = Spinner("line" if terminal.plain else "dots")

    @property
    def busy(self) -> bool:
        """Are tool calls open?"""
        return bool(self._calls)

    def think(self) -> None:
        """The model is asked."""
        self._thinking = self._thinking or self._now()
        self._show()

    def thought(self) -> None:
        """It answers."""
        self._thinking = None
        if not self._calls:
            self.hide()

    def open(self, call_id: str, tool: str, arguments: str) -> None:
        self._thinking = None
        self._calls[call_id] = _Call(tool, arguments, self._now())
        for event in self._early:
            if event.call_id == call_id:
                self.take(event)
        self._show()

    def close(self, call_id: str) -> None:
        if self._calls.pop(call_id, None) is not None and not self._calls:
            self.hide()

    def take(self, event: Event) -> None:
        """What happened to an open call."""
        call = self._calls.get(event.call_id)
        if call is None:
            self._early.append(event)
            return
        call.state = event.state
        if event.type == "progress":
            call.share, call.doing = event.data.get("percentage"), short(str(event.data.get("status", "")), 40)
        elif event.type == "output":
            call.doing = short(event.data.get("content", ""), 40)
        elif event.type == "approval_requested":
            call.doing = "waits for your word"
        elif event.type == "approval_given":
            call.doing = ""
        elif event.state is State.RETRYING:
            call.doing = short(str((event.data.get("error") or {}).get("message", "")), 40)
        elif event.is_terminal:
            call.doing, call.share, call.took = "", None, event.data.get("duration")

    def clear(self) -> None:
        """Nothing is under way any more."""
        self._calls.clear()
        self._early.clear()
        self._thinking = None
        self.hide()

    def hide(self) -> None:
        """Leave the screen to others; whatever happens next shows it again."""
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

    def draw(self) -> Group:
        table = Table.grid(padding=(0, 1, 0, 0))
        calls = list(self._calls.values())
        for call in calls[:_MOST]:
            running = call.took is None
            mark = self._spinner if running else Text(MARKS[call.state], STYLES[call.state])
            what = Text(clean(call.tool), "bold").append(f" {short(call.arguments, 40)}", "bright_black not bold")
            took = duration(self._now() - call.began if call.took is None else call.took)
            bar = "" if call.share is None else ProgressBar(total=100, completed=call.share, width=_BAR)
            table.add_row(
                "", mark, what, Text(str(call.state), STYLES[call.state]), bar, call.doing, Text(took, "bright_black")
            )
        if len(calls) > _MOST:
            table.add_row("", "", Text(f"and {len(calls) - _MOST} more", "bright_black"))
        since = self._thinking  # drawn by a thread of its own, while others go on
        if since is not None and not calls:
            took = duration(self._now() - since)
            table.add_row("", self._spinner, Text("thinking", "cyan"), Text(took, "bright_black"))
        return Group(table)
