"""What ending calls add to tool health and figures, as the functions of the server take it.

Outcomes of one group that change the same row are put together here, so that the server writes it once. That is right only if
all of them count: when the server finds one that does not, it refuses the group, which is then sent with each outcome alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from clicket.model.ports import SHARED_PLACE, Append, OutcomeStats, ToolHealth, health_after
from clicket.model.ports.health import HEALTH_LAW

__all__ = ["NOT_ALL_COUNT", "clean", "place_of", "runs_of"]

NOT_ALL_COUNT = "CK003"

_encode = msgspec.json.Encoder().encode


class _Run(msgspec.Struct, gc=False):
    """A row of the functions' `runs`: outcomes of one tool in one thread, in the order in which they were handed over. Health that
    starts from nothing is what they add to the stored health; `mended` says whether the failures in a row start anew, whatever
    version of the tool the stored ones are of."""

    unit: int
    """Of the first of them."""
    place: str
    tool: str
    caller: str
    thread: str
    added: ToolHealth
    mended: bool = False

    def add(self, stats: OutcomeStats) -> None:
        before = self.added
        self.added = health_after(before, stats)
        changed = before.failures > 0 and self.added.tool_version != before.tool_version
        self.mended = self.mended or changed or HEALTH_LAW[stats.effect].get("consecutive_failures") == "zero"

    def row(self) -> dict[str, object]:
        added = self.added
        return {
            "unit": self.unit,
            "place": self.place,
            "tool": self.tool,
            "caller": self.caller,
            "thread": self.thread,
            "completions": added.completions,
            "failures": added.failures,
            "streak": added.consecutive_failures,
            "first_success_at": added.first_success_at,
            "last_success_at": added.last_success_at,
            "last_failure_at": added.last_failure_at,
            "last_error": clean(added.last_error),
            "updated_at": added.updated_at,
            "writes": added.version,
            "mended": self.mended,
            "tool_version": clean(added.tool_version),
        }


class _Sum(msgspec.Struct, gc=False):
    """A row of the functions' `sums`: calls that ended alike."""

    unit: int
    label: str
    caller: str
    tool: str
    outcome: str
    error: str
    bucket: int | None
    count: int = 0
    seconds: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)


def runs_of(
    changes: Sequence[Append], order: Sequence[int], *, alone: bool = False
) -> tuple[str | None, str | None, bool]:
    """`runs` and `sums` of those units that end their calls, and whether each row is of one unit. `order`: the order in which
    they were handed over. Rows are in one order in all processes, so that groups cannot deadlock."""
    runs: dict[tuple[str, str, int], _Run] = {}
    sums: dict[tuple[str, int], _Sum] = {}
    number = 0
    for position, unit in sorted(zip(order, range(1, len(changes) + 1), strict=True)):
        change = changes[unit - 1]
        stats = change.stats
        if stats is None or change.ended_at is None or (change.expect and change.fence == -1):
            continue
        number += 1
        apart = position if alone else 0
        error = clean(stats.error)
        label = _label(change.call.caller, stats.tool, stats.outcome, error, stats.bucket)
        known = sums.get((label, apart))
        if known is None:
            kind = (label, change.call.caller, stats.tool, stats.outcome, error, stats.bucket)
            known = sums[label, apart] = _Sum(unit, *kind)
        known.add(stats.seconds)
        if stats.effect == "none" or not stats.tool:
            continue
        places = [(change.call.caller, change.call.thread)]
        if stats.shared:
            places.append(SHARED_PLACE)
        for caller, thread in places:
            place = place_of(thread, caller)
            run = runs.get((place, stats.tool, apart))
            if run is None:
                names = (stats.tool, caller, thread)
                run = runs[place, stats.tool, apart] = _Run(unit, place, *names, ToolHealth(tool=stats.tool))
            run.add(stats)
    health = [run.row() for _, run in sorted(runs.items(), key=lambda item: item[0])]
    figures = [known for _, known in sorted(sums.items(), key=lambda item: item[0])]
    return _json(health), _json(figures), alone or number < 2


def _json(rows: Sequence[object]) -> str | None:
    return _encode(rows).decode() if rows else None


@lru_cache(maxsize=4096)
def place_of(thread: str, caller: str) -> str:
    """Thread and caller in 16 bytes, as hex: names of any length must fit into one entry of an index."""
    return _hash(thread, caller)


@lru_cache(maxsize=4096)
def _label(caller: str, tool: str, outcome: str, error: str, bucket: int | None) -> str:
    return _hash(caller, tool, outcome, error, "" if bucket is None else str(bucket))


def _hash(*names: str) -> str:
    """Lengths keep names apart that would run together; the last needs none."""
    *parts, last = (name.encode() for name in names)
    text = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return blake2b(text + last, digest_size=16).hexdigest()


def clean(text: str) -> str:
    """Text for people must not keep a call from being stored: characters that PostgreSQL refuses are replaced."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")
