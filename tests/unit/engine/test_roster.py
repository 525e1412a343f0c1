"""Live calls by name: one id in any number of threads, and never a wrong one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clicket.engine.roster import Roster
from clicket.journal import LiveCall
from clicket.model import ToolCall

IDS, THREADS, CALLERS = ("a", "b"), ("t1", "t2"), ("", "ann")


def live(id: str, thread: str, caller: str = "") -> LiveCall:
    return LiveCall(
        request=ToolCall("tool", {}, id=id, thread=thread),
        id=id,
        caller=caller,
        created_at=0.0,
        submitted_at=0.0,
        idempotency_key="key",
    )


def test_one_id_in_two_threads_is_found_by_its_thread_and_not_without() -> None:
    roster, one, two = Roster(), live("a", "t1"), live("a", "t2")
    roster.add(one)
    roster.add(two)
    assert roster.find("a", "t1", "") is one
    assert roster.find("a", "t2", "") is two
    assert roster.find("a", None, "") is None
    roster.remove(one)
    assert roster.find("a", None, None) is two
    assert roster.find("a", "t1", "") is None


def test_a_second_call_of_the_same_name_hides_both_until_it_is_gone() -> None:
    roster, first, second = Roster(), live("a", "t1"), live("a", "t1")
    roster.add(first)
    roster.add(second)
    assert roster.find("a", "t1", "") is None
    roster.remove(second)
    assert roster.find("a", "t1", "") is first


_places = st.tuples(st.sampled_from(IDS), st.sampled_from(THREADS), st.sampled_from(CALLERS))


@given(st.lists(st.tuples(st.booleans(), _places, st.integers(0, 5))))
def test_it_finds_what_a_look_at_every_call_finds(steps: list[tuple[bool, tuple[str, str, str], int]]) -> None:
    roster, calls = Roster(), list[LiveCall]()
    for adds, place, pick in steps:
        if adds:
            calls.append(live(*place))
            roster.add(calls[-1])
            roster.add(calls[-1])  # whoever is taken up again is there already
        elif calls:
            call = calls.pop(pick % len(calls))
            roster.remove(call)
            roster.remove(call)
        for id in IDS:
            assert list(roster.calls.get(id, ())) == [call for call in calls if call.id == id]
            for thread in (None, *THREADS):
                for caller in (None, *CALLERS):
                    found = [
                        call
                        for call in calls
                        if call.id == id and thread in (None, call.thread) and caller in (None, call.caller)
                    ]
                    assert roster.find(id, thread, caller) is (found[0] if len(found) == 1 else None)
    for call in calls:
        roster.remove(call)
    assert roster.calls == {}
    assert roster._places == {}, "names of calls that are gone"
