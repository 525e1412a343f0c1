"""Animated rows for running calls: a spinner, the call's status, its progress bar and the time. Only on a terminal.

`CallProgress` is one call; without a terminal it prints a plain line for each retry, and for progress once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from clicket.cli.formatting import MARKS, STYLES, duration, short
from clicket.cli.terminal import Terminal, clean
from clicket.kernel import State
from clicket.model import Event

__all__ = ["CallProgress", "CallRows"]

_LINE_EVERY = 1.0
_MAX_ROWS = 8


class CallRows(Progress):
    """One row for each call that is open. At most eight rows are shown."""

    def __init__(self, console: Console, *, plain: bool, get_time: Callable[[], float] | None = None) -> None:
        super().__init__(
            SpinnerColumn("line" if plain else "dots"),
            TextColumn("{task.fields[name]}", style="bold", markup=False),
            TextColumn("{task.fields[arguments]}", style="bright_black", markup=False),
            _StatusColumn(),
            _OptionalBar(bar_width=28),
            _TimeColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=get_time,
        )

    def add_row(self, name: str, arguments: str = "", state: State | None = State.PENDING) -> TaskID:
        row = self.add_task("", total=None, name=clean(name), arguments=short(arguments, 40), status="")
        self.update(row, state=state, attempt=1, until=None, left=None, bar=False)
        return row

    def show(self, row: TaskID, event: Event) -> None:
        """Update the row of a call with one of its events."""
        data = event.data
        self.update(row, state=event.state)
        if event.type == "attempt_started":
            self.update(row, attempt=data["attempt"])
        elif event.type == "progress":
            share, left = data.get("percentage"), data.get("estimated_time_remaining")
            status = short(str(data.get("status", "")))
            self.update(row, status=status, left=left, bar=share is not None, total=100, completed=share or 0)
        elif event.type == "output":
            self.update(row, status=short(data.get("content", ""), 40))
        elif event.type in ("approval_requested", "approval_given"):
            self.update(row, status="waiting for approval" if event.type == "approval_requested" else "")
        elif event.type == "note" and data.get("text") and data.get("reason") != "checkpoint":
            self.update(row, status=short(str(data["text"])))
        elif event.state is State.RETRYING:
            attempt = next(task.fields["attempt"] for task in self.tasks if task.id == row)
            status = f"{short(str((data.get('error') or {}).get('message', '')), 60)}; attempt {attempt + 1}"
            self.update(row, status=status, until=time.monotonic() + (data.get("delay") or 0.0), bar=False)
        elif event.is_terminal:
            self.update(row, status=duration(data.get("duration")), until=None, bar=False)
            self.stop_task(row)
        elif event.type == "state_changed":
            self.update(row, status="", until=None)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks[:_MAX_ROWS])
        if len(self.tasks) > _MAX_ROWS:
            yield Text(f"  and {len(self.tasks) - _MAX_ROWS} more", "bright_black")


class CallProgress:
    """The row of one call. With a `console` of its own, nothing is printed where the row is not `animated`."""

    def __init__(
        self, terminal: Terminal, name: str, *, console: Console | None = None, animated: bool | None = None
    ) -> None:
        self._terminal = terminal
        self._name = clean(name)
        self._printed_at = 0.0
        self._attempt = 1
        self._prints = console is None and not terminal.json
        self._rows: CallRows | None = None
        if terminal.interactive if animated is None else animated:
            self._rows = CallRows(console or terminal.err, plain=terminal.plain)
            self._row = self._rows.add_row(name)

    def __enter__(self) -> Self:
        if self._rows is not None:
            self._rows.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._rows is not None:
            self._rows.stop()

    def take(self, event: Event) -> None:
        if self._rows is not None and not event.is_terminal:
            self._rows.show(self._row, event)
        elif self._prints:
            self._print(event)

    def _print(self, event: Event) -> None:
        data = event.data
        if event.type == "attempt_started":
            self._attempt = data["attempt"]
        elif event.type == "state_changed" and event.state is State.RETRYING:
            why = clean(str((data.get("error") or {}).get("message", "")))[:60]
            self._say(f"{why}; attempt {self._attempt + 1} in {duration(data.get('delay') or 0.0)}")
        elif event.type == "progress":
            share = data.get("percentage")
            if share == 100 or time.monotonic() - self._printed_at >= _LINE_EVERY:
                amount = f"{share:.0f} %" if share is not None else f"{data['step']:g}"
                self._say(f"{amount} {clean(data.get('status', ''))}".rstrip())

    def _say(self, text: str) -> None:
        self._printed_at = time.monotonic()
        self._terminal.say(f"{self._name}: {text}")


class _StatusColumn(ProgressColumn):
    """The state, what the call is doing, and a countdown to the next attempt."""

    def render(self, task: Task) -> Text:
        state: State | None = task.fields["state"]
        if state is None:
            return Text("")
        text = Text(f"{MARKS[state]} {state}" if state.is_terminal else str(state), STYLES[state])
        if state is State.RUNNING and task.fields["attempt"] > 1:
            text.append(f", attempt {task.fields['attempt']}")
        text.append(f"  {task.fields['status']}", "default not bold")
        if task.fields["until"] is not None:
            text.append(f" in {max(task.fields['until'] - time.monotonic(), 0):.1f} s", style="yellow")
        return text


class _OptionalBar(BarColumn):
    """A bar, once the call has reported a percentage."""

    def render(self, task: Task) -> Any:
        return super().render(task) if task.fields["bar"] else Text("")


class _TimeColumn(ProgressColumn):
    """The percentage and the time left, or the time since the call began."""

    def render(self, task: Task) -> Text:
        if not task.fields["bar"]:
            return Text("" if task.stop_time is not None else duration(task.elapsed or 0.0), style="bright_black")
        left = task.fields["left"]
        return Text(f"{task.percentage:>3.0f} %" + (f"  {duration(left)} left" if left else ""), style="bright_black")
