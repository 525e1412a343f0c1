"""Listing calls: the options of `history` as a query to the store, and stored calls as a page of records.

A page looks at a limited number of calls, whatever is asked for: a search for what no index has ends there, says how far it got, and
continues with the page's cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from clicket.errors import StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import Page, Record, ToolError, read
from clicket.model.ports import Calls, Query, ScanEnd, Stored, scan_end_in

__all__ = ["MAX_SCANNED", "HistoryOptions", "bounded", "find_calls", "history_query", "page_of"]


def _record_of(stored: Stored) -> Record:
    """The record of a stored call. A damaged call gets a record with the reason, so that the others can be listed."""
    why = stored.damaged
    if why is None:
        try:
            return read(stored.id, stored.events)
        except StoreUnavailable as nonsense:
            why = nonsense.message
    error = ToolError(code="store_unavailable", message=f"the call cannot be read: {why}", type="Damaged")
    return Record(id=stored.id, tool="", thread="", state=State.FAILED, created_at=0.0, error=error)


class HistoryOptions(TypedDict, total=False):
    """Which calls `history` lists."""

    thread: str | None
    tool: str | None
    state: State | str | Iterable[State | str] | None
    """One state, or several."""
    since: float | None
    """Made at or after this time, in seconds since the epoch."""
    until: float | None
    """Made before this time."""
    active: bool
    """Only calls that have not ended."""
    waiting_for: str | None
    """Only calls that wait for this, such as `approval`; turns of agents can wait for `dep:NAME` and `model:NAME`."""
    code: str | None
    """Only calls that this error code ended."""
    request_id: str | None
    metadata: Mapping[str, Any] | None
    """Only calls whose metadata has these values. A text also matches a value of another type whose JSON is that text."""
    id_contains: str | None
    order: Literal["asc", "desc"]
    """`desc`, the newest first, is the default."""


MAX_SCANNED = 10_000
"""Calls that one page looks at. What no index finds is searched in as many pages as it takes, each with its cursor."""


async def find_calls(
    store: Calls, caller: str | None, limit: int, cursor: str | None, state: Any = None, **which: Any
) -> Page:
    """A page of calls. Each of several states is a question of its own; together the answers are the page, as each has enough for it."""
    states: list[Any] = [state] if state is None or isinstance(state, str) else list(dict.fromkeys(state))
    if not states:
        raise UsageError("state is an empty list, which no call matches. Name one state or several, or leave it out.")
    queries = [history_query(caller, limit, cursor, state=each, **which) for each in states]
    ends = [await scan_end_in(store, query, MAX_SCANNED) for query in queries]
    end = nearest((each for each in ends if each is not None), ascending=queries[0].ascending)
    found = [stored for query in queries for stored in await store.history(bounded(query, end))]
    if len(queries) > 1:
        once = {stored.key: stored for stored in found}  # a call may have changed its state in between
        found = sorted(once.values(), key=lambda stored: stored.key, reverse=not queries[0].ascending)[: limit + 1]
    return page_of(found, limit, end)


def nearest(ends: Iterable[ScanEnd], *, ascending: bool) -> ScanEnd | None:
    """The one that a search comes to first."""
    return (min if ascending else max)(ends, key=lambda end: end.key, default=None)


def bounded(query: Query, end: ScanEnd | None) -> Query:
    """The query up to where its search ends."""
    if end is None:
        return query
    if query.ascending:
        return msgspec.structs.replace(query, before=end.key + 1)
    return msgspec.structs.replace(query, after=end.key - 1)


def page_of(found: Sequence[Stored], limit: int, end: ScanEnd | None = None) -> Page:
    """A page of what a store found for `history_query`. `end`: where the search ended, if it was limited."""
    items = [_record_of(stored) for stored in found[:limit]]
    if len(found) > limit:
        return Page(items=items, cursor=str(found[limit - 1].key))
    if end is not None:
        return Page(items=items, cursor=str(end.key), searched_to=end.created_at)
    return Page(items=items)


def history_query(
    caller: str | None,
    limit: int,
    cursor: str | None,
    *,
    order: str = "desc",
    metadata: Mapping[str, Any] | None = None,
    state: Any = None,
    **plain: Any,
) -> Query:
    """The query of `history`: for one call more than `limit`, which shows whether there is another page."""
    if unknown := set(plain) - set(HistoryOptions.__annotations__):
        name = min(unknown)
        raise UsageError(f"history has no option {name!r}.{did_you_mean(name, HistoryOptions.__annotations__)}")
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    if order not in ("asc", "desc"):
        raise UsageError(f"order must be asc or desc, not {order!r}.")
    try:
        wanted = None if state is None else State(state)
    except ValueError:
        raise UsageError(f"state must be one of {', '.join(State)}, not {state!r}.") from None
    try:
        place = None if cursor is None else int(cursor)
        if place is not None and not 0 <= place < 1 << 63:
            raise ValueError(cursor)
    except (ValueError, TypeError):
        raise UsageError(f"cursor must be the cursor of a page, not {cursor!r}.") from None
    ascending = order == "asc"
    return Query(
        caller=caller,
        state=wanted,
        limit=limit + 1,
        metadata=tuple((metadata or {}).items()),
        ascending=ascending,
        after=place if ascending else None,
        before=None if ascending else place,
        **plain,
    )
