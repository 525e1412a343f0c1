"""Hostile rows, and how to write them into a store without clicket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import apsw
from hypothesis import strategies as st
from tests.scenarios.kit import sqlite_url

from clicket import State

__all__ = ["PICKLE", "ROWS", "SENSELESS", "UNREADABLE", "Rows", "SqliteRows", "call_units", "count", "created"]

BITS = 20  # a unit of events has the number `call << BITS | first event`


# Stores, and how to write into them without clicket ------------------------------------------------------------------


class Rows(Protocol):
    """Direct access to a store's rows, without clicket. Used while no runtime is open."""

    url: str

    def image(self) -> bytes:
        """The whole store."""
        ...

    def restore(self, image: bytes) -> None:
        """Make an empty store what another one was."""
        ...

    def plant(self, id: str, units: list[bytes], last: int | None = None) -> None:
        """Replaces the call's events by these bytes. `last`: the number that the store has for the last event, if it
        changes."""
        ...


class SqliteRows:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "calls.db"
        self.url = sqlite_url(folder)

    def image(self) -> bytes:
        return self.path.read_bytes()  # a closed store is one file

    def restore(self, image: bytes) -> None:
        self.path.write_bytes(image)

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        connection = apsw.Connection(str(self.path))
        try:
            connection.execute(sql, values)
        finally:
            connection.close()

    def plant(self, id: str, units: list[bytes], last: int | None = None) -> None:
        connection = apsw.Connection(str(self.path))
        try:
            key = connection.execute("SELECT key FROM calls WHERE id = ?", (id,)).get
            connection.execute("UPDATE calls SET first_unit = NULL, last_unit = NULL WHERE key = ?", (key,))
            connection.execute("DELETE FROM events WHERE row >> ? = ?", (BITS, key))
            for number, unit in enumerate(units, start=1):
                connection.execute("INSERT INTO events (row, body) VALUES (?, ?)", (key << BITS | number, unit))
            if last is not None:
                connection.execute("UPDATE calls SET seq = ? WHERE key = ?", (last, key))
        finally:
            connection.close()


ROWS: dict[str, Callable[[Path], Rows]] = {"sqlite": SqliteRows}


# Hostile rows -- -----------------------------------------------------------------------------------------------------


CREATED: list[Any] = [1, 100.0, "created", "pending", {"tool": "held", "thread": "default", "arguments": {"n": 1}}]


def count(units: list[bytes]) -> int | None:
    """How many events the bytes hold, if they can be decoded."""
    try:
        return sum(len(json.loads(unit)) for unit in units)
    except (ValueError, TypeError, RecursionError):
        return None


def unit(*events: list[Any]) -> list[bytes]:
    return [json.dumps(events).encode()]


def created(**data: Any) -> list[bytes]:
    return unit([*CREATED[:4], {**CREATED[4], **data}])


def then(kind: str, state: str, data: Any, seq: Any = 2, at: Any = 101.0) -> list[bytes]:
    return unit(CREATED, [seq, at, kind, state, data])


def ending(**data: Any) -> list[bytes]:
    begun = [2, 100.5, "state_changed", "initializing", {"from": "pending", "to": "initializing"}]
    started = [3, 101.0, "attempt_started", "running", {"attempt": 1}]
    change = [4, 102.0, "state_changed", "completed", {"from": "running", "to": "completed", "output": 1, **data}]
    return unit(CREATED, begun, started, change)


PICKLE = b"cposix\nsystem\np0\n(Vtouch canary\np1\ntp2\nRp3\n."
REDUCE = {
    "__reduce__": ["os.system", ["touch canary"]],
    "py/object": "hostile_canary.Bomb",
    "__class__": "hostile_canary.Bomb",
}
YAML = "!!python/object/apply:os.system ['touch canary']"

UNREADABLE: dict[str, list[bytes]] = {
    "nothing": [],
    "an empty unit": [b""],
    "no list": [b"{}"],
    "a number": [b"42"],
    "null": [b"null"],
    "an empty list": [b"[]"],
    "half of it": [json.dumps([CREATED]).encode()[:-20]],
    "bytes": [bytes(range(256))],
    "nul": [b"\0" * 100],
    "a nul in it": [json.dumps([CREATED]).encode().replace(b"held", b"he\0ld")],
    "utf-8 broken in a value": [json.dumps([CREATED]).encode().replace(b"held", b"he\xffld")],
    "utf-8 broken in a key": [json.dumps([CREATED]).encode().replace(b'"n"', b'"\xc3\x28"')],
    "utf-8 broken in the type": [json.dumps([CREATED]).encode().replace(b"created", b"crea\xed\xa0\x80")],
    "utf-16": [json.dumps([CREATED]).encode("utf-16")],
    "a byte order mark": [b"\xef\xbb\xbf" + json.dumps([CREATED]).encode()],
    "a pickle": [PICKLE],
    "yaml": [YAML.encode()],
    "nested without end": [b'[[1,1.0,"created","pending",' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]]"],
    "brackets without end": [b"[" * 1_000_000],
    "a number without end": [
        b'[[1,1.0,"created","pending",{"tool":"held","thread":"default","n":' + b"9" * 100_000 + b"}]]"
    ],
    "a date beyond numbers": [b'[[1,1e999,"created","pending",{"tool":"held","thread":"default"}]]'],
    "nan": [b'[[1,NaN,"created","pending",{"tool":"held","thread":"default"}]]'],
    "an unknown state": unit([1, 1.0, "created", "exploded", CREATED[4]]),
    "an unknown type": then("exploded", "pending", {}),
    "a type that is a class": then("hostile_canary.Bomb", "pending", {}),
    "a number that is text": unit(["1", *CREATED[1:]]),
    "a number that is a fraction": unit([1.5, *CREATED[1:]]),
    "a date that is text": unit([1, "now", *CREATED[2:]]),
    "data that is a list": unit([*CREATED[:4], []]),
    "data that is text": unit([*CREATED[:4], "data"]),
    "too few fields": unit(CREATED[:4]),
    "too many fields": unit([*CREATED, 1]),
    "no beginning": unit([1, 1.0, "note", "pending", {}]),
    "a number from below": unit([-5, *CREATED[1:]]),
    "a number from above": unit([2**63, *CREATED[1:]]),
    "a gap": then("note", "pending", {}, seq=3),
    "a number twice": then("note", "pending", {}, seq=1),
    "numbers backwards": unit([2, *CREATED[1:]], [1, 1.0, "note", "pending", {}]),
    "the same unit twice": unit(CREATED) * 2,
    "a tool that is a number": created(tool=1),
    "a tool that is null": created(tool=None),
    "a thread that is a list": created(thread=[]),
    "no tool": unit([*CREATED[:4], {"thread": "default"}]),
    "no thread": unit([*CREATED[:4], {"tool": "held"}]),
}

SENSELESS: dict[str, list[bytes]] = {
    "half a surrogate": [json.dumps([CREATED]).encode().replace(b"held", b"\\ud800")],
    "class paths": created(**REDUCE),
    "class paths as arguments": created(arguments=REDUCE),
    "class paths as output": ending(output=REDUCE),
    "a class path as a tool": created(tool="hostile_canary.Bomb"),
    "yaml as an argument": created(arguments={"n": YAML}),
    "a pickle as text": ending(output=PICKLE.decode()),
    "sql as a name": created(tool="held'; DROP TABLE calls; --", thread="x' OR '1'='1"),
    "a nul in a name": created(tool="he\0ld", thread="\0"),
    "a begun call that has begun again": unit(CREATED, [2, 1.0, *CREATED[2:]]),
    "an end that says nothing": then("state_changed", "completed", {}),
    "an error that is text": then("state_changed", "failed", {"error": "bad"}),
    "an error that is a list": then("state_changed", "failed", {"error": [1, 2]}),
    "an error without a code": then("state_changed", "failed", {"error": {}}),
    "an error of another kind": then("state_changed", "failed", {"error": {"code": 1, "message": [], "type": None}}),
    "two ends": unit(
        CREATED, [2, 1.0, "state_changed", "completed", {}], [3, 1.0, "state_changed", "failed", {"error": None}]
    ),
    "an edge that is in no table": then("state_changed", "retrying", {"from": "completed", "to": "pending"}),
    "a state that does not fit": then("note", "completed", {}),
    "a stage that has no name": then("stage_ended", "pending", {}),
    "a stage that took text": then("stage_ended", "pending", {"stage": {}, "outcome": 1, "duration": "long"}),
    "an attempt without a number": then("attempt_started", "running", {}),
    "an attempt with a text": then("attempt_started", "running", {"attempt": "first"}),
    "metadata that is a list": created(metadata=[1, 2]),
    "metadata that is text": created(metadata="abc"),
    "metadata in the end that is a list": ending(metadata=["a"]),
    "arguments that are a list": created(arguments=[1]),
    "arguments that are text": created(arguments="n=1"),
    "no arguments": unit([*CREATED[:4], {"tool": "held", "thread": "default"}]),
    "arguments for another tool": created(arguments={"x": {"y": []}}),
    "a caller that is a number": created(caller=7),
    "a deadline that is text": created(deadline="soon"),
    "a deadline from below": created(deadline=-1e300),
    "a deadline beyond dates": created(deadline=1e300),
    "a timeout that is a list": created(timeout=[1]),
    "a timeout beyond numbers": created(timeout=1e308),
    "a priority that is text": created(priority="high"),
    "a priority beyond numbers": created(priority=2**200),
    "a key that is a list": created(idempotency_key=[1]),
    "a name that is a list": created(request_id={"a": 1}),
    "a date long ago": unit([1, -1e300, *CREATED[2:]]),
    "a date far away": unit([1, 1e300, *CREATED[2:]]),
    "an approval that nobody asked for": then("approval_given", "pending", {"approved": "yes", "by": [], "reason": {}}),
    "an approval with other arguments": then("approval_given", "pending", {"approved": True, "arguments": "x"}),
    "a question without an end": then("approval_requested", "pending", {"timeout": "long", "purpose": []}),
    "a cancel for a list of reasons": then("cancel_requested", "pending", {"reason": [1]}),
    "an artifact outside": ending(artifact="../../../../etc/passwd", truncated=True, content="c"),
    "an artifact that is a number": ending(artifact=7, truncated=True, content="c"),
    "an artifact that is a list": ending(artifact=["a"], truncated=True, content={"a": 1}),
    "a short form without its text": ending(truncated=True),
    "a duration that is text": ending(duration="long"),
    "output without content": then("output", "streaming", {}),
    "progress that is nothing": then("progress", "running", {"step": {}, "total_steps": "many"}),
    "progress before it ran": then("progress", "pending", {}),
    "claims without number": then("note", "running", {"claims": "many"}),
    "nested deeply": created(arguments=json.loads('{"a":' * 900 + "1" + "}" * 900)),
    "big numbers": created(arguments={"n": 10**4_000}),
}


# Random events -------------------------------------------------------------------------------------------------------

TYPES = [
    "created", "state_changed", "stage_ended", "attempt_started", "output", "progress", "heartbeat", "cancel_requested",
    "approval_requested", "approval_given", "late_result", "note",
]  # fmt: skip
FIELDS = [
    "tool", "thread", "caller", "arguments", "refused", "priority", "timeout", "deadline", "request_id", "metadata",
    "idempotency_key", "tool_version", "stage", "outcome", "duration", "attempt", "error", "waiting_for", "delay", "from", "to",
    "truncated", "output", "content", "artifact", "cached", "approved", "by", "reason", "claims", "code", "message", "type",
    "step", "total_steps", "purpose", "offset",
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
values = st.recursive(
    scalars | st.sampled_from(["held", "add", "default", "pending", "completed", "approval", "../x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
data = st.dictionaries(st.sampled_from(FIELDS), values, max_size=6)
honest = st.fixed_dictionaries({"tool": st.just("held"), "thread": st.just("default"), "arguments": st.just({"n": 1})})
first = st.tuples(
    st.just(1), st.floats(0, 1e10), st.just("created"), st.sampled_from([s.value for s in State]),
    st.tuples(honest, data).map(lambda two: {**two[1], **two[0]}),
)  # fmt: skip
later = st.tuples(st.floats(0, 1e10), st.sampled_from(TYPES), st.sampled_from([s.value for s in State]), data)


@st.composite
def call_units(draw: st.DrawFn) -> list[bytes]:
    """Events that decode: numbered, of known types and states, but with random content."""
    events: list[Any] = [draw(first)]
    events += [(number, *draw(later)) for number in range(2, draw(st.integers(2, 7)))]
    return [json.dumps(events).encode()]
