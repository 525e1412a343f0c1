"""Any process with the agent resumes a waiting turn after a kill, a close, or days, as often as needed; any process may
stop it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
from tests.crash.agent_scene import MESSAGE, Effect, asked, effects, thread_of, turn_thread
from tests.crash.agent_waiting import SCRIPTS, Stay, TurnEnd, agent_at, runtime_at, stay, waits
from tests.crash.nest import Nest
from tests.crash.on_stores import on_each_store, on_stores
from tests.crash.settle import Place, read_lines
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound

from clicket import Record, Runtime, State
from clicket.agents import AgentResult, AgentState
from clicket.model.chat import ChatMessage
from clicket.model.ids import alias_of
from clicket.ports import Keep

SCRIPT_NAMES = ("repeatable", "once", "model", "approval")


async def killed(nest: Nest, place: Place, script: str, *, early: bool = False) -> None:
    """A process ran the turn up to the point where it waits, and was killed."""
    ending = await nest.raise_child(stay, msgspec.to_builtins(Stay(place=place, script=script, early=early)))
    assert ending.signal == signal.SIGKILL, ending
    assert not ending.hung


async def closed(place: Place, script: str) -> None:
    """A runtime ran the turn up to the point where it waits, and closed."""
    async with asyncio.timeout(PATIENCE):
        rt = runtime_at(place, close_timeout=0.01)
        await rt.open()
        agent = agent_at(rt, place, script)
        assert await agent.begin(MESSAGE, thread=thread_of(place)) == 1
        await waits(rt, agent, place, script)
        await rt.close()


async def went_on(place: Place, script: str) -> AgentResult:
    async with asyncio.timeout(PATIENCE), runtime_at(place) as rt:
        agent = agent_at(rt, place, script)
        result = await agent.run(MESSAGE, thread=thread_of(place))
        assert len((await agent.history(thread_of(place))).turns) == 1
        await all_ended(rt, place)
    return result


async def all_ended(rt: Runtime, place: Place) -> dict[str, Record]:
    """Every tool call of the thread, by id. The turn's own call has ended, too. Calls that are cancelled with a turn end soon after it."""

    async def read() -> tuple[list[Record], list[Record]] | None:
        calls = (await rt.history(thread=thread_of(place))).items
        turns = (await rt.history(thread=turn_thread(place))).items
        return (calls, turns) if all(record.state.is_terminal for record in (*calls, *turns)) else None

    calls, turns = await eventually(read)
    for record in (*calls, *turns):
        assert_sound(record)
    return {alias_of(record.id): record for record in calls}


def answers(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    """The answer to each tool call. Each call gets one answer, right after it."""
    replies: list[tuple[str, str]] = []
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            replies.append((waiting.pop(message.use_id), message.content))
        else:
            assert not waiting
            waiting = {use.id: use.name for use in message.uses}
    assert not waiting
    return replies


def began(place: Place, tool: str) -> list[Effect]:
    return [one for one in effects(Path(place.folder)) if one.side == "begin" and one.tool == tool]


def paid_once(place: Place, times: int) -> None:
    paid = [one.call for one in began(place, "pay")]
    assert len(paid) == len(set(paid)) == times


# Killed, or closed, while it waits ------------------------------------------------------------------------------------


def expected(script: str) -> list[tuple[str, str]]:
    """The answers in a turn that was interrupted while it waited; `?` is an unknown outcome."""
    doubtful = {"once": "?"}.get(script, "2 after all")
    return {
        "model": [("pay", "1 squared is 1"), ("pay", "2 squared is 4")],
    }.get(
        script,
        [
            ("pay", "1 squared is 1"),
            ("hang" if script == "repeatable" else "hang_once", doubtful),
            ("pay", "3 squared is 9"),
            ("pay", "4 squared is 16"),
        ],
    )


def outcomes(result: AgentResult) -> list[tuple[str, str]]:
    return [(tool, "?" if text.startswith("outcome_unknown: ") else text) for tool, text in answers(result.messages)]


@on_stores("script", SCRIPT_NAMES[:3], "once")
async def test_killed_while_it_waits(place: Place, nest: Nest, script: str) -> None:
    await killed(nest, place, script)
    result = await went_on(place, script)
    assert (result.stopped, result.steps) == ("finished", len(SCRIPTS[script]))
    assert outcomes(result) == expected(script)
    paid_once(place, 2 if script == "model" else 3)
    assert len(began(place, "hang_once")) <= 1
    assert asked(Path(place.folder)) == ([1, 2, 2, 3] if script == "model" else [1, 2, 3, 4])


@on_stores("script", SCRIPT_NAMES, "approval")
async def test_closed_while_it_waits(place: Place, script: str) -> None:
    """A runtime that closes hands the turn back, and the next runtime resumes it."""
    await closed(place, script)
    async with Runtime([], settings=place.settings()) as rt:
        turn = await rt.get("turn-1", thread=turn_thread(place))
        assert turn.state is State.RETRYING, "handed back, without an owner"
        if script == "approval":
            assert await rt.approve("react.1.1.2", thread=thread_of(place))
    result = await went_on(place, script)
    assert result.stopped == "finished"
    if script == "approval":
        assert outcomes(result)[1] == ("approved", "2 approved")
        paid_once(place, 2)
    else:
        assert outcomes(result) == expected(script)
        paid_once(place, 2 if script == "model" else 3)


# For a person ---------------------------------------------------------------------------------------------------------


APPROVED = [
    ("pay", "1 squared is 1"),
    ("approved", "2 approved"),
    ("look", "3 squared is 9"),
    ("pay", "4 squared is 16"),
]


async def days_pass(place: Place) -> None:
    """Every ended call is removed. The runtime's own sweep would keep those of a turn with their thread: this is the harder case."""
    async with Runtime([], settings=place.settings()) as rt:
        gone = await rt.store.sweep(Keep(since=rt.clock.now() + 60), 1_000)
        assert gone.calls >= 2, "the calls beside the waiting one"


@on_stores("approve", [True, False], True)
async def test_approved_days_after_its_process_died(place: Place, nest: Nest, approve: bool) -> None:
    """One process is killed while a call waits, another approves or denies the call, a third resumes the turn."""
    await killed(nest, place, "approval")
    await days_pass(place)
    async with Runtime([], settings=place.settings()) as rt:
        decide = rt.approve if approve else rt.deny
        assert await decide("react.1.1.2", thread=thread_of(place), by="Ada")
    result = await went_on(place, "approval")
    assert result.stopped == "finished"
    if approve:
        assert outcomes(result) == APPROVED
    else:
        assert [text for text in outcomes(result) if text[0] != "approved"] == [APPROVED[0], *APPROVED[2:]]
        assert outcomes(result)[1][1].startswith("approval_denied: ")
    paid_once(place, 2)
    assert len(began(place, "approved")) == approve
    assert len(began(place, "look")) == 1, "a call that had ended is not run again, however long ago it ended"


@on_each_store
async def test_killed_more_often_than_a_call_may_be_while_a_person_thinks(place: Place, nest: Nest) -> None:
    for _ in range(2 * place.settings().limits.max_claims + 1):
        await killed(nest, place, "approval", early=True)
    async with Runtime([], settings=place.settings()) as rt:
        assert await rt.approve("react.1.1.2", thread=thread_of(place))
    assert outcomes(await went_on(place, "approval")) == APPROVED
    paid_once(place, 2)


@on_stores("early", [True, False], True)
async def test_a_tool_that_kills_its_process_is_given_up_and_the_turn_is_not(
    place: Place, nest: Nest, early: bool
) -> None:
    for _ in range(place.settings().limits.max_claims):
        await killed(nest, place, "deadly", early=early)
    result = await went_on(place, "deadly")
    assert outcomes(result)[1] == ("deadly", "?")
    assert outcomes(result)[3] == ("pay", "4 squared is 16")
    assert result.stopped == "finished"
    assert len(began(place, "deadly")) == place.settings().limits.max_claims
    paid = [one.call for one in began(place, "pay")]
    assert len(paid) == len(set(paid)), "the call beside it may have died with it, and is not run again"


# Stopped --------------------------------------------------------------------------------------------------------------


async def stopped(rt: Runtime, place: Place, script: str) -> None:
    """The turn is cancelled and recorded as cancelled, all its calls have ended, and the thread is usable."""
    agent = agent_at(rt, place, script)
    thread = thread_of(place)
    page = await agent.history(thread)
    calls = await all_ended(rt, place)
    assert (await rt.get("turn-1", thread=turn_thread(place))).state is State.CANCELLED
    view = await agent.look(thread)
    assert (view.turns, view.stopped, view.state) == (1, "cancelled", AgentState.IDLE)
    (turn,) = page.turns
    assert turn.stopped == "cancelled"
    assert turn.text == "Terminated: Cancelled"
    replies = answers(list(turn.messages))
    assert len(replies) == {"model": 1, "approval": 3}.get(script, 3)
    if script == "approval":
        assert calls["react.1.1.2"].state is State.CANCELLED


@on_stores("script", SCRIPT_NAMES, "repeatable")
async def test_stopped_from_another_process(place: Place, nest: Nest, script: str) -> None:
    folder, thread = Path(place.folder), thread_of(place)
    scene = msgspec.to_builtins(Stay(place=place, script=script, die=False))
    child = asyncio.create_task(nest.raise_child(stay, scene))
    async with asyncio.timeout(PATIENCE), runtime_at(place) as rt:
        await eventually((folder / "here").exists)
        assert await agent_at(rt, place, script).stop(thread, "enough")
        ending = await child
        assert (ending.signal, ending.code) == (0, 0)
        (report,) = read_lines(folder / "told", TurnEnd)
        assert "CancelledError" in report.error or report.stopped == "cancelled", report
        await stopped(rt, place, script)
    assert len(began(place, "hang")) + len(began(place, "hang_once")) <= 1
    assert not began(place, "approved")


@on_stores("script", SCRIPT_NAMES, "model")
async def test_stopped_while_its_owner_is_dead(place: Place, nest: Nest, script: str) -> None:
    """By a runtime that has the agent. No waiting or repeatable call runs."""
    await killed(nest, place, script)
    thread = thread_of(place)
    async with asyncio.timeout(PATIENCE), runtime_at(place) as rt:
        agent = agent_at(rt, place, script)
        assert await agent.stop(thread, "enough")
        result = await agent.wait(thread, 1)
        assert result is not None
        assert result.stopped == "cancelled"
        await stopped(rt, place, script)
        assert await agent.stop(thread) is False
    assert not began(place, "approved")


@on_stores(
    "how", [("repeatable", True), ("repeatable", False), ("approval", True), ("approval", False)], ("approval", True)
)
async def test_stopped_by_somebody_without_the_agent(place: Place, nest: Nest, how: tuple[str, bool]) -> None:
    """The cancellation is stored. The next runtime with the agent ends the turn instead of resuming it."""
    script, dead = how
    if dead:
        await killed(nest, place, script)
    else:
        await closed(place, script)
    async with Runtime([], settings=place.settings()) as rt:
        assert await rt.cancel("turn-1", thread=turn_thread(place), reason="enough")
    rt = runtime_at(place)
    agent = agent_at(rt, place, script)
    async with asyncio.timeout(PATIENCE), rt:
        await agent.wait(thread_of(place), 1)
        await stopped(rt, place, script)
    assert not began(place, "approved")
    assert len(began(place, "pay")) <= 2
