"""Alerts: what is far from usual, raised once and cleared once, by one of many processes, and announced also after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.model.spend import BudgetStatus
from clicket.ports import Store
from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore
from clicket.telemetry.alerts import Alerts, ToolTimes, judged, times_in
from clicket.telemetry.series_rows import Row, Slice

MINUTE = 60.0


def times(runs: int, failed: int = 0, bin: int = 20) -> ToolTimes:
    return ToolTimes(runs=runs, failed=failed, bins={bin: runs} if runs else {})


def kinds(recent: ToolTimes, usual: ToolTimes) -> list[str]:
    return [alert.kind for alert in judged("t", recent, usual)[0]]


@pytest.mark.parametrize(
    ("recent", "usual", "raised"),
    [
        (times(100, 50), times(1_000, 10), ["error_rate"]),
        (times(100, 2), times(1_000, 10), []),
        (times(9, 9), times(1_000, 10), []),  # too few to judge
        (times(10, 6), times(0), ["error_rate"]),  # a tool without a past
        (times(100, 50), times(1_000, 450), []),  # it always does
        (times(100, 18), times(1_000, 0), []),  # more than ever, and still most succeed
        (times(50, bin=32), times(500, bin=20), ["latency"]),  # eight times as slow
        (times(50, bin=24), times(500, bin=20), []),  # twice as slow
        (times(50, bin=-4), times(500, bin=-20), []),  # many times as slow, and still fast
        (times(50, bin=32), times(20, bin=20), []),  # what is usual is not known
        (times(50, 40, bin=32), times(500, bin=20), ["error_rate", "latency"]),
    ],
)
def test_what_is_far_from_usual(recent: ToolTimes, usual: ToolTimes, raised: list[str]) -> None:
    assert kinds(recent, usual) == raised


def test_between_the_bounds_nothing_changes() -> None:
    raised, between = judged("t", times(100, 15), times(1_000, 10))
    assert raised == []
    assert between == {"error_rate:t"}
    assert judged("t", times(100, 5), times(1_000, 10)) == ([], set())


def test_only_runs_count() -> None:
    rows: list[Row] = [
        ("a", "t", "completed", "", 20, 5, 1.0),
        ("b", "t", "failed", "tool_error", 20, 3, 1.0),
        ("b", "t", "failed", "outcome_unknown", None, 1, 0.0),
        ("b", "t", "failed", "invalid_input", None, 100, 0.0),
        ("b", "t", "cancelled", "cancelled", 20, 100, 9.0),
        ("b", "t", "completed", "", None, 100, 0.0),  # cached
        ("b", "", "failed", "tool_not_found", None, 100, 0.0),
        ("b", "agent:x", "failed", "tool_error", 20, 100, 9.0),
    ]
    assert times_in([Slice(rows=rows[:4]), Slice(rows=rows[4:])]) == {"t": ToolTimes(runs=9, failed=4, bins={20: 8})}


class Scene:
    """A clock, a store, notices by their key, and budgets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0 // 60 * 60
        self.store: Store = MemoryStore()
        self.notices: dict[tuple[str, Any, float], dict[str, Any]] = {}
        self.emitted = 0
        self.fails = False
        self.budgets: list[BudgetStatus] = []

    async def emit(self, kind: str, data: dict[str, Any], *, key: list[Any], at: float) -> None:
        self.emitted += 1
        if self.fails:
            raise RuntimeError("killed")
        self.notices[kind, tuple(key), at] = data

    def process(self) -> Alerts:
        async def budgets() -> list[BudgetStatus]:
            return self.budgets

        return Alerts(self.store, lambda: self.now, self.emit, budgets)

    def spent(self, left: float, **more: Any) -> None:
        status = BudgetStatus(
            name="team", scope="all", period="2026-11", on_reached="stop", limit_usd=10.0, left_usd=left, **more
        )
        self.budgets = [status]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.notices]


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    await made.store.open(this_process(10.0))
    return made


async def looks(scene: Scene, *processes: Alerts, minutes: int = 1) -> None:
    for _ in range(minutes):
        scene.now += MINUTE
        for process in processes:
            await process.look()
            await process.look()


async def test_raised_once_cleared_once(scene: Scene) -> None:
    one, other = scene.process(), scene.process()
    scene.spent(3.0)
    await looks(scene, one, other)
    assert scene.kinds == []
    scene.spent(0.0)
    await looks(scene, one, other, minutes=10)
    assert scene.kinds == ["alert.raised"]
    ((_, key, at),) = scene.notices
    assert key == ("budget:team all 2026-11", at)
    alert = scene.notices["alert.raised", key, at]["alert"]
    assert (alert["kind"], alert["subject"], alert["value"]) == ("budget", "team all 2026-11", 1.0)
    scene.spent(0.5)  # 95 %: still between
    await looks(scene, one, other, minutes=10)
    assert scene.kinds == ["alert.raised"]
    scene.spent(5.0)
    await looks(scene, one, other, minutes=2)
    assert scene.kinds == ["alert.raised"], "not at the first calm look"
    await looks(scene, one, other, minutes=2)
    assert scene.kinds == ["alert.raised", "alert.cleared"]
    assert scene.emitted == 2, "each is announced by one process"


async def test_what_comes_and_goes_is_no_flood(scene: Scene) -> None:
    one = scene.process()
    for number in range(60):
        scene.spent(0.0 if number % 6 == 0 else 5.0)
        await looks(scene, one)
    assert len(scene.notices) <= 8


async def test_a_process_that_dies_before_it_announces_is_followed_by_another(scene: Scene) -> None:
    scene.spent(0.0)
    scene.fails = True
    with pytest.raises(RuntimeError):
        await looks(scene, scene.process())
    began = scene.now
    scene.fails = False
    await scene.process().look()  # within the same minute
    assert [(kind, at) for kind, _, at in scene.notices] == [("alert.raised", began)]
    await looks(scene, scene.process(), minutes=3)
    assert len(scene.notices) == 1


async def test_a_restart_remembers_what_is_raised(scene: Scene) -> None:
    scene.spent(0.0)
    await looks(scene, scene.process())
    await looks(scene, scene.process(), minutes=5)
    assert scene.kinds == ["alert.raised"]


async def test_a_budget_that_is_gone_is_calm(scene: Scene) -> None:
    one = scene.process()
    scene.spent(4.0, reached_at=5.0)
    await looks(scene, one)
    assert scene.kinds == ["alert.raised"], "the next request did not fit"
    scene.budgets = []
    await looks(scene, one, minutes=4)
    assert scene.kinds == ["alert.raised", "alert.cleared"]


async def test_many_at_once_are_bounded(scene: Scene) -> None:
    scene.spent(0.0)
    first = scene.budgets[0]
    scene.budgets = [
        BudgetStatus(name=f"b{n}", scope="all", period="p", on_reached="stop", limit_usd=1.0, left_usd=0.0) for n in range(500)
    ] + [first]  # fmt: skip
    one = scene.process()
    await looks(scene, one)
    assert len(scene.notices) == 20
    await looks(scene, one, minutes=20)
    assert len(scene.notices) == 200


async def test_a_damaged_document_is_begun_anew(scene: Scene) -> None:
    assert await scene.store.put_document("alerts", "open", b'{"minute": "x"}', 0)
    scene.spent(0.0)
    await looks(scene, scene.process())
    assert scene.kinds == ["alert.raised"]
