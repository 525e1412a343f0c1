"""Single crash scenarios: which calls are kept, run again or given up, and what happens to them after an upgrade."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash import scenes
from tests.crash.child import acknowledge
from tests.crash.judge import Ack, Effect, Verdict
from tests.crash.nest import Ending, Nest
from tests.crash.on_stores import on_stores
from tests.crash.scenes import RULES, TOOLS, Scene, act
from tests.crash.settle import Place, settle, verdict
from tests.kit.stopping import stop_between_writes
from tests.kit.waiting import PATIENCE, eventually

from clicket import Record, Runtime, State, ToolContext, tool


async def play(nest: Nest, place: Place, **given: Any) -> Ending:
    return await nest.raise_child(act, msgspec.to_builtins(Scene(place=place, **given)))


def ran(place: Place, id: str) -> list[int]:
    """The attempts whose bodies ran."""
    return [effect.attempt for effect in place.lines("effects", Effect) if effect.id == id]


def reopen(place: Place, tools: list[Any] = TOOLS, **settings: Any) -> Runtime:
    return Runtime(tools, settings=place.settings(**settings))


async def ended(rt: Runtime, id: str) -> Record:
    await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)
    return await rt.get(id)


def assert_sound(found: Verdict) -> None:
    assert found.findings == [], "\n".join(map(str, found.findings))


# Two tools: the first has finished, the process is killed during the second. The peers were tested with this, too.


@on_stores("second", ["pay", "put", "confirm"], "put")
async def test_tool_one_of_two_finished_and_killed_during_tool_two(nest: Nest, place: Place, second: str) -> None:
    ending = await play(nest, place, call=(("quick", "one"),), submit=((second, "two"),), until=(("two", 1),))
    assert ending.signal == signal.SIGKILL
    async with reopen(place) as rt:
        one = await rt.get("one")
        assert one.state is State.COMPLETED
        assert one.output == 1
        if second == "confirm":
            assert (await rt.get("two")).waiting_for == "approval"
            assert ran(place, "two") == [1]
            await rt.approve("two", by="Ada")
        two = await ended(rt, "two")
        unknown = [r.id for r in (await rt.history()).items if r.error and r.error.code == "outcome_unknown"]
    assert ran(place, "one") == [1]  # not run again
    if second == "pay":
        assert two.state is State.FAILED
        assert unknown == ["two"]
        assert ran(place, "two") == [1]
    else:
        assert two.output == 2
        assert unknown == []
        assert ran(place, "two") == [1, 2]
    assert_sound(await verdict(place, RULES))


# Calls that kill their process.


async def test_a_call_that_kills_its_process_each_time_is_given_up(nest: Nest, place: Place) -> None:
    await given_up(nest, place, "deadly")


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_worker_that_kills_its_runtime_each_time_is_given_up(nest: Nest, place: Place) -> None:
    """On one store only, since the store does not matter and starting worker processes takes time."""
    await given_up(nest, place, "deadly_apart")


async def given_up(nest: Nest, place: Place, deadly: str) -> None:
    """After five owners have died of it, the call is given up, and no other call is."""
    apart = deadly == "deadly_apart"
    tools = [*TOOLS, scenes.deadly_apart] if apart else TOOLS
    submitted = ((deadly, "poison"), ("quick", "other"))
    endings = [await play(nest, place, submit=submitted, until=(("nobody", 1),), apart=apart)]
    while endings[-1].signal and len(endings) < 8:
        # It claims the calls of the one before, and closes if it survives the call.
        endings.append(await play(nest, place, watch=("poison", "other"), die=False, apart=apart))
    assert [ending.signal for ending in endings] == [signal.SIGKILL] * 5 + [0]
    assert ran(place, "poison") == [1, 2, 3, 4, 5]
    found = await settle(place, tools, RULES)
    assert_sound(found)
    async with reopen(place, tools) as rt:
        poison = await rt.get("poison")
        assert (await rt.history(state="pending")).items == []
    assert poison.state is State.FAILED
    assert poison.error is not None
    assert poison.error.code == "outcome_unknown"


async def test_calls_that_only_waited_while_owners_died_are_not_given_up(nest: Nest, place: Place) -> None:
    """Five owners die of the one running call. The others were claimed as often, but only waited in the queue."""
    waiting = tuple(("quick", f"w{n}") for n in range(4))
    alone = {"max_concurrency": 1}
    await play(nest, place, submit=(("stuck", "s"), *waiting), until=(("s", 1),), settings=alone)
    for attempt in range(2, 6):
        await play(nest, place, until=(("s", attempt),), settings=alone)
    assert [ran(place, id) for _, id in waiting] == [[]] * 4
    assert_sound(await settle(place, TOOLS, RULES))
    async with reopen(place) as rt:
        assert [(await rt.get(id)).state for _, id in waiting] == [State.COMPLETED] * 4
        assert (await rt.get("s")).state is State.FAILED


# Upgrades while calls are in flight.


async def crash_in_flight(nest: Nest, place: Place) -> None:
    """Leaves behind a started call of each kind, and one that never started."""
    started = (("pay", "pay"), ("put", "put"), ("confirm", "confirm"))
    queued = ("put", "queued")
    await play(
        nest,
        place,
        submit=(*started, queued),
        until=(("pay", 1), ("put", 1), ("confirm", 1)),
        settings={"max_concurrency": 3},
    )


async def test_a_tool_that_changed_its_schema_meanwhile_is_unavailable_to_calls_of_then(
    nest: Nest, place: Place
) -> None:
    await crash_in_flight(nest, place)

    @tool(idempotent=True, name="put", version="2")
    async def changed(folder: int, ctx: ToolContext) -> int:
        raise AssertionError("it does not take these arguments")

    @tool(name="pay", version="2")
    async def changed_too(other: str) -> int:
        raise AssertionError("it does not take these arguments")

    async with reopen(place, [changed, changed_too, scenes.quick]) as rt:
        put, queued, pay = await ended(rt, "put"), await ended(rt, "queued"), await ended(rt, "pay")
        assert (await rt.get("confirm")).state is State.RUNNING  # its tool is not registered: left alone
        assert (await rt.call("quick", {"folder": place.folder})).success
    for record in (put, queued):
        assert record.error is not None
        assert record.error.code == "tool_unavailable"
    assert put.attempts[0].outcome == "outcome_unknown"  # the earlier attempt keeps its outcome
    assert pay.error is not None
    assert pay.error.code == "outcome_unknown"
    assert ran(place, "queued") == []
    assert_sound(await settle(place, TOOLS, RULES))


async def test_calls_of_a_tool_that_was_removed_wait_until_it_is_back(nest: Nest, place: Place) -> None:
    await crash_in_flight(nest, place)
    async with reopen(place, [scenes.quick]) as rt:
        before = [await rt.get(id) for id in ("pay", "put", "queued")]
        assert (await rt.recover()).total == 0
        assert [await rt.get(id) for id in ("pay", "put", "queued")] == before
        assert [record.state.is_terminal for record in before] == [False] * 3
    async with reopen(place) as rt:
        assert (await ended(rt, "put")).output == 2
        assert (await ended(rt, "pay")).state is State.FAILED
        # Its body hangs in its first attempt; it only has to start.
        await eventually(lambda: ran(place, "queued") == [1])
        await rt.cancel("queued")
    assert_sound(await settle(place, TOOLS, RULES))


# Several processes over one store.


async def test_another_process_takes_over_without_a_request(nest: Nest, place: Place) -> None:
    waiting = tuple(("quick", f"q{n}") for n in range(20))
    async with reopen(place, lease=0.5) as rt:
        await play(nest, place, submit=(("put", "put"), *waiting), until=(("put", 1),), settings={"max_concurrency": 1})
        assert (await ended(rt, "put")).output == 2
        for _, id in waiting:
            assert (await ended(rt, id)).output == 1
            assert ran(place, id) == [1]
    assert_sound(await settle(place, TOOLS, RULES))


async def test_two_workers_are_killed_in_turns_while_a_third_process_submits(nests: list[Nest], place: Place) -> None:
    chance = random.Random(3)
    ids = [f"q{n}" for n in range(60)]

    async def worker(nest: Nest) -> list[Ending]:
        scene = msgspec.to_builtins(Scene(place=place, until=(("nobody", 1),)))
        kills = [[(chance.uniform(0.1, 0.5), int(signal.SIGKILL))] for _ in range(4)]
        return [await nest.raise_child(act, scene, signals=kill, ready=True) for kill in kills]

    async with reopen(place, engine="workers") as rt, asyncio.TaskGroup() as group:
        workers = [group.create_task(worker(nest)) for nest in nests[:2]]
        for id in ids:
            await rt.submit("quick", {"folder": place.folder}, id=id)
            acknowledge(Path(place.folder), Ack(did="submit", id=id))
            await asyncio.sleep(0.02)
    assert [ending.signal for worker in workers for ending in worker.result()] == [signal.SIGKILL] * 8
    found = await settle(place, TOOLS, RULES)
    assert_sound(found)
    assert found.acked == len(ids)
    assert all(ran(place, id) in ([], [1]) for id in ids)


@on_stores("name", ["resumes", "resumes_again"], "resumes_again")
async def test_a_process_that_was_stopped_past_its_lease_is_fenced(nest: Nest, place: Place, name: str) -> None:
    """Its result after waking up is stored as late. The other process's outcome counts, and its own callers get that
    one."""
    folder = Path(place.folder)
    child = asyncio.create_task(
        play(nest, place, submit=((name, "a"),), until=(("a", 1),), die=False, settings={"lease": 0.5})
    )
    await eventually(
        lambda: ran(place, "a") == [1] and any(ack.id == "a" for ack in place.lines("acks", Ack)), timeout=PATIENCE
    )
    pid = int((folder / "pid").read_text())
    await stop_between_writes(pid, place.store)
    async with reopen(place, lease=0.5) as rt:
        taken = await eventually_ended(rt, "a")
        (folder / "go").touch()
        os.kill(pid, signal.SIGCONT)

        async def late() -> Any:
            return [event for event in (await rt.get("a")).events if event.type == "late_result"]

        [event] = await eventually(late)
        assert event.data["output"] == "attempt 1"
        assert (await asyncio.wait_for(child, PATIENCE)).signal == 0
        record = await rt.get("a")
    assert (record.state, record.output, record.error) == (taken.state, taken.output, taken.error)
    if name == "resumes":
        assert record.error is not None
        assert record.error.code == "outcome_unknown"
    else:
        assert record.output == "attempt 2"
    assert [ack.state for ack in place.lines("acks", Ack) if ack.did == "result"] == [record.state.value]
    assert_sound(await verdict(place, RULES))


async def eventually_ended(rt: Runtime, id: str) -> Record:
    """The owner is only stopped, so its lease has to expire first."""

    async def over() -> bool:
        await asyncio.sleep(0.03)  # each look asks the store whose leases have expired
        await rt.recover()
        return (await rt.state(id)).is_terminal

    await eventually(over)
    return await rt.get(id)
