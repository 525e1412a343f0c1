"""Callers take turns for slots: one caller's hundred waiting calls do not delay another's first."""

from __future__ import annotations

import asyncio

from tests.scenarios.kit import make

from clicket import tool


async def test_a_callers_first_call_starts_after_one_of_each_other_caller(store: str) -> None:
    begun: list[str] = []
    first, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def work(who: str) -> None:
        begun.append(who)
        first.set()
        await gate.wait()

    async with make([work], store, max_concurrency=1) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        handles = [await ann.submit("work", {"who": f"ann {number}"}) for number in range(20)]
        await first.wait()
        handles += [await bob.submit("work", {"who": f"bob {number}"}) for number in range(2)]
        gate.set()
        for handle in handles:
            assert (await handle.result()).success
    assert begun[:6] == ["ann 0", "ann 1", "bob 0", "ann 2", "bob 1", "ann 3"]
    assert begun[6:] == [f"ann {number}" for number in range(4, 20)]
