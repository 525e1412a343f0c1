"""Formats durations, ages, sizes, states and events, and parses durations and sizes, the same way in every command."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from rich.text import Text

from clicket.cli.terminal import clean
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Event, Record, ToolError
from clicket.model.ids import provider_of
from clicket.runtime.settings import Settings

__all__ = [
    "DESCRIPTIONS",
    "ago",
    "as_state",
    "at",
    "count_of",
    "decision_on",
    "duration",
    "on_worker",
    "one_line",
    "pairs_of",
    "parse_duration",
    "parse_instant",
    "parse_size",
    "resolution_of",
    "short",
    "shortened",
    "shown_url",
    "size",
    "what_happened",
    "with_type",
]

STYLES = {
    State.PENDING: "bright_black",
    State.INITIALIZING: "cyan",
    State.RUNNING: "bold cyan",
    State.STREAMING: "bold cyan",
    State.RETRYING: "yellow",
    State.COMPLETED: "green",
    State.FAILED: "red",
    State.TIMEOUT: "magenta",
    State.CANCELLED: "yellow",
}
MARKS = {
    State.PENDING: "◌",
    State.INITIALIZING: "◔",
    State.RUNNING: "●",
    State.STREAMING: "●",
    State.RETRYING: "↻",
    State.COMPLETED: "✓",
    State.FAILED: "✗",
    State.TIMEOUT: "⧖",
    State.CANCELLED: "⊘",
}
_MIN_PREFIX = 14
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_PART = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)(ms|s|m|h|d|w)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_LOGIN = re.compile(r"\w://[^\s:/?#@]*+:")
_RUN = re.compile(r"\S+")
_PASSWORD = re.compile(r"([?&]\w*password=)[^&\s]*", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds from `90`, `0.5`, `500ms`, `90s`, `1h30m`, `2d`."""
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(
            f"{text!r} is not a duration. Write seconds, or a number with a unit: 500ms, 90s, 15m, 1h30m, 2d."
        )
    return seconds


def parse_instant(text: str) -> float:
    """Seconds since the epoch from `2026-11-16T02:30:00+01:00`, `2026-11-16T01:30:00Z`, `1794837600`, or `+90m` from now."""
    if text.startswith("+"):
        return time.time() + parse_duration(text[1:])
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise UsageError(
                f"{text!r:.100} is not a time. Write it with its zone (2026-11-16T02:30:00+01:00), or +10m from now."
            ) from None
    if instant.tzinfo is None:
        raise UsageError(f"{text!r:.100} has no time zone. Write Z for UTC, or an offset: {instant.isoformat()}+01:00.")
    return instant.timestamp()


def parse_size(text: str) -> int:
    """Bytes from `1048576`, `500kB`, `64MiB`, `2G`; a unit with an `i` counts in steps of 1024, one without in 1000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size. Write bytes, or a number with a unit: 500kB, 64MiB, 2GB.")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " "))


def pairs_of(given: Iterable[str]) -> dict[str, str]:
    """`["KEY=VALUE", …]` as a mapping."""
    pairs = [text.partition("=") for text in given]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise UsageError(f"{key!r} is not KEY=VALUE.")
    return {key: value for key, _, value in pairs}


def shown_url(text: str) -> str:
    """A URL, or a text with URLs, without passwords."""
    return _PASSWORD.sub(r"\1***", _RUN.sub(_without_login, text))


def _without_login(run: re.Match[str]) -> str:
    """Masks everything between the first user name and the last `@` of a text without blanks."""
    text = run.group()
    login = _LOGIN.search(text)
    end = -1 if login is None else text.rfind("@", login.end())
    return text if login is None or end < 0 else f"{text[: login.end()]}***{text[end:]}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if 0 < seconds < 0.5e-6:
        return "<1 µs"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def retention_of(settings: Settings) -> str:
    """How long calls are kept, as a sentence."""
    kept = settings.retention
    seconds, most, calls = kept.age, kept.most_bytes, kept.calls
    time = f"{seconds / 86_400:g} days" if seconds >= 172_800 and seconds % 86_400 == 0 else duration(seconds)
    bounds = ([] if most is None else [size(most)]) + ([] if calls is None else [f"{calls:,} calls"])
    bound = f", at most {' and '.join(bounds)}" if bounds else ""
    return f"ended calls are kept for {time}{bound}; those of an agent's turns as long as their thread"


def ago(at: float) -> str:
    seconds = max(time.time() - at, 0.0)
    return "just now" if seconds < 1 else f"{duration(float(int(seconds)))} ago"


def at(moment: float, *, fraction: bool = True) -> str:
    """The local time of day."""
    text = time.strftime("%H:%M:%S", time.localtime(moment))
    return f"{text}.{int(moment * 1000) % 1000:03d}" if fraction else text


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def count_of(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def as_state(state: State, *, plain: bool = False) -> Text:
    return Text(str(state) if plain else f"{MARKS[state]} {state}", style=STYLES[state])


def short(value: Any, width: int = 80) -> str:
    """A value on one line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = clean(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def one_line(text: str, width: int = 80) -> str:
    """A text with its white space collapsed, on one line."""
    return short(" ".join(text.split()), width)


def shortened(ids: list[str]) -> dict[str, str]:
    """Short forms of ids that commands accept: generated ids become unique prefixes, ids of a model provider the provider's own
    id, other ids stay whole."""
    length = _MIN_PREFIX
    while length < 32 and len({id[:length] for id in ids}) < len(set(ids)):
        length += 2
    named = Counter(provider_of(id) for id in set(ids))
    shown = {id: id[:length] if len(id) == 32 else id for id in ids}
    return {id: provider_of(id) if provider_of(id) and named[provider_of(id)] == 1 else shown[id] for id in ids}


def decision_on(record: Record) -> tuple[str, str] | None:
    """`approved` or `denied`, and by whom, when and why; None: the call has no decision."""
    given = record.approval
    if given is None or given.get("approved") is None:
        return None
    decision = "approved" if given["approved"] else "denied"
    when = f", {ago(given['at'])}" if given.get("at") else ""
    why = f": {short(given['reason'], 200)}" if given.get("reason") else ""
    edited = ", with other arguments" if given.get("edited") else ""
    return decision, f"by {short(given.get('by') or 'unknown', 60)}{when}{edited}{why}"


def resolution_of(record: Record) -> str:
    """How an unknown outcome was settled, by whom, when and why; empty: it was not."""
    given = record.resolution
    if given is None:
        return ""
    what = "it happened" if given["happened"] else "it did not happen"
    again = f", runs again as {short(given['rerun_as'], 120)}" if given.get("rerun_as") else ""
    note = f": {short(given['note'], 400)}" if given.get("note") else ""
    return f"settled by {short(given.get('by') or 'unknown', 60)}, {ago(given['at'])}: {what}{again}{note}"


def with_type(error: ToolError) -> str:
    """The message with the exception's type where the message alone says too little (`KeyError: 'id'`)."""
    return str(error).removeprefix(f"{error.code}: ")


def what_happened(event: Event, width: int = 100) -> Text:
    """An event in a few words."""
    data = event.data
    describe = DESCRIPTIONS.get(event.type)
    return describe(data, width) if describe is not None else Text(short(data, width))


def _created(data: dict[str, Any], width: int) -> Text:
    if "refused" in data:
        return Text(f"{clean(data['tool'])}, arguments refused ({data['refused'].get('size')} bytes)")
    return Text(f"{clean(data['tool'])} {short(data.get('arguments'), width)}")


def _state_changed(data: dict[str, Any], width: int) -> Text:
    state = State(data["to"])
    text = as_state(state)
    error = data.get("error")
    if state is State.RETRYING:
        delay = data.get("delay")
        when = f" in {duration(delay)}" if delay is not None else " when it is approved"
        text.append(f"  attempt {data.get('attempt', 0) + 1}{when}", style="yellow")
    if error:
        text.append(f"  {clean(error['code'])}: {short(error['message'], width)}", style="red")
    elif data.get("waiting_for"):
        text.append(f"  waiting for {clean(data['waiting_for'])}")
    elif state is State.COMPLETED:
        output = data.get("content") if data.get("truncated") else data.get("output")
        text.append(f"  {short(output, width)}")
    if state.is_terminal and "duration" in data:
        text.append(f"  {duration(data['duration'])}", style="bright_black")
    return text


def _stage_ended(data: dict[str, Any], width: int) -> Text:
    style = "" if data["outcome"] == "ok" else "red"
    return Text(clean(f"{data['stage']} {data['outcome']}"), style=style).append(
        f"  {duration(data['duration'])}", style="bright_black"
    )


def _progress(data: dict[str, Any], width: int) -> Text:
    percentage = data.get("percentage")
    total = f"/{data['total_steps']:g}" if data.get("total_steps") is not None else ""
    share = f"{percentage:.0f} %  " if percentage is not None else ""
    left = data.get("estimated_time_remaining")
    text = Text(f"{share}{data['step']:g}{total}  {short(data.get('status', ''), width)}")
    return text.append(f"  {duration(left)} left", style="bright_black") if left else text


def _approval_given(data: dict[str, Any], width: int) -> Text:
    decision = "approved" if data.get("approved") else "denied"
    by = data.get("by") or "unknown"
    edited = f" with {short(data['arguments'], width)}" if "arguments" in data else ""
    why = f": {short(data['reason'], width)}" if data.get("reason") else ""
    return Text(f"{decision} by {short(by, 40)}{edited}{why}")


def _approval_requested(data: dict[str, Any], width: int) -> Text:
    why = f": {short(data['reason'], width)}" if data.get("reason") else ""
    return Text(f"waiting for approval{why}")


def _late_result(data: dict[str, Any], width: int) -> Text:
    if data.get("error"):
        return Text(f"came too late: {short(data['error'].get('message', ''), width)}")
    return Text(f"came too late: {short(data.get('output'), width)}")


def _resolved(data: dict[str, Any], width: int) -> Text:
    what = "it happened" if data.get("happened") else "it did not happen"
    output = f" and returned {short(data['output'], width)}" if data.get("output") is not None else ""
    again = f", runs again as {short(data['rerun_as'], 120)}" if data.get("rerun_as") else ""
    note = f": {short(data['note'], width)}" if data.get("note") else ""
    return Text(f"settled by {short(data.get('by') or 'unknown', 40)}: {what}{output}{again}{note}")


def _reported(data: dict[str, Any], width: int) -> Text:
    if data.get("error"):
        return Text(f"failed outside: {short(data['error'].get('message', ''), width)}", style="red")
    return Text(f"completed outside: {short(data.get('output'), width)}")


def _reconcile_ended(data: dict[str, Any], width: int) -> Text:
    why = data.get("reason") or (data.get("error") or {}).get("message", "")
    found = str(data.get("outcome", "")).replace("_", " ")
    return Text(f"the tool's check: {found}{f': {short(why, width)}' if why else ''}")


def on_worker(data: Mapping[str, Any]) -> str:
    """Where an attempt ran, by the data of `attempt_started`."""
    return f" on {short(data['worker'], 60)}" if data.get("worker") else ""


DESCRIPTIONS: dict[str, Callable[[dict[str, Any], int], Text]] = {
    "created": _created,
    "state_changed": _state_changed,
    "stage_ended": _stage_ended,
    "attempt_started": lambda data, width: Text(f"attempt {data['attempt']}{on_worker(data)}"),
    "output": lambda data, width: Text(short(data.get("content"), width), style="green"),
    "progress": _progress,
    "heartbeat": lambda data, width: Text("alive", style="bright_black"),
    "cancel_requested": lambda data, width: Text(short(data.get("reason") or "asked to stop", width), style="yellow"),
    "approval_requested": _approval_requested,
    "approval_given": _approval_given,
    "late_result": _late_result,
    "resolved": _resolved,
    "reported": _reported,
    "reconcile_started": lambda data, width: Text(f"asks the tool's check, try {data.get('try', 1)}{on_worker(data)}"),
    "reconcile_ended": _reconcile_ended,
    "note": lambda data, width: Text(short(data.get("text", ""), width)),
}
