"""The calls of a turn: only its owner makes them, after what it has recorded; and none outlives the turn's stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.held_store import HeldStore
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks
from tests.scenarios.kit import make

from clicket import Policy, Runtime, Settings, State, tool
from clicket.agents import ReActAgent
from clicket.engine.executors.clocks import Clocks
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest
from clicket.model.ports import Append
from clicket.model.ports.store import Done
from clicket.testing import ScriptedModel

CALL, TURN = "react.1.1.1", "turn-1"


class _Store(HeldStore):
    """Notes how creations of the turn's call were answered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers: list[str] = []

    def append(self, change: Append, done: Done) -> None:
        def noted(change: Append, error: ClicketError | None) -> None:
            if CALL in change.id and change.expect == 0:
                self.answers.append("made" if error is None else error.code)
            done(change, error)

        super().append(change, noted)


async def test_a_call_is_not_made_before_its_reply_is_stored(tmp_path: Path) -> None:
    """As when the store refuses the reply, because a signal came first, and takes what was sent after it."""
    ran: list[str] = []
    store = _Store(tmp_path / "calls.db")

    @tool
    async def note(text: str) -> str:
        ran.append(text)
        return text

    async def answer(request: ChatRequest) -> ChatReply | str:
        if len(request.messages) > 1:
            return "done"
        (turn,) = rt.engine.live.named(TURN)
        await eventually(lambda: turn.entry.is_idle)
        store.holds = TURN
        return asks(("note", '{"text": "x"}'))

    async with Runtime([note], store=store) as rt:
        run = asyncio.create_task(ReActAgent(rt, Says(answer)).run("go", thread="t"))
        await eventually(lambda: store.answers)
        assert (store.answers, ran, await _calls(rt)) == (["stale"], [], [])
        store.let_go()
        result = await run
        assert (result.text, result.calls, ran, store.answers) == ("done", 1, ["x"], ["stale", "made"])


async def test_a_signal_to_the_turn_delays_its_call_and_no_more(tmp_path: Path) -> None:
    """Another process wrote into the turn just before its reply."""
    store = _Store(tmp_path / "calls.db")

    @tool
    async def note(text: str) -> str:
        return text

    async def answer(request: ChatRequest) -> ChatReply | str:
        if len(request.messages) > 1:
            return "done"
        (turn,) = await store.load(TURN, "agent:react/t", "")
        (call,) = rt.engine.live.named(TURN)
        await other.engine.decisions._signals.append(turn, "note", {"text": "Another process was here."})
        assert call.stopping is None
        return asks(("note", '{"text": "x"}'))

    async with Runtime([note], store=store) as rt, make([note], store.url) as other:
        result = await ReActAgent(rt, Says(answer)).run("go", thread="t")
        assert (result.text, result.calls, store.answers[-1]) == ("done", 1, "made")


async def test_the_former_owner_of_a_turn_makes_no_more_calls(tmp_path: Path) -> None:
    """It does not know yet that another process took the turn over, and ended it."""
    ran: list[str] = []
    gate = Gate()
    store = _Store(tmp_path / "calls.db")

    @tool
    async def note(text: str) -> str:
        ran.append(text)
        return text

    async def late(_: ChatRequest) -> ChatReply:
        await gate()
        return asks(("note", '{"text": "x"}'))

    async def never(_: ChatRequest) -> ChatReply:
        await asyncio.Event().wait()
        raise AssertionError

    async with Runtime([note], store=store) as rt, make([note], store.url) as other:
        agent, there = ReActAgent(rt, Says(late)), ReActAgent(other, Says(never))
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        (stored,) = await store.load(TURN, "agent:react/t", "")
        rt.stop_claiming()
        await store.hand_back([stored.key])
        await other.recover()
        assert await there.stop("t")
        await eventually(lambda: _is(other, TURN, "agent:react/t", State.CANCELLED))
        (former,) = rt.engine.live.named(TURN)
        gate.open()
        await eventually(lambda: former.entry.fenced)
        await eventually(lambda: store.answers)
        assert (store.answers, ran, await _calls(rt)) == (["stale"], [], [])


@pytest.mark.parametrize("waits", [True, False])
async def test_a_turn_that_is_stopped_ends_after_the_cancels_of_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Also if its body does not stop in its grace, because the store does not take the cancel."""
    gate, over = Gate(), asyncio.Event()
    store = HeldStore(tmp_path / "calls.db")
    start_grace = Clocks.start_grace

    @tool
    async def hold() -> str:
        await gate()
        return "held"

    def noted(self: Clocks, call: Any, after: Callable[..., None], *args: Any) -> None:
        def then(*given: Any) -> None:
            after(*given)
            if call.entry.id == TURN:
                over.set()

        start_grace(self, call, then, *args)

    monkeypatch.setattr(Clocks, "start_grace", noted)
    policy = Policy(ask=["hold"]) if waits else None
    settings = Settings(cancel_grace=0.05, close_timeout=5.0)
    async with Runtime([hold], store=store, policy=policy, settings=settings) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("hold", {})]]))
        await agent.begin("go", thread="t")
        await (eventually(lambda: _waits(rt)) if waits else gate.reached.wait())
        (store.holds,) = await _calls(rt)
        stop = asyncio.create_task(agent.stop("t"))
        await store.reached.wait()
        await eventually(lambda: _over_or(over, rt))
        await store.put_document("any", "write", b"that comes later", None)
        turn = await rt.get(TURN, thread="agent:react/t")
        assert turn.state is State.RUNNING, "its call is not cancelled on record"
        store.let_go()
        await stop
        assert await _is(rt, CALL, "t", State.CANCELLED)
        await eventually(lambda: _is(rt, TURN, "agent:react/t", State.CANCELLED))


async def test_a_turn_whose_owner_is_gone_is_stopped_with_its_question_about_a_budget(tmp_path: Path) -> None:
    """The next owner finds the stop on record, and does not come to the budget again."""
    store = HeldStore(tmp_path / "calls.db")
    budgets = [{"scope": "all", "period": "month", "limit_tokens": 1, "on_reached": "ask"}]
    async with (
        Runtime([], store=store, settings=Settings(budgets=budgets)) as rt,
        make([], store.url, budgets=budgets) as other,
    ):
        agent, there = ReActAgent(rt, ScriptedModel(["done"])), ReActAgent(other, ScriptedModel(["done"]))
        await agent.begin("go", thread="t")
        await eventually(lambda: _waits(rt))
        (question,) = await _calls(rt)
        (stored,) = await store.load(TURN, "agent:react/t", "")
        rt.stop_claiming()
        await store.hand_back([stored.key])
        assert await there.stop("t")
        await other.recover()
        await eventually(lambda: _is(other, TURN, "agent:react/t", State.CANCELLED))
        assert (await other.get(question, thread="t")).cancel_requested or await _is(
            other, question, "t", State.CANCELLED
        )


async def _is(rt: Runtime, id: str, thread: str, state: State) -> bool:
    return (await rt.get(id, thread=thread)).state is state


async def _over_or(over: asyncio.Event, rt: Runtime) -> bool:
    return over.is_set() or await _is(rt, TURN, "agent:react/t", State.CANCELLED)


async def _calls(rt: Runtime) -> list[str]:
    return [record.id for record in (await rt.history(thread="t")).items]


async def _waits(rt: Runtime) -> Any:
    return (await rt.history(waiting_for="approval")).items
