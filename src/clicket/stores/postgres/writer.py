"""A group of appends is one call of one function: one round trip, one commit, an answer for each unit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.ports import Append, Duplicate, Stale, Unstorable
from clicket.model.unit import error_code_in, request_id_in
from clicket.stores.announcing import Announcer, Enclosure, Outbox
from clicket.stores.postgres.connection import Connection, Param, Refused, Row, Statement
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.outcome_stats import NOT_ALL_COUNT, place_of, runs_of
from clicket.stores.postgres.pool import Server
from clicket.stores.postgres.records import document_hash
from clicket.stores.remote import Lost, Unit

__all__ = ["Appender"]

_APPEND = """SELECT outcomes, followed, givers FROM append(
    $1::bigint, $2::bigint, $3::boolean, $4::json, $5::json, $6::bytea, $7::json, $8::json, $9::boolean, $10::text)"""
_TELL = "SELECT tell($1::text, $2::text[], $3::text[], $4::integer[], $5::integer[], $6::boolean[])"
_TELL_ONE = """SELECT pg_notify($2::text, CASE WHEN $4::boolean THEN '+' || split_part(a.applied, ' ', 2) || E'\\n' ELSE '' END
        || $3::text), set_config('synchronous_commit', 'off', true)
    FROM current_setting('clicket.applied', true) AS a(applied)
    WHERE split_part(a.applied, ' ', 1) = $1::text AND split_part(a.applied, ' ', 2)::bigint > 0"""
_ERASE = "SELECT erase($1::bigint, $2::bigint, $3::json, $4::bytea, $5::json, $6::json)"
_MAX_BYTES = 8 * 1024 * 1024
_MAX_BODY = 256 * 1024 * 1024
_MAX_PRIORITY = 2**63 - 1

_encode = msgspec.json.Encoder().encode
_Outcome = ClicketError | None


class _Unit(msgspec.Struct, gc=False):
    """A row of the function's `units`."""

    id: str
    place: str
    thread: str
    caller: str
    tool: str
    expect: int
    last: int
    fence: int
    state: str
    created_at: float
    ended_at: float | None
    waiting_for: str | None
    signal: bool
    key: int
    owned: bool
    priority: int
    size: int
    artifacts: list[dict[str, str | int]] | None
    claim: bool
    queue: str | msgspec.UnsetType = msgspec.UNSET
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    unless_kind: str | msgspec.UnsetType = msgspec.UNSET
    unless_hash: str | msgspec.UnsetType = msgspec.UNSET
    maker: tuple[int, int, int] | msgspec.UnsetType = msgspec.UNSET


class _Use(msgspec.Struct, gc=False):
    """A row of the function's `uses`."""

    unit: int
    key: str
    hit: bool
    now: float
    size: int = 0
    start: int = 0
    tags: tuple[str, ...] | None = None
    created_at: float = 0.0
    expires_at: float = 0.0
    accessed_at: float = 0.0


class Appender:
    """The writing connection; what `GroupWriter` asks of a backend. `channel(to)`: the name of the channel of a process; None: a bus
    carries messages."""

    def __init__(
        self,
        server: Server,
        membership: Membership,
        bus: Outbox,
        channel: Callable[[int], str] | None,
        on_claim_lost: Callable[[], None],
    ) -> None:
        self._server = server
        self._membership = membership
        self._bus = bus
        self._channel = channel
        self._announcer = Announcer(bus, encloses=channel is not None)
        self._told = 0
        self._on_claim_lost = on_claim_lost
        self._connection: Connection | None = None
        self._busy = asyncio.Lock()
        self._warming: asyncio.Task[None] | None = None

    def warm_up(self) -> None:
        """Calls may be claimed soon: connect now, and let the server prepare the append, so that the first start does not wait for it."""
        if self._connection is None and self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self._warm_up(), name="clicket-postgres-writer")

    async def _warm_up(self) -> None:
        with contextlib.suppress(Lost, Refused, ClicketError):  # the first append has the same trouble, and says so
            nothing: list[Param] = [False, "[]", None, b"", None, None, True, None]
            await self._membership.run(self._send, _APPEND, *nothing)

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[_Outcome]:
        outcomes: list[_Outcome] = [None] * len(units)
        fit = []
        for number, (change, body) in enumerate(units):
            refusal = _refusal(change, body)
            if refusal is None:
                fit.append(number)
            else:
                outcomes[number] = refusal
        # All processes lock rows in one order; within a group only the order of one call's units can be seen, and of those that it makes.
        fit.sort(key=lambda number: _locks(units[number][0]))
        for group in _portions(units, fit):
            answers = await self._apply([units[number] for number in group], group, again)
            for number, answer in zip(group, answers, strict=True):
                outcomes[number] = answer
        return outcomes

    async def erase(self, creations: Sequence[Unit]) -> None:
        for group in _portions(creations, range(len(creations))):
            units = [creations[number] for number in group]
            rows = [_row(change, body) for change, body in units]
            bodies = b"".join(body for _, body in units)
            runs, sums, _ = runs_of([change for change, _ in units], group, alone=True)
            await self._membership.run(self._send, _ERASE, _encode(rows).decode(), bodies, runs, sums)

    def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _apply(self, units: Sequence[Unit], order: Sequence[int], again: bool) -> list[_Outcome]:
        rows = [_row(change, body) for change, body in units]
        pieces = [body if row.size else b"" for row, (_, body) in zip(rows, units, strict=True)]
        uses = _uses(units, order, pieces)
        params: list[Param] = [
            again,
            _encode(rows).decode(),
            _encode(uses).decode() if uses else None,
            b"".join(pieces),
        ]
        changes = [change for change, _ in units]
        enclosures = self._announcer.enclose(units)
        try:
            keys, followed, givers = await self._ask(params, changes, order, enclosures)
        except Refused as refused:
            self._announcer.give_back(enclosures)
            if len(units) > 1:  # one member cannot be stored: the others must not suffer for it
                each: list[_Outcome] = [None] * len(units)
                for number in sorted(range(len(units)), key=order.__getitem__):
                    (each[number],) = await self._apply([units[number]], [0], again)
                return each
            return [self._not_stored(units[0][0], refused, again)]
        except BaseException:
            self._announcer.give_back(enclosures)
            raise
        for key in followed:
            self._bus.post("events", key)
        outcomes = [self._outcome(change, key) for change, key in zip(changes, keys, strict=True)]
        self._announcer.announce(units, [outcome is None for outcome in outcomes], givers, enclosures)
        return outcomes

    async def _ask(
        self,
        params: Sequence[Param],
        changes: Sequence[Append],
        order: Sequence[int],
        enclosures: Sequence[Enclosure],
    ) -> Row:
        ticket = None
        send = self._send
        if enclosures:
            self._told += 1
            ticket = f"{self._membership.id}.{self._told}"
            send = partial(self._send, then=self._telling(ticket, len(changes), enclosures))
        run = self._membership.run
        try:
            rows = await run(send, _APPEND, *params, *runs_of(changes, order), ticket)
        except Refused as refused:
            if refused.code != NOT_ALL_COUNT:
                raise
            rows = await run(send, _APPEND, *params, *runs_of(changes, order, alone=True), ticket)
        return rows[0]

    def _telling(self, ticket: str, units: int, enclosures: Sequence[Enclosure]) -> Statement:
        """The statement that sends the messages of an append of this many units. For several units, each unit of a message has the
        message's place, its own, and whether it is new."""
        assert self._channel is not None
        if units == 1:
            only = enclosures[0]
            return _TELL_ONE, (ticket, self._channel(only.to), only.text.decode(), bool(only.new))
        parts = [
            (place, unit, unit in enclosure.new)
            for place, enclosure in enumerate(enclosures, start=1)
            for unit in enclosure.units
        ]
        return _TELL, (
            ticket,
            [self._channel(enclosure.to) for enclosure in enclosures],
            [enclosure.text.decode() for enclosure in enclosures],
            [place for place, _, _ in parts],
            [unit + 1 for _, unit, _ in parts],
            ["t" if new else "f" for _, _, new in parts],
        )

    def _outcome(self, change: Append, key: int) -> _Outcome:
        if key == -1:
            return Duplicate(f"the id {change.id!r} is taken in thread {change.call.thread!r}")
        if key == 0:
            if change.claim:
                self._on_claim_lost()
            return Stale(f"call {change.id} was changed by another writer")
        if change.expect == 0:
            change.key = key
        return None

    def _not_stored(self, change: Append, refused: Refused, again: bool) -> ClicketError:
        if refused.code[:2] in ("22", "23", "54"):  # data, constraints and limits: its own fault
            return Unstorable(f"call {change.id} cannot be stored: {refused} ({refused.code})")
        if again:  # what was asked before may have been done
            raise Lost(f"the server refused the write: {refused} ({refused.code})") from refused
        return StoreUnavailable(
            f"{self._server.name}: the server refused the write: {refused} ({refused.code}). Look whether its tables are as "
            "clicket made them.",
            url=self._server.name,
            code=refused.code,
        )

    async def _send(self, sql: str, *params: Param, then: Statement | None = None) -> list[Row]:
        async with self._busy:
            connection = self._connection
            if connection is None or connection.broken is not None:
                connection = self._connection = await self._server.connect()
            try:
                return await connection.run(sql, params, limit=self._server.limit, then=then)
            finally:
                self._server.judge(connection)


def _locks(change: Append) -> int:
    """The key of the row that an append locks; 0: none that is there already."""
    if change.expect:
        return change.key
    return 0 if change.maker is None else change.maker[0]


def _refusal(change: Append, body: bytes) -> Unstorable | None:
    """Found here, it is one call's trouble; found by the server, it would be the whole group's."""
    texts = [
        change.id,
        change.call.thread,
        change.call.caller,
        change.call.tool,
        change.queue,
        change.waiting_for or "",
    ]
    if change.stats is not None:
        texts.append(change.stats.tool)
    texts += [name for name, _ in change.artifacts]
    texts += change.unless or ()
    if change.cache is not None and change.cache.item is not None:
        texts += [change.cache.key, *change.cache.item.tags]
    try:
        together = "".join(texts)
        together.encode()
    except UnicodeEncodeError as error:
        return Unstorable(f"call {change.id!a} has a name that is not UTF-8: {error}")
    if "\0" in together:
        return Unstorable(f"call {change.id!r} has a name with a NUL, which PostgreSQL does not store")
    if len(body) > _MAX_BODY:
        return Unstorable(f"the events of call {change.id} take {len(body)} bytes at once, more than can be stored")
    return None


def _portions(units: Sequence[Unit], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Groups that are no burden to the server, in order."""
    group: list[int] = []
    size = 0
    for number in numbers:
        change, body = units[number]
        item = change.cache.item if change.cache is not None else None
        weight = len(body) + (len(item.body) if item is not None else 0)
        if group and size + weight > _MAX_BYTES:
            yield group
            group, size = [], 0
        group.append(number)
        size += weight
    if group:
        yield group


def _row(change: Append, body: bytes) -> _Unit:
    unless = change.unless if change.expect == 0 else None
    return _Unit(
        id=change.id,
        place=place_of(change.call.thread, change.call.caller) if change.expect == 0 else "",
        thread=change.call.thread,
        caller=change.call.caller,
        tool=change.call.tool,
        expect=change.expect,
        last=change.last,
        fence=change.fence,
        state=change.state.value,
        created_at=change.call.created_at,
        ended_at=change.ended_at,
        waiting_for=change.waiting_for,
        signal=change.signal,
        key=change.key,
        owned=change.owned,
        priority=max(-_MAX_PRIORITY, min(change.call.priority, _MAX_PRIORITY)),
        size=len(body),
        artifacts=[{"name": name, "size": size} for name, size in change.artifacts] or None,
        claim=change.claim,
        queue=change.queue or msgspec.UNSET,
        request_id=(change.expect == 0 and request_id_in(change.unit)) or msgspec.UNSET,
        code=(change.ended_at is not None and error_code_in(change.unit)) or msgspec.UNSET,
        unless_kind=msgspec.UNSET if unless is None else unless[0],
        unless_hash=msgspec.UNSET if unless is None else document_hash(unless[1]),
        maker=(change.expect == 0 and change.maker) or msgspec.UNSET,
    )


def _uses(units: Sequence[Unit], order: Sequence[int], pieces: list[bytes]) -> list[_Use]:
    """What the units do with the cache, by key, then in the order in which they were handed over (`order`). Bodies of items are added
    to `pieces`."""
    start = sum(map(len, pieces)) + 1
    uses = []
    for number, (change, _) in enumerate(units, start=1):
        used = change.cache
        if used is None:
            continue
        now = change.ended_at or change.call.created_at
        item = used.item
        if item is None or used.hit:
            uses.append(_Use(number, used.key, used.hit, now))
            continue
        times = (item.created_at, item.expires_at, item.accessed_at)
        uses.append(_Use(number, used.key, False, now, len(item.body), start, item.tags, *times))
        pieces.append(item.body)
        start += len(item.body)
    return sorted(uses, key=lambda use: (use.key, order[use.unit - 1]))
