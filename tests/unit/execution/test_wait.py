"""A clicket future opens its gate at once; a gate that is open or abandoned stays as it is."""

from __future__ import annotations

import asyncio

from clicket import Runtime, Settings, State, tool
from clicket.execution import Wait


async def test_the_gate_opens_in_the_same_turn_of_the_loop() -> None:
    loop = asyncio.get_running_loop()
    inner, middle, outer = Wait(loop=loop), Wait(loop=loop), loop.create_future()
    inner.gate, middle.gate = middle, outer
    inner.set_result("x")
    assert inner.result() == "x"
    assert middle.done()
    assert outer.done()


async def test_a_gate_that_is_gone_is_left_alone() -> None:
    loop = asyncio.get_running_loop()
    wait, gate = Wait(loop=loop), loop.create_future()
    wait.gate = gate
    gate.cancel()
    wait.set_result(None)
    assert gate.cancelled()


async def test_nested_calls_come_back_and_stop_through_every_gate() -> None:
    """Three nested calls on a store with slow answers: results go up, a cancellation goes down."""
    entered, left = asyncio.Event(), asyncio.Event()

    @tool
    async def inner(wait: bool = False) -> str:
        if wait:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
        return "inner"

    @tool
    async def middle(wait: bool = False) -> str:
        return f"middle {(await rt.call('inner', {'wait': wait})).output}"

    @tool
    async def outer(wait: bool = False) -> str:
        return f"outer {(await rt.call('middle', {'wait': wait})).output}"

    async with Runtime([inner, middle, outer], settings=Settings(store="memory://", cancel_grace=5)) as rt:
        assert (await rt.call("outer")).output == "outer middle inner"
        calling = asyncio.ensure_future(rt.call("outer", {"wait": True}, id="x"))
        await entered.wait()
        assert await rt.cancel("x")
        assert (await calling).state is State.CANCELLED
        assert left.is_set()
