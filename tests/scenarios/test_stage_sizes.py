"""Bytes that stages handled; and how long the last stage takes including its write, which no event can record."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.scenarios.kit import make

from clicket import Runtime, Settings, tool
from clicket.ports import Append, Done
from clicket.stores.memory import MemoryStore
from clicket.telemetry.prometheus import scrape
from clicket.testing import StepClock, with_clock


@tool(max_result_size=1_000)
async def say(text: str, times: int = 1) -> str:
    return text * times


async def test_sizes_are_bytes_of_what_a_stage_took_or_made(store: str) -> None:
    async with make([say], store) as rt:
        result = await rt.call("say", {"text": "Zoë"}, id="one")
        record = await rt.get("one")
        assert result.sizes == {"process": 4}
        assert record.sizes == {"validate": len('{"text":"Zoë"}'.encode()), "process": 4}
        refused = await rt.call("say", {"text": 7}, id="two")
        assert refused.sizes == {}
        assert (await rt.get("two")).sizes == {"validate": len(b'{"text":7}')}


async def test_a_result_that_was_cut_says_how_large_it_was(store: str) -> None:
    async with make([say], store) as rt:
        result = await rt.call("say", {"text": "0123456789", "times": 1_000}, id="one")
        assert result.truncated
        assert result.sizes["process"] == len(result.content.encode()) <= 1_000
        assert result.metadata["artifact_size"] == 10_000
        assert (await rt.get("one")).metadata["artifact_size"] == 10_000


async def persisted(rt: Runtime) -> dict[str, float]:
    page, _ = await scrape(rt)
    families: Any = text_string_to_metric_families(page.decode())  # type: ignore[no-untyped-call]
    (family,) = [family for family in families if family.name == "clicket_persist_seconds"]
    return {sample.name + sample.labels.get("le", ""): sample.value for sample in family.samples}


async def test_persist_is_timed_with_its_write() -> None:
    clock = StepClock()

    class Slow(MemoryStore):
        """Its commit of an outcome takes 3 seconds, once the test enables it."""

        seconds = 0.0

        def append(self, change: Append, done: Done) -> None:
            if change.ended_at is not None:
                clock.advance(self.seconds)
            super().append(change, done)

    store = Slow()
    async with with_clock(Runtime([say], store=store, settings=Settings()), clock) as rt:
        await rt.call("say", {"text": "x"})
        assert (await persisted(rt))["clicket_persist_seconds_count"] == 0  # counted from the first scrape on
        store.seconds = 3.0
        await rt.call("say", {"text": "x"})
        await asyncio.sleep(0)
        found = await persisted(rt)
        assert found["clicket_persist_seconds_count"] == 1
        assert found["clicket_persist_seconds_sum"] == 3.0
        assert (found["clicket_persist_seconds_bucket2.5"], found["clicket_persist_seconds_bucket5.0"]) == (0, 1)
        assert (await rt.acting_for("ann").report()).totals.total == 0
        page, _ = await scrape(rt.acting_for("ann"))
        assert b"clicket_persist_seconds" not in page  # of the process, so no caller sees it
