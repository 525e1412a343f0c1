"""Closing a runtime while calls wait, or in the middle of an operation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios import fleet_tools
from tests.scenarios.kit import assert_sound, make, states, types
from tests.scenarios.shutdown_kit import Body, outcome, until_state, why

from clicket import Policy, RetryableError, State, tool
from clicket.errors import UsageError

# Waiting calls - ------------------------------------------------------------------------------------------------------


async def test_waiting_calls_are_handed_back_and_run_by_the_next_runtime(sqlite: str) -> None:
    work = Body()
    async with make([work.tool], sqlite, max_concurrency=1) as rt:
        running, *waiting = [await rt.submit("work", id=f"c{i}") for i in range(4)]
        await work.running()
        watching = asyncio.create_task(_all_events(waiting[0]))
        closing = asyncio.create_task(rt.close())
        assert [await why(handle.result()) for handle in waiting] == ["closed"] * 3
        assert await why(watching) == "closed"
        work.gate.set()  # a running call may finish
        await closing
        assert (await running.result()).output == 1
    assert work.runs == ["c0"]
    async with make([work.tool], sqlite) as rt:
        assert [(await outcome(rt, f"c{i}")).state for i in range(4)] == [State.COMPLETED] * 4
        for i in range(4):
            record = await rt.get(f"c{i}")
            assert len(record.attempts) == 1
            assert_sound(record)
    assert sorted(work.runs) == ["c0", "c1", "c2", "c3"]


async def _all_events(handle: Any) -> list[Any]:
    return [event async for event in handle.events()]


async def test_in_memory_there_is_no_next_runtime_so_waiting_calls_are_cancelled() -> None:
    work = Body()
    policy = Policy(ask=["asked"])

    @tool
    async def asked() -> None: ...

    async with make([work.tool, asked], max_concurrency=1, policy=policy) as rt:
        running = await rt.submit("work")
        waiting = await rt.submit("work")
        question = await rt.submit("asked")
        await work.running()
        await rt.close(patience=0)
    results = [await handle.result() for handle in (running, waiting, question)]
    assert [result.state for result in results] == [State.CANCELLED] * 3
    assert all(result.error is not None and "closed" in result.error.message for result in results)
    assert len(work.runs) == 1


async def test_calls_that_wait_for_a_person_still_do_in_the_next_runtime(sqlite: str) -> None:
    work = Body()
    work.gate.set()
    policy = Policy(ask=["work"])
    async with make([work.tool], sqlite, policy=policy) as rt:
        handles = {id: await rt.submit("work", id=id) for id in ("yes", "no")}
        await rt.close(patience=0)
        assert [await why(handle.result()) for handle in handles.values()] == ["closed"] * 2
    async with make([work.tool], sqlite, policy=policy) as rt:
        assert (await rt.get("yes")).waiting_for == "approval"
        assert await rt.approve("yes")
        assert await rt.deny("no")
        assert (await outcome(rt, "yes")).success
        assert not (await outcome(rt, "no")).success
    assert work.runs == ["yes"]


@pytest.mark.parametrize("options", [{}, {"idempotent": True}], ids=repr)
async def test_a_call_that_backs_off_is_handed_back_whatever_its_tool_allows(
    sqlite: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    @tool(retry_delay=600, **options)
    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise RetryableError("later")
        return len(tries)

    async with make([flaky], sqlite) as rt:
        handle = await rt.submit("flaky", id="f")
        await until_state(rt, "f", State.RETRYING)
        await rt.close(patience=0)
        assert await why(handle.result()) == "closed"
    async with make([flaky], sqlite) as rt:
        assert (await outcome(rt, "f")).output == 2
        assert_sound(await rt.get("f"))
    assert "InvalidTransition" not in caplog.text


@pytest.mark.parametrize("isolated", [fleet_tools.where, fleet_tools.where_again], ids=lambda tool: str(tool.name))
async def test_a_call_whose_worker_is_not_ready_yet_never_started_and_is_handed_back(
    sqlite: str, isolated: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with make([isolated], sqlite) as rt:
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        rt.engine.processes.acquire = lambda: never
        handle = await rt.submit(isolated.name, id="p")
        assert await rt.state("p") is State.INITIALIZING
        await rt.close(patience=0)
        assert await why(handle.result()) == "closed"
    async with make([isolated], sqlite) as rt:
        result = await outcome(rt, "p")
        record = await rt.get("p")
    assert result.success, result.error
    assert result.attempts == 1
    assert states(record.events) == ["pending", "initializing", "running", "completed"]
    assert_sound(record)
    assert "InvalidTransition" not in caplog.text


# During an operation ------ -------------------------------------------------------------------------------------------


async def test_closing_starts_no_call_that_waited_for_another_process(sqlite: str) -> None:
    """Equal calls that wait for the flight of another runtime are handed back; they must not run concurrently with it."""
    work = Body(cache=60)
    async with make([work.tool], sqlite) as leading:
        leader = await leading.submit("work")
        await work.running()
        async with make([work.tool], sqlite) as rt:
            handles = [await rt.submit("work", id=f"f{i}") for i in range(3)]
            await rt.close(patience=0)
            assert [await why(handle.result()) for handle in handles] == ["closed"] * 3
        work.gate.set()
        assert (await leader.result()).output == 1
        for i in range(3):
            assert (await outcome(leading, f"f{i}")).output == 1
            assert_sound(await leading.get(f"f{i}"))
    assert len(work.runs) == 1


async def test_closing_while_others_have_all_slots_hands_back(sqlite: str) -> None:
    work = Body(max_concurrency=1)
    async with make([work.tool], sqlite) as busy:
        first = await busy.submit("work")
        await work.running()
        async with make([work.tool], sqlite) as rt:
            handle = await rt.submit("work", id="s")
            await rt.close(patience=0)
            assert await why(handle.result()) == "closed"
        assert (await busy.get("s")).state is State.PENDING
        work.gate.set()
        assert (await first.result()).success
        assert (await outcome(busy, "s")).output == 2


async def test_a_call_that_is_about_to_get_its_slot_is_handed_back_not_cancelled(sqlite: str) -> None:
    work = Body(max_concurrency=1)
    work.gate.set()
    async with make([work.tool], sqlite) as rt:
        store, asked, answer = rt.store, asyncio.Event(), asyncio.Event()
        hold = store.hold

        async def slow(name: str, count: int, capacity: int) -> bool:
            if count:
                asked.set()
                await answer.wait()
            return bool(await hold(name, count, capacity))

        await store.hold("tool:work", 0, 1)
        rt.engine.limiter.block(("tool", "work", 1))
        handle = await rt.submit("work", id="s")  # durable, in the queue
        store.hold = slow
        rt.engine.gate.look_again()
        await asked.wait()
        closing = asyncio.create_task(rt.close(patience=0))
        await asyncio.sleep(0)
        answer.set()
        await closing
        await asyncio.gather(handle.result(), return_exceptions=True)
    async with make([work.tool], sqlite) as rt:
        assert (await outcome(rt, "s")).success
    assert len(work.runs) == 1


@pytest.mark.parametrize("claim", ["claim_waiting", "claim_orphans"])
async def test_what_is_claimed_while_closing_is_not_begun(sqlite: str, claim: str) -> None:
    work = Body()
    work.gate.set()
    async with make([work.tool], sqlite, engine="workers") as front:
        await front.submit("work", id="c")
    async with make([], sqlite) as rt:
        rt.add(work.tool)
        store, claiming, answer = rt.store, asyncio.Event(), asyncio.Event()

        async def slow(tools: frozenset[str], limit: int) -> Any:
            taken = await type(store).claim_waiting(store, tools, limit)
            claiming.set()
            await answer.wait()
            return taken

        setattr(store, claim, slow)
        task = asyncio.create_task(rt.recover())
        await claiming.wait()
        closing = asyncio.create_task(rt.close(patience=0))
        await asyncio.sleep(0)
        answer.set()
        await closing
        await asyncio.gather(task, return_exceptions=True)
    assert not work.runs
    async with make([work.tool], sqlite) as rt:
        assert (await outcome(rt, "c")).success
        record = await rt.get("c")
    assert types(record).count("attempt_started") == 1
    assert_sound(record)


async def test_closing_twice_and_at_once_is_closing_once(store: str) -> None:
    work = Body()
    rt = await make([work.tool], store).open()
    handle = await rt.submit("work")
    await work.running()
    first = asyncio.create_task(rt.close())
    second = asyncio.create_task(rt.close(patience=0))
    await second
    work.gate.set()
    await first
    await rt.close()
    assert (await handle.result()).success
    with pytest.raises(UsageError):
        await rt.submit("work")


async def test_a_closed_runtime_signs_off_and_leaves_no_slot(sqlite: str) -> None:
    work = Body(max_concurrency=1, cache=60)
    async with make([work.tool], sqlite) as other:
        rt = await make([work.tool], sqlite).open()
        await rt.submit("work", id="w")
        await work.running()
        assert len(await other.store.owners()) == 2
        await rt.close(patience=0)
        [owner] = await other.store.owners()
        assert owner.mine
        # Both the tool's slot and the flight are free again.
        assert (await asyncio.wait_for(other.call("work"), PATIENCE)).output == 2


async def test_a_waiter_for_a_call_of_another_process_learns_that_the_runtime_closed(sqlite: str) -> None:
    work = Body()
    async with make([work.tool], sqlite, engine="workers") as front:
        handle = await front.submit("work", id="w")
        waits = [handle.result(), _all_events(handle), front.call("work", id="w")]
        tasks = [asyncio.create_task(each) for each in waits]
        await asyncio.sleep(0)
        await front.close()
        assert [await why(task) for task in tasks] == ["closed"] * 3
