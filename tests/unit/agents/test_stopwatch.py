"""Time counts while at least one call runs: once for concurrent calls, and not while all wait for an approval."""

from __future__ import annotations

import pytest

from clicket.agents.stopwatch import Stopwatch
from clicket.agents.task_threads import thread_of_task
from clicket.kernel import State
from clicket.model import Event
from clicket.model.ids import asked_id, use_id
from clicket.testing import StepClock


def watch(clock: StepClock, bound: float = 10.0) -> Stopwatch:
    return Stopwatch(clock, bound, "ann", "t")


def event(kind: str, **data: object) -> Event:
    return Event("x", 1, 0.0, kind, State.PENDING, data)  # type: ignore[arg-type]


async def test_calls_side_by_side_count_once() -> None:
    clock = StepClock()
    counted = watch(clock)
    clock.advance(5)
    assert counted.seconds == 0
    counted.begin("react.1.1.1")
    clock.advance(2)
    counted.begin("react.1.1.2")
    clock.advance(2)
    counted.end("react.1.1.1")
    clock.advance(2)
    counted.end("react.1.1.2")
    clock.advance(50)
    assert counted.seconds == 6
    assert not counted.up.done()
    assert clock.pending == []


async def test_waiting_for_a_person_does_not_count_unless_another_works() -> None:
    clock = StepClock()
    counted = watch(clock)
    counted.begin("react.1.1.1")
    counted("ann", "t", "react.1.1.1", [event("approval_requested")])
    clock.advance(3_600)
    assert counted.seconds == 0
    counted.begin("react.1.1.2")
    clock.advance(4)
    counted.end("react.1.1.2")
    clock.advance(3_600)
    assert counted.seconds == 4
    counted("ann", "t", "react.1.1.1", [event("approval_given")])
    clock.advance(5.5)
    assert not counted.up.done()
    clock.advance(0.6)
    assert counted.up.done()


async def test_the_first_of_two_approvals_does_not_end_the_wait() -> None:
    clock = StepClock()
    counted = watch(clock)
    counted.begin("react.1.1.1")
    counted("ann", "t", "react.1.1.1", [event("approval_requested")])
    for name in ("ada", "bob"):
        counted("ann", "t", "react.1.1.1", [event("approval_given", identities=[name])])
        clock.advance(3_600)
        assert counted.seconds == 0
    counted("ann", "t", "react.1.1.1", [event("attempt_started")])
    clock.advance(2)
    assert counted.seconds == 2


async def test_waiting_for_a_credential_does_not_count() -> None:
    clock = StepClock()
    counted = watch(clock)
    counted.begin("react.1.1.1")
    counted("ann", "t", "react.1.1.1", [event("note", text="it waits", waiting_for="credential")])
    clock.advance(3_600)
    counted("ann", "t", "react.1.1.1", [event("note", text="of the tool's own")])
    clock.advance(3_600)
    assert counted.seconds == 0
    counted("ann", "t", "react.1.1.1", [event("note", text="it is there", waiting_for=None)])
    clock.advance(2)
    assert counted.seconds == 2
    counted("ann", "t", "react.1.1.1", [event("state_changed", waiting_for="credential")])
    clock.advance(3_600)
    assert counted.seconds == 2


@pytest.mark.parametrize("ending", [event("approval_given"), event("state_changed")])
async def test_a_program_does_not_count_while_a_use_waits_for_a_person(ending: Event) -> None:
    clock = StepClock()
    counted = watch(clock)
    program = asked_id("toolu_01", "react.1.1.1", "3f9c")
    counted.begin(program)
    counted("ann", "t", use_id(program, 3), [event("approval_requested")])
    clock.advance(3_600)
    assert counted.seconds == 0
    counted("ann", "t", use_id(program, 3), [ending])
    clock.advance(2)
    assert counted.seconds == 2
    counted("ann", "t", use_id(program, 4), [event("approval_requested")])
    counted.end(program)
    counted.begin(program)
    clock.advance(2)
    assert counted.seconds == 4, "a use that was left does not hold a later program"


@pytest.mark.parametrize(
    "thread", ["t/react.1.1.1", "t/react.1.1.1/sub.1.2.1", "t/react.1.1.1.u2", "t/react.1.1.1.u2/a.1.1.1"]
)
async def test_a_called_agent_does_not_count_while_a_call_below_it_waits_for_a_person(thread: str) -> None:
    clock = StepClock()
    counted = watch(clock)
    counted.begin(asked_id("toolu_01", "react.1.1.1", "3f9c"))
    counted("ann", thread, asked_id("", "sub.1.1.1", "77aa"), [event("approval_requested")])
    clock.advance(3_600)
    assert counted.seconds == 0
    counted.begin("react.1.1.2")
    clock.advance(3)
    counted.end("react.1.1.2")
    counted("ann", thread, asked_id("", "sub.1.1.1", "77aa"), [event("approval_given")])
    clock.advance(2)
    assert counted.seconds == 5
    counted.wait(thread, asked_id("", "sub.1.2.1", "77aa"))
    clock.advance(3_600)
    assert counted.seconds == 5


async def test_a_called_agent_below_a_thread_with_a_long_name_is_followed() -> None:
    clock, long = StepClock(), "t" * 505
    counted = Stopwatch(clock, 10.0, "ann", long)
    counted.begin("react.1.1.1")
    counted("ann", thread_of_task(long, "react.1.1.1"), "sub.1.1.1", [event("approval_requested")])
    clock.advance(3_600)
    assert counted.seconds == 0


async def test_calls_of_others_are_not_looked_at() -> None:
    clock = StepClock()
    counted = watch(clock)
    counted.begin("react.1.1.1")
    for caller, thread, id in (
        ("bob", "t", "react.1.1.1"),
        ("ann", "u", "react.1.1.1"),
        ("ann", "t", "react.11.1.1"),
        ("bob", "t/react.1.1.1", "sub.1.1.1"),
        ("ann", "t/react.1.1.10", "sub.1.1.1"),
        ("ann", "t/react.1.1.2", "sub.1.1.1"),
        ("ann", "agent:sub/t/react.1.1.1", "turn-1"),
    ):
        counted(caller, thread, id, [event("approval_requested")])
    counted("ann", "t", "react.1.1.1", [event("progress")])
    clock.advance(9.5)
    assert counted.seconds == 9.5
    counted.stop()
    clock.advance(5)
    assert not counted.up.done()
