"""The ledger: every grouping adds up to the same, parents have what their children spent, entries count once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples

from clicket.engine.spend.ledger import Ledger, LedgerEntry, LedgerPage, day_of
from clicket.model.chat import Usage
from clicket.model.spend import Run, Spender
from clicket.spend import PriceTable, declared_prices, spend_report, spender_of_call, spender_of_turn
from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

DAY = 86_400.0
names = st.sampled_from(["lead", "helper", "writer"])
entries = st.builds(
    LedgerEntry,
    at=st.floats(min_value=1.7e9, max_value=1.7e9 + 70 * DAY),
    kind=st.sampled_from(["model", "tool"]),
    name=st.sampled_from(["gpt-x", "claude-x", "pay"]),
    input=st.integers(0, 10_000),
    output=st.integers(0, 10_000),
    tokens=st.integers(0, 100),
    nano=st.none() | st.integers(0, 10**12),
    assumed=st.booleans(),
)


@st.composite
def pages(draw: st.DrawFn) -> list[LedgerPage]:
    """Runs with their sub-agents, which are named as the runtime names them."""
    made = []
    for _ in range(draw(st.integers(0, 8))):
        thread = draw(st.sampled_from(["t1", "t2", "a/b"]))
        for _ in range(draw(st.integers(0, 3))):
            thread += f"/{draw(names)}.{draw(st.integers(1, 3))}.1.{draw(st.integers(1, 2))}"
        spender = spender_of_turn(
            draw(st.sampled_from(["", "ann", "bob"])), thread, draw(names), draw(st.integers(1, 3))
        )
        found = draw(st.dictionaries(st.text(min_size=1, max_size=3), entries, max_size=4))
        made.append(LedgerPage(caller=spender.caller, runs=spender.runs, entries=found))
    return made


async def opened() -> MemoryStore:
    store = MemoryStore()
    await store.open(this_process(10.0))
    return store


async def listed(found: list[LedgerPage]) -> AsyncIterator[LedgerPage]:
    for page in found:
        yield page


@settings(max_examples=examples(60), deadline=None)
@given(pages())
def test_every_grouping_adds_up_and_parents_include_their_children(found: list[LedgerPage]) -> None:
    every = [entry for page in found for entry in page.entries.values()]
    tokens, nano = sum(entry.all_tokens for entry in every), sum(entry.nano or 0 for entry in every)

    async def check() -> None:
        for by in ("run", "thread", "agent", "caller", "day", "month", "model"):
            report = await spend_report(listed(found), by)
            assert report.total.tokens == tokens == sum(row.own.tokens for row in report.items)
            assert report.total.entries == len(every) == sum(row.own.entries for row in report.items)
            assert report.total.usd == nano / 1e9
            assert sum(round(row.own.usd * 1e9) for row in report.items) == nano
            rows = {(row.caller, row.key): row for row in report.items}
            for row in report.items:
                assert row.tokens >= row.own.tokens
                if row.parent is not None:
                    assert rows[(row.caller, row.parent)].tokens >= row.tokens
            roots = [row for row in report.items if row.parent is None]
            if by in ("run", "thread"):
                assert sum(row.tokens for row in roots) == tokens

    asyncio.run(check())


@pytest.mark.parametrize(
    ("thread", "runs"),
    [
        ("t1", []),
        ("a/b", []),
        ("t1/lead.2.1.3", [Run("t1", "lead", 2)]),
        ("a/b/lead.2.1.3/helper.1.4-2.5.6", [Run("a/b", "lead", 2), Run("a/b/lead.2.1.3", "helper", 1)]),
        ("/lead.2.1.3", []),
        ("t/lead.2", []),
    ],
)
def test_the_runs_above_are_in_the_name_of_the_thread(thread: str, runs: list[Run]) -> None:
    assert spender_of_turn("ann", thread, "x", 7) == Spender("ann", (*runs, Run(thread, "x", 7)))
    assert spender_of_call("ann", thread, "toolu_1:x.7.2.1~12ab34cd") == (spender_of_turn("ann", thread, "x", 7), 2)
    assert spender_of_call("ann", thread, "mine")[0].run == Run(thread, "", 0, "mine")


async def test_an_entry_counts_once_and_what_is_known_replaces_what_was_assumed() -> None:
    store, clock = await opened(), StepClock()
    ledger = Ledger(store, clock, asyncio.ensure_future)
    spender = spender_of_turn("", "t", "a", 1)
    guess = LedgerEntry(at=0.0, kind="model", name="m", input=100, nano=5, assumed=True)
    real = LedgerEntry(at=0.0, kind="model", name="m", input=10, nano=1)
    for entry in (guess, real, guess, real):
        await ledger.flush(ledger.add(spender, 1, "one", entry))
    await Ledger(store, clock, asyncio.ensure_future).flush(ledger.add(spender, 1, "one", guess))
    ledger.add(spender, 2, "two", real)
    await clock.run(2.0)
    assert [page.entries async for page in ledger.pages()] == [{"one": real, "two": real}]
    assert await ledger.sweep(DAY) == 1
    assert [page async for page in ledger.pages()] == []


async def test_processes_that_write_one_page_at_once_lose_nothing() -> None:
    store, clock = await opened(), StepClock()
    ledgers = [Ledger(store, clock, asyncio.ensure_future) for _ in range(5)]
    spender = spender_of_turn("", "t", "a", 1)

    async def write(ledger: Ledger, number: int) -> None:
        entry = LedgerEntry(at=0.0, kind="model", name="m", input=number)
        await ledger.flush(ledger.add(spender, 1, str(number), entry))

    await asyncio.gather(*(write(ledgers[number % 5], number) for number in range(50)))
    (page,) = [page async for page in ledgers[0].pages()]
    assert len(page.entries) == 50


async def test_a_damaged_page_is_left_out() -> None:
    store = await opened()
    await store.put_document("spend", "1970-01-01/x", b"{]", None)
    assert [page async for page in Ledger(store, StepClock(), asyncio.ensure_future).pages()] == []
    assert day_of(1e300) == "1970-01-01"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("openai:gpt-4o-2024-08-06", True),
        ("anthropic:claude-sonnet-4-5-20250929", True),
        ("gpt-4o", True),
        ("claude-sonnet-4-5@latest", True),
        ("gpt-4o-audio", False),
        ("mine", False),
    ],
)
def test_a_price_is_found_by_the_model_its_vendor_or_its_date(name: str, known: bool) -> None:
    assert (PriceTable().find(name) is not None) is known


def test_prices_of_the_settings_win() -> None:
    given: list[dict[str, Any]] = [{"model": "gpt-4o", "input": 1, "output": 2, "cached": 0.5, "max_output": 9}]
    price = PriceTable(declared_prices(given, "here")).find("openai:gpt-4o")
    assert price is not None
    used = Usage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=400_000, cache_write_tokens=100_000)
    assert price.nano(used) == 1_800_000_000  # a write without a price of its own costs as much as other input
    price = PriceTable(declared_prices([{**given[0], "cache_write": 1.25}], "here")).find("gpt-4o")
    assert price is not None
    assert price.nano(used) == 1_825_000_000
    claude = PriceTable().find("anthropic:claude-sonnet-4-5-20250929")
    assert claude is not None
    assert claude.nano(used) == 500_000 * 3_000 + 400_000 * 300 + 100_000 * 3_750 + 500_000 * 15_000
