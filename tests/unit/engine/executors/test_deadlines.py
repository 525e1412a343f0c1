"""Shared deadlines: exact, dropped for good, and no timer left behind."""

from __future__ import annotations

from typing import Any

from clicket.engine.executors.deadlines import Deadlines
from clicket.testing import StepClock


class Desk:
    def __init__(self) -> None:
        self.clock = StepClock()
        self.expired: list[tuple[str, float]] = []
        self.deadlines = Deadlines(self.clock, lambda call: self.expired.append((str(call), self.clock.monotonic())))
        self.start = self.clock.monotonic()

    def add(self, name: Any, seconds: float) -> Any:
        return self.deadlines.add(name, seconds)

    def times(self) -> list[tuple[str, float]]:
        return [(name, round(at - self.start, 6)) for name, at in self.expired]


async def test_each_fires_at_its_time_and_never_before() -> None:
    desk = Desk()
    for name, seconds in (("a", 30.0), ("b", 30.01), ("c", 2.5), ("d", 0.3), ("e", 30.0)):
        desk.add(name, seconds)
    for _ in range(3_100):
        desk.clock.advance(0.01)
    fired = dict(desk.times())
    assert set(fired) == {"a", "b", "c", "d", "e"}
    for name, seconds in (("a", 30.0), ("b", 30.01), ("c", 2.5), ("d", 0.3), ("e", 30.0)):
        assert seconds - 1e-6 <= fired[name] <= seconds + 0.011


async def test_one_step_over_many_deadlines_fires_them_in_order() -> None:
    desk = Desk()
    for number in (9, 3, 7, 5):
        desk.add(str(number), float(number))
    desk.clock.advance(10)
    assert [name for name, _ in desk.times()] == ["3", "5", "7", "9"]


async def test_what_is_dropped_never_fires() -> None:
    desk = Desk()
    kept, dropped, short = desk.add("kept", 5.0), desk.add("dropped", 5.0), desk.add("short", 0.5)
    desk.deadlines.drop("dropped", dropped)  # type: ignore[arg-type]
    desk.deadlines.drop("short", short)  # type: ignore[arg-type]
    desk.clock.advance(4.999)
    late = desk.add("late", 2.0)
    desk.clock.advance(0.5)
    assert [name for name, _ in desk.times()] == ["kept"]
    desk.deadlines.drop("late", late)  # type: ignore[arg-type]
    desk.clock.advance(60)
    assert [name for name, _ in desk.times()] == ["kept"]
    assert kept is not None


async def test_a_deadline_dropped_in_its_last_moment_does_not_fire() -> None:
    desk = Desk()
    deadline = desk.add("a", 5.03)
    desk.clock.advance(5.01)  # its bucket is due, it is not
    desk.deadlines.drop("a", deadline)  # type: ignore[arg-type]
    desk.clock.advance(1)
    assert desk.times() == []


async def test_closing_leaves_no_timer() -> None:
    desk = Desk()
    desk.add("a", 5.0)
    desk.add("b", 0.01 + 5.0)
    desk.deadlines.close()
    assert desk.clock.pending == []
