"""Figures of a period, counted from the calls in the journal.

Stores add figures up as calls end, and keep the sums for ever; the journal keeps calls as long as retention says. For calls that are
all still in the journal both have the same counts, and the same seconds except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from clicket.errors import StoreUnavailable, UsageError
from clicket.model import Record, read
from clicket.model.figures import Figure, bucket_of, error_label
from clicket.model.ports import CountsEnded, Query, Store
from clicket.telemetry.report import UNKNOWN
from clicket.telemetry.turns import is_turn

__all__ = ["figures_in", "from_journal", "of_journal", "run_time"]

_PAGE = 100  # calls carry their whole results
_ENDED_PAGE = 1_000
"""One thread serves all reads of a store, so a page must not take long."""
_Key = tuple[str, str, str, str, int | None]


def from_journal(records: Iterable[Record]) -> list[Figure]:
    """Figures of the records that have ended. Records that cannot be read have no events, and are not counted."""
    sums = _Sums()
    for record in records:
        sums.add(record)
    return sums.figures()


async def of_journal(
    store: Store, *, caller: str | None = None, tool: str | None = None, since: float | None = None
) -> list[Figure]:
    """Figures of the calls that were made since then and have ended. Reads them page by page."""
    if isinstance(store, CountsEnded):
        return await _of_ended(store, caller=caller, tool=tool, since=since or 0.0)
    sums = _Sums()
    before = None
    while True:
        found = await store.history(Query(caller=caller, tool=tool, since=since, before=before, limit=_PAGE))
        for stored in found:
            if stored.damaged is None:
                try:
                    sums.add(read(stored.id, stored.events))
                except StoreUnavailable:  # one damaged call must not hide the others
                    continue
        if len(found) < _PAGE:
            return sums.figures()
        before = found[-1].key


async def _of_ended(store: CountsEnded, *, caller: str | None, tool: str | None, since: float) -> list[Figure]:
    sums = _Sums()
    before = None
    while True:
        found = await store.ended(caller=caller, tool=tool, since=since, before=before, limit=_ENDED_PAGE)
        for each in found:
            if each.outcome:
                sums.count((each.caller, each.tool, each.outcome, each.error), each.seconds)
        if len(found) < _ENDED_PAGE:
            return sums.figures()
        before = found[-1].key


async def figures_in(
    store: Store, *, caller: str | None = None, tool: str | None = None, since: float | None = None
) -> list[Figure]:
    """Without `since`: the store's sums, since it was made. With `since`: calls made since then, counted from the journal.

    `tool` may be `(unknown)`, for calls of tools that were not registered, or `agent:NAME`, for an agent's turns. Turns are left out
    otherwise: they take as long as their tools and the model.
    """
    if since is not None and not isfinite(since):
        raise UsageError(f"since must be seconds since the epoch, not {since!r}.")
    if since is None:
        found = await store.figures(caller)
    else:
        found = await of_journal(store, caller=caller, tool=None if tool == UNKNOWN else tool, since=since)
    if tool is None:
        return [figure for figure in found if not is_turn(figure)]
    return [figure for figure in found if (figure.tool or UNKNOWN) == tool]


class _Sums:
    """Sums of counts and seconds."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[int, float, float, float]] = {}

    def add(self, record: Record) -> None:
        if not record.state.is_terminal or not record.events:
            return
        tool = record.tool if "tool_version" in record.events[0].data else ""
        error = "" if record.error is None else error_label(record.error.code, record.error.type)
        self.count((record.caller, tool, record.state.value, error), run_time(record))

    def count(self, kind: tuple[str, str, str, str], seconds: float | None) -> None:
        key = (*kind, None if seconds is None else bucket_of(seconds))
        took = seconds or 0.0
        count, total, least, most = self._known.get(key, (0, 0.0, took, took))
        self._known[key] = (count + 1, total + took, min(least, took), max(most, took))

    def figures(self) -> list[Figure]:
        return [
            Figure(
                caller=caller, tool=tool, outcome=outcome, error=error, bucket=bucket,
                count=count, seconds=total, least=least, most=most,
            )
            for (caller, tool, outcome, error, bucket), (count, total, least, most) in self._known.items()
        ]  # fmt: skip


def run_time(record: Record) -> float | None:
    """The seconds that the figures count: those of the execute stage, unless the result came from the cache."""
    stage = record.stages.get("execute")
    return None if stage is None or record.cached else stage.duration
