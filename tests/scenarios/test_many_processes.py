"""One store, many processes: submitted in one, run in another, watched and controlled from a third. No call is lost or
runs twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.kit.stopping import stop_between_writes
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.fleet import member, until_traced
from tests.scenarios.fleet_tools import POLICY, TOOLS, traces
from tests.scenarios.kit import assert_sound, make, states, types

from clicket import Conflict, Policy, Runtime, State
from clicket.errors import NotFound, UsageError

LEASE = 2.0  # seconds; after that, what a killed process held is free


@pytest.fixture
async def front(sqlite: str) -> AsyncIterator[Runtime]:
    """A runtime that accepts calls and runs none."""
    async with make(TOOLS, sqlite, policy=POLICY, engine="workers", lease=LEASE) as rt:
        yield rt


async def outcome(rt: Runtime, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


def ran(folder: Path) -> Counter[str]:
    """How often each call had its effect."""
    return Counter(line[1] for line in traces(folder) if line[0] != "leave")


# Submit, run, watch ---------------------------------------------------------------------------------------------------


async def test_submitted_here_run_there_and_watched_from_a_third(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    async with member(sqlite) as worker, member(sqlite, "note") as watcher:
        handle = await front.submit("talk", {"folder": str(tmp_path), "n": 60}, id="t")
        live = watcher.begin("watch", "t")
        ours = asyncio.create_task(_events(handle))

        async def half() -> bool:
            return types(await front.get("t")).count("output") >= 30

        await eventually(half)
        (tmp_path / "go").touch()
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        seen = (await asyncio.wait_for(live, PATIENCE))["value"]
        record = await front.get("t")
        assert [event.seq for event in await ours] == [event["seq"] for event in seen]
        replayed = await watcher.do("watch", "t", after=10)
        called = await asyncio.wait_for(front.call("slow", {"folder": str(tmp_path)}), PATIENCE)
    assert result.output == "".join(f"{i};" for i in range(60))
    assert called.output == worker.pid
    assert [event["seq"] for event in seen] == list(range(1, len(record.events) + 1))
    assert [event["type"] for event in seen] == types(record)
    assert seen[-1]["state"] == "completed"
    assert replayed == seen[10:]
    assert states(record.events) == ["pending", "initializing", "running", "streaming", "completed"]
    assert_sound(record)


async def _events(handle: Any) -> list[Any]:
    return [event async for event in handle.events()]


async def test_each_call_is_run_once_by_one_of_many(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    ids = [(await front.submit("note", {"folder": str(tmp_path), "x": i}, id=f"n{i}")).id for i in range(100)]
    async with member(sqlite) as one, member(sqlite) as two:
        results = await asyncio.gather(*(outcome(front, id) for id in ids))
        workers = {int(line[2]) for line in traces(tmp_path)}
    assert [result.output for result in results] == list(range(100))
    assert ran(tmp_path) == Counter(ids)
    assert workers <= {one.pid, two.pid}


async def test_no_worker_holds_calls_that_another_could_run_now(sqlite: str, tmp_path: Path) -> None:
    """A worker claims only calls that can start there: none may wait for its threads or slots while another worker is idle."""
    async with make(TOOLS, sqlite, engine="workers") as front:
        ids = [(await front.submit("blocking", {"folder": str(tmp_path)})).id for _ in range(3)]
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(make(TOOLS, sqlite, worker_threads=1, max_concurrency=5))
            await until_traced(tmp_path, 3, timeout=15)
            (tmp_path / "go").touch()
            assert [(await outcome(front, id)).output for id in ids] == ["done"] * 3


async def test_the_most_urgent_first_then_the_oldest(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    wanted = {"a": 0, "b": 5, "c": -3, "d": 5, "e": 1, "f": 0}
    for id, priority in wanted.items():
        await front.submit("note", {"folder": str(tmp_path)}, id=id, priority=priority)
    async with member(sqlite, max_concurrency=1):
        for id in wanted:
            assert (await outcome(front, id)).success
    assert [line[1] for line in traces(tmp_path)] == ["b", "d", "e", "a", "f", "c"]


async def test_a_runtime_without_the_tool_leaves_the_call_alone(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    await front.submit("slow", {"folder": str(tmp_path)}, id="s")
    (tmp_path / "go").touch()
    async with member(sqlite, "note") as other:
        assert (await front.call("note", {"folder": str(tmp_path), "x": 1})).output == 1  # the worker looks for work
        assert await other.do("state", "s") == "pending"
        await other.do("recover")
        assert await other.do("state", "s") == "pending"
        assert {event.type for event in (await front.get("s")).events} <= {"created", "stage_ended", "note"}
        async with member(sqlite, "slow") as able:
            assert (await outcome(front, "s")).output == able.pid


async def test_one_id_is_one_call_in_all_processes(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path)}
    async with member(sqlite) as one, member(sqlite) as two:
        submitted = [each.begin("submit", "note", arguments, id=f"i{i}") for i in range(20) for each in (one, two)]
        called = await asyncio.gather(*(front.call("note", arguments, id=f"i{i}") for i in range(20)))
        assert all("value" in answer for answer in await asyncio.gather(*submitted))
        assert all(result.success for result in called)
        other = {"folder": str(tmp_path), "x": 9}
        with pytest.raises(Conflict):
            await front.submit("note", other, id="i0")
        assert (await one.begin("submit", "note", other, id="i0"))["error"] == "conflict"
        assert (await two.begin("submit", "note", arguments, id="i0"))["value"] == "i0"
    assert ran(tmp_path) == Counter(f"i{i}" for i in range(20))


# Controlled from others -----------------------------------------------------------------------------------------------


async def test_cancelled_from_another_process_the_work_really_stops(
    front: Runtime, sqlite: str, tmp_path: Path
) -> None:
    arguments = {"folder": str(tmp_path)}
    async with member(sqlite) as worker, member(sqlite, "note") as third:
        for name in ("slow", "blocking", "tree"):
            await front.submit(name, arguments, id=name)
        lines = {line[0]: line for line in await until_traced(tmp_path, 3)}
        assert {int(lines[name][2]) for name in ("slow", "blocking")} == {worker.pid}
        assert await third.do("cancel", "slow", reason="from a third")
        assert await front.cancel("blocking")
        assert await third.do("cancel", "tree")
        results = {name: await outcome(front, name) for name in lines}
        await eventually(lambda: not any(map(_runs, lines["tree"][2:])))
        assert not await front.cancel("slow")
        assert not await third.do("cancel", "tree")
        records = [await front.get(name) for name in lines]
    assert [result.state for result in results.values()] == [State.CANCELLED] * 3
    assert results["slow"].error.message.endswith("from a third")
    for record in records:
        assert_sound(record)
        assert "cancel_requested" in types(record)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_decided_before_while_and_after_a_worker_holds_it(
    front: Runtime, sqlite: str, tmp_path: Path, verdict: str
) -> None:
    first, second = [await front.submit("asked", {"folder": str(tmp_path)}, id=id) for id in ("before", "held")]
    assert (await front.get("before")).waiting_for == "approval"
    assert await getattr(front, verdict)("before", by="Ada")
    assert not await front.approve("before")  # a second decision is refused
    async with member(sqlite) as worker, member(sqlite, "note") as third:
        one = await asyncio.wait_for(first.result(), PATIENCE)
        await eventually(lambda: _is_held(front, "held"))
        assert not ran(tmp_path)["held"]
        assert await third.do(verdict, "held", by="Bob")
        two = await asyncio.wait_for(second.result(), PATIENCE)
        for each in (front.approve, front.deny):
            assert not await each("held")
        assert not await worker.do("deny", "held")
    good = verdict == "approve"
    assert [one.success, two.success] == [good, good]
    assert ran(tmp_path) == (Counter(["before", "held"]) if good else Counter())
    for id, by in (("before", "Ada"), ("held", "Bob")):
        record = await front.get(id)
        assert [e.data["by"] for e in record.events if e.type == "approval_given"] == [by]
        assert_sound(record)
    if not good:
        assert [each.error and each.error.code for each in (one, two)] == ["approval_denied"] * 2


async def _is_held(rt: Runtime, id: str) -> bool:
    [stored] = await rt.store.load(id)
    return stored.owner is not None


async def test_of_two_concurrent_decisions_one_wins(sqlite: str, tmp_path: Path) -> None:
    """A call that was denied with success must not run, although its owner has not read the decision yet."""
    async with make(TOOLS, sqlite, policy=POLICY) as holder, make(TOOLS, sqlite, policy=POLICY) as other:
        await holder.submit("asked", {"folder": str(tmp_path)}, id="a")
        assert await other.deny("a", by="Bob")
        assert not await holder.approve("a", by="Ada")
        result = await outcome(holder, "a")
        record = await holder.get("a")
    assert result.error is not None
    assert result.error.code == "approval_denied"
    assert [e.data["by"] for e in record.events if e.type == "approval_given"] == ["Bob"]
    assert not ran(tmp_path)
    assert_sound(record)


async def test_of_many_concurrent_decisions_one_wins(sqlite: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        rts = [await stack.enter_async_context(make(TOOLS, sqlite, policy=POLICY)) for _ in range(3)]
        for i in range(10):
            id = f"a{i}"
            await rts[i % 3].submit("asked", {"folder": str(tmp_path)}, id=id)
            words = [rts[0].approve(id), rts[1].deny(id), rts[2].approve(id), rts[2].deny(id)]
            said = await asyncio.gather(*words)
            result = await outcome(rts[0], id)
            assert sum(said) == 1
            assert result.success == (said[0] or said[2])
            assert ran(tmp_path)[id] == result.success
            record = await rts[1].get(id)
            assert types(record).count("approval_given") == 1
            assert_sound(record)


# No worker -- ---------------------------------------------------------------------------------------------------------


async def test_unclaimed_calls_still_end_on_time_or_when_cancelled(front: Runtime, tmp_path: Path) -> None:
    late = await front.submit("note", {"folder": str(tmp_path)}, deadline=0.2)
    result = await asyncio.wait_for(late.result(), PATIENCE)
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "deadline")
    handle = await front.submit("note", {"folder": str(tmp_path)}, id="c")
    assert await handle.cancel("nobody came")
    result = await asyncio.wait_for(handle.result(), PATIENCE)
    assert result.state is State.CANCELLED
    assert not await handle.cancel()
    for id in (late.id, "c"):
        assert_sound(await front.get(id))
    assert not traces(tmp_path)


async def test_an_approval_without_an_owner_still_has_its_deadline(sqlite: str, tmp_path: Path) -> None:
    policy = Policy(ask=["asked"], approval_timeout=0.2)
    async with make(TOOLS, sqlite, policy=policy, engine="workers") as front:
        handle = await front.submit("asked", {"folder": str(tmp_path)})
        result = await asyncio.wait_for(handle.result(), PATIENCE)
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "approval")


async def test_a_caller_that_goes_away_takes_its_call_along(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    """As without workers: cancelling the task that awaits `call` cancels the call."""
    async with member(sqlite):
        call = asyncio.create_task(front.call("slow", {"folder": str(tmp_path)}, id="s"))
        await until_traced(tmp_path, 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await asyncio.wait_for(outcome(front, "s"), PATIENCE)).state is State.CANCELLED


async def test_what_the_front_can_answer_itself_needs_no_worker(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "x": 1}
    async with member(sqlite):
        assert not (await asyncio.wait_for(front.call("shared", arguments), PATIENCE)).cached
    again = await asyncio.wait_for(front.call("shared", arguments), PATIENCE)
    refused = await asyncio.wait_for(front.call("note", {"folder": 5}), PATIENCE)
    assert again.cached
    assert refused.error is not None
    assert refused.error.code == "invalid_input"
    with pytest.raises(NotFound):
        await front.get("no such call")


def test_memory_has_no_other_processes() -> None:
    with pytest.raises(UsageError, match="memory"):
        Runtime([], store="memory://", engine="workers")


# Workers come and go --------------------------------------------------------------------------------------------------


async def test_workers_are_killed_and_leave_and_no_call_is_lost_or_run_twice(
    front: Runtime, sqlite: str, tmp_path: Path
) -> None:
    arguments = {"folder": str(tmp_path)}
    ids = [f"n{i}" for i in range(120)]
    async with member(sqlite, lease=LEASE) as doomed, member(sqlite, lease=LEASE) as leaving:
        for id in ids[:60]:
            await front.submit("note", arguments, id=id)
        await front.submit("again", arguments, id="again")
        await until_traced(tmp_path, 1, "again")
        for id in ids[60:]:
            await front.submit("note", arguments, id=id)
        holder = next(int(line[2]) for line in traces(tmp_path) if line[0] == "again")
        victim, other = (doomed, leaving) if holder == doomed.pid else (leaving, doomed)
        await victim.kill()
        await other.leave()
    async with member(sqlite, lease=LEASE):
        results = {id: await outcome(front, id) for id in ids}
        assert (await outcome(front, "again")).output == 2
    counts = ran(tmp_path)
    for id, result in results.items():
        if result.success:
            assert counts[id] == 1
        else:
            assert result.error.code == "outcome_unknown"
            assert counts[id] <= 1
        assert_sound(await front.get(id))
    assert (await front.history(active=True)).items == []


@pytest.mark.parametrize("name", ["limited", "limited_thread"])
async def test_a_tools_limit_counts_in_all_processes(front: Runtime, sqlite: str, tmp_path: Path, name: str) -> None:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(member(sqlite)) for _ in range(3)]
        ids = [(await front.submit(name, {"folder": str(tmp_path)})).id for _ in range(40)]
        mine = [await worker.do("submit_many", name, 10, {"folder": str(tmp_path)}) for worker in workers]
        for id in [*ids, *(id for some in mine for id in some)]:
            assert (await outcome(front, id)).success
    inside = most = 0
    for kind, *_ in traces(tmp_path):
        inside += 1 if kind == "enter" else -1
        most = max(most, inside)
    assert inside == 0
    assert most == 2
    assert len(traces(tmp_path)) == 2 * 70


async def test_slots_of_a_killed_process_are_free_again(front: Runtime, sqlite: str, tmp_path: Path) -> None:
    hang = {"folder": str(tmp_path), "hang": True}
    async with member(sqlite, lease=LEASE) as doomed:
        held = [(await front.submit("limited", hang)).id for _ in range(2)]
        await until_traced(tmp_path, 2, "enter")
        async with member(sqlite, lease=LEASE) as worker:
            waiting = (await front.submit("limited", {"folder": str(tmp_path)}, id="w")).id
            await eventually(lambda: _is_held(front, "w"))
            assert len(traces(tmp_path)) == 2
            await doomed.kill()
            (tmp_path / "go").touch()
            for id in (waiting, *held):
                assert (await outcome(front, id)).success
    assert {int(line[2]) for line in traces(tmp_path)[2:]} == {worker.pid}


# Equal calls ----------------------------------------------------------------------------------------------------------


async def test_a_hundred_equal_calls_in_four_processes_run_the_tool_once(sqlite: str, tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "x": 7, "hang": True}
    async with AsyncExitStack() as stack:
        fleet = [await stack.enter_async_context(member(sqlite)) for _ in range(4)]
        answers = [each.begin("call_many", "shared", 25, arguments) for each in fleet]
        await until_traced(tmp_path, 1)
        (tmp_path / "go").touch()
        results = [one for answer in answers for one in (await asyncio.wait_for(answer, PATIENCE))["value"]]
        stats = [await each.do("stats") for each in fleet]
    assert len(results) == 100
    assert {result["output"] for result in results} == {7}
    assert sum(result["cached"] for result in results) == 99
    assert len(traces(tmp_path)) == 1
    assert [(each["hits"], each["misses"], each["items"]) for each in stats] == [(99, 1, 1)] * 4


async def test_when_the_process_that_leads_is_killed_another_takes_over(sqlite: str, tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "x": 7, "hang": True}
    async with member(sqlite, lease=LEASE) as doomed:
        await doomed.do("submit", "shared", arguments, id="first")
        await until_traced(tmp_path, 1)
        async with make(TOOLS, sqlite, policy=POLICY, lease=LEASE) as rt:
            calls = [asyncio.create_task(rt.call("shared", arguments)) for _ in range(10)]
            await asyncio.sleep(0)
            await doomed.kill()
            await until_traced(tmp_path, 2)
            (tmp_path / "go").touch()
            results = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
            assert (await outcome(rt, "first")).output == 7
    assert {result.output for result in results} == {7}
    # One run for the call that its dead process left, and one for all the others.
    assert 2 <= len(traces(tmp_path)) <= 3
    assert {int(line[2]) for line in traces(tmp_path)[1:]} == {os.getpid()}


async def test_a_leader_that_sleeps_past_its_lease_is_followed_by_another(sqlite: str, tmp_path: Path) -> None:
    """When it wakes up, another process owns its call: the call has one outcome, and the result cached meanwhile stays."""
    arguments = {"folder": str(tmp_path), "x": 7, "hang": True}
    async with member(sqlite, lease=LEASE) as sleeper:
        await sleeper.do("submit", "shared", arguments, id="first")
        waiting = sleeper.begin("call_many", "shared", 3, arguments)
        await until_traced(tmp_path, 1)
        await stop_between_writes(sleeper.process.pid, sqlite)
        async with make(TOOLS, sqlite, policy=POLICY, lease=LEASE) as rt:
            call = asyncio.create_task(rt.call("shared", arguments))
            await until_traced(tmp_path, 2)
            (tmp_path / "go").touch()
            assert (await asyncio.wait_for(call, PATIENCE)).output == 7
            result = await outcome(rt, "first")
            sleeper.process.send_signal(signal.SIGCONT)
            late = (await asyncio.wait_for(waiting, PATIENCE))["value"]
            assert (await sleeper.do("result", "first"))["output"] == result.output == 7
            assert (await rt.call("shared", arguments)).cached
            await sleeper.leave()
            records = (await rt.history()).items
    assert [each["output"] for each in late] == [7] * 3
    for record in records:
        assert record.state is State.COMPLETED
        assert_sound(record)
