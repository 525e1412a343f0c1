"""Units: a packed start or end has the same events as unpacked ones, stored and read back, and old rows can still be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.engine.journal import Entry, Journal
from clicket.kernel import State
from clicket.model import Event, Stage
from clicket.model.unit import End, Rows, Start, Unit, dump_unit, events_in, load_call, load_events, rows_of
from clicket.testing import StepClock

_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_seconds = st.floats(0.0, 1e6, allow_nan=False)
_times = st.floats(1e9, 2e9, allow_nan=False)
_objects = st.dictionaries(_text, _values, max_size=3)


class NoStore:
    """Staging makes no request to a store."""

    def append(self, change: Any, done: Any) -> None:
        raise AssertionError("nothing is committed")


def journal_at(now: float) -> Journal:
    store: Any = NoStore()
    return Journal(store, StepClock(start=now), lambda work: None)


def staged(entry: Entry) -> list[Event]:
    return [Event(entry.id, *row) for row in entry.rows or ()]


@given(created=_objects, arguments=_objects, at=_times, wait=_seconds, took=st.tuples(_seconds, _seconds, _seconds))
def test_a_packed_beginning_is_the_same_as_the_long_way(
    created: dict[str, Any], arguments: Any, at: float, wait: float, took: tuple[float, float, float]
) -> None:
    started = at + wait
    unit = Start(created, arguments, at, *took, started, 1)
    journal, entry = journal_at(started), Entry("a", "t", "", "tool", at)
    journal.record(entry, "created", {**created, "arguments": arguments}, at)
    names = ("find", "authorize", "validate")
    journal.record_stages(entry, at, {name: Stage("ok", each) for name, each in zip(names, took, strict=True)}, 0)
    journal.advance(entry, State.INITIALIZING, at=started)
    journal.advance(entry, State.RUNNING, at=started)
    journal.record(entry, "attempt_started", {"attempt": 1}, started)
    assert load_events("a", dump_unit(unit)) == staged(entry) == events_in(unit, "a")
    assert unit.length == len(staged(entry))


@given(
    seq=st.integers(1, 10_000),
    at=_times,
    before=st.sampled_from([State.RUNNING, State.STREAMING]),
    took=st.tuples(_seconds, _seconds, _seconds, _seconds),
    output=_values,
    metadata=st.none() | _objects,
)
def test_a_packed_end_is_the_same_as_the_long_way(
    seq: int, at: float, before: State, took: tuple[float, float, float, float], output: Any, metadata: Any
) -> None:
    *stages, duration = took
    unit = End(seq, at, before, *stages, duration, output, metadata)
    journal, entry = journal_at(at), Entry("a", "t", "", "tool", at)
    entry.seq, entry.state = seq - 1, before
    names = ("execute", "process", "persist")
    journal.record_stages(entry, at, {name: Stage("ok", each) for name, each in zip(names, stages, strict=True)}, 0)
    data = {"duration": duration, "output": output}
    journal.advance(entry, State.COMPLETED, {**data, "metadata": metadata} if metadata else data, at)
    assert load_events("a", dump_unit(unit)) == staged(entry) == events_in(unit, "a")
    assert unit.length == len(staged(entry))


_rows = st.lists(
    st.tuples(
        st.integers(1, 99), _times, st.sampled_from(["note", "output", "progress"]), st.sampled_from(State), _objects
    ),
    min_size=1,
    max_size=4,
)


@given(_rows)
def test_rows_are_read_back_as_they_were_written(rows: Any) -> None:
    unit = Rows(rows)
    events = load_events("a", dump_unit(unit))
    assert rows_of(events) == unit
    assert events == events_in(unit, "a")


def test_rows_are_stored_as_a_list_of_lists() -> None:
    old = b'[[1,5.0,"created","pending",{"tool":"echo","thread":"t"}],[2,6.0,"state_changed","failed",{"to":"failed"}]]'
    assert load_events("a", old) == [
        Event("a", 1, 5.0, "created", State.PENDING, {"tool": "echo", "thread": "t"}),
        Event("a", 2, 6.0, "state_changed", State.FAILED, {"to": "failed"}),
    ]
    assert load_events("a", b"[]") == []


def test_the_stored_form_of_packed_units_does_not_change() -> None:
    start = Start({"tool": "echo"}, {"n": 1}, 1.0, 0.1, 0.2, 0.3, 2.0, 1, "w-1", "h")
    assert dump_unit(start) == b'["s",{"tool":"echo"},{"n":1},1.0,0.1,0.2,0.3,2.0,1,"w-1","h"]'
    assert events_in(start, "a")[6].data == {"attempt": 1, "worker": "w-1", "host": "h"}
    end = End(8, 3.0, State.RUNNING, 0.1, 0.2, 0.3, 2.0, "out")
    assert dump_unit(end) == b'["e",8,3.0,"running",0.1,0.2,0.3,2.0,"out",null]'


@pytest.mark.parametrize(
    "unit", [End(8, 3.0, State.RUNNING, 0.1, 0.2, 0.3, 2.0, "out"), Rows([(4, 1.0, "note", State.RUNNING, {})])]
)
def test_renumbering_changes_the_numbers_alone(unit: Unit) -> None:
    before, after = unit.rows(), unit.renumbered(5).rows()
    assert [row[0] for row in after] == [row[0] + 5 for row in before]
    assert [row[1:] for row in after] == [row[1:] for row in before]
    assert unit.rows() == before


def test_a_beginning_always_has_the_first_numbers() -> None:
    start = Start({}, {}, 1.0, 0.1, 0.2, 0.3, 2.0, 1)
    assert [row[0] for row in start.rows()] == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(AssertionError):
        start.renumbered(1)


def test_a_reader_that_changes_what_it_read_changes_no_other_call() -> None:
    start = Start({}, {}, 1.0, 0.1, 0.2, 0.3, 2.0, 1)
    for _, _, _, _, data in start.rows():
        data.clear()
    assert all(data for _, _, _, _, data in start.rows())


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'["x",1]', b'["e",1]', b'["s"]', b"[[1]]", b"\xff", b'["e","8",3.0,"running",1,1,1,1,1]']
)
def test_text_that_no_unit_makes_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        load_events("a", text)
    events, why = load_call("a", [text])
    assert (events, bool(why)) == ([], True)


def test_a_call_is_read_whole_or_not_at_all() -> None:
    start = dump_unit(Start({"tool": "echo", "thread": "t"}, {}, 1.0, 0.1, 0.2, 0.3, 2.0, 1))
    end = dump_unit(End(8, 3.0, State.RUNNING, 0.1, 0.2, 0.3, 2.0, "out"))
    events, why = load_call("a", [start, end], last=11)
    assert ([event.seq for event in events], why) == (list(range(1, 12)), None)
    for units, last in (([end], None), ([start, start], None), ([start], 11), ([], None), ([end, start], 11)):
        assert load_call("a", units, last)[0] == [], (units, last)
    nameless = dump_unit(Start({"thread": "t"}, {}, 1.0, 0.1, 0.2, 0.3, 2.0, 1))
    assert load_call("a", [nameless])[0] == []
