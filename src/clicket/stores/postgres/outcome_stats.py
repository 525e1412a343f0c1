"""What ending calls add to standings and figures, as the functions of the server take it.

Outcomes of one group that touch the same row are put together here, so that the server touches it once. That is right only if
all of them count: when the server finds one that does not, it refuses the group, which is then sent with each tally alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from clicket.ports import Append, OutcomeStats

__all__ = ["NOT_ALL_COUNT", "clean", "place_of", "runs_of"]

NOT_ALL_COUNT = "CK003"

_encode = msgspec.json.Encoder().encode


class _Run(msgspec.Struct, gc=False):
    """A row of the functions' `runs`: tallies of one tool in one thread, in the order in which they were handed over."""

    unit: int
    """Of the first of them."""
    place: str
    tool: str
    caller: str
    thread: str
    completions: int = 0
    failures: int = 0
    streak: int = 0
    """How many failed at its end."""
    first_success_at: float | None = None
    last_success_at: float | None = None
    last_failure_at: float | None = None
    last_error: str = ""
    updated_at: float = 0.0
    writes: int = 0
    mended: bool = False
    """One of them completed: what failed in a row before it is over."""

    def add(self, stats: OutcomeStats) -> None:
        self.updated_at = at = stats.at
        self.writes += 1
        if stats.effect == "failed":
            self.failures += 1
            self.streak += 1
            self.last_failure_at, self.last_error = at, clean(stats.cause)
            return
        self.completions += 1
        self.last_success_at = at
        if self.first_success_at is None:
            self.first_success_at = at
        if stats.effect == "completed":
            self.streak, self.mended = 0, True


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
    changes: Sequence[Append], turns: Sequence[int], *, alone: bool = False
) -> tuple[str | None, str | None, bool]:
    """`runs` and `sums` of those units that end their calls, and whether each row is of one unit. `turns`: the order in which
    they were handed over. Rows are in one order for everybody: groups that wait for each other's rows would wait for ever."""
    runs: dict[tuple[str, str, int], _Run] = {}
    sums: dict[tuple[str, int], _Sum] = {}
    number = 0
    for turn, unit in sorted(zip(turns, range(1, len(changes) + 1), strict=True)):
        change = changes[unit - 1]
        stats = change.stats
        if stats is None or change.ended_at is None or (change.expect and change.fence == -1):
            continue
        number += 1
        apart = turn if alone else 0
        error = clean(stats.error)
        label = _label(change.call.caller, stats.tool, stats.outcome, error, stats.bucket)
        known = sums.get((label, apart))
        if known is None:
            names = (label, change.call.caller, stats.tool, stats.outcome, error, stats.bucket)
            known = sums[label, apart] = _Sum(unit, *names)
        known.add(stats.seconds)
        if stats.effect == "none" or not stats.tool:
            continue
        place = place_of(change.call.thread, change.call.caller)
        run = runs.get((place, stats.tool, apart))
        if run is None:
            run = runs[place, stats.tool, apart] = _Run(unit, place, stats.tool, change.call.caller, change.call.thread)
        run.add(stats)
    return _rows(runs), _rows(sums), alone or number < 2


def _rows(rows: dict[tuple[str, int], _Sum] | dict[tuple[str, str, int], _Run]) -> str | None:
    return _encode([row for _, row in sorted(rows.items())]).decode() if rows else None


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
    """Words for people must not keep a call from being stored: what PostgreSQL takes no text with is replaced."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")
