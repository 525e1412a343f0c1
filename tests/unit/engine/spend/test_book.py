"""Reservations: many processes stay within a limit, what is repeated changes nothing, and nothing stays reserved for ever."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples

from clicket.engine.spend.accounts import Account
from clicket.engine.spend.budgets import AccountId
from clicket.errors import StoreUnavailable
from clicket.model.chat import ChatMessage, ChatRequest, Usage
from clicket.model.spend import BudgetBusy, Refusal
from clicket.ports import Owner
from clicket.spend import Budget, PriceTable, Reservation, SpendBook, spender_of_turn
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
        assert not [hold for account in totals for hold in account.holds.values()]
        await settled()

    asyncio.run(check())


async def test_a_cancelled_reservation_leaves_nothing_behind() -> None:
    store = await opened()
    it = book(store)
    put, entered, go = store.put_documents, asyncio.Event(), asyncio.Event()

    async def slow(writes: Any) -> bool:
        if any(b'"holds"' in write.body for write in writes):
            entered.set()
            await go.wait()
        return await put(writes)

    store.put_documents = slow  # type: ignore[method-assign]
    task = asyncio.create_task(it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST))
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    go.set()
    await settled()
    assert await used(it) == [(0, 0)]


async def test_a_reservation_that_is_cancelled_before_its_write_begins_leaves_nothing_behind() -> None:
    """A loop need not begin with the task that was made first."""
    it, loop = book(await opened()), asyncio.get_running_loop()
    held_up: list[asyncio.Task[Any]] = []

    async def begin_later(work: Any) -> Any:
        for _ in range(50):
            await asyncio.sleep(0)
        return await work

    def hold_up(loop: Any, work: Any, **given: Any) -> Any:
        held_up.append(asyncio.Task(begin_later(work), loop=loop, **given))
        return held_up[-1]

    task = asyncio.create_task(it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST))
    loop.set_task_factory(hold_up)
    await asyncio.sleep(0)
    loop.set_task_factory(None)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait(held_up)
    await settled()
    assert await used(it) == [(0, 0)]


async def test_a_cancelled_reservation_whose_write_fails_reports_no_error() -> None:
    """Its caller has gone, so asyncio would report the error of the write as never retrieved."""
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context)))
    store = await opened()
    it = book(store)
    put, entered, go, down = store.put_documents, asyncio.Event(), asyncio.Event(), True

    async def fails(writes: Any) -> bool:
        if down:
            entered.set()
            await go.wait()
            raise StoreUnavailable("down", transient=True)
        return await put(writes)

    store.put_documents = fails  # type: ignore[method-assign]
    task = asyncio.create_task(it.reserve(spender_of_turn("", "t", "a", 1), 1, Model, REQUEST))
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    go.set()
    await asyncio.sleep(0)
    down = False
    await settled()
    gc.collect()
    assert reported == []
    assert await used(it) == []


@pytest.mark.parametrize("stopped", [False, True])
async def test_what_could_not_be_settled_is_tried_again(stopped: bool) -> None:
    store, clock = await opened(), StepClock()
    it, spender = book(store, clock=clock), spender_of_turn("", "t", "a", 1)
    held = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(held, Reservation)
    put, down = store.put_documents, True

    async def fails(*given: Any) -> bool:
        if down:
            raise StoreUnavailable("down", transient=True)
        return await put(*given)

    store.put_documents = fails  # type: ignore[method-assign]
    usage = Usage(input_tokens=3, output_tokens=4)
    settling = it.settle(spender, 1, it.note(Model, usage, held, ""), usage)
    assert settling is not None
    waiting = asyncio.ensure_future(settling)
    await clock.run(5.0)
    assert await used(it) == [(RESERVED, 1)]
    assert not waiting.done()
    if stopped:  # a run that is stopped does not wait
        waiting.cancel()
        await asyncio.wait([waiting])
    down = False
    await clock.run(15.0)
    await (settled() if stopped else waiting)
    assert await used(it) == [(7, 0)]
    assert (await it.reader.report("day")).total.tokens == 7


async def test_an_account_that_a_refusal_makes_begins_with_what_the_ledger_has() -> None:
    store = await opened()
    budgets = (
        Budget(scope="all", limit_tokens=1, period="total"),
        Budget(scope="agent", limit_tokens=1, period="total"),
    )
    before, spender = book(store, Budget(scope="thread:other", limit_tokens=1)), spender_of_turn("", "t", "a", 1)
    usage = Usage(input_tokens=3, output_tokens=4)
    assert before.settle(spender, 1, before.note(Model, usage, None, ""), usage) is None
    await before.flush(spender)
    it = book(store, *budgets)
    assert isinstance(await it.reserve(spender, 1, Model, REQUEST), Refusal)
    await settled()
    assert await used(it) == [(7, 0), (7, 0)]


async def test_a_damaged_account_is_no_empty_one() -> None:
    store = await opened()
    accounts, id = book(store).accounts, AccountId("all", "total", "total/x")
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


async def test_a_reply_that_the_ledger_has_is_not_assumed_in_an_account() -> None:
    """The process died after the ledger had the reply: as a process without this budget leaves it."""
    store = await opened()
    it, spender = book(store, pid=7), spender_of_turn("", "t", "a", 1)
    held = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(held, Reservation)
    usage = Usage(input_tokens=3, output_tokens=4)
    other = book(store, Budget(scope="thread:other", limit_tokens=1))
    settling = other.settle(spender, 1, it.note(Model, usage, held, ""), usage)
    await (other.flush(spender) if settling is None else settling)
    assert await used(it) == [(RESERVED, 1)]
    judge = book(store)
    assert await judge.sweep(1e12) == 1
    assert (await judge.reader.report("day")).total.tokens == 7
    assert [tokens for tokens, _ in await used(judge)] == [7]
    await settled()


async def test_a_request_waits_for_the_reservation_of_a_dead_process_to_be_ended() -> None:
    store, clock = await opened(), StepClock()
    tight = Budget(scope="all", limit_tokens=RESERVED + 50, period="total")
    it, spender = book(store, tight, clock=clock), spender_of_turn("", "t", "a", 1)
    assert isinstance(await book(store, tight, clock=clock, pid=7).reserve(spender, 1, Model, REQUEST), Reservation)
    busy = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(busy, BudgetBusy)
    await it.settled(busy)
    assert await used(it) == [(RESERVED, 0)]
    found = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(found, Refusal), "now it is spent"
    await settled()


async def test_a_request_looks_again_whether_another_process_settled() -> None:
    store, clock = await opened(), StepClock()
    tight = Budget(scope="all", limit_tokens=RESERVED + 50, period="total")
    it, other, spender = (*(book(store, tight, clock=clock) for _ in range(2)), spender_of_turn("", "t", "a", 1))
    held = await other.reserve(spender, 1, Model, REQUEST)
    assert isinstance(held, Reservation)
    busy = await it.reserve(spender, 1, Model, REQUEST)
    assert isinstance(busy, BudgetBusy)
    await other.release(held)
    waits = asyncio.create_task(it.settled(busy))
    while not waits.done():
        clock.advance(0.5)
        await asyncio.sleep(0)
    assert isinstance(await it.reserve(spender, 1, Model, REQUEST), Reservation)
