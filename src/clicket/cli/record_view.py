"""Draws a record: a timeline with one bar per stage, attempt and wait, then arguments, result and error. Waits are grey."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from rich.console import Group, RenderableType
from rich.json import JSON
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clicket.cli.formatting import (
    STYLES,
    ago,
    as_state,
    at,
    count_of,
    decision_on,
    duration,
    on_worker,
    resolution_of,
    short,
    size,
    what_happened,
    with_type,
)
from clicket.cli.terminal import clean, clean_lines
from clicket.kernel import State
from clicket.model import Event, Record

__all__ = ["Bar", "bars_of", "draw_record"]

_MAX_LINES = 40
_WAIT_STYLE = "bright_black"
_ADVICE = {
    "tool_not_found": "clicket tools                      lists the tools",
    "invalid_input": "clicket tools {tool}    shows its input schema",
    "timeout": "clicket call {tool} --timeout SECONDS    gives it more time",
    "outcome_unknown": "clicket resolve {id} --happened (or --did-not-happen)    settles it, once you have checked the effect",
}


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar of the timeline. `kind`: work or wait."""

    label: str
    begin: float
    end: float
    kind: str = "work"
    style: str = "green"
    note: str = ""
    open: bool = False
    length: float | None = None
    """The recorded duration, when it is more exact than the difference of the ends."""


def bars_of(record: Record, now: float) -> list[Bar]:
    """The bars of a record, in the order in which they began."""
    parts = list(_waits_and_attempts(record, now))
    begun = next((at for at, bar in enumerate(parts) if bar.label not in ("queue", "approval")), len(parts))
    before, inner = parts[:begun], parts[begun:]
    execution = [_execution(record, inner)] if any(bar.kind == "work" for bar in inner) else []
    inner = [msgspec.structs.replace(bar, label=f"  {bar.label}") for bar in inner]
    return [*_admission(record), *before, *execution, *inner, *_completion(record)]


def _execution(record: Record, inner: list[Bar]) -> Bar:
    """The stage `execute`, which contains the attempts and the waits between them."""
    stage = record.stages.get("execute")
    outcome = stage.outcome if stage is not None else "unknown" if record.state.is_terminal else "ok"
    running = stage is None and not record.state.is_terminal
    return Bar(
        label="execute",
        begin=inner[0].begin,
        end=max(bar.end for bar in inner),
        style=STYLES[State.RUNNING] if running else "green" if outcome == "ok" else STYLES[record.state],
        note="" if outcome == "ok" else outcome,
        open=running,
    )


def _admission(record: Record) -> Iterator[Bar]:
    """The first three stages, which ran one after the other when the call was submitted."""
    mark = record.created_at
    for name in ("find", "authorize", "validate"):
        stage = record.stages.get(name)
        if stage is not None:
            ok = stage.outcome == "ok"
            end = mark + stage.duration
            yield Bar(
                label=name,
                begin=mark,
                end=end,
                length=stage.duration,
                style="green" if ok else "red",
                note="" if ok else stage.outcome,
            )
            mark = end


def _completion(record: Record) -> Iterator[Bar]:
    for event in record.events:
        if event.type == "stage_ended" and event.data["stage"] in ("process", "persist"):
            data = event.data
            ok = data["outcome"] == "ok"
            made = size(record.sizes["process"]) if data["stage"] == "process" else "without its write"
            yield Bar(
                label=data["stage"],
                begin=event.at - data["duration"],
                end=event.at,
                length=data["duration"],
                style="green" if ok else "red",
                note=made if ok else data["outcome"],
            )


def _waits_and_attempts(record: Record, now: float) -> Iterator[Bar]:
    """The waits before the first attempt, the attempts, and the waits between them, from the events."""
    waiting: tuple[str, float, str] | None = None
    running: Event | None = None
    mark = record.created_at + sum(
        s.duration for n, s in record.stages.items() if n in ("find", "authorize", "validate")
    )
    attempts = {attempt.started_at: attempt for attempt in record.attempts}
    if record.refused is None:
        waiting = ("queue", mark, "waiting for a slot")
    for event in record.events:
        if event.type == "approval_requested":
            waiting = ("approval", event.at, "waiting for approval")
        elif event.type == "approval_given" and waiting is not None:
            yield _wait(waiting, event.at)
            waiting = ("queue", event.at, "waiting for a slot")
        elif event.type == "attempt_started":
            if waiting is not None:
                yield _wait(waiting, event.at)
            waiting = None
            running = event
        elif event.type == "state_changed":
            if event.state is State.INITIALIZING and waiting is not None:
                yield _wait(waiting, event.at)
                waiting = ("ready", event.at, "worker is prepared")
            elif event.state is State.RETRYING or event.state.is_terminal:
                if running is not None:
                    attempt = attempts.get(running.at)
                    yield _attempt(running, event.at, event.state, attempt.outcome if attempt else None)
                    running = None
                if waiting is not None:
                    yield _wait(waiting, event.at)
                waiting = None if event.state.is_terminal else _backoff(event)
    if running is not None:
        yield _attempt(running, now, record.state, "still running", open=True)
    if waiting is not None and not record.state.is_terminal:
        yield _wait(waiting, now, open=True)


def _backoff(event: Event) -> tuple[str, float, str]:
    if event.data.get("waiting_for") == "approval":
        return "approval", event.at, "waiting for approval"
    return "backoff", event.at, "before the next attempt"


def _wait(waiting: tuple[str, float, str], end: float, *, open: bool = False) -> Bar:
    label, begin, note = waiting
    return Bar(label=label, begin=begin, end=end, kind="wait", style=_WAIT_STYLE, note=note, open=open)


def _attempt(started: Event, end: float, state: State, outcome: str | None, *, open: bool = False) -> Bar:
    style = STYLES[State.RUNNING] if open else STYLES[State.FAILED if state is State.RETRYING else state]
    note = ("" if outcome == "ok" else outcome or str(state)) + on_worker(started.data)
    return Bar(label=f"attempt {started.data['attempt']}", begin=started.at, end=end, style=style, note=note, open=open)


def draw_bars(record: Record, width: int, *, plain: bool) -> Table:
    """The timeline, `width` columns wide."""
    now = time.time()
    bars = [bar for bar in bars_of(record, now) if bar.kind == "work" or bar.open or bar.end - bar.begin >= 0.001]
    first = record.created_at
    last = max([record.ended_at or now, *(bar.end for bar in bars)])
    span = max(last - first, 1e-6)
    cells = max(min(width - 46, 72), 20)
    table = Table(box=None, padding=(0, 1), show_header=True, header_style=_WAIT_STYLE, pad_edge=False, expand=True)
    table.add_column("", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column(_axis(span, cells), no_wrap=True, width=cells)
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
    for bar in bars:
        label = Text(bar.label, style=_WAIT_STYLE if bar.kind == "wait" else "")
        took = bar.end - bar.begin if bar.length is None else bar.length
        note = Text(bar.note, style=bar.style if bar.kind == "work" else _WAIT_STYLE)
        table.add_row(label, duration(took), _line(bar, first, span, cells, plain=plain), note)
    return table


def _axis(span: float, cells: int) -> Text:
    end = duration(span)
    middle = duration(span / 2)
    half = cells // 2
    return Text("0".ljust(half - len(middle) // 2) + middle).append(end.rjust(cells - half - (len(middle) + 1) // 2))


def _line(bar: Bar, first: float, span: float, cells: int, *, plain: bool) -> Text:
    """A bar as text. One that is shorter than a cell is drawn as a thin line."""
    begin = min(int((bar.begin - first) / span * cells), cells - 1)
    length = (bar.end - bar.begin) / span * cells
    solid, thin, hatched, arrow = ("#", "|", ".", ">") if plain else ("█", "▏", "░", "▶")
    if bar.kind == "wait":
        drawn = hatched * max(round(length), 1)
    elif length < 0.6:
        drawn = thin
    else:
        drawn = solid * max(round(length), 1)
    drawn = drawn[: cells - begin]
    if bar.open and len(drawn) > 1:
        drawn = drawn[:-1] + arrow
    return Text(" " * begin).append(drawn, style=bar.style)


def draw_record(record: Record, width: int, *, plain: bool, events: bool = False) -> Group:
    """The output of `clicket show`."""
    parts: list[RenderableType] = [_title(record), "", draw_bars(record, width, plain=plain)]
    parts += _section("Arguments", _arguments(record))
    decision = decision_on(record)
    if decision is not None:
        parts += _section("Approval", Group(Text(" ".join(decision)), *_before_edit(record)))
    if record.progress is not None and not record.state.is_terminal:
        last = next(e for e in reversed(record.events) if e.type == "progress")
        parts += _section("Progress", what_happened(last))
    if record.state is State.COMPLETED:
        parts += _section("Result", _result(record))
    if record.error is not None:
        parts += _section("Error", _error(record))
    if record.resolution is not None:
        output = record.resolution["output"]
        parts += _section(
            "Resolution", Group(Text(resolution_of(record)), *([] if output is None else [_value(output)]))
        )
    if record.metadata:
        parts += _section("Metadata", Text(short(record.metadata, 400)))
    if events:
        parts += _section(f"Events ({len(record.events)})", _events(record))
    return Group(*parts)


def _title(record: Record) -> Group:
    whose = [f"caller {clean(record.caller)}"] if record.caller else []
    facts = [f"thread {clean(record.thread)}", *whose, count_of(len(record.attempts), "attempt")]
    if record.duration is not None:
        facts.append(duration(record.duration))
    facts.append(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(record.created_at))} ({ago(record.created_at)})")
    if record.waiting_for:
        facts.append(f"waiting for {record.waiting_for}")
    if record.cancel_requested and not record.state.is_terminal:
        facts.append("cancel requested")
    name = Text(clean(record.tool), style="bold").append("  ").append_text(as_state(record.state))
    name.append(f"  {clean(record.id)}", style="bright_black")
    return Group(name, Text(" · ".join(facts), style="bright_black"))


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return ["", Text(title, style="bold"), Padding(body, (0, 0, 0, 2))]


def _arguments(record: Record) -> RenderableType:
    if record.refused is not None:
        kept = record.refused
        digest = f"keyed hash {kept['keyed']}" if kept.get("keyed") else f"sha256 {kept.get('sha256')}"
        return Text(
            clean(f"refused ({kept.get('reason')}): {kept.get('size')} bytes, {digest}"),
            style="bright_black",
        )
    return _value(record.arguments)


def _before_edit(record: Record) -> list[RenderableType]:
    """The original arguments, if the approver changed them."""
    if not (record.approval or {}).get("edited"):
        return []
    return [Text("before:", style="bright_black"), _value(record.events[0].data.get("arguments"))]


def _value(value: object) -> RenderableType:
    if isinstance(value, str):
        return _lines(clean_lines(value))
    text = msgspec.json.encode(value).decode()
    if len(text) <= 76:
        return JSON(clean(text), indent=None)
    return JSON(clean(text), indent=2) if len(text) < 4_000 else Text(short(text, 2_000))


def _lines(text: str) -> Text:
    lines = text.split("\n")
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} more lines"]
    return Text("\n".join(short(line, 400) for line in lines))


def _result(record: Record) -> RenderableType:
    if not record.truncated:
        return _value(record.output)
    return Group(
        _lines(clean_lines(record.content)),
        Text(f"the whole is artifact {clean(str(record.artifact))}", style="bright_black"),
    )


def _error(record: Record) -> RenderableType:
    error = record.error
    assert error is not None
    parts: list[RenderableType] = [
        Text(error.code, style="bold red").append(f"  {clean_lines(with_type(error))}", style="not bold red")
    ]
    problems = error.details.get("problems")
    if isinstance(problems, list) and len(problems) > 1:
        parts += [
            Text(f"{clean(p.get('path') or '(arguments)')}  ", style="cyan").append(clean(p["message"]))
            for p in problems
        ]
    trace = next((attempt.traceback for attempt in reversed(record.attempts) if attempt.traceback), "")
    if trace:
        parts += ["", Text(clean_lines(trace).rstrip("\n"), style="bright_black")]
    if error.code in _ADVICE and record.resolution is None:
        parts.append(
            Text(_ADVICE[error.code].format(tool=clean(record.tool), id=clean(record.id)), style="bright_black")
        )
    return Group(*parts)


def _events(record: Record) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", style="bright_black", no_wrap=True)
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(justify="right", style="bright_black", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for event in record.events:
        since = f"+{duration(max(event.at - record.created_at, 0))}"
        table.add_row(str(event.seq), at(event.at), since, event.type, what_happened(event))
    return table
