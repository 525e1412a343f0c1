"""Random operations on a store and on the model of the port: every answer must be the same.

    python -m tests.simulation.store_oracle --store sqlite --operations 1000000 --seed 1

An operation is a name, a session and a seed; its arguments follow from the seed and from what the model holds. So a failing run becomes
shorter by leaving operations out. What the port leaves open is not compared: numbers of keys and owners, dates of the server, sizes, the
owner of an ended call, dead owners in the list of owners, and artifacts that nothing keeps.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psycopg
import redis
from tests.kit.mortal_store import MortalStore
from tests.postgres_server import PostgresServer, postgres_server
from tests.redis_server import RedisServer, redis_server
from tests.simulation.store_model import ModelSession, StoreModel

from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, rows_of
from clicket.model.unit import End, Start, Unit
from clicket.ports import (
    Append,
    CacheItem,
    CacheUse,
    CallRow,
    CountsEnded,
    DocumentWrite,
    Keep,
    KeepsTime,
    LimitsScans,
    ListsThreads,
    OutcomeStats,
    Owner,
    Query,
    Store,
    Stored,
    ToolHealth,
)
from clicket.stores.memory import MemoryStore
from clicket.stores.postgres import PostgresStore
from clicket.stores.redis import RedisStore
from clicket.testing.store_kit import append as append_all

__all__ = ["Failure", "Kind", "Op", "kinds", "operations", "run", "shrunk"]

_IDS = ("a", "b", "ab", "b%", "é:{")
_THREADS = ("t", "u")
_CALLERS = ("", "ann", "bob")
_TOOLS = ("tool", "other")
_QUEUES = ("", "", "tool", "tool@2", "tool#later")
_WAITS = (None, None, "approval", "credential")
_NAMES = ("a", "é", "😀", "z")
_BODIES = (b"x" * 10, b"y" * 600, b"z")
_LIVE = (State.PENDING, State.INITIALIZING, State.RUNNING, State.STREAMING, State.RETRYING)
_ENDS = (State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED)
_CODES = {State.FAILED: ("tool_error", "bad_input"), State.TIMEOUT: ("timeout",), State.CANCELLED: ("cancelled",)}
_NOW = 1_000_000.0
_SHORT = 300
"""Characters of an answer that agreed."""
_CLOCKS_DIFFER = 3600.0
"""Seconds: the server runs on this machine, and a run may be paused."""
_MOST_KILLED = 3
"""Sessions that are killed in one world: the connections of each stay open until its end."""

LIVING = Owner(host="living.invalid", boot="", pid=1, started="", lease=36_000.0)
DOOMED = Owner(host="doomed.invalid", boot="", pid=1, started="", lease=1e-9)
"""Its lease has always run out: it is dead for others, and writes as long as it has not lost its calls."""


class Op(msgspec.Struct, frozen=True):
    name: str
    session: int
    seed: int


class Difference(Exception):
    """A store answered otherwise than the model."""


class Failure(msgspec.Struct, frozen=True):
    """The operations that lead to a difference, what was asked, and what was answered."""

    ops: list[Op]
    script: list[str]

    def __str__(self) -> str:
        return "\n".join(self.script)


class Kind(msgspec.Struct, frozen=True):
    """A store to be compared. `open_store(place)` makes a session; all of one place share their data."""

    name: str
    open_store: Callable[[str], Store]
    number: Callable[[Any], int]
    """The number of a session's owner."""
    kill: Callable[[str, Any, Any], Awaitable[None]] | None = None
    """`kill(place, session, another)`: its process is gone, and its lease has run out. None: the store has one owner."""
    bus: bool = False
    """It has a bus, so an append may claim its call."""


@dataclass(slots=True)
class _Session:
    model: ModelSession
    real: Any
    name: str
    killed: bool = False


@dataclass(slots=True)
class _World:
    """One place of a store, and the model beside it."""

    kind: Kind
    place: str
    said: list[Any] = field(default_factory=list)
    """Texts, appends, and answers, to be written out if there is a difference."""
    model: StoreModel = field(init=False)
    sessions: list[_Session] = field(default_factory=list)
    killed: list[_Session] = field(default_factory=list)
    real_keys: dict[int, int] = field(default_factory=dict)
    model_keys: dict[int, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    """Numbers of the store's owners, and of the model's."""
    real_log: list[int] = field(default_factory=list)
    """Numbers of the entries of the store's audit log, the first one first."""
    gone: list[tuple[int, CallRow, int]] = field(default_factory=list)
    """Calls that were removed: key, identity, last number."""
    number: int = 0
    opened: int = 0

    def __post_init__(self) -> None:
        self.model = StoreModel(claims_by_append=self.kind.bus)

    # Sessions.

    async def open(self) -> None:
        for owner in (LIVING, LIVING, DOOMED) if self.kind.kill is not None else (LIVING,):
            self.sessions.append(await self._session(owner))

    async def _session(self, owner: Owner) -> _Session:
        self.opened += 1
        model = ModelSession(self.model, clock=lambda: _NOW, bus=self.kind.bus)
        real = self.kind.open_store(self.place)
        await model.open(owner)
        await real.open(owner)
        self.owners[self.kind.number(real)] = model.me
        if owner is DOOMED:
            self.model.declare_dead(model.me)
        return _Session(model, real, f"s{self.opened}")

    async def close(self) -> None:
        for session in [*self.sessions, *self.killed]:
            if not session.killed:
                await session.real.close()

    async def reopen(self, at: int) -> None:
        session = self.sessions[at]
        self.say(f"{session.name}.close(); s{self.opened + 1}.open()")
        await session.model.close()
        await session.real.close()
        self.sessions[at] = await self._session(self.model.facts[session.model.me])

    async def kill(self, at: int) -> None:
        session, another = self.sessions[at], self.sessions[at - 1]
        assert self.kind.kill is not None
        self.say(f"kill {session.name}; s{self.opened + 1}.open()")
        self.model.declare_dead(session.model.me)
        session.model.is_open = False
        session.killed = isinstance(session.real, MortalStore)
        await self.kind.kill(self.place, session.real, another.real)
        self.killed.append(session)
        self.sessions[at] = await self._session(self.model.facts[session.model.me])

    # Comparing.

    def say(self, what: Any) -> None:
        self.said.append(what)

    def agree(self, asked: str, wanted: Any, got: Any) -> None:
        self.said += [asked, _Answered(wanted)]
        if wanted != got:
            raise Difference(f"{asked}\n    the model: {wanted!r}\n    the store: {got!r}")

    async def both(
        self,
        session: _Session,
        asked: str,
        ask: Callable[[Any], Coroutine[Any, Any, Any]],
        ask_real: Callable[[Any], Coroutine[Any, Any, Any]] | None = None,
        *,
        see: Callable[[Any], Any] = lambda answer: answer,
        see_real: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Ask the model and the store. `see`: what is compared of an answer."""
        wanted, got = await _answer(ask(session.model)), await _answer((ask_real or ask)(session.real))
        if isinstance(wanted, _Raised) or isinstance(got, _Raised):
            self.agree(f"{session.name}.{asked}", wanted, got)
        else:
            self.agree(f"{session.name}.{asked}", see(wanted), (see_real or see)(got))
        return wanted

    def key(self, key: int) -> int:
        """The store's key of a key of the model."""
        return self.real_keys.get(key, key + 1_000_000)

    def see_stored(self, stored: Stored | None) -> Any:
        """A call as the model names it."""
        if stored is None:
            return None
        call = self.model.calls.get(stored.key)
        ended = call is not None and call.ended_at is not None
        return (
            stored.key, stored.id, stored.fence, stored.claims, None if ended else stored.owner, stored.taken_from, stored.damaged,
            stored.events,
        )  # fmt: skip

    def see_real(self, stored: Stored | None) -> Any:
        if stored is None:
            return None
        return self.see_stored(
            msgspec.structs.replace(
                stored,
                key=self.model_keys.get(stored.key, -1),
                owner=None if stored.owner is None else self.owners.get(stored.owner, -1),
                taken_from=None if stored.taken_from is None else self.owners.get(stored.taken_from, -1),
            )
        )

    def many(self, found: Sequence[Stored]) -> list[Any]:
        return [self.see_stored(stored) for stored in found]

    def many_real(self, found: Sequence[Stored]) -> list[Any]:
        return [self.see_real(stored) for stored in found]

    def next(self) -> int:
        self.number += 1
        return self.number

    def note_gone(self, before: dict[int, Any]) -> None:
        for key, call in before.items():
            if key not in self.model.calls:
                row = CallRow(call.id, call.thread, call.caller, call.tool, call.created_at, call.priority)
                self.gone = [*self.gone[-5:], (key, row, call.last)]


class _Raised(msgspec.Struct, frozen=True):
    error: str


class _Answered(msgspec.Struct, frozen=True):
    answer: Any


def _written(said: Sequence[Any]) -> list[str]:
    """What was asked and answered, a line for each."""
    lines: list[str] = []
    for what in said:
        if isinstance(what, _Answered):
            lines[-1] += f" -> {_short(what.answer)}"
        elif isinstance(what, tuple):
            name, change = what
            lines.append(f"{name}.append({_text(change)})")
        else:
            lines.append(what)
    return lines


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) < _SHORT else f"{text[:_SHORT]} …"


async def _answer(question: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await question
    except ClicketError as error:
        return _Raised(type(error).__name__)
    except Exception as error:  # no store raises another one
        return _Raised(repr(error))


# What operations are made of.


def _event(id: str, seq: int, kind: Any, state: State, data: dict[str, Any]) -> Event:
    return Event(id, seq, 100.0 + seq, kind, state, data)


def _first_data(r: Random, row: CallRow) -> dict[str, Any]:
    data: dict[str, Any] = {
        "tool": row.tool,
        "thread": row.thread,
        "caller": row.caller,
        "n": 2**70,
        "text": "é\n\"'😀",
    }
    if r.random() < 0.8:
        data["tool_version"] = "1"
    if r.random() < 0.5:
        data["request_id"] = f"r{r.randrange(3)}"
    if r.random() < 0.5:
        data["metadata"] = {"user": f"u{r.randrange(2)}", "n": r.randrange(3), "odd": r.random() < 0.5}
    if r.random() < 0.1:
        data["pad"] = "x" * r.choice((400, 3_000))
    return data


def _end_data(r: Random, before: State, state: State) -> dict[str, Any]:
    data: dict[str, Any] = {"from": before.value, "to": state.value}
    if state in _CODES:
        data["error"] = {"code": r.choice(_CODES[state]), "type": r.choice(("ValueError", "")), "message": "m"}
    if r.random() < 0.3:
        data["metadata"] = {"user": "late"}
    if r.random() < 0.1:
        data["output"] = "y" * r.choice((400, 3_000))
    return data


def _stats(r: Random, at: float, state: State) -> OutcomeStats | None:
    if r.random() < 0.3:
        return None
    return OutcomeStats(
        tool=r.choice((*_TOOLS, "")), outcome=state.value, error=r.choice(("", "tool_error")), bucket=r.choice((None, 3, -5)),
        seconds=r.randrange(1, 9) / 8, effect=r.choice(("completed", "served", "failed", "failed", "none")), at=at,
        cause=r.choice(("", "boom é")), tool_version=r.choice(("", "1", "2")), shared=r.random() < 0.2,
    )  # fmt: skip


def _use(r: Random, at: float) -> CacheUse | None:
    if r.random() < 0.6:
        return None
    key = r.choice(("k1", "k2", "k3"))
    if r.random() < 0.3:
        return CacheUse(key, True)
    if r.random() < 0.2:
        return CacheUse(key, False)
    tags = tuple(tag for tag in ("tool:tool", "x", "é") if r.random() < 0.5)
    body = b'"' + b"x" * r.randrange(1, 200) + b'"'
    item = CacheItem(
        key=key,
        body=body,
        tags=tags,
        created_at=at,
        expires_at=at + r.choice((5, 1_000)),
        accessed_at=at,
        access_count=0,
    )
    return CacheUse(key, False, item)


def _creation(world: _World, r: Random) -> Append:
    change = _new_call(world, r)
    if r.random() < 0.3:
        change.unless = (r.choice(("kind", "kinds")), r.choice(_NAMES))
    if world.model.calls and r.random() < 0.3:
        maker = r.choice(list(world.model.calls.values()))
        change.maker = (maker.key, maker.last + (r.random() < 0.1), maker.fence + (r.random() < 0.1))
    return change


def _new_call(world: _World, r: Random) -> Append:
    number = world.next()
    row = CallRow(
        r.choice(_IDS), r.choice(_THREADS), r.choice(_CALLERS), r.choice(_TOOLS), 100.0 + 130.0 * r.randrange(12), r.choice((0, 0, 5, -1))
    )  # fmt: skip
    data, ends = _first_data(r, row), r.random() < 0.1
    unit: Unit
    if r.random() < 0.3 and not ends:
        unit = Start(data, {"x": 1}, row.created_at, 0.1, 0.2, 0.3, row.created_at, 1, "w", "h")
        return Append(row, 0, 1, unit, State.RUNNING)
    events = [_event(row.id, 1, "created", State.PENDING, data)]
    if not ends:
        return Append(
            row, 0, 1, rows_of(events), State.PENDING, waiting_for=r.choice(_WAITS), owned=r.random() < 0.5, queue=r.choice(_QUEUES),
            artifacts=_named(world, r),
        )  # fmt: skip
    state, at = r.choice(_ENDS), 20_000_000.0 + number
    events.append(_event(row.id, 2, "state_changed", state, _end_data(r, State.PENDING, state)))
    return Append(row, 0, 1, rows_of(events), state, at, _stats(r, at, state), cache=_use(r, at))


def _named(world: _World, r: Random) -> tuple[tuple[str, int], ...]:
    if r.random() < 0.8:
        return ()
    body = r.choice(_BODIES)
    name = _name_of(body)
    return ((name, len(body)),) if world.model.must_keep(name) else ()


def _name_of(body: bytes) -> str:
    return f"sha256-{sha256(body).hexdigest()}"


def _update(world: _World, r: Random) -> Append:
    """An append to a call that is there, or that was; with the right number and fence, or with wrong ones."""
    number, chance = world.next(), r.random()
    if world.gone and (not world.model.calls or chance < 0.02):
        key, row, last = r.choice(world.gone)
        unit = rows_of([_event(row.id, last + 1, "note", State.RUNNING, {})])
        return Append(row, last, 1, unit, State.RUNNING, key=key)
    if not world.model.calls:
        return _creation(world, r)
    call = r.choice(list(world.model.calls.values()))
    row = CallRow(call.id, call.thread, call.caller, call.tool, call.created_at, call.priority)
    expect = call.last + (r.choice((-1, 1)) if r.random() < 0.08 else 0)
    fence = call.fence + (r.choice((-1, 1)) if r.random() < 0.08 else 0)
    if expect < 1 or fence == -1:
        expect, fence = call.last, call.fence
    if r.random() < 0.15:  # by another process
        kind = "late_result" if call.ended_at is not None else "cancel_requested"
        unit = rows_of([_event(call.id, expect + 1, kind, call.state, {"n": number})])
        return Append(row, expect, -1, unit, call.state, key=call.key, signal=call.ended_at is None or r.random() < 0.5)
    claim = r.random() < (0.3 if call.is_free else 0.03)
    if claim:
        fence += 1
    owned, queue = (True, "") if claim or r.random() < 0.8 else (False, r.choice(_QUEUES))
    waiting_for = r.choice(_WAITS)
    if call.ended_at is not None:  # what comes after the end, as the former owner may still write
        late = rows_of([_event(call.id, expect + 1, "late_result", call.state, {"n": number})])
        again = r.random() < 0.5
        at = 30_000_000.0 + number
        return Append(
            row, expect, fence, late, r.choice((call.state, State.FAILED)), at if again else call.ended_at,
            _stats(r, at, call.state) if again else None, call.key, waiting_for, cache=_use(r, at) if again else None, claim=claim,
        )  # fmt: skip
    if r.random() < 0.35:
        use = _use(r, 20_000_000.0 + number)
        at = 20_000_000.0 + number if use is not None else 10_000.0 * r.randrange(1, 1_000) + number
        if r.random() < 0.3:
            end = End(expect + 1, at, call.state, 0.1, 0.2, 0.3, 0.6, {"out": number}, {"user": "late"})
            return Append(
                row, expect, fence, end, State.COMPLETED, at, _stats(r, at, State.COMPLETED), call.key, cache=use, claim=claim
            )  # fmt: skip
        state = r.choice(_ENDS)
        events = [_event(call.id, expect + 1, "state_changed", state, _end_data(r, call.state, state))]
        return Append(
            row, expect, fence, rows_of(events), state, at, _stats(r, at, state), call.key, waiting_for, artifacts=_named(world, r),
            cache=use, claim=claim,
        )  # fmt: skip
    state, more = r.choice((call.state, r.choice(_LIVE))), r.choice((0, 1, 1, 3))
    events = [_event(call.id, expect + 1 + n, "note", state, {"n": number + n}) for n in range(more)]
    if r.random() < 0.1 and events:
        events[0].data["pad"] = "x" * 1_000
    return Append(
        row, expect, fence, rows_of(events) or None, state, key=call.key, waiting_for=waiting_for, owned=owned, queue=queue,
        artifacts=_named(world, r), claim=claim,
    )  # fmt: skip


def _text(change: Append) -> str:
    """An append as a reader wants it."""
    call = change.call
    parts = [f"{call.id}/{call.thread}/{call.caller}", "create" if change.expect == 0 else f"after {change.expect}"]
    parts += [f"fence={change.fence}", change.state.value, f"events={change.last - change.expect}"]
    for name, default in (
        ("ended_at", None), ("waiting_for", None), ("owned", True), ("queue", ""), ("signal", False), ("claim", False),
        ("artifacts", ()), ("stats", None), ("cache", None), ("unless", None), ("maker", None),
    ):  # fmt: skip
        if getattr(change, name) != default:
            parts.append(f"{name}={getattr(change, name)!r}".replace("x" * 20, ""))
    if change.expect == 0:
        parts.append(f"tool={call.tool} priority={call.priority} created_at={call.created_at}")
    return " ".join(parts)


def _some(r: Random, values: Sequence[Any]) -> list[Any]:
    return [value for value in values if r.random() < 0.5]


def _keys(world: _World) -> list[int]:
    return [*world.model.calls, *(key for key, _, _ in world.gone)]


# The operations.


async def _appends(world: _World, s: _Session, r: Random) -> None:
    """One append, or several in one iteration of the loop."""
    changes, reals = [], []
    wanted: list[str] = []
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        change = _creation(world, r) if r.random() < 0.35 else _update(world, r)
        real = msgspec.structs.replace(change, key=world.key(change.key) if change.key else 0)
        made = {other.key for other in changes if other.expect == 0 and other.key}
        if change.key in made:
            continue  # a call that is created in the same turn has no key yet
        if change.expect == 0 and any(other.expect == 0 and (other.maker or change.maker) for other in changes):
            continue  # the order of several creations, one of which a call makes, is left open
        if change.expect == 0 and change.maker is not None:
            if change.maker[0] in made:
                continue
            real.maker = (world.key(change.maker[0]), *change.maker[1:])
        changes.append(change)
        reals.append(real)
        world.say((s.name, change))
        wanted.append(_name(s.model._apply(change)))
    group = r.random() < 0.7
    for real in reals:
        real.group = group
    answers = await append_all(s.real, *reals)
    for change, real, error in zip(changes, reals, answers, strict=True):
        if change.expect == 0 and error is None:
            world.real_keys[change.key], world.model_keys[real.key] = real.key, change.key
    world.agree(f"  {s.name}: answers", wanted, [_name(error) for error in answers])


def _name(error: ClicketError | None) -> str:
    return "ok" if error is None else type(error).__name__


async def _load(world: _World, s: _Session, r: Random) -> None:
    id, thread, caller = r.choice(_IDS), r.choice((None, *_THREADS)), r.choice((None, *_CALLERS))
    await world.both(
        s, f"load({id!r}, {thread!r}, {caller!r})", lambda store: store.load(id, thread, caller),
        see=world.many, see_real=world.many_real,
    )  # fmt: skip


async def _events(world: _World, s: _Session, r: Random) -> None:
    keys = _keys(world)
    if keys:
        key, after = r.choice(keys), r.randrange(6)
        call = world.model.calls.get(key)
        id = r.choice(_IDS) if call is None or r.random() < 0.1 else call.id
        await world.both(
            s, f"events({key}, {id!r}, {after})", lambda store: store.events(key, id, after),
            lambda store: store.events(world.key(key), id, after),
        )  # fmt: skip


async def _news(world: _World, s: _Session, r: Random) -> None:
    ids = {key: (row.id, last) for key, row, last in world.gone}
    ids |= {call.key: (call.id, call.last) for call in world.model.calls.values()}
    known = {key: (id, max(last - r.randrange(4), 0)) for key, (id, last) in ids.items() if r.random() < 0.3}
    await world.both(
        s, f"news({known})", lambda store: store.news(known),
        lambda store: store.news({world.key(key): value for key, value in known.items()}),
        see_real=lambda found: {world.model_keys.get(key, -1): events for key, events in found.items()},
    )  # fmt: skip


async def _history(world: _World, s: _Session, r: Random) -> None:
    choices: dict[str, Callable[[], Any]] = {
        "thread": lambda: r.choice(_THREADS),
        "tool": lambda: r.choice(_TOOLS),
        "state": lambda: r.choice((*_LIVE[:3], *_ENDS)),
        "since": lambda: 100.0 + 65.0 * r.randrange(24),
        "until": lambda: 100.0 + 65.0 * r.randrange(24),
        "caller": lambda: r.choice(_CALLERS),
        "id_prefix": lambda: r.choice(("a", "b", "b%", "%", "c")),
        "id_contains": lambda: r.choice(("a", "b", "%", "_")),
        "waiting_for": lambda: r.choice(("approval", "credential", "x")),
        "active": lambda: True,
        "limit": lambda: r.randrange(1, 6),
        "code": lambda: r.choice(("tool_error", "bad_input", "timeout", "cancelled")),
        "request_id": lambda: f"r{r.randrange(3)}",
        "metadata": lambda: r.choice(
            ((("user", "u1"),), (("n", 1),), (("n", "1"),), (("odd", True), ("user", "late")))
        ),
    }
    given = {name: make() for name, make in choices.items() if r.random() < 0.12}
    ascending = r.random() < 0.4
    real = dict(given)
    keys = _keys(world)
    if keys and r.random() < 0.3:
        key = r.choice(keys)
        place = "after" if ascending else "before"
        given[place], real[place] = key, world.key(key)
    query, real_query = Query(ascending=ascending, **given), Query(ascending=ascending, **real)
    await world.both(
        s, f"history({', '.join(f'{k}={v!r}' for k, v in given.items())}, ascending={ascending})",
        lambda store: store.history(query), lambda store: store.history(real_query), see=world.many, see_real=world.many_real,
    )  # fmt: skip


async def _ended(world: _World, s: _Session, r: Random) -> None:
    if not isinstance(s.real, CountsEnded):
        return
    caller, tool, limit = r.choice((None, *_CALLERS)), r.choice((None, *_TOOLS)), r.randrange(1, 20)
    since, before = 65.0 * r.randrange(24), r.choice((None, *_keys(world)))
    await world.both(
        s, f"ended(caller={caller!r}, tool={tool!r}, since={since}, before={before}, limit={limit})",
        lambda store: store.ended(caller=caller, tool=tool, since=since, before=before, limit=limit),
        lambda store: store.ended(
            caller=caller, tool=tool, since=since, before=None if before is None else world.key(before), limit=limit
        ),
        see_real=lambda found: [msgspec.structs.replace(each, key=world.model_keys.get(each.key, -1)) for each in found],
    )  # fmt: skip


async def _places(world: _World, s: _Session, r: Random) -> None:
    if not isinstance(s.real, ListsThreads):
        return
    before, limit = r.choice((None, *_keys(world))), r.randrange(1, 30)
    await world.both(
        s, f"places({before}, {limit})", lambda store: store.places(before, limit),
        lambda store: store.places(None if before is None else world.key(before), limit),
        see_real=lambda found: [msgspec.structs.replace(each, key=world.model_keys.get(each.key, -1)) for each in found],
    )  # fmt: skip


async def _thread_counts(world: _World, s: _Session, r: Random) -> None:
    if not isinstance(s.real, ListsThreads):
        return
    threads, limit = _some(r, [(c, t) for c in (*_CALLERS, "nobody") for t in _THREADS]), r.choice((1, 3, 100))
    await world.both(
        s, f"thread_counts({threads}, {limit})", lambda store: store.thread_counts(threads, limit),
        see_real=lambda found: [
            msgspec.structs.replace(each, newest=world.model_keys.get(each.newest, -1) if each.newest else 0) for each in found
        ],
    )  # fmt: skip


async def _owners(world: _World, s: _Session, r: Random) -> None:
    await world.both(
        s, "owners()", lambda store: store.owners(),
        see=lambda found: {each.id for each in found if each.alive and not each.mine},
        see_real=lambda found: {world.owners.get(each.id, -1) for each in found if each.alive and not each.mine},
    )  # fmt: skip


async def _look(world: _World, s: _Session, r: Random) -> None:
    """What has no exact answer: the server's time, the size, the stamp of health, where a limited search ends."""
    if isinstance(s.real, KeepsTime):
        world.agree(f"{s.name}.time()", True, abs(await s.real.time() - time.time()) < _CLOCKS_DIFFER)
    world.agree(f"{s.name}.size()", True, await s.real.size() >= 0)
    world.agree(f"{s.name}.health_stamp()", True, isinstance(s.real.health_stamp(), int | None))
    if isinstance(s.real, LimitsScans):
        query = Query(id_contains="x", ascending=r.random() < 0.5, thread=r.choice((None, "t")))
        number = r.randrange(1, 10)
        end = await s.real.scan_end(query, number)
        if end is not None:
            call = world.model.calls.get(world.model_keys[end.key])
            if call is not None:  # else it was swept: a row that is still to be removed may be where a search ends
                world.agree(f"{s.name}.scan_end({number})", call.created_at, end.created_at)


async def _renew(world: _World, s: _Session, r: Random) -> None:
    await world.both(s, "renew()", lambda store: store.renew())


async def _claim_orphans(world: _World, s: _Session, r: Random) -> None:
    queues, limit = frozenset(_some(r, _queues())), r.choice((1, 2, 100))
    await world.both(
        s, f"claim_orphans({sorted(queues)}, {limit})", lambda store: store.claim_orphans(queues, limit),
        see=world.many, see_real=world.many_real,
    )  # fmt: skip


async def _claim_waiting(world: _World, s: _Session, r: Random) -> None:
    queues, limit = frozenset(_some(r, _queues())), r.choice((1, 2, 5, 100))
    await world.both(
        s, f"claim_waiting({sorted(queues)}, {limit})", lambda store: store.claim_waiting(queues, limit),
        see=world.many, see_real=world.many_real,
    )  # fmt: skip


def _queues() -> list[str]:
    return sorted({*_TOOLS, *_QUEUES} - {""})


async def _claim(world: _World, s: _Session, r: Random) -> None:
    if keys := _keys(world):
        key = r.choice(keys)
        await world.both(
            s, f"claim({key})", lambda store: store.claim(key), lambda store: store.claim(world.key(key)),
            see=world.see_stored, see_real=world.see_real,
        )  # fmt: skip


async def _owned(world: _World, s: _Session, r: Random) -> None:
    await world.both(
        s, "owned()", lambda store: store.owned(), see=sorted, see_real=lambda keys: _model_keys(world, keys)
    )


async def _signals(world: _World, s: _Session, r: Random) -> None:
    await world.both(
        s, "signals()", lambda store: store.signals(), see=sorted, see_real=lambda keys: _model_keys(world, keys)
    )


def _model_keys(world: _World, keys: Sequence[int]) -> list[int]:
    return sorted(world.model_keys.get(key, -1) for key in keys)


async def _hand_back(world: _World, s: _Session, r: Random) -> None:
    keys = _some(r, _keys(world))[:4]
    await world.both(
        s, f"hand_back({keys})", lambda store: store.hand_back(keys),
        lambda store: store.hand_back([world.key(key) for key in keys]),
    )  # fmt: skip


async def _hold(world: _World, s: _Session, r: Random) -> None:
    name, number, capacity = r.choice(("x", "y")), r.randrange(4), r.randrange(5)
    await world.both(s, f"hold({name!r}, {number}, {capacity})", lambda store: store.hold(name, number, capacity))


async def _take(world: _World, s: _Session, r: Random) -> None:
    name, burst = r.choice((("p", 3), ("q", 40)))
    number = r.randrange(4)
    await world.both(
        s, f"take({name!r}, 1e-7, {burst}, {number})", lambda store: store.take(name, 1e-7, burst, number),
        see=lambda grant: (grant.count, grant.left, grant.wait > 0),
    )  # fmt: skip


async def _backlog(world: _World, s: _Session, r: Random) -> None:
    await world.both(s, "backlog()", lambda store: store.backlog())


async def _put_artifact(world: _World, s: _Session, r: Random) -> None:
    body, until = r.choice(_BODIES), r.choice((None, 1_000_000.0 + r.randrange(2_000)))
    chunks = [body[:5], body[5:]]
    await world.both(
        s, f"put_artifact({body[:3]!r}, keep_until={until})",
        lambda store: store.put_artifact(_name_of(body), chunks, keep_until=until),
    )  # fmt: skip


async def _read_artifact(world: _World, s: _Session, r: Random) -> None:
    body, start, end = r.choice(_BODIES), r.randrange(4), r.choice((None, 7))
    name = _name_of(body)
    if world.model.must_keep(name):
        await world.both(
            s, f"read_artifact({body[:3]!r}, {start}, {end})", lambda store: store.read_artifact(name, start, end)
        )  # fmt: skip
    else:  # it may be gone, or not yet
        got = await _answer(s.real.read_artifact(name, start, end))
        world.agree(f"{s.name}.read_artifact({body[:3]!r})", True, got in (_Raised("NotFound"), body[start:end]))


async def _cache_get(world: _World, s: _Session, r: Random) -> None:
    key, now = r.choice(("k1", "k2", "k3")), 20_000_000.0 + world.number + r.choice((-1_000, 0, 3, 2_000))

    async def get(store: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        store.cache_get(key, now, lambda item, error: answer.set_result((item, error)))
        return await answer

    await world.both(s, f"cache_get({key!r}, {now})", get)


async def _cache_clear(world: _World, s: _Session, r: Random) -> None:
    tag = r.choice((None, "tool:tool", "x", "é", "nothing"))
    await world.both(s, f"cache_clear({tag!r})", lambda store: store.cache_clear(tag))


async def _cache_remove(world: _World, s: _Session, r: Random) -> None:
    keys = _some(r, ["k1", "k2", "k3", "k1", "none"])
    await world.both(s, f"cache_remove({keys})", lambda store: store.cache_remove(keys))


async def _cache_items(world: _World, s: _Session, r: Random) -> None:
    after, limit = (r.choice((0.0, 20_000_000.0 + world.number)), r.choice(("", "k2"))), r.choice((1, 100))
    await world.both(s, f"cache_items({after}, {limit})", lambda store: store.cache_items(after, limit))


async def _cache_stats(world: _World, s: _Session, r: Random) -> None:
    await world.both(s, "cache_stats()", lambda store: store.cache_stats())


async def _cache_sweep(world: _World, s: _Session, r: Random) -> None:
    now, most, limit = (
        20_000_000.0 + world.number + r.choice((0, 500)),
        r.choice((0, 150, 10_000)),
        r.choice((1, 2, 100)),
    )

    async def sweep(store: Any) -> tuple[int, int]:
        calls = size = 0
        while True:  # which of several expired results goes first is open
            step = await store.cache_sweep(now, most, limit)
            calls, size = calls + step.calls, size + step.bytes
            if not step.more:
                return calls, size

    await world.both(s, f"cache_sweep({now}, {most}, {limit})", sweep)


async def _sweep(world: _World, s: _Session, r: Random) -> None:
    """Until no more is over. `now` is new each time, so no plan of an earlier sweep is used."""
    choices: dict[str, Callable[[], Any]] = {
        "since": lambda: 10_000.0 * r.randrange(1, 3_000),
        "calls": lambda: r.randrange(20),
        "bytes": lambda: r.choice((0, 10**12)),
        "thread_calls": lambda: r.randrange(12),
        "thread_bytes": lambda: r.choice((0, 10**12)),
    }
    names, how = r.sample(list(choices), r.choice((1, 1, 1, 2, 3))), r.choice(("", "", "look", "keep", "fail"))
    bounds = {name: choices[name]() for name in names}
    if r.random() < 0.2 and how != "fail":  # else it is open what was removed before
        bounds["health_since"] = 10_000.0 * r.randrange(1, 3_000)
    keep = Keep(now=1_000_000.0 + r.randrange(2_000) + world.next() / 1e6, **bounds)
    limit, dry = r.choice((1, 3, 100)), r.random() < 0.2
    kept = frozenset(_some(r, _IDS))
    before = dict(world.model.calls)

    def watch(ids: list[str]) -> Any:
        async def on_remove(calls: list[Stored]) -> set[int] | None:
            if how == "fail":
                raise StoreUnavailable("not now")
            ids.extend(f"{call.id} {len(call.events)}" for call in calls)
            return {call.key for call in calls if call.id in kept} if how == "keep" else None

        return on_remove

    async def sweep(store: Any) -> tuple[int, list[str]]:
        ids: list[str] = []
        number = 0
        while True:
            step = await store.sweep(keep, limit, dry=dry, on_remove=watch(ids) if how else None)
            number += step.calls
            if dry or not step.more:
                return number, sorted(ids)

    text = ", ".join(f"{name}={value}" for name, value in bounds.items())
    await world.both(s, f"sweep({text}, limit={limit}, dry={dry}, on_remove={how or None}, kept={sorted(kept)})", sweep)
    world.note_gone(before)


async def _release(world: _World, s: _Session, r: Random) -> None:
    caller, thread = r.choice(_CALLERS), r.choice(_THREADS)
    await world.both(s, f"release({caller!r}, {thread!r})", lambda store: store.release(caller, thread))


async def _tool_health(world: _World, s: _Session, r: Random) -> None:
    caller, thread = r.choice([*((c, t) for c in _CALLERS for t in _THREADS), ("", "")])
    see = _by_tool
    await world.both(
        s, f"tool_health({caller!r}, {thread!r})", lambda store: store.tool_health(caller, thread), see=see
    )
    now = s.real.tool_health_now(caller, thread)
    if now is not None:
        wanted = world.model.tool_health(caller, thread)
        world.agree(f"{s.name}.tool_health_now({caller!r}, {thread!r})", see(wanted), see(now))


def _by_tool(found: Sequence[ToolHealth]) -> dict[str, ToolHealth]:
    return {each.tool: each for each in found}


async def _put_tool_health(world: _World, s: _Session, r: Random) -> None:
    caller, thread, tool = r.choice(_CALLERS), r.choice(_THREADS), r.choice(_TOOLS)
    known = _by_tool(world.model.tool_health(caller, thread)).get(tool)
    expect = (known.version if known else 0) + r.choice((0, 0, 0, 1))
    health = ToolHealth(
        tool=tool, completions=r.randrange(5), failures=r.randrange(5), consecutive_failures=r.randrange(3),
        first_success_at=r.choice((None, 5.25)), last_error=r.choice(("", "é")), status=r.choice((None, None, "maintenance")),
        reason=r.choice(("", "because")), by=r.choice(("", "me")), announced=r.choice(("available", "failed")),
        updated_at=10_000.0 * r.randrange(1, 3_000), tool_version=r.choice(("", "1")),
    )  # fmt: skip
    await world.both(
        s, f"put_tool_health({caller!r}, {thread!r}, {health!r}, {expect})",
        lambda store: store.put_tool_health(caller, thread, health, expect),
    )  # fmt: skip


async def _figures(world: _World, s: _Session, r: Random) -> None:
    caller = r.choice((None, *_CALLERS))
    await world.both(
        s, f"figures({caller!r})", lambda store: store.figures(caller), see=lambda found: sorted(map(str, found))
    )


def _plain(document: Any) -> Any:
    return None if document is None else (document.kind, document.key, document.body, document.version)


async def _document(world: _World, s: _Session, r: Random) -> None:
    kind, key = r.choice(("kind", "kinds")), r.choice(_NAMES)
    found = await world.both(s, f"document({kind!r}, {key!r})", lambda store: store.document(kind, key), see=_plain)
    now = s.real.document_now(kind, key)
    if now is not None:
        world.agree(f"{s.name}.document_now({kind!r}, {key!r})", _plain(found), _plain(now[0]))


def _version(world: _World, r: Random, kind: str, key: str) -> int:
    known = world.model.document(kind, key)
    return (known.version if known else 0) + r.choice((0, 0, 0, 1, -1 if known else 0))


async def _put_document(world: _World, s: _Session, r: Random) -> None:
    kind, key, body = r.choice(("kind", "kinds")), r.choice(_NAMES), b"%d\x00\xff" % world.next()
    expect = None if r.random() < 0.2 else _version(world, r, kind, key)
    await world.both(
        s, f"put_document({kind!r}, {key!r}, {body!r}, {expect})", lambda store: store.put_document(kind, key, body, expect)
    )  # fmt: skip


async def _put_documents(world: _World, s: _Session, r: Random) -> None:
    places = _some(r, [(kind, key) for kind in ("kind", "kinds") for key in _NAMES])[:3]
    writes = [
        DocumentWrite(kind=kind, key=key, body=b"%d" % world.next(), expect=_version(world, r, kind, key))
        for kind, key in places
    ]
    await world.both(s, f"put_documents({writes})", lambda store: store.put_documents(writes))


async def _delete_document(world: _World, s: _Session, r: Random) -> None:
    kind, key = r.choice(("kind", "kinds")), r.choice(_NAMES)
    await world.both(s, f"delete_document({kind!r}, {key!r})", lambda store: store.delete_document(kind, key))


async def _documents(world: _World, s: _Session, r: Random) -> None:
    kind, after, limit = r.choice(("kind", "kinds")), r.choice(("", "a", "b", "é")), r.choice((1, 100))
    await world.both(
        s, f"documents({kind!r}, after={after!r}, limit={limit})",
        lambda store: store.documents(kind, after=after, limit=limit), see=lambda found: [_plain(each) for each in found],
    )  # fmt: skip


async def _audit(world: _World, s: _Session, r: Random) -> None:
    bodies = [b"%d\x00" % world.next() for _ in range(r.randrange(3))]
    await world.both(s, f"audit({bodies})", lambda store: store.audit(bodies))
    if bodies:
        newest = await s.real.audited(limit=len(bodies))
        world.real_log += [entry.number for entry in reversed(newest)]
        world.agree("  audited()", bodies, [entry.body for entry in reversed(newest)])


async def _audited(world: _World, s: _Session, r: Random) -> None:
    before, limit = r.choice((None, r.randrange(len(world.real_log) + 1) or None)), r.randrange(1, 10)
    numbers = {number: n for n, number in enumerate(world.real_log, 1)}
    await world.both(
        s, f"audited(before={before}, limit={limit})", lambda store: store.audited(before=before, limit=limit),
        lambda store: store.audited(before=None if before is None else world.real_log[before - 1], limit=limit),
        see=lambda found: [(each.number, each.body) for each in found],
        see_real=lambda found: [(numbers.get(each.number, -1), each.body) for each in found],
    )  # fmt: skip


_Operation = Callable[[_World, _Session, Random], Awaitable[None]]
_OPERATIONS: dict[str, tuple[int, _Operation]] = {
    "append": (60, _appends), "load": (6, _load), "events": (6, _events), "news": (4, _news), "history": (16, _history),
    "ended": (3, _ended), "places": (2, _places), "thread_counts": (3, _thread_counts), "owners": (2, _owners), "renew": (2, _renew),
    "look": (2, _look),
    "claim_orphans": (6, _claim_orphans), "claim_waiting": (8, _claim_waiting), "claim": (5, _claim), "owned": (4, _owned),
    "signals": (4, _signals), "hand_back": (3, _hand_back), "hold": (5, _hold), "take": (3, _take), "backlog": (4, _backlog),
    "put_artifact": (3, _put_artifact), "read_artifact": (3, _read_artifact), "cache_get": (4, _cache_get),
    "cache_clear": (1, _cache_clear), "cache_remove": (1, _cache_remove), "cache_items": (3, _cache_items),
    "cache_stats": (2, _cache_stats), "cache_sweep": (2, _cache_sweep), "sweep": (5, _sweep), "release": (2, _release),
    "tool_health": (5, _tool_health), "put_tool_health": (3, _put_tool_health), "figures": (2, _figures),
    "document": (3, _document), "put_document": (4, _put_document), "put_documents": (2, _put_documents),
    "delete_document": (1, _delete_document), "documents": (2, _documents), "audit": (1, _audit), "audited": (1, _audited),
}  # fmt: skip
"""Each with how often it is chosen. `reopen` and `kill` are beside them."""


def operations(seed: int, number: int) -> list[Op]:
    """Operations of one run."""
    r = Random(seed)  # repeatable, not secret
    names = [*_OPERATIONS, "reopen", "kill"]
    weights = [*(weight for weight, _ in _OPERATIONS.values()), 0.6, 0.3]
    return [Op(name, r.randrange(3), r.getrandbits(48)) for name in r.choices(names, weights, k=number)]


async def _perform(world: _World, op: Op) -> None:
    if op.name == "reopen":
        if world.kind.kill is not None:
            await world.reopen(op.session)
    elif op.name == "kill":
        if world.kind.kill is not None and len(world.killed) < _MOST_KILLED:
            await world.kill(op.session)
    else:
        _, operation = _OPERATIONS[op.name]
        await operation(world, world.sessions[op.session % len(world.sessions)], Random(op.seed))


_places_used = count(1)


async def run(kind: Kind, ops: Sequence[Op]) -> Failure | None:
    """Perform operations on a new place of a store and on a new model. None: all answers agree."""
    world = _World(kind, f"w{next(_places_used)}")
    try:
        await world.open()
        for number, op in enumerate(ops, 1):
            try:
                await _perform(world, op)
            except Difference as difference:
                return Failure(list(ops[:number]), [*_written(world.said)[:-1], str(difference)])
    finally:
        await world.close()
    return None


async def shrunk(kind: Kind, failure: Failure, *, tries: int = 400) -> Failure:
    """The same difference, or another one, with fewer operations: leaves out halves, then quarters, and so on."""
    step = max(len(failure.ops) // 2, 1)
    while tries:
        at, found = 0, False
        while at < len(failure.ops) and tries:
            tries -= 1
            shorter = await run(kind, failure.ops[:at] + failure.ops[at + step :])
            if shorter is None:
                at += step
            else:
                failure, found = shorter, True
        if not found and step == 1:
            break
        step = step if found and step == 1 else max(step // 2, 1)
    return failure


# The stores.


async def _kill_sqlite(place: str, session: Any, another: Any) -> None:
    await session.expire(another, -1e9)
    await session.die()


@contextmanager
def kinds(*names: str) -> Iterator[dict[str, Kind]]:
    """The stores of these names, with servers for those that need them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clicket-oracle-")))
        made: dict[str, Kind] = {}
        for name in names:
            if name == "memory":
                made[name] = Kind(name, lambda place: MemoryStore(), lambda store: 1)
            elif name == "sqlite":
                made[name] = Kind(
                    name, lambda place: MortalStore(folder / place / "calls.db"), lambda store: int(store.owner), _kill_sqlite
                )  # fmt: skip
            elif name == "redis":
                (folder / "redis").mkdir()
                made[name] = _redis(stack.enter_context(redis_server(folder / "redis")))
            else:
                made[name] = _postgres(stack.enter_context(postgres_server()))
        yield made


def _redis(server: RedisServer) -> Kind:
    async def kill(place: str, session: Any, another: Any) -> None:
        with redis.Redis(port=server.port, protocol=2) as raw:
            raw.hset(f"{{{place}}}:meta", f"renewed:{session.bus.me}", "0")

    return Kind(
        "redis", lambda place: RedisStore(server.url, prefix=place, timeout=30.0), lambda store: int(store.bus.me), kill, bus=True
    )  # fmt: skip


def _postgres(server: PostgresServer) -> Kind:
    async def kill(place: str, session: Any, another: Any) -> None:
        with psycopg.connect(server.url(), autocommit=True, options=f"-c search_path={place}") as raw:
            raw.execute("UPDATE owners SET renewed = 'epoch' WHERE id = %s", [session.bus.me])

    return Kind(
        "postgresql", lambda place: PostgresStore(f"{server.url()}?schema={place}", timeout=30.0, pool=1),
        lambda store: int(store.bus.me), kill, bus=True,
    )  # fmt: skip


async def _campaign(kind: Kind, seed: int, total: int, length: int) -> int:
    started, done, said = time.monotonic(), 0, 0.0
    while done < total:
        ops = operations(seed, min(length, total - done))
        failure = await run(kind, ops)
        if failure is not None:
            print(
                f"{kind.name}, seed {seed}: a difference after {len(failure.ops)} operations. Shrinking …", flush=True
            )
            print(await shrunk(kind, failure), flush=True)
            return 1
        done, seed = done + len(ops), seed + 1
        passed = time.monotonic() - started
        if passed > said + 10 or done >= total:
            said = passed
            print(
                f"{kind.name}: {done:,} operations agree, {done / passed:,.0f} a second; next seed {seed}", flush=True
            )
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("memory", "sqlite", "redis", "postgresql"), default="sqlite")
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next run has the next one")
    parser.add_argument(
        "--length", type=int, default=500, help="operations of one run, which begins with an empty store"
    )
    given = parser.parse_args(arguments)
    logging.getLogger("clicket").setLevel(
        logging.ERROR
    )  # the servers are fast, and lose all data at their end: each session would say so
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the servers are ended
    with kinds(given.store) as made:
        return asyncio.run(_campaign(made[given.store], given.seed, given.operations, given.length))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
