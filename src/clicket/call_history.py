"""Listing calls: the options of `history` as a query to the store, and stored calls as a page of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from clicket.errors import StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import Page, Record, ToolError, read
from clicket.ports import Query, Store, Stored

__all__ = ["HistoryOptions", "find_calls", "history_query"]


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
    """Only calls that wait for this; `approval` is the only value."""
    code: str | None
    """Only calls that this error code ended."""
    request_id: str | None
    metadata: Mapping[str, Any] | None
    """Only calls whose metadata has these values. A text also matches a value of another type whose JSON is that text."""
    id_contains: str | None
    order: Literal["asc", "desc"]
    """`desc`, the newest first, is the default."""


async def find_calls(
    store: Store, caller: str | None, limit: int, cursor: str | None, state: Any = None, **which: Any
) -> Page:
    """A page of calls. Each of several states is a question of its own; together the answers are the page, as each has enough for it."""
    states: list[Any] = [state] if state is None or isinstance(state, str) else list(dict.fromkeys(state))
    queries = [history_query(caller, limit, cursor, state=each, **which) for each in states]
    if len(queries) == 1:
        return _page_of(await store.history(queries[0]), limit)
    found = [stored for query in queries for stored in await store.history(query)]
    once = {stored.key: stored for stored in found}  # a call may have changed its state in between
    return _page_of(
        sorted(once.values(), key=lambda stored: stored.key, reverse=which.get("order") != "asc")[: limit + 1], limit
    )


def _page_of(found: Sequence[Stored], limit: int) -> Page:
    """A page of what a store found for `history_query`."""
    cursor = str(found[limit - 1].key) if len(found) > limit else None
    return Page(items=[_record_of(stored) for stored in found[:limit]], cursor=cursor)


def history_query(
    caller: str | None, limit: int, cursor: str | None, *, order: str = "desc", metadata: Mapping[str, Any] | None = None,
    state: Any = None, **plain: Any,
) -> Query:  # fmt: skip
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
        caller=caller, state=wanted, limit=limit + 1, metadata=tuple((metadata or {}).items()), ascending=ascending,
        after=place if ascending else None, before=None if ascending else place, **plain,
    )  # fmt: skip
