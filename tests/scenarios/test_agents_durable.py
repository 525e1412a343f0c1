"""A turn survives its process: any process may stop it, close hands it back, the next process resumes it, no call runs
twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.held_store import HeldStore
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Joins, Says, asks, assert_events_in_order, called, check_legal, check_pairs
from tests.scenarios.kit import make

from clicket import Policy, Runtime, State, tool
from clicket.agents import AgentBusy, AgentEvent, AgentResult, AgentState, Middleware, ReActAgent
from clicket.agents.context_window import ContextWindow
from clicket.agents.entries import Ended
from clicket.agents.memory import Memory
from clicket.agents.turn import Turn
from clicket.engine.lifecycle.running import Running
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage
from clicket.testing import ScriptedModel

SECRET = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3


def closing(store: str, tools: list[Any]) -> Runtime:
    """A runtime that does not wait for its turns when it closes."""
    return make(tools, store, close_timeout=0.0)


# Stopping.


@pytest.mark.parametrize("where", ["model", "tool"])
@pytest.mark.parametrize("who", ["here", "there", "caller"])
async def test_a_turn_is_stopped_from_anywhere_and_leaves_a_paired_thread(sqlite: str, where: str, who: str) -> None:
    gate, changes = Gate(), []

    @tool(timeout=None)
    async def hold() -> str:
        await gate()
        return "held"

    async def answer(request: ChatRequest) -> ChatReply:
        if len(request.messages) == 1:
            return asks(("echo", '{"text": "x"}'))
        if where == "model":
            await gate()
        return asks(("hold", "{}"), ("echo", '{"text": "y"}'))

    async with make([echo, hold], sqlite) as rt, make([echo, hold], sqlite) as other:
        agent = ReActAgent(rt, Says(answer), on_state_changed=lambda *change: changes.append(change[:2]))
        run = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()
        if who == "caller":
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        else:
            assert await (agent if who == "here" else ReActAgent(other, ScriptedModel([]))).stop("t")
            result = await run
            assert (result.stopped, result.state, result.text) == (
                "cancelled",
                AgentState.IDLE,
                "Terminated: Cancelled",
            )
        assert agent.state("t") is AgentState.IDLE
        messages = await agent.messages("t")
        check_pairs(messages)
        assert called(messages) == (["echo"] if where == "model" else ["echo", "hold", "echo"])
        if where == "tool":
            assert (await rt.get("react.1.2.1", thread="t")).state.value == "cancelled"
        assert not await agent.stop("t")
        assert (await ReActAgent(rt, ScriptedModel(["fine"])).run("again", thread="t")).text == "fine"
    assert changes == [
        (AgentState.IDLE, AgentState.RUNNING),
        (AgentState.RUNNING, AgentState.IDLE),
    ]


async def test_a_stop_before_the_first_step_says_so(store: str) -> None:
    gate = Gate()

    async def answer(_: ChatRequest) -> str:
        await gate()
        return "never"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        assert not await agent.stop("t")
        events: list[AgentEvent] = []

        async def read() -> None:
            events.extend([event async for event in agent.stream("go", thread="t")])

        reading = asyncio.create_task(read())
        await gate.reached.wait()
        assert await agent.stop("t")
        await reading
        assert_events_in_order(events)
        assert (events[-1].data["stopped"], events[-1].data["text"]) == ("cancelled", "No steps executed")
        assert [message.content for message in await agent.messages("t")] == ["go"]


async def test_a_turn_whose_first_commit_is_under_way_can_be_stopped(sqlite: str) -> None:
    async with make([echo], sqlite, durability="power") as rt:  # written in a thread, so that there is a way
        gate = Gate()

        async def answer(_: ChatRequest) -> str:
            await gate()
            return "never"

        agent = ReActAgent(rt, Says(answer))
        run = asyncio.create_task(agent.run("go", thread="t"))
        while not rt.is_held("turn-1", "agent:react/t", ""):
            await asyncio.sleep(0)
        # The writer thread may be faster than this task; then the commit is done already, and the assertions hold, too.
        with pytest.raises(AgentBusy):
            await agent.run("me too", thread="t")
        assert await agent.stop("t")
        assert (await run).stopped == "cancelled"


class Changed:
    """An object with some attributes changed."""

    def __init__(self, inner: Any, **attributes: Any) -> None:
        self._inner, self._attributes = inner, attributes

    def __getattr__(self, name: str) -> Any:
        return self._attributes[name] if name in self._attributes else getattr(self._inner, name)


def waiting_for_the_ledger(host: Any, gate: Gate) -> Any:
    """A host whose agents wait at a gate where the spend of a run that ends is written."""
    return Changed(
        host,
        spending=Changed(host.spending, flush=gate),
        acting_for=lambda *args: waiting_for_the_ledger(host.acting_for(*args), gate),
        within=lambda *args: waiting_for_the_ledger(host.within(*args), gate),
    )


@pytest.mark.parametrize("answer", ["done", ValueError("broken")])
async def test_a_stop_while_the_spend_of_a_run_is_written_leaves_what_was(store: str, answer: Any) -> None:
    gate, changes = Gate(), []
    ended = AgentState.FINISHED if answer == "done" else AgentState.ERROR
    async with make([echo], store) as rt:
        model = ScriptedModel([answer])
        slow = Changed(rt, host=waiting_for_the_ledger(rt.host, gate))
        agent = ReActAgent(slow, model, on_state_changed=lambda *change: changes.append(change[:2]))
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        assert await agent.stop("t")
        await eventually(lambda: not rt.held_calls())
        view = await agent.look("t")
        assert (view.state, view.turns, view.text) == (ended, 1, "done" if answer == "done" else "")
        assert changes == [(AgentState.IDLE, AgentState.RUNNING), (AgentState.RUNNING, ended)]


async def test_a_stop_while_the_hook_of_a_first_change_waits_leaves_no_change_out(store: str) -> None:
    gate, changes = Gate(), []

    async def hook(before: AgentState, after: AgentState, thread: str) -> None:
        changes.append((before, after))
        if before is AgentState.ERROR:
            await gate()

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([ValueError("broken"), "fine"]), on_state_changed=hook)
        with pytest.raises(ValueError, match="broken"):
            await agent.run("go", thread="t")
        run = asyncio.create_task(agent.run("again", thread="t"))
        await gate.reached.wait()
        assert await agent.stop("t")
        assert (await run).stopped == "cancelled"
    check_legal(changes, first=AgentState.IDLE)
    assert changes[-2:] == [(AgentState.IDLE, AgentState.RUNNING), (AgentState.RUNNING, AgentState.IDLE)]


@pytest.mark.parametrize("waited", [True, False])
async def test_a_stop_while_a_hook_runs_leaves_what_was(store: str, waited: bool) -> None:
    """Stopped while it starts or while it ends: the thread has the turn either way, also without a waiter."""
    for state in (AgentState.RUNNING, AgentState.FINISHED):
        gate = Gate()

        async def hook(
            _: AgentState, after: AgentState, thread: str, gate: Gate = gate, state: AgentState = state
        ) -> None:
            if after is state:
                await gate()

        async with make([echo], store) as rt:
            agent = ReActAgent(rt, ScriptedModel(["done"]), on_state_changed=hook)
            thread, stopped = str(state), "finished" if state is AgentState.FINISHED else "cancelled"
            if waited:
                run = asyncio.create_task(agent.run("go", thread=thread))
                await gate.reached.wait()
                assert await agent.stop(thread)
                result = await run
                assert result.stopped == stopped
                assert agent.state(thread) is result.state
            else:
                await agent.begin("go", thread=thread)
                await gate.reached.wait()
                assert await agent.stop(thread)
            view = await agent.look(thread)
            assert (view.turns, view.stopped) == (1, stopped)
            assert (await agent.messages(thread))[0].content == "go"
            assert (await ReActAgent(rt, ScriptedModel(["fine"])).run("again", thread=thread)).turn == 2


async def test_a_turn_whose_end_is_on_record_is_saved_with_that_end_and_decides_nothing_again(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process did not come to save it, and another one takes it over. A hook that ran again would let a stop end it."""
    gate, again, save = Gate(), Gate(), Memory.save

    async def slow(self: Memory, *given: Any) -> Any:
        if not gate.reached.is_set():
            await gate()
        return await save(self, *given)

    class Waits(Middleware):
        async def at_end(self, turn: Turn, result: AgentResult) -> None:  # type: ignore[override]
            if gate.reached.is_set():
                await again()

    monkeypatch.setattr(Memory, "save", slow)
    async with make([echo], sqlite) as rt, make([echo], sqlite) as other:
        await ReActAgent(rt, ScriptedModel(["done"]), middleware=[Waits()]).begin("go", thread="t")
        await gate.reached.wait()
        agent = ReActAgent(other, ScriptedModel([]), middleware=[Waits()])
        await _hand_over(rt)
        await other.recover()
        await eventually(lambda: _over_or(again, agent))
        await agent.stop("t")
        await eventually(lambda: _over(agent, "t"))
        view = await agent.look("t")
        assert (view.stopped, view.text, view.turns) == ("finished", "done", 1)
        gate.open()


@pytest.mark.parametrize("owner", ["it", "another"])
async def test_a_turn_that_is_stopped_while_its_end_is_written_is_saved_when_that_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    """And by its owner alone."""
    ends, gate, write, save, early = asyncio.Event(), Gate(), Turn.write, Memory.save, list[str]()
    store = HeldStore(tmp_path / "calls.db")

    def noted(turn: Turn, text: str, entry: Any, *rest: Any, **named: Any) -> None:
        write(turn, text, entry, *rest, **named)
        if isinstance(entry, Ended):
            ends.set()

    async def watched(self: Memory, host: Any, thread: str, document: Any) -> Any:
        early.extend([document.text] if store.holds else ())
        return await save(self, host, thread, document)

    async def answer(_: ChatRequest) -> str:
        store.holds = "turn-1"
        return "done"

    async def answer_there(_: ChatRequest) -> str:
        await gate()
        return "done there"

    monkeypatch.setattr(Turn, "write", noted)
    monkeypatch.setattr(Memory, "save", watched)
    async with Runtime([echo], store=store) as rt, make([echo], store.url) as other:
        agent, there = ReActAgent(rt, Says(answer)), ReActAgent(other, Says(answer_there))
        await agent.begin("go", thread="t")
        await ends.wait()
        (call,) = rt.engine.live.named("turn-1")
        if owner == "another":
            await _hand_over(rt)
            await other.recover()
            await gate.reached.wait()
        stop = asyncio.create_task(agent.stop("t"))
        await eventually(lambda: call.stopping == "cancel")
        assert early == []
        store.let_go()
        gate.open()
        await stop
        await eventually(lambda: _over(there, "t"))
        assert (await there.look("t")).turns == 1


async def _over_or(gate: Gate, agent: ReActAgent) -> Any:
    return gate.reached.is_set() or await _over(agent, "t")


async def _hand_over(rt: Runtime) -> None:
    """As if its lease had run out: another process may claim the turn."""
    stored = (await rt.store.load("turn-1", "agent:react/t", ""))[0]
    rt.stop_claiming()
    await rt.store.hand_back([stored.key])


# Closing.


async def test_a_runtime_that_closes_hands_its_turns_back(sqlite: str) -> None:
    """Finished tools are not run again, and stored replies are not requested again."""
    ran: list[str] = []

    @tool
    async def note(text: str) -> str:
        ran.append(text)
        return text

    gate = Gate()

    async def stuck(request: ChatRequest) -> ChatReply:
        if len(request.messages) > 1:
            await gate()
        return asks(("note", '{"text": "one"}'), ("note", '{"text": "two"}'))

    rt = closing(sqlite, [note])
    async with rt:
        run = asyncio.create_task(ReActAgent(rt, Says(stuck)).run("go", thread="t"))
        await gate.reached.wait()
    with pytest.raises(ClicketError):
        await run
    async with make([note], sqlite) as after:
        model = ScriptedModel([[("note", {"text": "three"})], "done"])
        agent = ReActAgent(after, model)
        assert (await agent.look("t")).state is AgentState.RUNNING
        result = await agent.resume("t")
        assert result is not None
        assert (result.text, result.steps, result.calls, result.turn) == ("done", 3, 3, 1)
        assert ran == ["one", "two", "three"]
        assert len(model.requests) == 2
        check_pairs(result.messages)
        assert await agent.resume("t") is None
        assert_events_in_order([event async for event in agent.events("t")])


async def test_a_turn_that_is_stopped_before_it_goes_on_ends_its_calls(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop comes after the start of the next attempt is on record, and before its body runs."""
    asked, run_in_own_task = Policy(ask=["echo"]), Running.run_in_own_task
    rt = make([echo], sqlite, policy=asked, close_timeout=0.0)
    async with rt:
        await ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})]])).begin("go", thread="t")
        await eventually(lambda: _waits(rt))
    after = make([echo], sqlite, policy=asked)
    agent = ReActAgent(after, ScriptedModel([]))

    def stopped_first(self: Running, call: Any) -> None:
        if call.entry.tool == "agent:react":
            self._stopping.cancel(call, "enough")
        run_in_own_task(self, call)

    monkeypatch.setattr(Running, "run_in_own_task", stopped_first)
    async with after:
        view = await eventually(lambda: _over(agent, "t"))
        assert view.stopped == "cancelled"
        await eventually(lambda: _is_cancelled(after))


async def test_a_turn_that_is_stopped_while_it_reads_its_thread_ends_its_calls(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate, load = Policy(ask=["echo"]), Gate(), Memory.load
    rt = make([echo], sqlite, policy=asked, close_timeout=0.0)
    async with rt:
        await ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})]])).begin("go", thread="t")
        await eventually(lambda: _waits(rt))

    async def slow(self: Memory, host: Any, thread: str) -> Any:
        if not gate.reached.is_set():
            await gate()
        return await load(self, host, thread)

    monkeypatch.setattr(Memory, "load", slow)
    after = make([echo], sqlite, policy=asked)
    agent = ReActAgent(after, ScriptedModel([]))
    async with after:
        await gate.reached.wait()
        assert await agent.stop("t")
        await eventually(lambda: _is_cancelled(after))
        assert (await agent.look("t")).stopped == "cancelled"
        turn = await after.get("turn-1", thread="agent:react/t")
        entries = [event.data["entry"]["e"] for event in turn.events if "entry" in event.data]
        assert entries == ["begun", "reply", "results", "ended"]


async def _is_cancelled(rt: Runtime) -> bool:
    return (await rt.get("react.1.1.1", thread="t")).state is State.CANCELLED


async def _waits(rt: Runtime) -> Any:
    return (await rt.history(waiting_for="approval")).items


async def test_recovery_continues_a_turn_where_its_agent_is_known(sqlite: str) -> None:
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    rt = closing(sqlite, [echo])
    async with rt:
        await ReActAgent(rt, Says(stuck)).begin("go", thread="t")
        await gate.reached.wait()
    after = make([echo], sqlite)
    agent = ReActAgent(after, ScriptedModel(["done"]))
    async with after:
        view = await eventually(lambda: _over(agent, "t"))
        assert (view.text, view.turns) == ("done", 1)
        # The next turn may start.
        assert (await ReActAgent(after, ScriptedModel(["next"])).run("and?", thread="t")).turn == 2


async def _over(agent: ReActAgent, thread: str) -> Any:
    view = await agent.look(thread)
    return view if view.turns and view.state is not AgentState.RUNNING else None


async def test_the_same_message_continues_an_interrupted_turn_and_another_waits_for_its_end(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for message in ("go", f"the key is {SECRET}"):
        gate = Gate()

        async def stuck(_: ChatRequest, gate: Gate = gate) -> str:
            await gate()
            return "never"

        thread = message[:2]
        rt = make([echo], sqlite, close_timeout=0.0, secret_key="k" * 40)
        async with rt:
            await ReActAgent(rt, Says(stuck)).begin(message, thread=thread)
            await gate.reached.wait()
        async with make([echo], sqlite, secret_key="k" * 40) as after:
            waiting = Gate()

            async def answer(_: ChatRequest, waiting: Gate = waiting) -> str:
                await waiting()
                return "done"

            agent = ReActAgent(after, Says(answer))
            other = asyncio.create_task(agent.run("something else", thread=thread))
            await waiting.reached.wait()
            joins = Joins(monkeypatch)
            same = asyncio.create_task(agent.run(message, thread=thread))
            await joins.next()
            assert not other.done()
            waiting.open()
            result = await same
            assert (result.text, result.turn, result.messages[0].content) == ("done", 1, message)
            result = await other
            assert (result.text, result.turn, result.new_messages[0].content) == ("done", 2, "something else")


async def test_a_stream_on_a_runtime_that_closes_ends_and_raises_nothing(store: str) -> None:
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    events: list[AgentEvent] = []
    rt = closing(store, [echo])
    agent = ReActAgent(rt, Says(stuck))

    async def read() -> None:
        events.extend([event async for event in agent.stream("go", thread="t")])

    async with rt:
        reading = asyncio.create_task(read())
        await gate.reached.wait()
    await reading
    assert events[-1].type in ("error", "final")
    assert [event.type for event in events[:2]] == ["state", "message"]


async def test_a_turn_that_may_finish_while_the_runtime_closes_does(store: str) -> None:
    gate = Gate()

    async def answer(_: ChatRequest) -> str:
        await gate()
        return "in time"

    rt = make([echo], store, close_timeout=10.0)
    await rt.open()
    run = asyncio.create_task(ReActAgent(rt, Says(answer)).run("go", thread="t"))
    await gate.reached.wait()
    shut = asyncio.create_task(rt.close())
    await asyncio.sleep(0)
    gate.open()
    assert (await run).text == "in time"
    await shut


async def test_a_turn_that_wants_a_tool_while_the_runtime_closes_is_handed_back(sqlite: str) -> None:
    gate = Gate()

    async def answer(_: ChatRequest) -> ChatReply:
        await gate()
        return asks(("echo", '{"text": "x"}'))

    rt = make([echo], sqlite, close_timeout=10.0)
    await rt.open()
    await ReActAgent(rt, Says(answer)).begin("go", thread="t")
    await gate.reached.wait()
    shut = asyncio.create_task(rt.close())
    await asyncio.sleep(0)
    gate.open()
    await shut
    async with make([echo], sqlite) as after:
        result = await ReActAgent(after, ScriptedModel(["done"])).resume("t")
        assert result is not None
        # The reply that arrived during the close was paid for, and is stored.
        assert (result.text, result.steps, called(result.messages)) == ("done", 2, ["echo"])


@pytest.mark.parametrize("first", ["owner", "late"])
async def test_a_turn_that_another_process_took_over_is_left_to_it(sqlite: str, first: str) -> None:
    """Whichever ends first: the owner's outcome counts, and the process that started the turn gets it."""
    gate, other_gate = Gate(), Gate()

    async def answer(_: ChatRequest) -> str:
        await gate()
        return "the late one's"

    async with make([echo], sqlite) as rt, make([echo], sqlite) as other:
        late = ReActAgent(rt, Says(answer))
        run = asyncio.create_task(late.run("go", thread="t"))
        await gate.reached.wait()

        async def own(_: ChatRequest) -> str:
            await other_gate()
            return "the other's"

        agent = ReActAgent(other, Says(own))
        await _hand_over(rt)
        await other.recover()
        await other_gate.reached.wait()
        resumed = asyncio.create_task(agent.wait("t"))
        if first == "owner":
            other_gate.open()
            await resumed
            gate.open()
        else:
            gate.open()
            await eventually(lambda: rt.held_calls() == [])
            assert (await agent.look("t")).turns == 0
            other_gate.open()
        result = await resumed
        assert result is not None
        assert result.text == "the other's"
        assert (await run).text == "the other's"
        assert [message.content for message in await agent.messages("t")] == ["go", "the other's"]
        assert [message.content for message in await late.messages("t")] == ["go", "the other's"]
        assert (await late.look("t")).turns == 1


async def test_a_turn_whose_call_ended_without_a_document_is_saved(store: str) -> None:
    """Its agent raised an uncaught error; the thread still has the message, and accepts the next turn."""

    class Gone(BaseException):
        pass

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], Gone(), "fine"]))
        with pytest.raises(ClicketError, match="turn 1"):
            await agent.run("go", thread="t")
        messages = await agent.messages("t")
        assert [message.role for message in messages] == ["user", "assistant", "tool"]
        check_pairs(messages)
        assert (await agent.look("t")).state is AgentState.ERROR
        assert (await agent.run("again", thread="t")).text == "fine"


class Counts:
    """A model of known usage that calls `echo` with a long text in six steps, then answers. It waits at the gate before step 4."""

    name = "counts"

    def __init__(self, gate: Gate | None = None) -> None:
        self.gate, self.summaries = gate, 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        if not request.tools:
            self.summaries += 1
            return ChatReply(text="they spoke", usage=Usage(input_tokens=1_000, output_tokens=10, cost=0.1))
        made = max((int(use.id) for message in request.messages for use in message.uses), default=0)
        if made == 3 and self.gate is not None:
            await self.gate()
        usage = Usage(input_tokens=100, output_tokens=1, cost=0.01)
        if made == 6:
            return ChatReply(text="done", usage=usage)
        use = ToolUse(id=str(made + 1), name="echo", arguments=f'{{"text": "{made} {"x" * 900}"}}')
        return ChatReply(uses=(use,), usage=usage)


@pytest.mark.parametrize("limit", [{}, {"max_tokens": 4_000}, {"max_cost": 0.35}], ids=["none", "tokens", "cost"])
async def test_a_resumed_turn_remembers_what_its_summaries_cost(sqlite: str, limit: dict[str, Any]) -> None:
    def agent(rt: Runtime, model: Counts) -> ReActAgent:
        return ReActAgent(rt, model, tools=["echo"], window=ContextWindow(600, keep_steps=1, summarize=model), **limit)

    async with make([echo], "memory://") as rt:
        clean = Counts()
        whole = await agent(rt, clean).run("go", thread="t")
        spent = (await rt.spend.report(by="thread")).total
    gate = Gate()
    async with closing(sqlite, [echo]) as rt:
        first = Counts(gate)
        await agent(rt, first).begin("go", thread="t")
        await gate.reached.wait()
    assert first.summaries, "some were paid before the runtime closed"
    async with make([echo], sqlite) as rt:
        rest = Counts()
        result = await agent(rt, rest).run("go", thread="t")
        assert first.summaries + rest.summaries == clean.summaries
        assert (result.usage.total, result.stopped, result.steps) == (whole.usage.total, whole.stopped, whole.steps)
        assert result.usage.cost == pytest.approx(whole.usage.cost)
        assert (await agent(rt, rest).look("t")).usage == result.usage
        assert (await rt.spend.report(by="thread")).total == spent


async def test_a_turn_whose_calls_tool_is_gone_says_so_and_can_be_stopped(sqlite: str) -> None:
    gate = Gate()

    @tool(recovery="rerun")
    async def pay() -> str:
        await gate()
        return "paid"

    def agent_on(rt: Runtime) -> ReActAgent:
        return ReActAgent(rt, Says(lambda r: "done" if len(r.messages) % 3 == 0 else asks(("pay", "{}"))))

    async with make([pay], sqlite, close_timeout=0.0) as rt:
        for thread in ("a", "b"):
            await agent_on(rt).begin("go", thread=thread)
            await gate.reached.wait()
            gate.reached.clear()
    gate.open()
    async with make([echo], sqlite) as rt:
        agent = agent_on(rt)
        await rt.recover()

        async def says() -> bool:
            return [(await agent.look(thread)).waiting_for for thread in ("a", "b")] == [["tool:pay"], ["tool:pay"]]

        await eventually(says)
        with pytest.raises(AgentBusy, match="the tool 'pay', of which a call was interrupted"):
            await agent.run("another", thread="a")
        assert await agent.stop("a")
        stopped = await asyncio.wait_for(agent.wait("a", 1), 20)
        assert stopped is not None
        assert stopped.stopped == "cancelled"
        rt.add(pay)
        await rt.recover()
        result = await asyncio.wait_for(agent.wait("b", 1), 20)
        assert result is not None
        assert (result.text, (await agent.look("b")).waiting_for) == ("done", [])
