"""`clicket recover`: take over, now, what dead owners left, and see it through."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Self

import msgspec
import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from clicket.cli.formatting import duration
from clicket.cli.orphans import active_calls, orphans, waits
from clicket.cli.session import Session
from clicket.cli.terminal import Terminal, clean
from clicket.cli.shutdown import ShutdownSignals
from clicket.engine import Recovered
from clicket.errors import ClicketError
from clicket.journal import Entry
from clicket.model import Event
from clicket.runtime import Runtime

__all__ = ["recover"]

_MEANINGS = {
    "queued": "had not started",
    "rerun": "had started, and may be repeated",
    "unknown": "had started, and may not be repeated: failed as outcome_unknown",
    "asked": "wait for somebody's word",
    "unavailable": "do not fit their tool any more: failed as tool_unavailable",
    "cancelled": "somebody had cancelled or denied them",
    "damaged": "cannot be read, and were set aside",
}
_MOST_LISTED = 50
_SAY_EVERY = 1.0


async def recover(
    session: Session,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Run here what is to be run, or leave it to workers.")
    ] = True,
) -> None:
    """Take over what dead owners left, and say what became of it.

    A call that never started is run. One that had started is run again if
    its tool allows that, else it fails as outcome_unknown and is listed.
    Ctrl-C hands back what has not ended.
    """
    terminal, tools = session.terminal, session.needed_tools
    ledger = Ledger()
    if not session.store_exists:
        _print(terminal, ledger)
        return
    runtime = session.host(engine="local" if wait else "workers")
    with ShutdownSignals() as shutdown:
        opened = await shutdown.run_until_requested(runtime.open())
        if opened is not None:
            await _take_over(runtime, tools, ledger, shutdown, terminal)
    _print(terminal, ledger)
    if shutdown.signal is not None:
        raise KeyboardInterrupt


class Ledger:
    """What became of the calls, from the first claim to the last outcome."""

    def __init__(self) -> None:
        self.report = Recovered()
        self.unknown: list[dict[str, Any]] = []
        self.ended: Counter[str] = Counter()
        self.waiting = 0
        """Calls that were nobody's before we came, and are a worker's to run."""
        self.elsewhere: Counter[str] = Counter()
        """Tools of calls that were left alone, because they are not here."""

    @property
    def handed_back(self) -> int:
        """Calls that were to be run and have not ended: they wait in the store for whoever runs them."""
        report = self.report
        return max(report.total - report.damaged - report.asked - self.ended.total(), 0)

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        """A listener of the journal."""
        for event in events:
            if event.is_terminal:
                self.ended[str(event.state)] += 1
                if (event.data.get("error") or {}).get("code") == "outcome_unknown":
                    names = {"id": entry.id, "thread": entry.thread, "tool": entry.tool}
                    self.unknown.append({**names, "attempts": entry.attempts})


async def _take_over(runtime: Runtime, tools: list[Any], ledger: Ledger, shutdown: ShutdownSignals, terminal: Terminal) -> None:
    runtime.stop_claiming()  # calls that only wait for a worker are a worker's
    runtime.observers.add(ledger)
    try:
        ledger.waiting = await _count_waiting(runtime, {tool.name for tool in tools})
        for tool in tools:
            runtime.add(tool)
        with _Bar(terminal) as bar:

            def found(report: Recovered) -> None:
                ledger.report = report
                bar.found(report)

            report = await shutdown.run_until_requested(runtime.recover(progress=found))
            if report is not None:
                ledger.report = report
                ledger.elsewhere.update(stored.events[0].data["tool"] for stored in await orphans(runtime))
                await shutdown.run_until_requested(_see_through(runtime, bar))
    finally:
        _say_goodbye(runtime, shutdown, terminal)
        await runtime.close()


async def _count_waiting(runtime: Runtime, tools: set[str]) -> int:
    found = await active_calls(runtime)
    return sum(1 for stored in found if waits(stored) and stored.events[0].data["tool"] in tools)


async def _see_through(runtime: Runtime, bar: _Bar) -> None:
    """Wait until every call that was queued has ended here. Calls that wait for approval are not waited for."""
    queued = [call for call in runtime.held_calls() if call.waiting_for is None]
    bar.running(len(queued))

    async def end(id: str, thread: str, caller: str) -> None:
        with suppress(ClicketError):  # another process has taken the call over
            handle = await runtime.acting_for(caller).handle(id, thread=thread)
            async for _ in handle.events():
                if not runtime.is_held(id, thread, caller):
                    break
        bar.ended()

    async with asyncio.TaskGroup() as group:
        for call in queued:
            group.create_task(end(call.id, call.thread, call.caller))


def _say_goodbye(runtime: Runtime, shutdown: ShutdownSignals, terminal: Terminal) -> None:
    running = sum(1 for call in runtime.held_calls() if call.is_running)
    if shutdown.signal is not None and running and not terminal.json:
        terminal.say(
            f"{shutdown.signal.name}: {running} running calls get {duration(runtime.settings.close_timeout)} to finish, "
            "the others are handed back. Once more ends at once.",
            style="yellow",
        )


def _print(terminal: Terminal, ledger: Ledger) -> None:
    report = ledger.report
    if terminal.json:
        facts = {"total": report.total, "unknown_calls": ledger.unknown, "ended": ledger.ended}
        more = {"handed_back": ledger.handed_back, "waiting": ledger.waiting, "without_tool": ledger.elsewhere}
        terminal.print_json({**msgspec.to_builtins(report), **facts, **more})
        return
    if not report.total:
        terminal.write("nothing to recover: no owner that is gone left calls of these tools.\n")
    else:
        terminal.write(f"took over {report.total} calls of owners that are gone:\n")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(justify="right")
        for name, meaning in _MEANINGS.items():
            count = getattr(report, name)
            if count:
                table.add_row(f"  {count}", name, Text(meaning, style="bright_black"))
        terminal.out.print(table)
    if ledger.ended:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(ledger.ended.items()))
        terminal.write(f"ended now: {counts}\n")
    for call in ledger.unknown[:_MOST_LISTED]:
        terminal.write(f"outcome_unknown  {clean(call['id'])}  {clean(call['tool'])}  thread {clean(call['thread'])}\n")
    if len(ledger.unknown) > _MOST_LISTED:
        terminal.write(f"… and {len(ledger.unknown) - _MOST_LISTED} more; --json lists all\n")
    if ledger.handed_back:
        terminal.write(f"handed back: {ledger.handed_back} calls\n")
    if ledger.handed_back + ledger.waiting:
        count = ledger.handed_back + ledger.waiting
        terminal.say(f"{count} calls wait for a worker: `clicket worker` runs them", style="bright_black")
    if ledger.elsewhere:
        names = ", ".join(f"{clean(name)} ({count})" for name, count in sorted(ledger.elsewhere.items()))
        terminal.say(f"left alone, because their tools are not here: {names}. Name them with --tools.", style="yellow")
