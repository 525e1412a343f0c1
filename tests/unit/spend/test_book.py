"""Reservations: many processes stay within a limit, what is repeated changes nothing, and nothing stays reserved for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples

from clicket.errors import StoreUnavailable
from clicket.model.chat import ChatMessage, ChatRequest, Usage
from clicket.model.spend import Refusal
from clicket.ports import Owner
from clicket.spend import Budget, PriceTable, Reservation, SpendBook, spender_of_turn
from clicket.spend.accounts import Account, Accounts, Hold
from clicket.spend.budgets import AccountId, accounts_of
from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

ALL = Budget(scope="all", limit_tokens=10_000, period="total")
REQUEST = ChatRequest(messages=(ChatMessage(role="user", content="x" * 84),), max_tokens=50)
"""It reserves 100 tokens: 100 bytes of input are 50."""
RESERVED = 100


background: list[asyncio.Future[Any]] = []


class Model:
    name = "m"


async def opened() -> MemoryStore:
    store = MemoryStore()
    await store.open(this_process(10.0))
    return store


def book(store: Any, *budgets: Budget, clock: Any = None, pid: int = 0) -> SpendBook:
    owner = this_process(10.0) if not pid else Owner(host="gone", boot="b", pid=pid, started="s", lease=10.0)
    return SpendBook(store, clock or StepClock(), owner, PriceTable(), budgets or (ALL,), spawn)


def spawn(work: Any) -> None:
    background.append(asyncio.ensure_future(work))


async def settled() -> None:
    """Wait until nothing runs in the background."""
    while background:
        await background.pop()


async def used(it: SpendBook) -> list[tuple[int, int]]:
    """Of each account what is used, and how many holds it has."""
    return [(account.used()[1], len(account.holds)) async for _, account, _ in it.accounts.listed()]


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["settle", "release", "assume", "die"])), max_size=25),
    st.integers(1, 12),
)
def test_spent_and_reserved_never_pass_the_limit(steps: list[tuple[int, str]], room: int) -> None:
    async def check() -> None:
        background.clear()  # an example that failed may have left something
        store = await opened()
        limit = Budget(scope="all", limit_tokens=room * RESERVED, period="total")
        each = Budget(scope="thread", limit_tokens=3 * RESERVED, period="total")
        books = [book(store, limit, each, pid=pid) for pid in (1, 2)]
        spent = 0

        async def run(number: int, thread: int, ending: str) -> None:
            nonlocal spent
            it, spender = books[number % 2], spender_of_turn("", f"t{thread}", "a", number)
            held = await it.reserve(spender, 1, Model, REQUEST)
            async for _, account, _ in it.accounts.listed():
                assert account.used()[1] <= (room if account.scope == "all" else 3) * RESERVED
            if not isinstance(held, Reservation):
                return
            usage = Usage(input_tokens=30, output_tokens=10)
            if ending == "settle":
                note = it.note(Model, usage, held, "")
                for _ in range(2):
                    await it.settle(spender, 1, note, usage)
                spent += usage.total
            elif ending == "release":
                await it.release(held)
            else:
                spent += RESERVED
                if ending == "assume":
                    it.assume(held)

        await asyncio.gather(*(run(number, *step) for number, step in enumerate(steps)))
        await settled()
        judge = book(store, limit, each)
        await judge.sweep(1e12)
        found = await judge.reader.report("day")
        assert found.total.tokens == spent <= room * RESERVED
        totals = [account async for _, account, _ in judge.accounts.listed() if account.scope == "all"]
        assert sum(account.used()[1] for account in totals) == spent
        assert not [hold for account in totals for hold in account.holds.values() if hold.kind == "reserved"]
        await settled()

    asyncio.run(check())


async def test_a_reservation_that_was_not_complete_costs_nothing() -> None:
    """The process died between two accounts: the model was not asked."""
    store = await opened()
    budgets = (ALL, Budget(scope="agent", limit_tokens=10_000))
    it, spender = book(store, *budgets, pid=7), spender_of_turn("", "t", "a", 1)
    first, _ = accounts_of(budgets, spender, it._clock.now())
    change = it.accounts.change

    async def dies(id: AccountId, how: Any) -> Any:
        if id != first:
            await asyncio.Event().wait()
        return await change(id, how)

    it.accounts.change = dies  # type: ignore[method-assign]
    task = asyncio.create_task(it.reserve(spender, 1, Model, REQUEST))
    judge = book(store, *budgets)
    while (RESERVED, 1) not in await used(judge):
        await asyncio.sleep(0)
    assert await judge.sweep(1e12) == 1
    assert {tokens for tokens, _ in await used(judge)} == {0}
    assert (await judge.reader.report("day")).total.entries == 0
    it.accounts.change = change  # type: ignore[method-assign]
    task.cancel()
    await asyncio.wait([task])
    await settled()


async def test_a_process_that_was_asleep_while_it_reserved_looks_again() -> None:
    store, clock = await opened(), StepClock()
    budgets = (ALL, Budget(scope="agent", limit_tokens=10_000))
    it, spender = book(store, *budgets, clock=clock, pid=7), spender_of_turn("", "t", "a", 1)
    _, second = accounts_of(budgets, spender, clock.now())
    change, slept = it.accounts.change, False

    async def sleeps(id: AccountId, how: Any) -> Any:
        nonlocal slept
        if id == second and not slept:
            slept = True
            clock.advance(60.0)
            assert await book(store, *budgets, clock=clock).sweep(1e12) == 1
        return await change(id, how)

    it.accounts.change = sleeps  # type: ignore[method-assign]
    held = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(held, Reservation)
    assert [count for _, count in await used(it)] == [1, 1]


async def test_a_cancelled_reservation_leaves_nothing_behind() -> None:
    store = await opened()
    it = book(store)
    put, entered, go = store.put_document, asyncio.Event(), asyncio.Event()

    async def slow(kind: str, key: str, body: bytes, expect: int | None) -> bool:
        if b"reserved" not in body and b'"holds"' in body:
            entered.set()
            await go.wait()
        return await put(kind, key, body, expect)

    store.put_document = slow  # type: ignore[method-assign]
    task = asyncio.create_task(it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST))
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    go.set()
    await settled()
    assert await used(it) == [(0, 0)]


async def test_what_could_not_be_settled_is_tried_again() -> None:
    store, clock = await opened(), StepClock()
    it, spender = book(store, clock=clock), spender_of_turn("", "t", "a", 1)
    held = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(held, Reservation)
    put, down = store.put_document, True

    async def fails(*given: Any) -> bool:
        if down:
            raise StoreUnavailable("down", transient=True)
        return await put(*given)

    store.put_document = fails  # type: ignore[method-assign]
    usage = Usage(input_tokens=3, output_tokens=4)
    await it.settle(spender, 1, it.note(Model, usage, held, ""), usage)
    assert await used(it) == [(RESERVED, 1)]
    down = False
    await clock.run(5.0)
    await settled()
    assert await used(it) == [(7, 0)]
    assert (await it.reader.report("day")).total.tokens == 7


async def test_a_refusal_makes_no_account() -> None:
    """An account that is made begins with what the ledger has, so none may be made by the way."""
    store = await opened()
    budgets = (
        Budget(scope="all", limit_tokens=1, period="total"),
        Budget(scope="agent", limit_tokens=1, period="total"),
    )
    it, spender = book(store, *budgets), spender_of_turn("", "t", "a", 1)
    assert isinstance(await it.reserve(spender, 1, Model, REQUEST), Refusal)
    await settled()
    assert len(await used(it)) == 1


async def test_old_holds_become_spent_and_a_damaged_account_is_no_empty_one() -> None:
    store = await opened()
    accounts, id = Accounts(store), AccountId("all", "total", "total/x")

    def fill(account: Account) -> None:
        for number in range(2_500):
            account.holds[str(number)] = Hold(nano=1, tokens=2, at=0.0, kind="assumed")

    await accounts.change(id, fill)
    found = await accounts.read(id)
    assert (len(found.holds), found.used()) == (2_000, (2_500, 5_000))
    await store.put_document("budget", id.key, b"{]", None)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await accounts.read(id)


async def test_a_refusal_says_what_a_person_may_add() -> None:
    store = await opened()
    it = book(store, Budget(scope="all", limit_tokens=99, on_reached="ask", name="small"))
    found = await it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST)
    assert isinstance(found, Refusal)
    assert found.ask
    assert found.arguments["add_tokens"] == 200
    for _ in range(2):
        status = await it.raise_budget("small", found.arguments["account"], "call", 0, 200)
        assert status is not None
        assert status.left_tokens == 299
    assert await it.raise_budget("gone", found.arguments["account"], "call", 0, 200) is None
    assert isinstance(await it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST), Reservation)


def test_amounts_are_stored_small() -> None:
    account = Account(scope="all", period="total", nano=1, tokens=2)
    assert msgspec.json.encode(account) == b'{"scope":"all","period":"total","nano":1,"tokens":2}'
