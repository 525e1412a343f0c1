"""Reports what a worker or server does: lines on stderr for people, JSON lines on stdout for programs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rich.text import Text

from clicket.cli.errors import silence_stdout
from clicket.cli.formatting import as_state, at, count_of, duration, short
from clicket.cli.terminal import Terminal, clean, clean_lines
from clicket.engine import Recovered
from clicket.engine.journal import Entry
from clicket.kernel import State
from clicket.model import Event
from clicket.runtime.runtime import Runtime

__all__ = ["WorkerLog"]


class WorkerLog:
    """An observer of the journal. `started` and `ended` count attempts and calls."""

    def __init__(self, terminal: Terminal, *, quiet: bool) -> None:
        self.terminal = terminal
        terminal.lines = True
        self.started = 0
        self.ended = 0
        self._quiet = quiet
        self._draining: set[tuple[str, str, str]] | None = None
        self._output_closed = False

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "attempt_started":
                self.started += 1
                attempt = event.data["attempt"]
                self._report(entry, "started", Text(f"attempt {attempt}"), event, attempt=attempt)
            elif event.is_terminal:
                self.ended += 1
                error = event.data.get("error") or {}
                took = event.data.get("duration")
                text = Text(f"{error['code']}: {short(error['message'], 100)}", style="red") if error else Text("")
                text.append(f"  {duration(took)}" if error else duration(took), style="bright_black")
                facts = {"error": error.get("code"), "duration": took, "attempts": entry.attempts}
                self._report(entry, "ended", text, event, **facts)
                self._left(entry)
            elif event.type == "state_changed" and event.state is State.RETRYING:
                self._retrying(entry, event)

    def _retrying(self, entry: Entry, event: Event) -> None:
        error = event.data.get("error") or {}
        why = short(error.get("message", ""), 100)
        if not entry.owned:
            self._report(entry, "handed_back", Text(f"handed back: {why}"), event, error=error.get("code"))
            self._left(entry)
            return
        delay = event.data.get("delay")
        when = f"in {duration(delay)}" if delay is not None else "when it is approved"
        self._report(entry, "retrying", Text(f"{why}; again {when}"), event, error=error.get("code"), delay=delay)

    def _left(self, entry: Entry) -> None:
        """Report the progress of a drain: one of the calls that it waits for is over here."""
        if self._draining is None or (key := (entry.caller, entry.thread, entry.id)) not in self._draining:
            return
        self._draining.remove(key)
        if self.terminal.json:
            self.json("draining", time.time(), left=len(self._draining))
        elif self._draining:
            self._say(f"draining: {count_of(len(self._draining), 'call')} left", style="yellow")

    def _report(self, entry: Entry, what: str, text: Text, event: Event, **facts: Any) -> None:
        if self.terminal.json:
            names = {"id": entry.id, "thread": entry.thread, "tool": entry.tool, "state": str(event.state)}
            trace = {"traceback": event.data["traceback"]} if "traceback" in event.data else {}
            self.json(what, event.at, **names, **facts, **trace)
        elif not self._quiet:
            line = Text(f"{at(event.at)}  ", style="bright_black")
            line.append_text(_padded(as_state(event.state, plain=self.terminal.plain)))
            line.append(f"  {clean(entry.id)[:14]}  ", style="bright_black").append(f"{clean(entry.tool)}  ", "bold")
            self._say(line.append_text(text))
            if "traceback" in event.data:
                lines = clean_lines(event.data["traceback"]).splitlines()
                self._say("\n".join(f"    {each}" for each in lines), style="bright_black")

    def _say(self, text: str | Text, style: str = "") -> None:
        with suppress(BrokenPipeError):  # the reader is gone; the work goes on
            self.terminal.say(text, style=style)

    def json(self, what: str, moment: float, **facts: Any) -> None:
        if self._output_closed:
            return
        try:
            self.terminal.print_json_line({"event": what, "at": moment, **facts})
        except BrokenPipeError:  # the reader is gone; the work goes on
            self._output_closed = True
            silence_stdout()

    def ready(self, runtime: Runtime, tools: Sequence[str], health_port: int | None = None) -> None:
        store = runtime.store
        most = runtime.settings.limits.max_concurrency
        labels = list(runtime.settings.labels)
        id = runtime.workers.id
        facts: dict[str, Any] = {
            "store": store.url,
            "durability": store.durability,
            "tools": list(tools),
            "concurrency": most,
        }
        if self.terminal.json:
            self.json("ready", time.time(), id=id, pid=os.getpid(), **facts, labels=labels, health_port=health_port)
            return
        line = Text(f"worker {id}", style="bold").append(
            f"  {store.url}, durability {store.durability}, {most} calls at once\n", style="not bold"
        )
        line.append(f"tools: {', '.join(tools)}", style="not bold bright_black")
        if labels:
            line.append(f"\nlabels: {', '.join(labels)}", style="not bold bright_black")
        if health_port is not None:
            line.append(f"\nhealth and metrics: port {health_port}", style="not bold bright_black")
        self._say(line)

    def recovered(self, report: Recovered) -> None:
        if not report.total:
            return
        if self.terminal.json:
            self.json("recovered", time.time(), **_counts(report))
        else:
            parts = ", ".join(f"{count} {name}" for name, count in _counts(report).items() if count)
            self._say(f"took over {report.total} calls of dead owners: {parts}", style="yellow")

    async def draining(self, reason: str, runtime: Runtime) -> None:
        """Report which calls the process waits for before it ends, and how long. `reason`: a signal, or why else it ends."""
        calls = runtime.held_calls()
        running = [call for call in calls if call.is_running]
        self._draining = {(call.caller, call.thread, call.id) for call in running}
        timeout = runtime.settings.limits.close_timeout
        if self.terminal.json:
            ids = [call.id for call in running]
            waiting = len(calls) - len(running)
            self.json("draining", time.time(), signal=reason, running=ids, waiting=waiting, patience=timeout)
            return
        if not calls:
            self._say(f"{reason}: nothing is running here", style="yellow")
            return
        self._say(
            f"{reason}: no new calls; {len(running)} running: {duration(timeout)} to finish, "
            f"{len(calls) - len(running)} waiting ones go back to the store. A second signal ends the process at once.",
            style="yellow",
        )
        for call in running:
            record = await runtime.acting_for(call.caller).get(call.id, thread=call.thread)
            age = duration(max(time.time() - (record.started_at or record.created_at), 0.0))
            self._say(f"  {clean(call.id)}  {clean(call.tool)}  {age}", style="bright_black")

    def stopped(self) -> None:
        if self.terminal.json:
            self.json("stopped", time.time(), started=self.started, ended=self.ended)
        else:
            self._say(f"stopped: {self.started} attempts started, {self.ended} calls ended", style="yellow")


def _counts(report: Recovered) -> dict[str, int]:
    return {name: getattr(report, name) for name in report.__struct_fields__}


def _padded(text: Text) -> Text:
    return text.append(" " * max(14 - len(text.plain), 0))
