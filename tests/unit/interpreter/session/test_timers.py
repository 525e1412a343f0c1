"""Timers that are reset again and again: none fires early, none is forgotten."""

from __future__ import annotations

import asyncio

from tests.kit.waiting import PATIENCE

from clicket.interpreter.session.timers import Timers


async def test_a_clock_goes_off_once_with_what_it_was_given_last() -> None:
    fired: asyncio.Queue[str] = asyncio.Queue()
    timers = Timers()
    timers.start("a", 3600, fired.put_nowait, "much too late")
    timers.start("a", 0.001, fired.put_nowait, "sooner")
    async with asyncio.timeout(PATIENCE):
        assert await fired.get() == "sooner"
    timers.start("a", 0.001, fired.put_nowait, "again")
    timers.start("b", 0.001, fired.put_nowait, "other")
    async with asyncio.timeout(PATIENCE):
        assert {await fired.get(), await fired.get()} == {"again", "other"}
    assert fired.empty()


async def test_a_clock_that_is_set_later_waits() -> None:
    loop = asyncio.get_running_loop()
    went: asyncio.Future[float] = loop.create_future()
    timers = Timers()
    timers.start("a", 0.0, went.cancel)
    due_at = loop.time() + 0.05
    timers.start("a", 0.05, lambda: went.set_result(loop.time()))
    async with asyncio.timeout(PATIENCE):
        assert await went >= due_at


async def test_a_clock_that_is_stopped_is_silent_and_can_be_set_again() -> None:
    fired: asyncio.Queue[str] = asyncio.Queue()
    timers = Timers()
    timers.stop("never set")
    timers.start("a", 0.0, fired.put_nowait, "no")
    timers.stop("a")
    timers.start("b", 0.0, fired.put_nowait, "neither")
    timers.stop_all()
    timers.start("c", 0.02, fired.put_nowait, "yes")
    async with asyncio.timeout(PATIENCE):
        assert await fired.get() == "yes"
    assert fired.empty()
    timers.start("a", 0.0, fired.put_nowait, "now")
    async with asyncio.timeout(PATIENCE):
        assert await fired.get() == "now"
