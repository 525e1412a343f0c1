"""`clicket recover`: takes over the calls of dead owners, and runs them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from clicket.cli.context import Context
from clicket.cli.formatting import duration
from clicket.cli.orphans import active_calls, orphans, waits_for_worker
from clicket.cli.progress_bar import ProgressBar
from clicket.cli.shutdown import ShutdownSignals
from clicket.cli.terminal import Terminal, clean
from clicket.engine import Recovered
from clicket.engine.journal import Entry
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.runtime.runtime import Runtime

__all__ = ["recover"]

_MEANINGS = {
    "queued": "had not started",
    "rerun": "had started, and may be repeated",
    "unknown": "had started, and may not be repeated: failed as outcome_unknown",
    "asked": "wait for approval",
    "reconciling": "had started: their tools are asked whether they had their effect",
    "external": "wait for a result from outside",
    "unavailable": "do not fit their tool any more: failed as tool_unavailable",
    "cancelled": "had been cancelled or denied",
    "damaged": "cannot be read, and were set aside",
}
_MAX_LISTED = 50
_LINE_EVERY = 1.0


async def recover(
    context: Context,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Run the calls here, or leave them to workers.")
    ] = True,
) -> None:
    """Take over the calls of dead owners, and report their outcomes.

    A call that never started is run. One that had started is run again if
    its tool allows that, else it fails as outcome_unknown and is listed.
    Ctrl-C hands back the calls that have not ended.
    """
    terminal, tools = context.terminal, context.needed_tools
    outcomes = RecoveryReport()
    if not context.store_exists:
        _print(terminal, outcomes)
        return
    runtime = context.host(engine="local" if wait else "workers")
    with ShutdownSignals() as shutdown:
        opened = await shutdown.run_until_requested(runtime.open())
        if opened is not None:
            await _take_over(runtime, tools, outcomes, shutdown, terminal)
    _print(terminal, outcomes)
    if shutdown.signal is not None:
        raise KeyboardInterrupt


class RecoveryReport:
    """What happened to the recovered calls: an observer of the journal."""

    def __init__(self) -> None:
        self.report = Recovered()
        self.unknown: list[dict[str, Any]] = []
        self.ended: Counter[str] = Counter()
        self.waiting = 0
        """Calls without an owner, which a worker will run."""
        self.elsewhere: Counter[str] = Counter()
        """Calls that were not taken over, by tool, because this process does not have the tool."""

    @property
    def handed_back(self) -> int:
        """Calls that have not ended: they wait in the store for a worker."""
        report = self.report
        return max(report.total - report.damaged - report.asked - report.external - self.ended.total(), 0)

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        for event in events:
            if event.is_terminal:
                self.ended[str(event.state)] += 1
                if (event.data.get("error") or {}).get("code") == "outcome_unknown":
                    names = {"id": entry.id, "thread": entry.thread, "tool": entry.tool}
                    self.unknown.append({**names, "attempts": entry.attempts})


async def _take_over(
    runtime: Runtime, tools: list[Any], outcomes: RecoveryReport, shutdown: ShutdownSignals, terminal: Terminal
) -> None:
    runtime.stop_claiming()  # calls that wait for a worker are left to workers
    runtime.observers.add(outcomes)
    try:
        outcomes.waiting = await _count_waiting(runtime, {tool.name for tool in tools})
        for tool in tools:
            runtime.add(tool)
        with ProgressBar(terminal, "looking for calls of dead owners", line_every=_LINE_EVERY) as bar:

            def found(report: Recovered) -> None:
                outcomes.report = report
                bar.show(f"took over {report.total} calls")

            report = await shutdown.run_until_requested(runtime.recover(progress=found))
            if report is not None:
                outcomes.report = report
                outcomes.elsewhere.update(stored.events[0].data["tool"] for stored in await orphans(runtime))
                await shutdown.run_until_requested(_wait_for_calls(runtime, bar))
    finally:
        _say_draining(runtime, shutdown, terminal)
        await runtime.close()


async def _count_waiting(runtime: Runtime, tools: set[str]) -> int:
    found = await active_calls(runtime)
    return sum(1 for stored in found if waits_for_worker(stored) and stored.events[0].data["tool"] in tools)


async def _wait_for_calls(runtime: Runtime, bar: ProgressBar) -> None:
    """Wait until every call that was queued has ended here. Calls that wait for approval are not waited for."""
    queued = [call for call in runtime.held_calls() if call.waiting_for in (None, "reconcile")]
    ended = 0
    total = len(queued)
    bar.show(f"{total} calls to run" if total else "", total=total)

    async def wait(id: str, thread: str, caller: str) -> None:
        nonlocal ended
        with suppress(ClicketError):  # another process has taken the call over
            handle = await runtime.acting_for(caller).handle(id, thread=thread)
            async for _ in handle.events():
                if not runtime.is_held(id, thread, caller):
                    break
        ended += 1
        bar.show(f"running  {ended}/{total}", done=ended, line=f"{ended} of {total} have ended")

    async with asyncio.TaskGroup() as group:
        for call in queued:
            group.create_task(wait(call.id, call.thread, call.caller))


def _say_draining(runtime: Runtime, shutdown: ShutdownSignals, terminal: Terminal) -> None:
    running = sum(1 for call in runtime.held_calls() if call.is_running)
    if shutdown.signal is not None and running and not terminal.json:
        terminal.say(
            f"{shutdown.signal.name}: {running} running calls get {duration(runtime.settings.limits.close_timeout)} to finish, "
            "the others are handed back. A second signal ends the process at once.",
            style="yellow",
        )


def _print(terminal: Terminal, outcomes: RecoveryReport) -> None:
    report = outcomes.report
    if terminal.json:
        facts = {"total": report.total, "unknown_calls": outcomes.unknown, "ended": outcomes.ended}
        more = {"handed_back": outcomes.handed_back, "waiting": outcomes.waiting, "without_tool": outcomes.elsewhere}
        terminal.print_json({**msgspec.to_builtins(report), **facts, **more})
        return
    if not report.total:
        terminal.write("nothing to recover: no dead owner has calls of these tools.\n")
    else:
        terminal.write(f"took over {report.total} calls of dead owners:\n")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(justify="right")
        for name, meaning in _MEANINGS.items():
            count = getattr(report, name)
            if count:
                table.add_row(f"  {count}", name, Text(meaning, style="bright_black"))
        terminal.out.print(table)
    if outcomes.ended:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(outcomes.ended.items()))
        terminal.write(f"ended now: {counts}\n")
    for call in outcomes.unknown[:_MAX_LISTED]:
        terminal.write(f"outcome_unknown  {clean(call['id'])}  {clean(call['tool'])}  thread {clean(call['thread'])}\n")
    if len(outcomes.unknown) > _MAX_LISTED:
        terminal.write(f"… and {len(outcomes.unknown) - _MAX_LISTED} more; --json lists all\n")
    if outcomes.handed_back:
        terminal.write(f"handed back: {outcomes.handed_back} calls\n")
    if outcomes.handed_back + outcomes.waiting:
        count = outcomes.handed_back + outcomes.waiting
        terminal.say(f"{count} calls wait for a worker: `clicket worker` runs them", style="bright_black")
    if outcomes.elsewhere:
        names = ", ".join(f"{clean(name)} ({count})" for name, count in sorted(outcomes.elsewhere.items()))
        terminal.say(
            f"not taken over, because their tools are missing here: {names}. Name them with --tools.", style="yellow"
        )
