"""Prints the tour: for each step a heading, a line of code, the call as it runs and its outcome; at the end a table."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clicket.cli.call_progress import CallProgress
from clicket.cli.columns import Column, fitted
from clicket.cli.formatting import as_state, duration, short, shortened
from clicket.cli.terminal import Terminal, clean_lines
from clicket.kernel import State
from clicket.model import Event, Record
from clicket.runtime.runtime import Runtime

__all__ = ["Outcome", "TourOutput"]

_PAUSE = 0.2
_WIDE = 108


class Outcome(msgspec.Struct, kw_only=True):
    """One call of the tour; `scene` is its step, `problems` are the checks that failed."""

    number: int
    scene: str
    tool: str
    id: str
    state: State
    attempts: int
    duration: float
    error: str | None
    problems: list[str]

    @property
    def ok(self) -> bool:
        return not self.problems


class TourOutput:
    """Collects outcomes, and prints, except that with `--json` it prints only the summary."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.plain = terminal.plain
        self.outcomes: list[Outcome] = []
        self._number = 0
        self._title = ""
        self._animated = terminal.out.is_terminal and not terminal.json

    async def step(self, title: str, about: str, code: str) -> None:
        """Print the heading of the next step."""
        if self._animated:
            await asyncio.sleep(_PAUSE)  # time to read
        self._number += 1
        self._title = title
        heading = Text(f"\n{self._number}  ", style="bold cyan").append(title, style="bold")
        self.print(heading.append(f"  {about}", style="bright_black"))
        self.print(Text(f"   {code}", style="cyan"))

    def print(self, text: Text | str = "") -> None:
        if not self.terminal.json:
            self.terminal.out.print(text, soft_wrap=True)

    def say(self, text: Text | str, *, style: str = "") -> None:
        """Print a line of the current step."""
        if not self.terminal.json:
            line = text if isinstance(text, Text) else Text(clean_lines(text), style=style)
            self.terminal.out.print(Padding(line, (0, 0, 0, 3)))

    def remark(self, text: str, style: str = "bright_black") -> None:
        self.say(text, style=style)

    async def call(
        self,
        runtime: Runtime,
        title: str,
        about: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        code: str = "",
        watch: bool = True,
    ) -> tuple[Record, list[Event]]:
        """A step that makes one call, and shows it until it has ended."""
        await self.step(title, about, code or f'await rt.call("{tool}", {json.dumps(arguments)})')
        handle = await runtime.submit(tool, arguments, thread="demo")
        events = await self.watch(tool, handle.events()) if watch else []
        await handle.result()
        return await runtime.get(handle.id), events

    async def watch(self, tool: str, events: AsyncIterator[Event], *, steps: int | None = None) -> list[Event]:
        """Show a call's events until it has ended, or has reported progress `steps` times."""
        seen: list[Event] = []
        reported = column = 0
        with CallProgress(self.terminal, tool, console=self.terminal.out, animated=self._animated) as progress:
            async for event in events:
                seen.append(event)
                data = event.data
                if event.type == "output":
                    progress.stop()  # streamed output and an animated row cannot share a terminal
                    column = self._write(data["content"], column)
                elif event.type == "state_changed" and event.state is State.RETRYING and data.get("delay"):
                    attempt = data["attempt"]
                    why = data["error"]["message"]
                    delay = duration(data["delay"])
                    self.remark(f"↻ attempt {attempt}: {why}; attempt {attempt + 1} in {delay}", "yellow")
                elif event.type == "note" and "pid" in data:
                    self.remark(f"runs in process {data['pid']}, which has started process {data['child']}")
                if event.type != "output":
                    progress.take(event)
                reported += event.type == "progress"
                if steps is not None and reported >= steps:
                    break
        if column:
            self.print()
        return seen

    def _write(self, chunk: str, column: int) -> int:
        """Print a chunk of streamed text. Returns the column of the next chunk."""
        if self.terminal.json:
            return 1
        start = "" if column else "   "
        if column + len(chunk) > self.terminal.out.width:
            start, column = "\n   ", 0
        self.terminal.out.print(Text(start + chunk, style="green"), end="", soft_wrap=True)
        self.terminal.out.file.flush()
        return (column or 3) + len(chunk)

    def outcome(self, record: Record, checks: dict[str, bool]) -> None:
        """Print how a call ended, and the checks that failed."""
        outcome = Outcome(
            number=self._number,
            scene=self._title,
            tool=record.tool,
            id=record.id,
            state=record.state,
            attempts=len(record.attempts),
            duration=record.duration or 0.0,
            error=record.error.code if record.error else None,
            problems=[text for text, passed in checks.items() if not passed],
        )
        self.outcomes.append(outcome)
        text = as_state(record.state).append(f"  {duration(record.duration)}", style="bright_black")
        if record.error is not None:
            text.append(f"  {record.error.code}: {short(record.error.message, 300)}", style="red")
        elif record.content and not any(event.type == "output" for event in record.events):
            text.append(f"  {short(record.content, 90)}")
        self.say(text)
        for problem in outcome.problems:
            self.remark(f"NOT AS EXPECTED: {problem}", "bold red")

    def summary(self, store: str, seconds: float) -> None:
        """Print the table of calls and the commands to try next, or everything as JSON."""
        if self.terminal.json:
            calls = [{**msgspec.to_builtins(outcome), "ok": outcome.ok} for outcome in self.outcomes]
            ok = all(outcome.ok for outcome in self.outcomes)
            self.terminal.print_json({"ok": ok, "store": store, "duration": seconds, "calls": calls})
            return
        ids = shortened([outcome.id for outcome in self.outcomes])
        self.print(Text("\nWhat happened", style="bold"))
        self.terminal.out.print(self._table(ids))
        clicket = _program()
        stored = f"{clicket} --store {store}"
        retried = next((each for each in self.outcomes if each.attempts > 1), self.outcomes[0])
        unknown = [each for each in self.outcomes if each.error == "outcome_unknown"]
        self.print(Text(f"\nAll calls are stored ({seconds:.0f} s in all). What to try next:", style="bold"))
        for about, command in (
            ("the same calls in a browser (pip install '.[server]')", f"{stored} serve"),
            ("every call", f"{stored} ps --all"),
            ("the timeline of the retries", f"{stored} show {ids[retried.id]}"),
            *(("every event of the payment", f"{stored} show {ids[each.id]} --events") for each in unknown),
            ("an agent with a model of yours", f"{clicket} chat --model openai:NAME --tools my_tools"),
            ("all commands; docs/guides/writing-tools.md tells how to write tools", f"{clicket} --help"),
        ):
            self.print(Text(f"  # {about}", style="bright_black"))
            self.print(Text(f"  {command}", style="cyan"))

    def _table(self, ids: dict[str, str]) -> Table:
        calls = self.outcomes
        wide = self.terminal.out.width >= _WIDE
        failed = Text("not as expected", style="bold red")
        columns = [
            Column("" if wide else "#", [each.scene if wide else str(each.number) for each in calls], rank=1),
            Column("CALL", [Text(each.tool, style="bold") for each in calls], rank=5),
            Column("STATE", [as_state(each.state) for each in calls], keep=True),
            Column("TRIES", [str(each.attempts) for each in calls], rank=2, right=True),
            Column("TOOK", [duration(each.duration) for each in calls], rank=3, right=True),
            Column("ID", [Text(ids[each.id], style="bright_black") for each in calls], keep=True),
            Column("", [Text(each.error or "", style="red") if each.ok else failed for each in calls], rank=4),
        ]
        return fitted(columns, self.terminal.out.width)


def _program() -> str:
    """How this program was started, so that the commands can be copied."""
    if os.path.basename(sys.argv[0]) == "clicket" or shutil.which("clicket"):
        return "clicket"
    return f"{os.path.relpath(sys.executable) if sys.executable.startswith(os.getcwd()) else sys.executable} -m clicket"
