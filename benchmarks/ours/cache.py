"""A cache hit, the look-up inside it, and the cheapest execution; and how often 100 equal calls at once run their tool."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import Runtime, ToolCall, tool
from clicket.engine.journal import Entry
from clicket.engine.live_call import Call, Origin
from clicket.model.codec import decode
from clicket.ports import CacheItem
from clicket.system.bridge import fulfil

_TOGETHER = 100


class Bodies:
    """How many bodies of `together` have run."""

    run = 0


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


@tool(cache=300)
async def remembered(a: int) -> dict[str, int]:
    """Return a small dict, and remember it."""
    return {"a": a}


@tool(cache=300)
async def together(a: int) -> dict[str, int]:
    """Return a small dict after a while, so that equal calls meet."""
    Bodies.run += 1
    await asyncio.sleep(0.05)
    return {"a": a}


async def look_up(rt: Runtime, seconds: float) -> float:
    """Key, read and decode, as the engine does it for a call that it has admitted. Inner names: no part of the contract."""
    engine, loop = rt.engine, asyncio.get_running_loop()
    request = ToolCall("remembered", {"a": 1}, thread="t")
    call = Call(Entry("1", "t", "", "remembered", 0.0), request, Origin(), 0.0, "1", request.arguments)
    assert engine.pipeline.admit(call)

    async def once() -> Any:
        engine.caching.fit(call)
        answer: asyncio.Future[CacheItem | None] = loop.create_future()
        engine.store.cache_get(call.cache_key, engine.clock.now(), lambda item, error: fulfil(answer, item, error))
        item = answer.result() if answer.done() else await answer
        assert item is not None
        return decode(item.body)

    assert await once() == {"a": 1}
    return await timing.p50_async(once, seconds=seconds)


async def main() -> None:
    arguments = timing.budget()
    with timing.scratch() as folder:
        async with runtime(arguments.variant, folder, [noop, remembered, together]) as rt:

            async def execution() -> Any:
                return await rt.call("noop", {"a": 1}, thread="t")

            async def hit() -> Any:
                return await rt.call("remembered", {"a": 1}, thread="t")

            first, second, plain = await hit(), await hit(), await execution()
            assert first.success, first.error
            assert (first.cached, second.cached) == (False, True)
            assert second.output == {"a": 1} == plain.output
            figures = {
                "run_us": await timing.p50_async(execution, seconds=arguments.seconds),
                "hit_us": await timing.p50_async(hit, seconds=arguments.seconds),
                "look_up_us": await look_up(rt, arguments.seconds),
                "run_per_second": await timing.per_second(execution, seconds=arguments.seconds),
                "hit_per_second": await timing.per_second(hit, seconds=arguments.seconds),
            }
            equal = await asyncio.gather(*(rt.call("together", {"a": 1}, thread="t") for _ in range(_TOGETHER)))
            assert all(result.output == {"a": 1} for result in equal)
    timing.report({**figures, "bodies": Bodies.run}, timing.versions("clicket"))


asyncio.run(main())
