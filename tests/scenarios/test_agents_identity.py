"""An agent is its name on one store, and a turn keeps what its agent could do when it began, whichever process continues it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks, called
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.agents import Agent, Limits, PlanExecuteAgent, ReActAgent, Turn
from clicket.agents import turn as running_turn
from clicket.errors import AgentChanged, StoreUnavailable, UsageError
from clicket.kernel import AgentState
from clicket.model.chat import ChatReply, ChatRequest
from clicket.testing import ScriptedModel


@tool(read_only=True)
async def look_up(name: str) -> str:
    """Looks a name up in the payroll."""
    return f"{name} is known"


@tool
async def drop_table(name: str) -> str:
    """Drops a payroll table."""
    return f"{name} is gone"


TOOLS = [look_up, drop_table, echo]


async def entries_of(rt: Runtime, thread: str = "t", agent: str = "react", turn: int = 1) -> list[dict[str, Any]]:
    record = await rt.get(f"turn-{turn}", thread=f"agent:{agent}/{thread}")
    return [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]


async def interrupted(store: str, agent: Any = ReActAgent, **options: Any) -> None:
    """The first turn of an agent was handed back while its model was asked for the first time."""
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    async with make(TOOLS, store, close_timeout=0.0) as rt:
        await agent(rt, Says(stuck), **options).begin("go", thread="t")
        await gate.reached.wait()


def system_of(request: ChatRequest) -> str:
    return request.messages[0].content if request.messages[0].role == "system" else ""


# Two agents of one name on one runtime.


@pytest.mark.parametrize("kind", [ReActAgent, PlanExecuteAgent])
async def test_a_second_agent_that_may_do_something_else_is_refused(kind: Any) -> None:
    async with make(TOOLS) as rt:
        first = kind(rt, ScriptedModel([]), tools=["look_up"])
        for other in ({"tools": ["drop_table"]}, {}, {"tools": ["look_up"], "max_steps": 3}):
            with pytest.raises(UsageError, match=r"name=.*replace=True"):
                kind(rt, ScriptedModel([]), **other)
        kind(rt, ScriptedModel([]), tools=["drop_table"], name="admin")
        beside = kind(rt, ScriptedModel([]), tools=["look_up"], system="One for each request.")
        del first
        with pytest.raises(UsageError, match="differ in tools"):
            kind(rt, ScriptedModel([]), tools=["drop_table"])
        del beside
        kind(rt, ScriptedModel([]), tools=["drop_table"])


async def test_an_agent_of_another_kind_is_refused_and_one_that_was_replaced_is_not_in_the_way() -> None:
    async def drive(turn: Turn) -> Any:
        return "finished", "done"

    async with make(TOOLS) as rt:
        first = ReActAgent(rt, ScriptedModel(["a"]))
        with pytest.raises(UsageError, match="differ in kind"):
            PlanExecuteAgent(rt, ScriptedModel([]), name="react", max_steps=20)
        with pytest.raises(UsageError, match="differ in kind"):
            Agent(rt, drive, name="react", limits=Limits())
        second = PlanExecuteAgent(rt, ScriptedModel(["b"]), name="react", replace=True)
        PlanExecuteAgent(rt, ScriptedModel([]), name="react")
        assert (await first.run("go", thread="t")).text == "a"
        assert (await second.run("go", thread="t")).text == "b"
        with pytest.raises(UsageError):
            ReActAgent(rt, ScriptedModel([]))


async def test_a_view_of_an_agent_keeps_it_in_use() -> None:
    async with make(TOOLS) as rt:
        view = ReActAgent(rt, ScriptedModel([]), tools=["look_up"]).acting_for(rt)
        with pytest.raises(UsageError):
            ReActAgent(rt, ScriptedModel([]))
        assert view.name == "react"


def test_on_change_is_checked() -> None:
    with pytest.raises(UsageError, match="on_change"):
        ReActAgent(make(TOOLS), ScriptedModel([]), on_change="ask")  # type: ignore[arg-type]


# Which tools a search finds.


async def test_find_tools_shows_each_agent_its_own_tools_alone() -> None:
    def search(_: ChatRequest) -> Any:
        return [("find_tools", '{"query": "payroll"}')] if len(_.messages) == 1 else _.messages[-1].content

    async with make(TOOLS) as rt:
        limited = ReActAgent(rt, Says(search), tools=["look_up", "echo"], max_offered=1)
        every = ReActAgent(rt, Says(search), max_offered=1, replace=True)
        assert "drop_table" in (await every.run("go", thread="b")).text
        assert "drop_table" not in (await limited.run("go", thread="a")).text
        # A search that is recovered before its turn: what each agent that may continue the turn may use.
        tools_of = rt.host.installed("agent:react").tools_of  # type: ignore[union-attr]
        assert tools_of("", "a") == {"look_up", "echo"}


# After a crash.


async def test_begun_says_who_began_a_turn_and_an_unchanged_agent_writes_nothing_more(sqlite: str) -> None:
    await interrupted(sqlite, tools=["look_up"], system="You are a clerk.")
    async with make(TOOLS, sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["done"]), tools=["look_up"], system="You are a clerk.")
        await agent.run("go", thread="t")
        begun, *others = await entries_of(rt)
        assert [entry["e"] for entry in others] == ["restart", "reply", "ended"]
        assert (begun["agent"], begun["kind"], begun["model"]) == ("react", "react", "says")
        assert (begun["system"], begun["tools"]) == ("You are a clerk.", ["look_up"])
        assert begun["limits"]["max_steps"] == 20
        assert len(begun["digest"]) == 16


async def test_a_changed_agent_continues_with_what_the_turn_had(sqlite: str) -> None:
    await interrupted(sqlite, tools=["look_up", "echo"], system="You are A.")
    requests: list[ChatRequest] = []

    def answer(request: ChatRequest) -> Any:
        requests.append(request)
        if len(requests) == 1:
            return asks(("drop_table", '{"name": "x"}'), ("look_up", '{"name": "x"}'), ("echo", '{"text": "x"}'))
        return "done"

    async with make(TOOLS, sqlite) as rt:
        agent = ReActAgent(rt, Says(answer), tools=["drop_table", "echo"], system="You are B.", max_steps=9)
        result = await agent.run("go", thread="t")
        assert (result.text, result.turn) == ("done", 1)
        assert [system_of(request) for request in requests] == ["You are A.", "You are A."]
        assert [[offer.name for offer in request.tools] for request in requests] == [["echo"], ["echo"]]
        assert [message.failed for message in result.messages if message.role == "tool"] == [True, True, False]
        (changed,) = [entry for entry in await entries_of(rt) if entry["e"] == "changed"]
        assert changed["what"] == {
            "tools": {"gone": ["look_up"], "new": ["drop_table"]},
            "limits": {"max_steps": [20, 9]},
            "system": "the recorded text is used",
        }
        # The next turn is the present agent's own.
        assert (await agent.run("more", thread="t")).turn == 2
        assert system_of(requests[-1]) == "You are B."
        assert [offer.name for offer in requests[-1].tools] == ["drop_table", "echo"]


async def test_a_changed_plan_agent_gives_its_executors_no_other_tools(sqlite: str) -> None:
    await interrupted(sqlite, PlanExecuteAgent, tools=["echo"], system="You are A.")
    plan = {"command": "create", "title": "t", "steps": [{"text": "one"}]}
    seen: list[ChatRequest] = []

    def execute(request: ChatRequest) -> Any:
        seen.append(request)
        return asks(("drop_table", '{"name": "x"}')) if len(seen) == 1 else "did it"

    async with make(TOOLS, sqlite) as rt:
        planner = ScriptedModel([[("plan", plan)], "done"])
        agent = PlanExecuteAgent(rt, planner, executor=Says(execute), system="You are B.")
        result = await agent.run("go", thread="t")
        assert (result.text, called(result.messages)) == ("done", ["plan", "drop_table"])
        assert [[offer.name for offer in request.tools] for request in seen] == [["echo"], ["echo"]]
        assert all(system_of(request).startswith("You are A.\n\nYou carry out") for request in seen)
        assert (await rt.history(thread="t", tool="drop_table")).items[0].error.code == "permission_denied"  # type: ignore[union-attr]


async def test_an_agent_of_its_digest_continues_a_turn_with_its_own_instructions(sqlite: str) -> None:
    """Agents that are made for each request, with other instructions, stand beside each other."""
    await interrupted(sqlite, system="For Ann.")
    model, other = Says(lambda _: "for her"), Says(lambda _: "for him")
    rt = make(TOOLS, sqlite)
    kept = [ReActAgent(rt, model, system="For Ann."), ReActAgent(rt, other, system="For Bob.")]
    async with rt:
        await eventually(lambda: _turns(kept[0], 1))
        assert [system_of(request) for request in model.requests + other.requests] == ["For Ann."]
        assert [entry["e"] for entry in await entries_of(rt)] == ["begun", "restart", "reply", "ended"]


async def test_an_agent_that_was_replaced_continues_the_turns_of_its_digest(sqlite: str) -> None:
    await interrupted(sqlite, tools=["look_up"])
    rt = make(TOOLS, sqlite)
    first = ReActAgent(rt, ScriptedModel(["the first"]), tools=["look_up"])
    second = ReActAgent(rt, ScriptedModel(["the second"]), tools=["echo"], replace=True)
    async with rt:
        await eventually(lambda: _turns(first, 1))
        assert [turn.text for turn in (await second.history("t")).turns] == ["the first"]


async def _turns(agent: ReActAgent, number: int) -> bool:
    return (await agent.look("t")).turns == number


async def test_a_drive_of_your_own_cannot_use_more_than_the_turn_had(sqlite: str) -> None:
    await interrupted(sqlite, tools=["echo"])

    from clicket.agents import Actor

    async def drive(turn: Turn) -> Any:
        turn.allowed_tools = None
        message = await Actor().call(turn, "drop_table", {"name": "x"})
        return "finished", f"{message.failed}"

    async with make(TOOLS, sqlite) as rt:
        agent = Agent(rt, drive, name="react", limits=Limits())
        assert (await agent.run("go", thread="t")).text == "True"


@pytest.mark.parametrize("way", ["run", "stream", "open"])
async def test_a_changed_agent_may_refuse_to_continue(sqlite: str, way: str) -> None:
    def runtime() -> Runtime:
        return make(TOOLS, sqlite, close_timeout=0.0, policy=Policy(ask=["drop_table"]))

    def answer(request: ChatRequest) -> ChatReply | str:
        return (
            asks(("drop_table", '{"name": "x"}'), ("echo", '{"text": "y"}')) if len(request.messages) == 1 else "done"
        )

    async with runtime() as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("go", thread="t", id="one")
        (waiting,) = await eventually(lambda: _waiting(agent))
    rt = runtime()
    agent = ReActAgent(rt, Says(answer), tools=["echo"], on_change="refuse")
    async with rt:
        if way == "run":
            with pytest.raises(AgentChanged, match="tools"):
                await agent.run("go", thread="t", id="one")  # it may have ended before
        elif way == "stream":
            last = [event async for event in agent.stream("go", thread="t", id="one")][-1]
            assert (last.type, "has changed" in last.data["message"]) == ("error", True)
        else:
            with pytest.raises(AgentChanged):
                await agent.wait("t", 1)
        assert (await rt.get("turn-1", thread="agent:react/t")).error.code == "agent_changed"  # type: ignore[union-attr]
        # The recovery may be about to take the call over: then it is cancelled by a request, and ends a moment later.
        assert (await (await rt.handle(waiting, thread="t")).result()).state.value == "cancelled"
        view = await agent.look("t")
        assert (view.state, view.turns, view.waiting_for) == (AgentState.ERROR, 1, [])
        (turn,) = (await agent.history("t")).turns
        assert (turn.code, turn.steps, called(turn.messages)) == ("agent_changed", 1, ["drop_table", "echo"])
        again = await agent.run("and now?", thread="t")
        assert (again.turn, again.text) == (2, "done")


async def test_an_outage_while_a_changed_agent_refuses_leaves_no_call_open(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel, tries = running_turn.end_open_calls, 0

    async def failing_once(*given: Any) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnavailable("no answer", transient=True)
        await cancel(*given)

    await interrupted(sqlite, tools=["echo", "drop_table"])
    monkeypatch.setattr(running_turn, "end_open_calls", failing_once)
    async with make(TOOLS, sqlite) as rt:
        agent = ReActAgent(rt, Says(lambda request: "done"), tools=["echo"], on_change="refuse")
        with pytest.raises(AgentChanged):
            await agent.run("go", thread="t")
        assert tries == 2


async def _waiting(agent: ReActAgent) -> list[str]:
    await asyncio.sleep(0)
    return (await agent.look("t")).waiting_for
