"""Time series of calls: outcomes, errors, run times and queue lengths, by the minute, kept in the store.

The store adds figures up as calls end. A sampler looks at the sums once a minute and keeps the difference, so no call costs more for it.
All processes over a store have one head, a document with the sums at the last look; a sampler that replaces it by compare-and-set has
taken the minute, and every ended call is in exactly one minute. Minutes older than a day are added up by the hour.

Differences since the last look are counted into the minute that is under way, so a chart is never late.
"""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from math import isfinite
from typing import TypeVar, get_args
from zlib import compress, decompress

import msgspec

from clicket.errors import StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import read
from clicket.model.codec import encode
from clicket.model.ports import Query, Store
from clicket.telemetry.series_rows import (
    Metric,
    Queue,
    Row,
    SeriesPoint,
    Slice,
    Sums,
    added,
    grown,
    kept_sums,
    point_of,
    sums_of,
)

__all__ = ["SAMPLE_EVERY", "Sampler", "Series", "series_in", "slices_in"]

logger = logging.getLogger("clicket.telemetry")
T = TypeVar("T")
SAMPLE_EVERY = 10.0
"""Seconds between two looks at the clock. The store is read in the first look of a minute."""
MINUTE = 60
HOUR = 3600
MAX_POINTS = 2_000
_DAY = 24 * HOUR
_MAX_QUEUE = 1_000
_PAGE = 500
_HEAD, _MINUTES, _HOURS = "series.head", "series.minute", "series.hour"
_KEY = "head"
_MAX_SKEW = HOUR
_ROLLED_AT_ONCE = 3


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Points at equal steps, from the oldest. Times are seconds since the epoch.

    `calls`: completed, failed, timeout, cancelled, total. `errors`: each error code, total. `latency`: count, mean, p50, p95, in seconds;
    None without a timed call. `queue`: calls that wait to be started, `length` at the end of the step and its `max`.
    """

    metric: str
    tool: str | None
    since: float
    until: float
    step: int
    points: list[SeriesPoint]


class _Last(msgspec.Struct, frozen=True, kw_only=True):
    """A slice that the head announces: it is written as a document of its own afterwards."""

    key: str
    slice: Slice


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    minute: int
    """The minute in which the sums were read."""
    rows: list[Row] = []
    last: _Last | None = None


class _Hour(msgspec.Struct, frozen=True, kw_only=True):
    slice: Slice
    keys: list[str]
    """The minutes that are in it."""


class Sampler:
    """`now` is the runtime's clock. `retention`: seconds for which hours are kept."""

    def __init__(self, store: Store, now: Callable[[], float], *, retention: float) -> None:
        self._store = store
        self._now = now
        self._retention = retention
        self._looked = -1

    async def sample(self) -> None:
        """Keep what has happened since the last look of any process, if this minute has not been looked at."""
        minute = _minute_of(self._now())
        if minute == self._looked:
            return
        head, version = await _head_in(self._store)
        if head is not None and minute <= head.minute <= minute + _MAX_SKEW:
            self._looked = minute
            return
        if head is not None and head.last is not None:  # its sampler may have died before it was written
            await self._store.put_document(_MINUTES, head.last.key, encode(head.last.slice), 0)
        sums = sums_of(await self._store.figures())
        rows = await _since(self._store, head, sums, minute)
        queue = await _queue_in(self._store)
        if head is None or rows or queue:
            start = await _start_of(self._store, head, minute)
            last = _Last(key=f"{start:011d}.{version}", slice=Slice(rows=rows, queue=queue))
            new = _Head(minute=minute, rows=[(*kind, *sum) for kind, sum in sums.items()], last=last)
            if await self._store.put_document(_HEAD, _KEY, _packed(new), version):
                await self._store.put_document(_MINUTES, last.key, encode(last.slice), 0)
        self._looked = minute
        await self._roll_up(minute)

    async def _roll_up(self, minute: int) -> None:
        """Add old minutes up to hours, and remove old hours."""
        store = self._store
        for _ in range(_ROLLED_AT_ONCE):
            first = await store.documents(_MINUTES, limit=1)
            if not first or _time_of(first[0].key) >= minute - _DAY - HOUR:
                break
            hour = _time_of(first[0].key) // HOUR * HOUR
            found = [each for each in await store.documents(_MINUTES, limit=_PAGE) if _time_of(each.key) < hour + HOUR]
            name = f"{hour:011d}"
            document = await store.document(_HOURS, name)
            kept = None if document is None else _decoded(document.body, _Hour)
            known = kept or _Hour(slice=Slice(), keys=[])
            new = [each for each in found if each.key not in known.keys]
            slices = [_decoded(each.body, Slice) or Slice() for each in new]
            whole = _Hour(slice=added([known.slice, *slices]), keys=[*known.keys, *(each.key for each in new)])
            if not await store.put_document(_HOURS, name, encode(whole), 0 if document is None else document.version):
                break  # another process does it
            for each in found:
                await store.delete_document(_MINUTES, each.key)
        for old in await store.documents(_HOURS, limit=_ROLLED_AT_ONCE):
            if _time_of(old.key) < minute - self._retention:
                await store.delete_document(_HOURS, old.key)


async def series_in(
    store: Store,
    metric: Metric,
    *,
    now: float,
    caller: str | None = None,
    tool: str | None = None,
    since: float | None = None,
    until: float | None = None,
    step: int = MINUTE,
) -> Series:
    """Points of one metric, of one caller or of all."""
    _check(metric, since, until, step)
    end = min(now if until is None else until, now)
    start = int((end - HOUR if since is None else since) // step * step)
    if (end - start) / step > MAX_POINTS:
        raise UsageError(
            f"from {start} to {end:.0f} are more than {MAX_POINTS:,} steps of {step} s. Use a longer step."
        )
    slices: dict[int, list[Slice]] = {}
    for at, found in await _slices_in(store, start, end, _minute_of(now)):
        slices.setdefault(int(at // step * step), []).append(found)
    points = [
        point_of(metric, float(at), added(slices.get(at, [])), tool=tool, caller=caller)
        for at in range(start, max(int(end), start) + 1, step)
    ]
    return Series(metric=metric, tool=tool, since=float(start), until=end, step=step, points=points)


def _check(metric: str, since: float | None, until: float | None, step: int) -> None:
    known = get_args(Metric)
    if metric not in known:
        raise UsageError(f"metric must be one of {', '.join(known)}, not {metric!r}.{did_you_mean(str(metric), known)}")
    for name, value in (("since", since), ("until", until)):
        if value is not None and not (isfinite(value) and 0 <= value <= 1e11):
            raise UsageError(f"{name} must be seconds since the epoch, not {value!r}.")
    if type(step) is not int or not MINUTE <= step <= _DAY or step % MINUTE:
        raise UsageError(f"step must be a multiple of {MINUTE} from {MINUTE} to {_DAY:,} seconds, not {step!r}.")


async def slices_in(store: Store, start: int, now: float) -> list[tuple[int, Slice]]:
    """What happened from `start` until now, of all callers: the begin of each slice, and the slice."""
    return await _slices_in(store, start, now, _minute_of(now))


async def _slices_in(store: Store, start: int, end: float, minute: int) -> list[tuple[int, Slice]]:
    """Slices that begin in this time, and what has happened since the last look, in order."""
    found: list[tuple[int, Slice]] = []
    in_hours: set[str] = set()
    for key, body in await _all(store, _HOURS, start // HOUR * HOUR, end):
        hour = _decoded(body, _Hour)
        if hour is not None:
            in_hours.update(hour.keys)
            found.append((_time_of(key), hour.slice))
    minutes = dict(await _all(store, _MINUTES, start, end))
    head, _ = await _head_in(store)
    if head is not None and head.last is not None:
        minutes.setdefault(head.last.key, encode(head.last.slice))
    for key, body in sorted(minutes.items()):
        part = None if key in in_hours else _decoded(body, Slice)
        if part is not None and start <= _time_of(key) <= end:
            found.append((_time_of(key), part))
    if end >= minute:
        rows = await _since(store, head, sums_of(await store.figures()), minute)
        found.append((minute, Slice(rows=rows, queue=await _queue_in(store))))
    return found


async def _all(store: Store, kind: str, start: int, end: float) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    after = f"{start - 1:011d}~" if start > 0 else ""
    while True:
        page = await store.documents(kind, after=after, limit=_PAGE)
        found += [(each.key, each.body) for each in page if start <= _time_of(each.key) <= end]
        if len(page) < _PAGE or _time_of(page[-1].key) > end:
            return found
        after = page[-1].key


async def _since(store: Store, head: _Head | None, sums: Sums, minute: int) -> list[Row]:
    """What was added since the last look. Without one: everything if the store is new, else nothing, because it happened long ago."""
    if head is not None:
        return grown(kept_sums(head.rows), sums)
    oldest = await store.history(Query(ascending=True, limit=1))
    is_new = bool(oldest) and bool(oldest[0].events) and oldest[0].events[0].at >= minute - HOUR
    return grown({}, sums) if is_new else []


async def _start_of(store: Store, head: _Head | None, minute: int) -> int:
    """The minute to which the difference belongs. After a time without samplers: that in which the newest call moved last."""
    if head is not None and head.minute >= minute - MINUTE:
        return head.minute
    newest = await store.history(Query(limit=1))
    moved = _minute_of(newest[0].events[-1].at) if newest and newest[0].events else minute
    return min(max(moved, 0 if head is None else head.minute), minute)


async def _queue_in(store: Store) -> list[Queue]:
    """How many calls wait to be started, by caller and tool; at most 1,000 are counted."""
    lengths: dict[tuple[str, str], int] = {}
    for stored in await store.history(Query(state=State.PENDING, limit=_MAX_QUEUE)):
        if stored.damaged is None and stored.events:
            try:
                record = read(stored.id, stored.events)
            except StoreUnavailable:  # one damaged call must not hide the others
                continue
            if record.waiting_for is None:
                lengths[record.caller, record.tool] = lengths.get((record.caller, record.tool), 0) + 1
    return [(*name, length) for name, length in sorted(lengths.items())]


async def _head_in(store: Store) -> tuple[_Head | None, int]:
    """The head and its version; a head that another program wrote is replaced."""
    document = await store.document(_HEAD, _KEY)
    return (None, 0) if document is None else (_unpacked(document.body), document.version)


def _packed(head: _Head) -> bytes:
    """Documents are JSON. There may be many rows, which look alike."""
    return encode({"z": b64encode(compress(encode(head), 1)).decode()})


def _unpacked(body: bytes) -> _Head | None:
    try:
        packed = msgspec.json.decode(body, type=dict[str, str])
        return msgspec.json.decode(decompress(b64decode(packed["z"])), type=_Head)
    except Exception as error:  # whatever is in there
        logger.warning("the head of the time series cannot be read (%s); a new one is begun", error)
        return None


def _decoded(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError:
        return None


def _minute_of(time: float) -> int:
    return int(time // MINUTE * MINUTE)


def _time_of(key: str) -> int:
    """When a slice begins, by its key."""
    digits = key.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0
