"""One animated line on stderr while a call runs. Without a terminal: a plain line for each retry, and for progress once a second."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from clicket.cli.formatting import duration
from clicket.cli.terminal import Terminal, clean
from clicket.kernel import State
from clicket.model import Event

__all__ = ["CallProgress"]

_LINE_EVERY = 1.0


class CallProgress:
    """A spinner, what the call is doing, its progress bar and the time left.

    With a `console` the caller prints retries and progress itself where nothing is `animated`.
    """

    def __init__(
        self, terminal: Terminal, name: str, *, console: Console | None = None, animated: bool | None = None
    ) -> None:
        self._terminal = terminal
        self._name = clean(name)
        self._said_at = 0.0
        self._progress: Progress | None = None
        self._task: Any = None
        self._attempt = 1
        self._prints = console is None and not terminal.json
        if terminal.interactive if animated is None else animated:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.fields[name]}", style="bold", markup=False),
                _StatusColumn(),
                _OptionalBar(bar_width=28),
                _TimeLeft(),
                console=console or terminal.err,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._progress.add_task(
                "", total=None, name=self._name, doing="pending", style="bright_black", until=None, left=None, bar=False
            )

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def take(self, event: Event) -> None:
        """Show what the event changed."""
        if event.type == "state_changed":
            self._on_state(event)
        elif event.type == "attempt_started":
            self._attempt = event.data["attempt"]
        elif event.type == "progress":
            self._on_progress(event.data)
        elif event.type == "note" and event.data.get("text") and event.data.get("reason") != "checkpoint":
            self._show(doing=clean(str(event.data["text"]))[:80])

    def _on_state(self, event: Event) -> None:
        data = event.data
        if event.state is State.RETRYING:
            why = clean(str((data.get("error") or {}).get("message", "")))[:60]
            delay = data.get("delay") or 0.0
            doing = f"attempt {self._attempt + 1} in {duration(delay)}"
            self._show(
                doing=f"{why}; attempt {self._attempt + 1}", style="yellow", until=time.monotonic() + delay, bar=False
            )
            self._say(f"{self._name}: {why}; {doing}")
        elif not event.state.is_terminal:
            attempt = f", attempt {self._attempt + 1}" if event.state is State.RUNNING and self._attempt > 1 else ""
            self._show(doing=f"{event.state}{attempt}", style="cyan", until=None)

    def _on_progress(self, data: dict[str, Any]) -> None:
        share, total = data.get("percentage"), data.get("total_steps")
        text = clean(data.get("status", ""))
        self._show(doing=text or "running", left=data.get("estimated_time_remaining"), bar=share is not None)
        if self._progress is not None:
            self._progress.update(self._task, total=total, completed=data["step"])
        elif share == 100 or time.monotonic() - self._said_at >= _LINE_EVERY:
            amount = f"{share:.0f} %" if share is not None else f"{data['step']:g}"
            self._say(f"{self._name}: {amount} {text}".rstrip())

    def _show(self, **fields: Any) -> None:
        if self._progress is not None:
            self._progress.update(self._task, **fields)

    def _say(self, text: str) -> None:
        if self._progress is None and self._prints:
            self._said_at = time.monotonic()
            self._terminal.say(text)


class _StatusColumn(ProgressColumn):
    """What the call is doing, with a countdown to the next attempt."""

    def render(self, task: Task) -> Text:
        text = Text(task.fields["doing"], style=task.fields["style"])
        if task.fields["until"] is not None:
            text.append(f" in {max(task.fields['until'] - time.monotonic(), 0):.1f} s", style="yellow")
        return text


class _OptionalBar(BarColumn):
    """A bar, once the call has reported a percentage."""

    def render(self, task: Task) -> Any:
        return super().render(task) if task.fields["bar"] else Text("")


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        if not task.fields["bar"]:
            return Text(duration(task.elapsed or 0.0), style="bright_black")
        left = task.fields["left"]
        return Text(f"{task.percentage:>3.0f} %" + (f"  {duration(left)} left" if left else ""), style="bright_black")
