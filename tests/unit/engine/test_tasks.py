"""Every task has a parent, an error in one is logged, and shielded work continues without its waiter."""

from __future__ import annotations

import asyncio

import pytest

from clicket.engine.local.tasks import Tasks
from clicket.testing import StepClock


async def test_a_task_is_known_until_it_has_ended() -> None:
    tasks, gate = Tasks(), asyncio.Event()

    async def work() -> None:
        await gate.wait()

    tasks.spawn(work())
    task = tasks.start(work())
    assert len(tasks.running) == 2
    gate.set()
    await StepClock().settle()
    assert tasks.running == {task}, "the work itself reports its end"
    tasks.discard(task)
    tasks.discard(task)
    assert tasks.running == set()


async def test_an_error_is_logged_and_a_cancellation_is_not(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    async def fails() -> None:
        raise ValueError("broken")

    async def waits() -> None:
        await asyncio.Event().wait()

    tasks.spawn(fails())
    tasks.spawn(waits())
    await StepClock().settle()
    for task in tasks.running:
        task.cancel()
    await StepClock().settle()
    assert tasks.running == set()
    assert [record.message for record in caplog.records] == ["a task of the engine failed"]
    assert "broken" in caplog.text


async def test_shielded_work_goes_on_without_its_waiter() -> None:
    tasks, gate, done = Tasks(), asyncio.Event(), list[str]()

    async def work() -> str:
        await gate.wait()
        done.append("done")
        return "value"

    waiter = asyncio.ensure_future(tasks.shielded(work()))
    other = asyncio.ensure_future(tasks.shielded(work()))
    await StepClock().settle()
    waiter.cancel()
    gate.set()
    assert await other == "value"
    await StepClock().settle()
    assert (done, waiter.cancelled(), tasks.running) == (["done", "done"], True, set())
