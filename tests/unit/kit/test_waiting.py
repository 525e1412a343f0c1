"""The helpers that wait: what they return, and their message at a timeout."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.waiting import eventually, eventually_sync, file_exists


async def test_the_first_true_answer_is_returned() -> None:
    answers = iter([0, "", 7, 8])
    assert await eventually(lambda: next(answers)) == 7
    answers = iter([None, [], [1]])
    assert eventually_sync(lambda: next(answers)) == [1]


async def test_a_condition_may_be_async() -> None:
    answers = iter([False, True])

    async def look() -> bool:
        await asyncio.sleep(0)
        return next(answers)

    assert await eventually(look) is True


async def test_a_failure_says_what_was_waited_for() -> None:
    found: list[int] = []
    with pytest.raises(AssertionError, match=r"not within 0 s: `await eventually\(lambda: found.*last answer was \[\]"):
        await eventually(lambda: found, timeout=0)
    with pytest.raises(AssertionError, match="not within 0 s: the file; the last answer was False"):
        eventually_sync(Path("/nowhere").exists, timeout=0, what="the file")


async def test_an_error_of_the_condition_is_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)


async def test_a_gate_opens_when_its_file_is_made(tmp_path: Path) -> None:
    waiting = asyncio.create_task(file_exists(tmp_path / "go"))
    await asyncio.sleep(0)
    assert not waiting.done()
    (tmp_path / "go").touch()
    await waiting
