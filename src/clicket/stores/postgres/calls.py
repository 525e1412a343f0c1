"""Rows become calls again. Filters are bound, never written into the SQL; a row that another program wrote is shown as damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, load_call, load_events
from clicket.model.ports import CallPlace, Query, ScanEnd, Stored, ThreadCounts, ThreadName, picked
from clicket.stores.postgres.connection import Param
from clicket.stores.postgres.pool import Pool

__all__ = ["Calls", "claimed_call", "storable"]

_SELECT = """SELECT c.key, c.id, c.fence, c.claims, c.owner, c.taken_from,
    ARRAY(SELECT e.body FROM events e WHERE e.call = c.key ORDER BY e.seq) FROM calls c WHERE """
# From the row that holds the next number on; it may begin before it.
_EVENTS = """SELECT c.ended_at IS NULL AND c.owner IS DISTINCT FROM $4::bigint AND c.giver IS DISTINCT FROM $4::bigint
        AND NOT c.watched,
    ARRAY(SELECT e.body FROM events e WHERE e.call = c.key AND e.seq >= coalesce(
        (SELECT max(f.seq) FROM events f WHERE f.call = c.key AND f.seq <= $3::integer + 1), 0) ORDER BY e.seq)
    FROM calls c WHERE c.key = $1::bigint AND c.id = $2::text"""
_WATCH = "UPDATE calls SET watched = true WHERE key = $1::bigint AND ended_at IS NULL AND NOT watched"
_PLACES = """SELECT key, caller, thread FROM calls WHERE $1::bigint IS NULL OR key < $1::bigint
    ORDER BY key DESC LIMIT $2::bigint"""
_COUNTS = """SELECT wanted.number, newest.state, count(*), max(newest.key), max(greatest(newest.created_at, coalesce(newest.ended_at, 0)))
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted(thread, caller, number) CROSS JOIN LATERAL (
        SELECT state, key, created_at, ended_at FROM calls c WHERE c.thread = wanted.thread AND c.caller = wanted.caller
        ORDER BY key DESC LIMIT $3::bigint) newest GROUP BY wanted.number, newest.state"""
_NEWS = "SELECT key, bodies FROM news($1::bigint, $2::bigint[], $3::text[], $4::integer[])"
# No call below the one was made since then, and none above the other before then, whatever the clocks of the writers were.
_PERIOD = "floor(greatest(least(${}::float8, 1e15), -1e15) / 300)::bigint"
_FIRST_KEY = f"(SELECT coalesce(min(t.first), 9223372036854775807) FROM call_times t WHERE t.period >= {_PERIOD})"  # noqa: S608  # a constant
_LAST_KEY = f"(SELECT coalesce(max(t.last), 0) FROM call_times t WHERE t.period <= {_PERIOD})"  # noqa: S608  # a constant
_TYPES = {"c.key": "bigint", "c.created_at": "float8"}
_LAST = 2**31 - 2


class Calls:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def load(self, id: str, thread: str | None, caller: str | None) -> list[Stored]:
        return await self._select({"c.id": id, "c.thread": thread, "c.caller": caller}, " ORDER BY c.key DESC")

    async def history(self, query: Query) -> list[Stored]:
        if query.metadata:
            return await picked(query, self.history, has_columns=True)
        walked, checked, fixed, order = _search(query)
        return await self._select({**walked, **checked}, f"{fixed} {order} LIMIT {int(query.limit)}", query.mentions)

    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        """See `LimitsScans`. Calls under way are few; those of one request, too."""
        walked, checked, fixed, order = _search(query)
        exact = {"c.created_at >=", "c.created_at <"}  # their keys are bounds of the walk already
        if "c.ended_at IS NULL" in fixed or "c.request_id" in walked or not (set(checked) - exact or query.metadata):
            return None
        terms, values = _terms(walked)
        if values is None:
            return None
        rest = f"{fixed} {order} LIMIT 1 OFFSET {int(calls) - 1}"
        sql = f"SELECT c.key, c.created_at FROM calls c WHERE {terms}{rest}"  # noqa: S608  # values are bound
        for key, created_at in await self._pool.query(sql, *values):
            return ScanEnd(key=key, created_at=created_at)
        return None

    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        return [CallPlace(*row) for row in await self._pool.query(_PLACES, before, limit)]

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        fit = [each if storable(each[0]) and storable(each[1]) else ("", "") for each in threads]
        rows = await self._pool.query(_COUNTS, [thread for _, thread in fit], [caller for caller, _ in fit], limit)
        of: dict[int, list[tuple[str, int, int, float]]] = {}
        for number, *row in rows:
            of.setdefault(number, []).append(tuple(row))
        return [_counts(of.get(number, [])) for number in range(1, len(threads) + 1)]

    async def claimed(self, keys: Sequence[int], me: int) -> list[Stored]:
        """Calls that were just taken, with the owners that they were taken from."""
        sql = f"{_SELECT} c.key = ANY ($1::bigint[]) AND c.owner = $2::bigint"
        rows = {row[0]: row for row in await self._pool.query(sql, keys, me)}
        return [claimed_call(rows[key]) for key in keys if key in rows]

    async def of_keys(self, keys: Sequence[int]) -> list[Stored]:
        rows = await self._pool.query(f"{_SELECT} c.key = ANY ($1::bigint[])", list(keys))
        return [_stored(row) for row in rows]

    async def events(self, key: int, call_id: str, after: int, me: int) -> list[Event]:
        """A reader of a call that another process runs will read again: from now on it gets hints of new events."""
        if not storable(call_id):
            return []
        params: list[Param] = [key, call_id, min(max(after, 0), _LAST), me]
        rows = await self._pool.query(_EVENTS, *params)
        if rows and rows[0][0]:
            await self._pool.query(_WATCH, key)
            rows = await self._pool.query(_EVENTS, *params)  # what came before the mark was not announced
        return [event for _, bodies in rows for event in self._read(call_id, bodies) if event.seq > after]

    async def news(self, known: Mapping[int, tuple[str, int]], me: int) -> dict[int, list[Event]]:
        fit = {key: (id, min(max(last, 0), _LAST)) for key, (id, last) in known.items() if storable(id)}
        params = (me, list(fit), [id for id, _ in fit.values()], [last for _, last in fit.values()])
        rows = await self._pool.query(_NEWS, *params) if fit else []
        found: dict[int, list[Event]] = {key: [] for key in known if key not in fit}
        for key, bodies in rows:
            id, last = known[key]
            found[key] = [event for event in self._read(id, bodies) if event.seq > last]
        return found

    def _read(self, call_id: str, bodies: Sequence[bytes]) -> list[Event]:
        try:
            return [event for body in bodies for event in load_events(call_id, body)]
        except (msgspec.MsgspecError, RecursionError, TypeError) as error:
            raise StoreUnavailable(
                f"{self._pool.server.name}: events of call {call_id} are not what clicket wrote ({error}). Nothing was "
                "changed; restore a backup."
            ) from error

    async def _select(self, wanted: dict[str, Param], rest: str, mentions: Sequence[bytes] = ()) -> list[Stored]:
        """Column names come from this file alone; values are always bound."""
        terms, values = _terms(wanted)
        if values is None:
            return []
        for number, text in enumerate(mentions, start=len(values) + 1):
            terms += (
                f" AND EXISTS (SELECT FROM events e WHERE e.call = c.key AND position(${number}::bytea in e.body) > 0)"
            )
            values.append(text)
        rows = await self._pool.query(f"{_SELECT} {terms}{rest}", *values)
        return [_stored(row) for row in rows]


def _search(query: Query) -> tuple[dict[str, Param], dict[str, Param], str, str]:
    """The conditions that one index answers; the other ones; those without a value; and the order."""
    state = query.state
    ended = state is not None and state.is_terminal
    bad = ended and state is not State.COMPLETED
    fixed = " AND c.ended_at IS NULL" if query.active or query.waiting_for is not None or (state and not ended) else ""
    walked: dict[str, Param] = {}
    checked: dict[str, Param] = {}
    by_state = None if state is None else state.value
    outcome = "c.outcome" if ended else "c.state"  # calls under way are few, and have no index by state
    for column, value in (
        ("c.request_id", query.request_id), ("c.waiting_for", query.waiting_for), ("c.thread", query.thread), ("c.code", query.code),
        ("c.tool", query.tool), (outcome, by_state), ("c.caller", query.caller),
    ):  # fmt: skip
        if value is not None:
            follows = column == "c.outcome" and bad and list(walked) == ["c.tool"]
            (walked if not walked or follows else checked)[column] = value
    if bad:
        fixed += " AND c.outcome <> 'completed'"
    if query.caller and "c.caller" in walked:
        fixed += " AND c.caller <> ''"
    walked |= {"first_key": query.since, "last_key": query.until, "c.key <": query.before, "c.key >": query.after}
    checked |= {"c.created_at >=": query.since, "c.created_at <": query.until, "strpos": query.id_contains}
    if query.id_prefix is not None:
        checked |= {"c.id >=": query.id_prefix, "c.id <": query.id_prefix + "\U0010ffff"}
    given: dict[str, Param] = {column: value for column, value in checked.items() if value is not None}
    return walked, given, fixed, f"ORDER BY c.key {'ASC' if query.ascending else 'DESC'}"


def _terms(wanted: dict[str, Param]) -> tuple[str, list[Param] | None]:
    """Conditions, and their values; None: nothing can have such a value."""
    given = {column: value for column, value in wanted.items() if value is not None}
    if not all(storable(value) for value in given.values()):
        return "", None
    terms = [_term(column, number) for number, column in enumerate(given, start=1)]
    return " AND ".join(terms) or "true", list(given.values())


def _term(column: str, number: int) -> str:
    if column == "strpos":
        return f"strpos(c.id, ${number}::text) > 0"
    if column == "first_key":
        return f"c.key >= {_FIRST_KEY.format(number)}"
    if column == "last_key":
        return f"c.key <= {_LAST_KEY.format(number)}"
    name, _, compare = column.partition(" ")
    return f"{name} {compare or '='} ${number}::{_TYPES.get(name, 'text')}"


def _counts(rows: Sequence[tuple[str, int, int, float]]) -> ThreadCounts:
    return ThreadCounts(
        states={state: count for state, count, _, _ in rows},
        newest=max((key for _, _, key, _ in rows), default=0),
        last_at=max((at for *_, at in rows), default=0.0),
    )


def storable(value: Any) -> bool:
    """Can there be such a name at all?"""
    if type(value) is not str:
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def claimed_call(row: tuple[Any, ...]) -> Stored:
    """A call that was just taken, with the owner that it was taken from."""
    stored = _stored(row)
    stored.taken_from = row[5]
    return stored


def _stored(row: tuple[Any, ...]) -> Stored:
    key, id, fence, claims, owner, _, bodies = row
    events, damaged = load_call(id, bodies)
    return Stored(key=key, fence=fence, claims=claims, owner=owner, events=events, id=id, damaged=damaged)
