"""The limiter alone: never over a limit, never idle with work to do, ranks kept, no needless scans or memory."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.engine.executors.limiter import RUNTIME, Limiter
from clicket.errors import QueueFull


class Call:
    """The part of a call that the limiter reads."""

    def __init__(self, name: str, needs: tuple[Any, ...], priority: int = 0, caller: str = "") -> None:
        self.name = name
        self.needs = needs
        self.plan = SimpleNamespace(needs=needs)
        self.priority = priority
        self.entry = SimpleNamespace(priority=priority, tool="", caller=caller)
        self.queued = False
        self.slot = False
        self.place = 0

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Any) -> bool:
        raise AssertionError("calls are never compared")


def limiter(*, max_queue: int = 1_000) -> tuple[Any, list[Call]]:
    started: list[Call] = []
    return Limiter(max_queue=max_queue, start=started.append), started  # type: ignore[arg-type]  # stand-ins


ALL = (RUNTIME, 2)


def test_slots_are_taken_queued_for_and_passed_on_in_order() -> None:
    line, started = limiter()
    calls = [Call(f"c{i}", (ALL,)) for i in range(5)]
    assert [line.take(c) for c in calls] == [True, True, False, False, False]
    assert line.queued == 3
    line.release(calls[0])
    assert started == [calls[2]]
    line.release(calls[1])
    line.release(calls[2])
    assert started == calls[2:5]
    assert line.queued == 0
    for call in calls[3:]:
        line.release(call)
        line.release(call)  # a second release has no effect
    assert not any(line.used.values())


def test_higher_priority_first_also_across_groups() -> None:
    line, started = limiter()
    other = (ALL, ("tool", "x", 5))
    holders = [Call("h", (ALL,)), Call("h", (ALL,))]
    for holder in holders:
        line.take(holder)
    calls = [Call("a", (ALL,)), Call("b", other), Call("c", (ALL,), 5), Call("d", other, 9), Call("e", other, -1)]
    for call in calls:
        line.take(call)
    line.release(holders[0])
    for _ in calls:
        if started:
            line.release(started[-1])
    line.release(holders[1])
    assert [c.name for c in started] == ["d", "c", "a", "b", "e"]


def drain(line: Any, started: list[Call], held: list[Call]) -> list[str]:
    """The names of the waiting calls in the order in which they start."""
    for call in held:
        line.release(call)
    for call in started:  # it grows meanwhile
        line.release(call)
    return [call.name for call in started]


def test_one_callers_hundred_do_not_stand_before_anothers_first() -> None:
    line, started = limiter()
    holder = Call("h", ((RUNTIME, 1),))
    line.take(holder)
    for number in range(100):
        line.take(Call(f"a{number}", ((RUNTIME, 1),), caller="ann"))
    line.take(Call("b0", ((RUNTIME, 1),), caller="bob"))
    line.take(Call("b1", ((RUNTIME, 1),), caller="bob"))
    line.take(Call("c0", ((RUNTIME, 1),), caller="cleo"))
    order = drain(line, started, [holder])
    assert order[:6] == ["a0", "b0", "c0", "a1", "b1", "a2"]
    assert order[6:] == [f"a{number}" for number in range(3, 100)]


def test_callers_take_turns_also_across_groups_and_priority_counts_within_a_caller() -> None:
    line, started = limiter()
    one, other = ((RUNTIME, 1),), ((RUNTIME, 1), ("tool", "x", 5))
    holder = Call("h", one)
    line.take(holder)
    for name, needs, priority, caller in (
        ("a0", one, 0, "ann"), ("a1", other, 9, "ann"), ("a2", one, 9, "ann"), ("a3", other, 0, "ann"),
        ("b0", other, -5, "bob"), ("b1", one, 0, "bob"),
    ):  # fmt: skip
        line.take(Call(name, needs, priority, caller))
    assert drain(line, started, [holder]) == ["a1", "b1", "a2", "b0", "a0", "a3"]


def test_a_caller_whose_calls_cannot_start_loses_no_turn_of_others() -> None:
    line, started = limiter()
    narrow, wide = ((RUNTIME, 2), ("tool", "narrow", 1)), ((RUNTIME, 2),)
    first, second = Call("first", narrow, caller="ann"), Call("second", wide)
    assert line.take(first)
    assert line.take(second)
    for number in range(3):
        line.take(Call(f"a{number}", narrow, caller="ann"))
    for number in range(3):
        line.take(Call(f"b{number}", wide, caller="bob"))
    line.release(second)
    assert [call.name for call in started] == ["b0"]
    line.release(first)
    line.release(started[0])
    assert [call.name for call in started] == ["b0", "b1", "a0"]  # once it can start, it gets its turn
    assert line.queued == 3


def test_nothing_is_kept_of_callers_that_wait_no_more() -> None:
    line, started = limiter()
    holder = Call("h", ((RUNTIME, 1),))
    line.take(holder)
    for number in range(1_000):
        line.take(Call(str(number), ((RUNTIME, 1),), caller=f"caller {number}"))
    drain(line, started, [holder])
    assert len(started) == 1_000
    assert line.kept == 0


def test_a_full_line_refuses_and_changes_nothing() -> None:
    line, _ = limiter(max_queue=1)
    for i in range(3):
        line.take(Call(f"c{i}", (ALL,)))
    before = (dict(line.used), line.queued)
    refused = Call("refused", (ALL,))
    with pytest.raises(QueueFull):
        line.take(refused)
    assert (dict(line.used), line.queued) == before
    assert not refused.queued
    assert not refused.slot
    assert line.take(Call("exists already", (ALL,)), force=True) is False


def test_an_exhausted_key_delays_only_calls_that_need_it() -> None:
    line, started = limiter()
    narrow = ((RUNTIME, 10), ("tool", "narrow", 1))
    first = Call("first", narrow)
    assert line.take(first)
    waiting = [Call(f"n{i}", narrow) for i in range(3)]
    assert not any(line.take(c) for c in waiting)
    assert line.take(Call("wide", ((RUNTIME, 10),)))
    line.release(first)
    assert started == [waiting[0]]


def test_a_waiter_that_left_is_skipped() -> None:
    line, started = limiter()
    holders = [Call("h", (ALL,)) for _ in range(2)]
    for holder in holders:
        line.take(holder)
    calls = [Call(f"c{i}", (ALL,)) for i in range(4)]
    for call in calls:
        line.take(call)
    line.leave(calls[0])
    line.leave(calls[2])
    line.leave(calls[2])
    assert line.queued == 2
    line.release(holders[0])
    line.release(holders[1])
    assert started == [calls[1], calls[3]]


def test_waiters_that_left_are_not_kept() -> None:
    line, _ = limiter()
    for _ in range(2):
        line.take(Call("holder", (ALL,)))
    line.take(Call("stays", (ALL,)))
    for i in range(5_000):
        call = Call(f"c{i}", (ALL,))
        line.take(call)
        line.leave(call)
    assert line.kept < 500


def test_keys_that_are_not_used_any_more_are_forgotten() -> None:
    line, _ = limiter()
    for i in range(1_000):
        call = Call(f"c{i}", ((RUNTIME, 10), ("thread", f"t{i}", 1)))
        assert line.take(call)
        line.release(call)
    assert line.kept < 50


KEYS = [(RUNTIME, 4), ("tool", "a", 1), ("tool", "b", 2), ("thread", "t", 2), ("threads", 3)]


@given(st.integers(0, 2**32))
def test_under_any_order_of_events_limits_hold_and_no_call_waits_needlessly(seed: int) -> None:
    chance = random.Random(seed)
    line, started = limiter()
    running: list[Call] = []
    waiting: list[Call] = []
    rank = {}
    for number in range(120):
        action = chance.random()
        if action < 0.55:
            needs = (KEYS[0], *sorted(chance.sample(KEYS[1:], chance.randrange(3)), key=str))
            call = Call(f"c{number}", needs, chance.randrange(-2, 3), chance.choice(["", "ann", "bob"]))
            rank[call] = (-call.priority, number)
            (running if line.take(call) else waiting).append(call)
        elif action < 0.85 and running:
            line.release(running.pop(chance.randrange(len(running))))
        elif waiting:
            gone = waiting.pop(chance.randrange(len(waiting)))
            line.leave(gone)
        for call in started:
            equals = [c for c in waiting if (c.needs, c.entry.caller) == (call.needs, call.entry.caller)]
            assert rank[call] == min(rank[c] for c in equals)  # no call overtakes an equal one
            waiting.remove(call)
            running.append(call)
        started.clear()
        used: dict[Any, int] = {}
        for call in running:
            assert call.slot
            for key in call.needs:
                used[key] = used.get(key, 0) + 1
        assert {k: v for k, v in line.used.items() if v} == used
        assert all(count <= key[-1] for key, count in used.items())
        assert line.queued == len(waiting)
        for call in waiting:
            assert any(used.get(key, 0) >= key[-1] for key in call.needs), f"{call} waits without a reason"
    while running or waiting:
        assert running, "calls wait and nothing runs"
        line.release(running.pop())
        for call in started:
            waiting.remove(call)
            running.append(call)
        started.clear()
    assert not any(line.used.values())
