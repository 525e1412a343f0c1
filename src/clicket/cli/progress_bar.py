"""The progress of a long command: a bar on a terminal, elsewhere a line on stderr now and then."""

from __future__ import annotations

import time
from typing import Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from clicket.cli.terminal import Terminal, clean

__all__ = ["ProgressBar"]


class ProgressBar:
    """`line_every`: seconds between two lines where there is no terminal; None: no lines."""

    def __init__(self, terminal: Terminal, text: str, *, line_every: float | None) -> None:
        self._terminal = terminal
        self._line_every = line_every
        self._printed_at = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=28),
            TextColumn("{task.description}", markup=False),
            console=terminal.err,
            transient=True,
            disable=not terminal.interactive,
        )
        self._task = self._bar.add_task(text, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, text: str, *, done: float | None = None, total: float | None = None, line: str = "") -> None:
        """`text` is shown beside the bar, `line` (or `text`) is printed where there is none."""
        text = clean(text)
        self._bar.update(self._task, description=text, completed=done, total=total)
        quiet = self._terminal.json or self._terminal.interactive or self._line_every is None
        if not quiet and (line or text) and time.monotonic() - self._printed_at >= (self._line_every or 0):
            self._printed_at = time.monotonic()
            self._terminal.say(clean(line) or text)
