"""Laws about records that several processes share: the others read what one writes, and get a hint."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

from clicket.kernel import State
from clicket.model.ports import Store, ToolHealth
from clicket.testing.store_kit import ALIVE, DEAD, Laws, append, created, law, news, opened
from clicket.testing.store_stats import health, recorded, stats

__all__ = ["laws"]

laws = Laws()

_PATIENCE = 20.0
"""Seconds within which a hint arrives."""


@laws
async def records_are_there_for_others(make: Callable[[], Store]) -> None:
    async with opened(make) as one, opened(make) as two:
        await recorded(one, "a", stats("failed"))
        law.equal((await health(two)).failures, 1, "an outcome")
        await recorded(two, "b", stats("failed"))
        law.equal((await health(one)).consecutive_failures, 2, "failures of several processes add up")
        law.equal(sum(figure.count for figure in await one.figures()), 2, "figures of several processes add up")
        law(
            await two.put_tool_health("", "t", ToolHealth(tool="tool", status="maintenance"), 2),
            "all processes share one version",
        )
        law(not await one.put_tool_health("", "t", ToolHealth(tool="tool"), 2), "a version is used only once")
        law.equal((await health(one)).status, "maintenance", "health that was put")
        law(await one.put_document("kind", "key", b"1", 0), "a document")
        law(not await two.put_document("kind", "key", b"2", 0), "both processes write the same document")
        law(await two.put_document("kind", "key", b"2", 1), "both processes see the same version")
        await one.audit([b"1"])
        await two.audit([b"2"])
        await one.audit([b"3"])
        law.equal([entry.body for entry in await two.audited()], [b"3", b"2", b"1"], "one log, in the order of writing")
    async with opened(make) as three:
        found = await health(three)
        law.equal((found.status, found.version), ("maintenance", 3), "a store that is opened again has the health")
        document = await three.document("kind", "key")
        law(document is not None and (document.body, document.version) == (b"2", 2), "the documents")
        entries = await three.audited()
        law.equal([entry.body for entry in entries], [b"3", b"2", b"1"], "the log")
        await three.audit([b"4"])
        law((await three.audited())[0].number > entries[0].number, "numbers of entries continue")
        law.equal(sum(figure.count for figure in await three.figures()), 2, "the figures are still there")


@laws.opened(ALIVE, ALIVE)
async def of_many_writers_of_a_version_one_wins(one: Store, two: Store) -> None:
    for expect in range(5):
        puts = [
            s.put_tool_health("", "t", ToolHealth(tool="tool", by=f"{n}"), expect) for n, s in enumerate((one, two))
        ]
        law.equal(sorted(await asyncio.gather(*puts)), [False, True], "one of two writers of health succeeds")
        documents = [s.put_document("kind", "key", f"{n}".encode(), expect) for n, s in enumerate((one, two, one))]
        law.equal(sum(await asyncio.gather(*documents)), 1, "one of several writers of a document succeeds")
    law.equal((await health(two)).version, 5, "no version is lost")
    await asyncio.gather(*(store.audit([b"x"] * 5) for store in (one, two) * 10))
    entries = await one.audited(limit=1_000)
    law.equal((len(entries), len({entry.number for entry in entries})), (100, 100), "no entry of the log is lost")


@laws.opened(ALIVE, ALIVE)
async def outcomes_from_two_processes_add_up(one: Store, two: Store) -> None:
    """Two processes append groups with the same tools in opposite orders: all are counted, without a deadlock."""

    async def end(store: Store, name: str, tools: list[int]) -> None:
        for turn in range(5):
            changes = [await created(store, f"{name}{turn}-{n}") for n in tools]
            ends = [
                news(change, state=State.FAILED, ended_at=200.0, stats=stats("failed", tool=f"tool{n}"))
                for change, n in zip(changes, tools, strict=True)
            ]
            law.equal(await append(store, *ends), [None] * len(ends), "every ending is taken")

    tools = list(range(10))
    async with asyncio.timeout(_PATIENCE * 3):
        await asyncio.gather(end(one, "a", tools), end(two, "b", tools[::-1]))
    found = {
        each.tool: (each.failures, each.consecutive_failures, each.version) for each in await one.tool_health("", "t")
    }
    law.equal(found, {f"tool{n}": (10, 10, 10) for n in tools}, "each outcome is counted once")
    law.equal(sum(figure.count for figure in await two.figures()), 100, "each outcome is in the figures once")


@laws.opened(DEAD, ALIVE)
async def an_owner_that_lost_a_call_counts_nothing(dead: Store, one: Store) -> None:
    first = await created(dead, "a")
    (claimed,) = await one.claim_orphans(frozenset({"tool"}), 10)
    await append(dead, news(first, state=State.FAILED, ended_at=200.0, stats=stats("failed")))
    law.equal(await one.figures(), [], "the former owner's ending is not an ending")
    end = news(first, state=State.COMPLETED, ended_at=201.0, fence=claimed.fence, stats=stats())
    law.equal(await append(one, end), [None], "the new owner's is")
    found = await health(dead)
    law.equal((found.completions, found.failures), (1, 0), "the new owner's outcome counts")


@laws.opened(ALIVE, ALIVE)
async def changes_of_tool_health_are_hinted(one: Store, two: Store) -> None:
    hinted = asyncio.Event()
    two.on_hint = lambda kind, key: hinted.set() if kind in ("health", "any") else None

    async def hint(what: Callable[[int], Awaitable[object]], text: str) -> None:
        turns = itertools.count()
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + _PATIENCE
        for _ in range(3):  # hints of earlier writes may come late; the third one is of this write
            hinted.clear()
            while not hinted.is_set():  # a hint may be lost: the listener may not be connected yet
                law(clock() < give_up_at, f"{text} is hinted at")
                await what(next(turns))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(hinted.wait(), 1.0)

    await hint(lambda n: recorded(one, f"c{n}", stats("failed")), "a tool that failed")
    await hint(lambda n: one.put_tool_health("", "t", ToolHealth(tool="mine"), n), "health that was put")
