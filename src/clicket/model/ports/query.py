"""Which calls to list. Stores filter by what they have columns or lists for; `picked` filters the rest by the calls' events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from clicket.kernel import State
from clicket.model import Event
from clicket.model.codec import encode

__all__ = ["LimitsScans", "Query", "ScanEnd", "picked", "scan_end_in"]

_STEP = 200
_STATES = {"timeout": State.TIMEOUT, "cancelled": State.CANCELLED}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to list. Newest first; `before` is the key to continue below. Or oldest first; `after` is the key to continue above."""

    thread: str | None = None
    tool: str | None = None
    state: State | None = None
    since: float | None = None
    until: float | None = None
    """Only calls that were made before this time."""
    caller: str | None = None
    id_prefix: str | None = None
    id_contains: str | None = None
    waiting_for: str | None = None
    """Only calls that wait for this, such as `approval` or `credential`."""
    active: bool = False
    limit: int = 100
    before: int | None = None
    after: int | None = None
    ascending: bool = False
    """The oldest first."""
    code: str | None = None
    """The code of the error that ended the call."""
    request_id: str | None = None
    metadata: tuple[tuple[str, Any], ...] = ()
    """Keys and values that the call's metadata has. A text also finds a value of another type that is written so in JSON."""

    mentions: tuple[bytes, ...] = ()
    """JSON that the first or the last unit of every wanted call contains: a store may use it to read fewer calls."""

    @property
    def by_content(self) -> bool:
        """Do the calls' events have to be read?"""
        return self.code is not None or self.request_id is not None or bool(self.metadata)

    @property
    def outcome(self) -> State | None:
        """The state that the code implies."""
        return None if self.code is None else _STATES.get(self.code, State.FAILED)

    def picks(self, events: Sequence[Event]) -> bool:
        """Does the content fit? A call that cannot be read has no events, and does not."""
        if not events:
            return False
        first = events[0].data
        if self.request_id is not None and first.get("request_id") != self.request_id:
            return False
        last = next((event.data for event in reversed(events) if event.is_terminal), {})
        if self.code is not None and _mapping(last.get("error")).get("code") != self.code:
            return False
        metadata = {**_mapping(first.get("metadata")), **_mapping(last.get("metadata"))}
        return all(name in metadata and _fits(metadata[name], wanted) for name, wanted in self.metadata)


def _mapping(value: Any) -> dict[str, Any]:
    """What another program wrote may be anything."""
    return value if isinstance(value, dict) else {}


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) and not isinstance(value, str):
        return encode(value).decode() == wanted
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _mentions(query: Query) -> tuple[bytes, ...]:
    texts = [query.request_id] if query.request_id is not None else []
    texts += [name for name, _ in query.metadata]
    # A text may be a value of another type as JSON: it is looked for without its quotes, and not if it has some inside.
    texts += [value for _, value in query.metadata if isinstance(value, str) and '"' not in value]
    return tuple(encode(text)[1:-1] for text in texts)


class _Found(Protocol):
    key: int

    @property
    def events(self) -> list[Event]: ...


Call = TypeVar("Call", bound=_Found)


async def picked(
    query: Query, find: Callable[[Query], Awaitable[list[Call]]], *, has_columns: bool = False
) -> list[Call]:
    """Calls whose content fits, found by reading those that fit the rest of the query, some at a time. `has_columns`: the store itself
    filters by code and request id."""
    outcome = query.outcome
    if outcome is not None and query.state not in (None, outcome):
        return []
    found: list[Call] = []
    plain = msgspec.structs.replace(query, limit=_STEP, metadata=(), mentions=_mentions(query))
    if not has_columns:
        state = query.state if outcome is None else outcome
        plain = msgspec.structs.replace(plain, state=state, code=None, request_id=None)
    while True:
        some = await find(plain)
        found += [call for call in some if query.picks(call.events)]
        if len(some) < plain.limit or len(found) >= query.limit:
            return found[: query.limit]
        place = "after" if query.ascending else "before"
        plain = msgspec.structs.replace(plain, **{place: some[-1].key})


class ScanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The last call that a limited search looks at."""

    key: int
    created_at: float


@runtime_checkable
class LimitsScans(Protocol):
    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        """Where a search for `query` ends that looks at no more than `calls` calls. None: it looks at fewer, or an index has all that the
        query asks for, so that every call it looks at is one that fits."""
        ...


async def scan_end_in(store: object, query: Query, calls: int) -> ScanEnd | None:
    """As `LimitsScans.scan_end`; a store without it looks at all calls."""
    return await store.scan_end(query, calls) if isinstance(store, LimitsScans) else None
