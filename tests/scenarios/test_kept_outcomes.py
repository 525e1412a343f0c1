"""A call repeated under its own id gets its outcome long after its events were removed, and does not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import served

from clicket import Conflict, Runtime, State, ToolCall, tool
from clicket.client import Client
from clicket.errors import NotFound
from clicket.ports import Append
from clicket.testing import StepClock, memory_runtime

DAY = 24 * 3600.0
runs: list[Any] = []


@tool(max_retries=1, retry_delay=0)
async def charge(cents: int, note: str = "", fail: bool = False) -> str:
    runs.append(cents)
    if fail:
        raise ConnectionError("declined")
    return f"{cents} {note}"


@tool(sensitive=["card"])
async def pay(card: str) -> str:
    runs.append("pay")
    return "paid"


TOOLS = [charge, pay]


@pytest.fixture(scope="module", params=["memory", "sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """The URL of an empty store of each kind."""
    folder, count = tmp_path_factory.mktemp("kept"), iter(range(1_000))
    with ExitStack() as stack:
        if request.param == "memory":
            yield lambda: "memory://"
        elif request.param == "sqlite":
            yield lambda: sqlite_url(folder, f"{next(count)}.db")
        elif request.param == "redis":
            redis = stack.enter_context(redis_server(folder))
            yield lambda: f"{redis.url}?prefix=kept{next(count)}"
        else:
            database = stack.enter_context(postgres_server())
            yield lambda: f"{database.url()}?schema=kept{next(count)}"


async def test_a_removed_call_is_sent_again_over_http(tmp_path: Path) -> None:
    """Whether the client waits or not, it gets the outcome; a call that the server does not have is not an accepted one."""
    runs.clear()
    async with served(TOOLS, sqlite_url(tmp_path)) as it, Client(it.url) as client:
        first = await client.call("charge", {"cents": 5}, id="mine")
        await forget_events(it.runtime)
        with pytest.raises(NotFound):
            await client.get("mine")
        handle = await client.submit("charge", {"cents": 5}, id="mine")
        assert (await handle.result()).output == first.output == "5 "
        assert not await handle.cancel()
        assert (await client.call("charge", {"cents": 5}, id="mine")).output == "5 "
        with pytest.raises(Conflict):
            await client.submit("charge", {"cents": 6}, id="mine")
    assert runs == [5]


async def forget_events(rt: Runtime) -> int:
    """As after `retention`."""
    return (await rt.sweep(rt.retention(rt.clock.now() + 1))).calls


async def test_an_outcome_outlives_its_events(url: Callable[[], str]) -> None:
    runs.clear()
    async with make(TOOLS, url()) as rt:
        one = rt.acting_for("one")
        first = await one.call("charge", {"cents": 5}, id="order-7", thread="shop")
        failed = await one.call("charge", {"cents": 6, "fail": True}, id="order-8", thread="shop")
        await rt.call("charge", {"cents": 1})  # clients cannot repeat an id that clicket made
        assert await forget_events(rt) == 3
        assert (await rt.history()).items == []
        before = list(runs)
        again = await one.call("charge", '{"cents": 5.0}', id="order-7", thread="shop")
        assert (again.state, again.output, again.call_id) == (State.COMPLETED, first.output, "order-7")
        handle = await one.submit("charge", {"cents": 6, "fail": True}, id="order-8", thread="shop")
        result = await handle.result()
        assert (result.error, result.attempts) == (failed.error, 2)
        assert [event.seq async for event in handle.events()] == [1, 2, 3, 4, 5]
        assert not await handle.cancel()
        with pytest.raises(NotFound):  # its record is gone
            await one.get("order-7", thread="shop")
        with pytest.raises(Conflict):
            await one.call("charge", {"cents": 99}, id="order-7", thread="shop")
        assert runs == before
        for other, thread in ((rt, "shop"), (rt.acting_for("two"), "shop"), (one, "another")):
            assert (await other.call("charge", {"cents": 5}, id="order-7", thread=thread)).success
        assert len(runs) == len(before) + 3
        assert len(await rt.store.documents("outcome")) == 2


@pytest.mark.parametrize("how", ["call", "submit"])
@pytest.mark.parametrize("moment", ["running", "taken"])
async def test_a_call_that_is_removed_while_it_is_sent_again_does_not_run_again(
    url: Callable[[], str], monkeypatch: pytest.MonkeyPatch, how: str, moment: str
) -> None:
    """Removed just before the creation of the second call, or just after it was refused because the first one was still there."""
    runs.clear()
    async with make(TOOLS, url()) as rt:
        first = await rt.call("charge", {"cents": 5}, id="order-7")
        repeated, removed = rt.engine.repeated_calls, list[int]()
        look = getattr(repeated, moment)

        async def look_meanwhile(*given: Any) -> Any:
            found = await look(*given) if moment == "running" else None
            removed.append(await forget_events(rt))
            return found if moment == "running" else await look(*given)

        monkeypatch.setattr(repeated, moment, look_meanwhile)
        if how == "call":
            again = await rt.call("charge", {"cents": 5}, id="order-7")
        else:
            again = await (await rt.submit("charge", {"cents": 5}, id="order-7")).result()
        assert removed == [1]
        assert (again.output, again.state) == (first.output, State.COMPLETED)
        with pytest.raises(Conflict):
            await rt.submit("charge", {"cents": 6}, id="order-7")
        assert (await rt.history()).items == []
    assert runs == [5]


async def test_an_outcome_that_cannot_be_removed_ends_the_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose id was refused for an outcome that is too old is made anew, but not without end."""
    runs.clear()
    clock = StepClock()
    async with memory_runtime(TOOLS, clock=clock) as rt:
        await rt.call("charge", {"cents": 1}, id="a")
        await forget_events(rt)
        clock.advance(31 * DAY)
        asked: list[str] = []

        async def refuse(kind: str, key: str) -> bool:
            asked.append(kind)
            return False

        with monkeypatch.context() as patch:
            patch.setattr(rt.store, "delete_document", refuse)
            with pytest.raises(NotFound):
                await rt.call("charge", {"cents": 1}, id="a")
        assert set(asked) == {"outcome"}
        assert runs == [1]
        assert (await rt.call("charge", {"cents": 1}, id="a")).success
    assert runs == [1, 1]


async def test_only_an_id_of_the_caller_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_runtime(TOOLS) as rt:
        looked: list[bool] = []
        append = rt.engine.journal._append

        def watch(change: Append, done: Any) -> None:
            if change.expect == 0:
                looked.append(change.unless is not None)
            append(change, done)

        monkeypatch.setattr(rt.engine.journal, "_append", watch)
        await rt.call("charge", {"cents": 1})
        await (await rt.submit("charge", {"cents": 1})).result()
        await rt._call(ToolCall("charge", {"cents": 1}, id="made"), is_new=True)
        assert looked == [False] * 3
        await rt.call("charge", {"cents": 1}, id="a")
        await rt.submit("charge", {"cents": 1}, id="b")
        await rt.call("charge", {}, id="c")  # refused, and on record
        assert looked == [False] * 3 + [True] * 3


async def test_what_is_kept_is_small_and_has_no_secret(store: str) -> None:
    runs.clear()
    async with make(TOOLS, store, secret_key="k" * 32) as rt:
        await rt.call("charge", {"cents": 1, "note": "x" * 100_000}, id="long")
        await rt.call("pay", {"card": "4111-2222-3333"}, id="card")
        await forget_events(rt)
        kept = await rt.store.documents("outcome")
        assert [len(document.body) < 2_000 for document in kept] == [True, True]
        assert not any(b"4111" in document.body for document in kept)
        again = await rt.call("charge", {"cents": 1, "note": "x" * 100_000}, id="long")
        assert (again.success, again.output, again.metadata["output_removed"]) == (True, None, True)
        assert (await rt.call("pay", {"card": "4111-2222-3333"}, id="card")).output == "paid"
        with pytest.raises(Conflict):
            await rt.call("pay", {"card": "4111-2222-4444"}, id="card")
    assert runs == [1, "pay"]


async def test_outcomes_go_after_their_time() -> None:
    runs.clear()
    clock = StepClock()
    async with memory_runtime(TOOLS, clock=clock) as rt:
        await rt.call("charge", {"cents": 1}, id="a")
        clock.advance(2 * DAY)
        await rt.engine.sweeps.sweep_all()
        assert (await rt.history()).items == []
        clock.advance(27 * DAY)
        await rt.engine.sweeps.sweep_all()
        await rt.call("charge", {"cents": 1}, id="a")
        assert runs == [1]
        clock.advance(2 * DAY)
        assert (await rt.call("charge", {"cents": 1}, id="a")).success  # also before the next sweep
        assert runs == [1, 1]
        await rt.engine.sweeps.sweep_all()
        assert await rt.store.documents("outcome") == []


async def test_it_survives_a_restart(tmp_path: Path) -> None:
    runs.clear()
    async with make(TOOLS, sqlite_url(tmp_path)) as rt:
        await rt.call("charge", {"cents": 1}, id="a")
        await forget_events(rt)
    async with make(TOOLS, sqlite_url(tmp_path)) as rt:
        results = await asyncio.gather(*(rt.call("charge", {"cents": 1}, id="a") for _ in range(5)))
    assert [result.output for result in results] == ["1 "] * 5
    assert runs == [1]


async def test_nothing_is_kept_if_nothing_is_to_be_kept(tmp_path: Path) -> None:
    runs.clear()
    async with make(TOOLS, sqlite_url(tmp_path)) as rt:
        await rt.call("charge", {"cents": 1}, id="a")
        await forget_events(rt)
        assert len(await rt.store.documents("outcome")) == 1
    async with make(TOOLS, sqlite_url(tmp_path), outcome_retention=0.0) as rt:
        await forget_events(rt)
        assert await rt.store.documents("outcome") == []
        assert (await rt.call("charge", {"cents": 1}, id="a")).success
    assert runs == [1, 1]
