"""Paths into answers, and rates as they are written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.search.web.json_path import JsonPath
from clicket.search.web.rate import Rate
from clicket.testing import StepClock

VALUE = {"a": {"b": [{"c": 1}, {"c": [2, 3]}, {"d": 4}]}, "e": "", "n": None, "0": "zero", "l": [[1], [2, [3]]]}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", VALUE),
        ("a.b.0.c", 1),
        ("a.b.-1.d", 4),
        ("a.b.7", None),
        ("a.b.x", None),
        ("a.b.*.c", [1, 2, 3]),
        ("a.b.*", [{"c": 1}, {"c": [2, 3]}, {"d": 4}]),
        ("l.*.*", [1, 2, 3]),
        ("a.*", None),
        ("0", "zero"),
        ("e|n|x.y|a.b.0.c", 1),
        ("n.x", None),
    ],
)
def test_paths(path: str, found: Any) -> None:
    assert JsonPath(path).find(VALUE) == found


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", "a|b..c", 7])
def test_wrong_paths_are_refused(path: Any) -> None:
    with pytest.raises(UsageError, match=r"web\.results"):
        JsonPath(path)


@pytest.mark.parametrize(
    ("written", "per_second"),
    [("10/s", 10), ("60/min", 1), ("1/2s", 0.5), ("5 per second", 5), (3, 3), ("3600/h", 1), ("0.5/s", 0.5)],
)
def test_rates(written: Any, per_second: float) -> None:
    assert Rate(written).per_second == per_second


@pytest.mark.parametrize("written", ["fast", "0/s", "1/0s", 0, -1, True, "10", None, float("inf")])
def test_wrong_rates_are_refused(written: Any) -> None:
    with pytest.raises(UsageError, match="10/s"):
        Rate(written)


async def test_turns_come_in_order_and_pauses_do_not_add_up() -> None:
    clock = StepClock()
    rate = Rate("2/s", clock=clock)
    assert [await rate.take(), await rate.take()] == [0, 0]
    order: list[int] = []

    async def come(number: int) -> None:
        await rate.take()
        order.append(number)

    tasks = [asyncio.ensure_future(come(n)) for n in range(3)]
    await clock.run(1.5)
    assert order == [0, 1, 2]
    await asyncio.gather(*tasks)
    clock.advance(3600)
    assert [await rate.take(), await rate.take()] == [0, 0]
    assert rate.wait() == pytest.approx(0.5)
