"""Live calls by name: one id in any number of threads, and never a wrong one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clicket.engine.journal import Entry
from clicket.engine.live_call import Call, Origin
from clicket.engine.local.live_calls import LiveCalls
from clicket.model import ToolCall

IDS, THREADS, CALLERS = ("a", "b"), ("t1", "t2"), ("", "ann")


def live(id: str, thread: str, caller: str = "") -> Call:
    return Call(
        Entry(id, thread, caller, "tool", 0.0),
        ToolCall("tool", {}, id=id, thread=thread),
        Origin(caller),
        0.0,
        "key",
        {},
    )


def test_one_id_in_two_threads_is_found_by_its_thread_and_not_without() -> None:
    known, one, two = LiveCalls(), live("a", "t1"), live("a", "t2")
    known.add(one)
    known.add(two)
    assert known.find("a", "t1", "") is one
    assert known.find("a", "t2", "") is two
    assert known.find("a", None, "") is None
    known.remove(one)
    assert known.find("a", None, None) is two
    assert known.find("a", "t1", "") is None


def test_a_second_call_of_the_same_name_hides_both_until_it_is_gone() -> None:
    known, first, second = LiveCalls(), live("a", "t1"), live("a", "t1")
    known.add(first)
    known.add(second)
    assert known.find("a", "t1", "") is None
    known.remove(second)
    assert known.find("a", "t1", "") is first


_places = st.tuples(st.sampled_from(IDS), st.sampled_from(THREADS), st.sampled_from(CALLERS))


@given(st.lists(st.tuples(st.booleans(), _places, st.integers(0, 5))))
def test_it_finds_what_a_look_at_every_call_finds(steps: list[tuple[bool, tuple[str, str, str], int]]) -> None:
    known, calls = LiveCalls(), list[Call]()
    for adds, place, pick in steps:
        if adds:
            calls.append(live(*place))
            known.add(calls[-1])
            known.add(calls[-1])  # a resumed call is registered already
        elif calls:
            call = calls.pop(pick % len(calls))
            known.remove(call)
            known.remove(call)
        for id in IDS:
            assert known.named(id) == [call for call in calls if call.id == id]
            for thread in (None, *THREADS):
                for caller in (None, *CALLERS):
                    found = [
                        call
                        for call in calls
                        if call.id == id and thread in (None, call.thread) and caller in (None, call.caller)
                    ]
                    assert known.find(id, thread, caller) is (found[0] if len(found) == 1 else None)
    for call in calls:
        known.remove(call)
    assert (len(known), list(known)) == (0, [])
    assert known._places == {}, "names of removed calls"
