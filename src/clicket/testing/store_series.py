"""Laws of time series over a store that processes share: every outcome is in exactly one step, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clicket.model.ports import Store
from clicket.telemetry.series import Sampler, series_in
from clicket.testing.store_kit import Laws, created, law, opened
from clicket.testing.store_stats import recorded, stats

__all__ = ["laws"]

laws = Laws()
_DAY = 24 * 3600.0


async def _totals(store: Store, now: float, **which: object) -> dict[float, float | None]:
    """Steps with ended calls."""
    found = await series_in(store, "calls", now=now, since=0.0, **which)  # type: ignore[arg-type]  # keywords
    return {point.at: point.values["total"] for point in found.points if point.values["total"]}


@laws
async def every_outcome_is_in_one_step(make: Callable[[], Store]) -> None:
    now = 130.0
    async with opened(make) as one, opened(make) as two:
        samplers = [Sampler(store, lambda: now, retention=30 * _DAY) for store in (one, two)]
        await samplers[0].sample()
        await recorded(one, "a", stats("completed"))
        await recorded(two, "b", stats("failed", tool="other"), caller="someone")
        law.equal(await _totals(two, now), {120.0: 2}, "what was not looked at is in the step under way")
        now = 185.0
        await asyncio.gather(*(sampler.sample() for sampler in samplers))
        law.equal(await _totals(one, now), {120.0: 2}, "two samplers take a minute once")
        await recorded(two, "c", stats("completed"))
        law.equal(await _totals(one, now), {120.0: 2, 180.0: 1}, "the next minute")
        now = 245.0
        for sampler in samplers:
            await sampler.sample()
        law.equal(await _totals(two, now), {120.0: 2, 180.0: 1}, "and when it was looked at")
        law.equal(await _totals(two, now, caller="someone"), {120.0: 1}, "of one caller")
        law.equal(await _totals(two, now, tool="tool"), {120.0: 1, 180.0: 1}, "of one tool")
        await created(one, "waits")
        queue = await series_in(one, "queue", now=now, since=240.0)
        law.equal([point.values["length"] for point in queue.points], [1], "a call that waits")
    async with opened(make) as three:
        law.equal(await _totals(three, now), {120.0: 2, 180.0: 1}, "after a restart")
        now = 3 * _DAY
        sampler = Sampler(three, lambda: now, retention=30 * _DAY)
        await sampler.sample()
        law.equal(await _totals(three, now, step=3600), {0.0: 3}, "added up by the hour")
        now += 60.0
        await sampler.sample()
        law.equal(await _totals(three, now, step=3600), {0.0: 3}, "once")
        now = 60 * _DAY
        await sampler.sample()
        law.equal(await _totals(three, now, step=int(_DAY)), {}, "and removed when it is old")
