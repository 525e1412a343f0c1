"""How the tour looks: a heading, the line of code, what happens while it happens, the outcome, and a table at the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator

import msgspec
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.live import LiveLine
from clicket.cli.terminal import Terminal, clean_lines
from clicket.cli.words import as_state, duration, short, shortened
from clicket.kernel import State
from clicket.model import Event, Record

__all__ = ["Outcome", "Stage"]

_BREATH = 0.2
_WIDE = 108


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one call of the tour, and what did not go as told."""

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


class Stage:
    """Prints the tour, or nothing when it was asked for JSON. Collects the outcomes."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.outcomes: list[Outcome] = []
        self._number = 0
        self._scene = ""
        self._quiet = terminal.json
        self._moves = terminal.out.is_terminal and not terminal.json

    async def scene(self, title: str, explanation: str, code: str) -> None:
        if self._moves:
            await asyncio.sleep(_BREATH)  # a tour that does not breathe is not seen
        self._number += 1
        self._scene = title
        self.line(
            Text(f"\n{self._number}  ", style="bold cyan")
            .append(title, style="bold")
            .append(f"  {explanation}", style="bright_black")
        )
        self.line(Text(f"   {code}", style="cyan"))

    def line(self, text: Text | str = "") -> None:
        if not self._quiet:
            self.terminal.out.print(text, soft_wrap=True)

    def indented(self, text: Text) -> None:
        if not self._quiet:
            self.terminal.out.print(Padding(text, (0, 0, 0, 3)))

    def remark(self, text: str, style: str = "") -> None:
        self.indented(Text(clean_lines(text), style=style))

    async def watch(self, tool: str, events: AsyncIterator[Event], *, steps: int | None = None) -> list[Event]:
        """Show a call's events until it ends, or has reported so many steps."""
        seen: list[Event] = []
        reported = 0
        live = LiveLine(self.terminal, tool, console=self.terminal.out, moves=self._moves)
        column = 0
        with live:
            async for event in events:
                seen.append(event)
                if event.type == "output":
                    live.stop()
                    column = self._write(event.data["content"], column)
                elif event.type == "state_changed" and event.state is State.RETRYING and event.data.get("delay"):
                    self._retrying(event)
                elif event.type == "note" and "pid" in event.data:
                    self.remark(
                        f"runs in process {event.data['pid']}, which has started process {event.data['child']}",
                        "bright_black",
                    )
                live.take(event)
                reported += event.type == "progress"
                if steps is not None and reported >= steps:
                    break
        if column:
            self.line()
        return seen

    def _write(self, chunk: str, column: int) -> int:
        """A piece of streamed text, broken between words; returns where the next one goes."""
        if self._quiet:
            return 1
        lead = "   " if column == 0 else ""
        if column and column + len(chunk) > self.terminal.out.width:
            lead, column = "\n   ", 0
        self.terminal.out.print(Text(lead + chunk, style="green"), end="", soft_wrap=True)
        self.terminal.out.file.flush()
        return (column or 3) + len(chunk)

    def _retrying(self, event: Event) -> None:
        attempt, message = event.data["attempt"], event.data["error"]["message"]
        self.remark(
            f"↻ attempt {attempt}: {message}; attempt {attempt + 1} in {duration(event.data['delay'])}", "yellow"
        )

    def outcome(self, record: Record, checks: dict[str, bool]) -> Outcome:
        """Print how a call ended; `checks` are what was promised."""
        outcome = Outcome(
            number=self._number,
            scene=self._scene,
            tool=record.tool,
            id=record.id,
            state=record.state,
            attempts=len(record.attempts),
            duration=record.duration or 0.0,
            error=record.error.code if record.error else None,
            problems=[text for text, kept in checks.items() if not kept],
        )
        self.outcomes.append(outcome)
        text = as_state(record.state).append(f"  {duration(record.duration)}", style="bright_black")
        if record.error is not None:
            text.append(f"  {record.error.code}: {short(record.error.message, 300)}", style="red")
        elif record.content and not any(event.type == "output" for event in record.events):
            text.append(f"  {short(record.content, 90)}")
        self.indented(text)
        for problem in outcome.problems:
            self.remark(f"NOT AS TOLD: {problem}", "bold red")
        return outcome

    def curtain(self, store: str, seconds: float) -> None:
        """What happened, and where to look next."""
        if self._quiet:
            ok = all(outcome.ok for outcome in self.outcomes)
            calls = [{**msgspec.to_builtins(outcome), "ok": outcome.ok} for outcome in self.outcomes]
            self.terminal.print_json({"ok": ok, "store": store, "duration": seconds, "calls": calls})
            return
        self.line(Text("\nWhat happened", style="bold"))
        self.terminal.out.print(self._table())
        self._where_next(store, seconds)

    def _table(self) -> Table:
        told, wide = self.outcomes, self.terminal.out.width >= _WIDE
        ids = shortened([each.id for each in told])
        columns = [
            Column("" if wide else "#", [each.scene if wide else str(each.number) for each in told], rank=1),
            Column("CALL", [Text(each.tool, style="bold") for each in told], rank=5),
            Column("STATE", [as_state(each.state) for each in told], keep=True),
            Column("TRIES", [str(each.attempts) for each in told], rank=2, right=True),
            Column("TOOK", [duration(each.duration) for each in told], rank=3, right=True),
            Column("ID", [Text(ids[each.id], style="bright_black") for each in told], keep=True),
            Column("", [_verdict(each) for each in told], rank=4),
        ]
        return fitted(columns, self.terminal.out.width)

    def _where_next(self, store: str, seconds: float) -> None:
        retried = next((o for o in self.outcomes if o.attempts > 1), self.outcomes[0])
        ids = shortened([outcome.id for outcome in self.outcomes])
        program = f"{_program()} --store {store}"
        self.line(Text(f"\nAll of it is in the journal ({seconds:.0f} s in all). Where to look next:", style="bold"))
        self._command("every call", f"{program} ps --all")
        self._command("the retries, drawn in time", f"{program} show {ids[retried.id]}")
        for outcome in self.outcomes:
            if outcome.error == "outcome_unknown":
                self._command("the payment, event by event", f"{program} show {ids[outcome.id]} --events")
        self._command("an agent with a model of yours", f"{_program()} chat --model openai:NAME --tools my_tools")
        self._command("all commands; docs/guides/writing-tools.md tells how to write tools", f"{_program()} --help")

    def _command(self, what: str, line: str) -> None:
        self.line(Text(f"  # {what}", style="bright_black"))
        self.line(Text(f"  {line}", style="cyan"))


def _verdict(outcome: Outcome) -> Text:
    return Text(outcome.error or "", style="red") if outcome.ok else Text("not as told", style="bold red")


def _program() -> str:
    """How this program was called, so that the lines above can be copied."""
    if os.path.basename(sys.argv[0]) == "clicket" or shutil.which("clicket"):
        return "clicket"
    return f"{os.path.relpath(sys.executable) if sys.executable.startswith(os.getcwd()) else sys.executable} -m clicket"
