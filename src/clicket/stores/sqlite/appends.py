"""The statements of one append, inside a transaction of the writer. A short unit stands in the row of its call."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from clicket.errors import ClicketError
from clicket.model.ports import Append, Done, Duplicate, Stale
from clicket.model.unit import error_code_in, request_id_in
from clicket.stores.sqlite import cache
from clicket.stores.sqlite.schema import EVENT_BITS, KEY_BLOCK, PERIOD

__all__ = ["IN_ROW", "Appends", "Waiting"]

IN_ROW = 500
"""Bytes of a first or last unit that is stored in the call's own row."""

_CALL_COLUMNS = (
    "calls(id,thread,caller,tool,state,seq,fence,claims,owner,priority,bytes,waiting_for,created_at,ended_at,first_unit,"
    "request_id,code)"
)
_CALL_VALUES = "(?,?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?)"
_INSERT_CALL = f"INSERT INTO {_CALL_COLUMNS} VALUES{_CALL_VALUES} ON CONFLICT DO NOTHING"  # constants
_INSERT_UNLESS = (
    f"INSERT INTO {_CALL_COLUMNS} SELECT {_CALL_VALUES[1:-1]} "  # noqa: S608  # constants
    "WHERE NOT EXISTS (SELECT 1 FROM documents WHERE kind=? AND key=?) ON CONFLICT DO NOTHING"
)
_IS_AS = "SELECT 1 FROM calls WHERE key=? AND seq=? AND fence=? AND ended_at IS NULL AND owner IS NOT NULL AND signal=0"
_UPDATE_CALL = (
    "UPDATE calls SET state=?,seq=?,bytes=bytes+?,waiting_for=?,signal=0 "
    "WHERE key=? AND seq=? AND fence=? AND ended_at IS NULL"
)
_ADD_LATE = "UPDATE calls SET seq=?,bytes=bytes+? WHERE key=? AND seq=? AND fence=? AND ended_at IS NOT NULL"
_END_CALL = (
    "UPDATE calls SET state=?,seq=?,bytes=bytes+?,waiting_for=?,ended_at=?,signal=0,last_unit=?,last_unit_seq=?,code=? "
    "WHERE key=? AND seq=? AND fence=? AND ended_at IS NULL"
)
_NO_FENCE = -2
"""No call has it: this store has no messages, so no append may claim a call."""
_SIGNAL = "UPDATE calls SET seq=?,bytes=bytes+?,signal=max(signal,?) WHERE key=? AND seq=?"
_GIVE_BACK = "UPDATE calls SET owner=NULL WHERE key=?"
_QUEUE = "UPDATE calls SET queue=? WHERE key=?"
_INSERT_EVENTS = "INSERT INTO events(row,body) VALUES(?,?)"
_NOTE_TIME = "INSERT INTO call_times(period,key,last) VALUES(?1,?2,?3) ON CONFLICT DO UPDATE SET last=max(last,?3)"
_INSERT_ARTIFACT = "INSERT OR IGNORE INTO artifacts(call,name) VALUES(?,?)"


Waiting = tuple[Append, Done, bytes]
"""An append, what to call when it is written, and its unit as it is stored."""


class Appends:
    """`owner`: the number under which the writer is registered. `hits`: uses of cached results, to be counted with the commit."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._changes = connection.changes
        self.owner = 0
        self.period: float | None = None
        """The period in which the last call was made, if `call_times` has it."""
        self._noted = 0
        """The key up to which `call_times` has this writer's calls of that period."""
        self.hits: list[tuple[str, float]] = []

    def apply(self, change: Append, body: bytes, count: Callable[[Append], None]) -> ClicketError | None:
        """The statements of one append. `count` is called if it ends its call."""
        execute = self._cursor.execute
        ended_at = change.ended_at
        expect, unit, state, size = change.expect, change.unit, change.state, len(body)  # a state is a str
        last = expect if unit is None else expect + unit.length
        in_row = body if 0 < size <= IN_ROW else None
        ends = ended_at is not None and change.fence != -1
        size += sum(weight for _, weight in change.artifacts) if change.artifacts else 0
        if expect == 0:
            refusal = self._create(change, size, in_row)
            if refusal is not None:
                return refusal
        else:
            key = change.key
            if change.fence == -1:
                in_row = None
                execute(_SIGNAL, (last, size, change.signal, key, expect))
            else:
                values = (state, last, size, change.waiting_for)
                where = (key, expect, _NO_FENCE if change.claim else change.fence)
                if ends:
                    execute(
                        _END_CALL,
                        (
                            *values,
                            ended_at,
                            in_row,
                            in_row and expect + 1,
                            error_code_in(unit),
                            *where,
                        ),
                    )
                else:
                    in_row = None
                    execute(_UPDATE_CALL, values + where)
                if self._changes() == 0:  # an append after the end of its call adds events, and changes nothing else
                    ends, in_row = False, None
                    execute(_ADD_LATE, (last, size, *where))
            if self._changes() == 0:
                return Stale(f"call {change.id} was changed by another writer")
            if not change.owned:
                execute(_GIVE_BACK, (key,))
        if change.queue:
            execute(_QUEUE, (change.queue, change.key))
        if body and in_row is None:
            execute(_INSERT_EVENTS, (change.key << EVENT_BITS | expect + 1, body))
        if change.artifacts or change.cache is not None:
            self._apply_beside(change, ends=ends)
        if ends:
            count(change)
        return None

    def _create(self, change: Append, size: int, in_row: bytes | None) -> ClicketError | None:
        execute = self._cursor.execute
        call, ended_at = change.call, change.ended_at
        if change.maker is not None and execute(_IS_AS, change.maker).fetchone() is None:
            return Stale(f"the call that makes {call.id} was changed by another writer")
        owner = self.owner if change.owned and ended_at is None else None
        row = (call.id, call.thread, call.caller, call.tool, change.state, change.last, change.fence, owner)
        times = (change.waiting_for, call.created_at, ended_at)
        request_id = request_id_in(change.unit)
        code = None if ended_at is None else error_code_in(change.unit)
        unless = change.unless or ()
        execute(
            _INSERT_UNLESS if unless else _INSERT_CALL,
            (*row, call.priority, size, *times, in_row, request_id, code, *unless),
        )
        if self._changes() == 0:
            return Duplicate(f"the id {call.id!r} is taken in thread {call.thread!r}")
        change.key = self._connection.last_insert_rowid()
        period = call.created_at // PERIOD
        if period != self.period or change.key > self._noted:
            self._note_time(period, change.key)
        return None

    def _note_time(self, period: float, key: int) -> None:
        """Record which keys the calls of a period have."""
        last = key | KEY_BLOCK - 1
        self._cursor.execute(_NOTE_TIME, (int(period), key, last))
        self.period, self._noted = period, last

    def _apply_beside(self, change: Append, *, ends: bool) -> None:
        """The artifacts that an append names, and what it changes in the cache if it ends its call."""
        for name, _ in change.artifacts:
            self._cursor.execute(_INSERT_ARTIFACT, (change.key, name))
        if change.cache is None or not ends:
            return
        if change.cache.hit:
            self.hits.append((change.cache.key, change.ended_at or change.call.created_at))
            return
        if change.cache.item is not None and any(key == change.cache.key for key, _ in self.hits):
            hits, self.hits = self.hits, []  # of the result that is replaced now
            cache.count_hits(self._connection, hits)
        cache.missed(self._connection, change.cache.item)
