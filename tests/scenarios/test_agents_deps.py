"""Deps of a run: values of the process that began it. Only their names are on record; a process that has not all of them waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks
from tests.scenarios.deps_tools import Pool, by_process
from tests.scenarios.kit import make

from clicket import Depends, Runtime, State, ToolContext, tool
from clicket.agents import (
    Agent,
    AgentBusy,
    Check,
    Edit,
    Limits,
    Middleware,
    Pass,
    PlanExecuteAgent,
    ReActAgent,
    Turn,
)
from clicket.errors import UsageError
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel

SECRET = "a value that is never stored"


class Named(Pool):
    def __init__(self, name: str = SECRET) -> None:
        super().__init__()
        self.name = name

    def read(self, row: int) -> str:
        return f"row {row}" if self.name == SECRET else f"{self.name} {row}"


@tool
async def query(row: int, db: Annotated[Named, Depends("db")]) -> str:
    return db.read(row)


@tool
async def look(row: int, ctx: ToolContext) -> str:
    return str(ctx.deps["db"].read(row))


def reads(*names: str) -> ScriptedModel:
    return ScriptedModel([[(name, {"row": 1}) for name in names], "done"])


def results(messages: Any) -> list[str]:
    return [message.content for message in messages if message.role == "tool"]


async def test_tools_of_a_run_get_what_it_brought(sqlite: str) -> None:
    async with make([query, look], sqlite) as rt:
        agent = ReActAgent(rt, reads("query", "look"))
        result = await agent.run("go", thread="t", deps={"db": Named(), "other": object()})
        assert results(result.messages) == ["row 1", "row 1"]
        turn = await rt.get("turn-1", thread="agent:react/t")
        begun = next(event.data["entry"] for event in turn.events if event.data.get("entry", {}).get("e") == "begun")
        assert begun["deps"] == ["db", "other"]
        assert {tuple(call.events[0].data["deps"]) for call in (await rt.history(thread="t")).items if call.events} <= {
            ("db", "other")
        }
    stored = Path(sqlite.removeprefix("sqlite:///")).read_bytes()
    assert b'"other"' in stored
    assert SECRET.encode() not in stored


async def test_what_a_run_brought_counts_before_what_the_runtime_makes() -> None:
    async with make([query], deps={"db": lambda: Named("made")}) as rt:
        agent = ReActAgent(rt, Says(lambda r: "done" if len(r.messages) % 4 == 3 else asks(("query", '{"row": 1}'))))
        assert results((await agent.run("go", thread="a")).messages) == ["made 1"]
        assert results((await agent.run("go", thread="b", deps={"db": Named("brought")})).messages) == ["brought 1"]
        async with asyncio.timeout(20):
            both = [agent.run("go", thread=name, deps={"db": Named(name)}) for name in ("c", "d")]
            assert [results(each.messages) for each in await asyncio.gather(*both)] == [["c 1"], ["d 1"]]
        assert (await rt.call("query", {"row": 2})).output == "made 2"


async def test_begin_and_stream_bring_them_too() -> None:
    async with make([query]) as rt:
        agent = ReActAgent(rt, Says(lambda r: "done" if len(r.messages) % 4 == 3 else asks(("query", '{"row": 1}'))))
        number = await agent.begin("go", thread="a", deps={"db": Named()})
        result = await agent.wait("a", number)
        assert result is not None
        assert results(result.messages) == ["row 1"]
        events = [event async for event in agent.stream("go", thread="b", deps={"db": Named()})]
        assert [event.data["content"] for event in events if event.type == "tool_result"] == ["row 1"]


async def test_middleware_checks_and_drives_read_them_of_the_turn() -> None:
    seen: list[Any] = []

    class Reads(Middleware):
        def before_model(self, turn: Turn, request: ChatRequest) -> Edit:
            return Edit(instructions=turn.deps["db"].read(7))

    def check(turn: Turn, text: str) -> Pass:
        seen.append(turn.deps["db"].read(8))
        return Pass()

    async with make([query], deps={"clock": lambda: 3}) as rt:
        model = Says(lambda r: r.messages[0].content)
        agent = ReActAgent(rt, model, middleware=[Reads()], checks=[Check(check, on="output")])
        assert (await agent.run("go", deps={"db": Named()})).text == "row 7"
        assert seen == ["row 8"]

        async def drive(turn: Turn) -> tuple[str, str]:
            return "finished", f"{turn.deps['db'].read(9)} {turn.deps['clock']}"

        own = Agent(rt, drive, name="own", limits=Limits(), only=frozenset())  # type: ignore[arg-type]  # a plain str will do
        assert (await own.run("go", deps={"db": Named()})).text == "row 9 3"


async def test_agents_as_tools_and_steps_of_a_plan_get_those_of_the_outer_turn() -> None:
    async with make([query, look]) as rt:
        helper = ReActAgent(rt, reads("query", "look"), name="helper", tools=["query", "look"])
        rt.add(helper.as_tool("help"))
        outer = ReActAgent(rt, ScriptedModel([[("help", {"task": "read"})], "done"]), name="outer", tools=["help"])
        await outer.run("go", thread="t", deps={"db": Named()})
        inner = [call for call in (await rt.history(limit=1000)).items if call.tool in ("query", "look")]
        assert [call.output for call in inner] == ["row 1", "row 1"]
        assert {call.thread.partition("/")[0] for call in inner} == {"t"}
        steps = {"command": "create", "title": "p", "steps": ["one"]}
        planner = ScriptedModel([[("plan", steps)], "done"])
        plan = PlanExecuteAgent(rt, planner, executor=reads("query"), name="plan", tools=["query"])
        result = await plan.run("go", thread="p", deps={"db": Named()})
        assert "row 1" in results(result.messages)


@pytest.mark.parametrize("tools", [None, ["query"]])
async def test_a_run_without_a_dep_of_its_tools_is_refused(tools: list[str] | None) -> None:
    async with make([query, look]) as rt:
        agent = ReActAgent(rt, reads("query"), tools=tools)
        for start in (agent.run, agent.begin, agent.send):
            with pytest.raises(UsageError) as refused:
                await start("go", thread="t")
            for part in ("'react'", "'query'", "'db'", "agent.run(…, deps={'db': …})", "Runtime(deps={'db': factory})"):
                assert part in str(refused.value)
        assert (await agent.look("t")).turns == 0
        assert await agent.queued("t") == []
        assert (await ReActAgent(rt, ScriptedModel(["fine"]), name="narrow", tools=["look"]).run("go")).text == "fine"
        assert (await agent.run("go", thread="t", deps={"db": Named()})).text == "done"
        again = await agent.run("go", thread="t", turn=1)
        assert again.text == "done", "what is on record needs no deps"


async def test_a_tool_in_a_child_process_gets_none_of_a_run() -> None:
    async with make([by_process]) as rt:
        agent = ReActAgent(rt, reads("by_process"))
        with pytest.raises(UsageError, match=r"runs in another process.*Runtime\(deps="):
            await agent.run("go", deps={"db": Named()})


@pytest.mark.parametrize("deps", [7, ["db"], {7: 7}, {"": 7}])
async def test_what_is_no_value_by_name_is_refused(deps: Any) -> None:
    async with make([query]) as rt:
        with pytest.raises(UsageError, match="values by name"):
            await ReActAgent(rt, reads()).run("go", deps=deps)


async def test_a_message_in_the_queue_brings_none() -> None:
    async with make([query]) as rt:
        with pytest.raises(UsageError, match=r"deps to the runtime"):
            await ReActAgent(rt, reads()).send("go", deps={"db": Named()})


# Another process.


class Paid:
    """A bill that is paid once; its process may be closed while it is paid."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.by: list[str] = []

    def tools(self) -> list[Any]:
        @tool(recovery="rerun")
        async def pay(ctx: ToolContext) -> str:
            db = ctx.deps["db"]
            await self.gate()
            self.by.append(db.name)
            return f"paid by {db.name}"

        return [pay]


def agent_at(rt: Runtime, model: Any = None, name: str = "react") -> ReActAgent:
    pays = Says(lambda r: "done" if r.messages[-1].role == "tool" else asks(("pay", "{}")))
    return ReActAgent(rt, model or pays, name=name)


async def interrupted(sqlite: str, paid: Paid, **given: Any) -> None:
    """A process begins a turn, and closes while its call runs."""
    async with make(paid.tools(), sqlite, close_timeout=0.0) as rt:
        await agent_at(rt).begin("go", thread="t", deps={"db": Named("first")}, **given)
        await paid.gate.reached.wait()
    paid.gate.open()


def waits(agent: ReActAgent, *what: str) -> Callable[[], Any]:
    async def does() -> bool:
        return (await agent.look("t")).waiting_for == [*what]

    return does


async def test_a_process_without_the_dep_waits_for_a_caller_that_brings_it(sqlite: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite) as rt:
        agent = agent_at(rt)
        await rt.recover()
        await eventually(waits(agent, "dep:db"))
        (call,) = (await rt.history(thread="t", waiting_for="dep")).items
        assert call.waiting_for == "dep"
        with pytest.raises(AgentBusy, match=r"the dep 'db', which agent\.run or agent\.resume brings"):
            await agent.run("another", thread="t", deps={"db": Named("wrong")})
        assert paid.by == []
        result = await agent.resume("t", deps={"db": Named("second")})
        assert result is not None
        assert results(result.messages) == ["paid by second"]
        assert paid.by == ["second"]
        assert (await agent.look("t")).waiting_for == []
        assert (await rt.get(call.id)).waiting_for is None


async def test_the_same_message_with_the_dep_continues_the_turn(sqlite: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite) as rt:
        result = await agent_at(rt).run("go", thread="t", deps={"db": Named("second")})
        assert (result.turn, paid.by) == (1, ["second"])


async def test_a_process_that_makes_the_dep_waits_for_nobody(sqlite: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite, deps={"db": lambda: Named("made")}) as rt:
        agent = agent_at(rt)
        await rt.recover()
        result = await agent.wait("t", 1)
        assert result is not None
        assert (result.text, paid.by) == ("done", ["made"])


async def test_a_turn_that_waits_for_a_dep_can_be_stopped_with_its_calls(sqlite: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite) as rt:
        agent = agent_at(rt)
        await rt.recover()
        await eventually(waits(agent, "dep:db"))
        (call,) = (await rt.history(thread="t", waiting_for="dep")).items
        assert await agent.stop("t")
        result = await asyncio.wait_for(agent.wait("t", 1), 20)
        assert result is not None
        assert result.stopped == "cancelled"
        assert [message.role for message in result.messages] == ["user", "assistant", "tool"], "what was done is kept"
        assert (await rt.get(call.id)).state is State.CANCELLED
        assert paid.by == []
        assert (await agent.run("go", thread="t", deps={"db": Named("second")})).turn == 2


async def test_only_what_is_missing_is_waited_for(sqlite: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        await gate()
        return "late"

    async with make([], sqlite, close_timeout=0.0) as rt:
        agent = agent_at(rt, Says(answer))
        await agent.begin("go", thread="t", deps={"a": 1, "b": 2, "c": 3})
        await gate.reached.wait()
    async with make([], sqlite, deps={"b": lambda: 2}) as rt:
        agent = agent_at(rt, Says(lambda _: "done"))
        await rt.recover()
        await eventually(waits(agent, "dep:a"))
        waiting = asyncio.ensure_future(agent.resume("t", deps={"a": 1}))
        await eventually(waits(agent, "dep:c"))
        result = await agent.run("go", thread="t", turn=1, deps={"c": 3})
        assert result.text == "done"
        assert await waiting == result


async def test_a_tool_that_names_its_dep_is_taken_over_when_it_is_here(sqlite: str) -> None:
    gate = Gate()
    by: list[str] = []

    @tool(recovery="rerun")
    async def pay(db: Annotated[Named, Depends("db")]) -> str:
        await gate()
        by.append(db.name)
        return "paid"

    async with make([pay], sqlite, close_timeout=0.0) as rt:
        await agent_at(rt).begin("go", thread="t", deps={"db": Named("first")})
        await gate.reached.wait()
    gate.open()
    async with make([pay], sqlite) as rt:
        agent = agent_at(rt)
        await rt.recover()
        await eventually(waits(agent, "dep:db"))
        result = await asyncio.wait_for(agent.resume("t", deps={"db": Named("second")}), 20)
        assert result is not None
        assert (results(result.messages), by) == (["paid"], ["second"])


async def test_an_agent_as_a_tool_waits_with_its_outer_turn(sqlite: str) -> None:
    paid = Paid()

    def outer_at(rt: Runtime) -> ReActAgent:
        helper = agent_at(rt, name="helper")
        rt.add(helper.as_tool("help"))
        model = Says(lambda r: "done" if r.messages[-1].role == "tool" else asks(("help", '{"task": "pay"}')))
        return ReActAgent(rt, model, name="outer", tools=["help"])

    async with make(paid.tools(), sqlite, close_timeout=0.0) as rt:
        await outer_at(rt).begin("go", thread="t", deps={"db": Named("first")})
        await paid.gate.reached.wait()
    paid.gate.open()
    async with make(paid.tools(), sqlite) as rt:
        agent = outer_at(rt)
        await rt.recover()
        await eventually(waits(agent, "dep:db"))
        assert paid.by == []
        result = await asyncio.wait_for(agent.resume("t", deps={"db": Named("second")}), 20)
        assert result is not None
        assert (results(result.messages), paid.by) == (["done"], ["second"])


async def test_a_check_of_an_unknown_outcome_gets_the_dep(sqlite: str) -> None:
    gate = Gate()
    asked: list[str] = []

    async def happened(call: Any, ctx: ToolContext) -> Any:
        from clicket import Happened

        asked.append(ctx.deps["db"].name)
        return Happened("paid before")

    @tool(reconcile=happened)
    async def pay(ctx: ToolContext) -> str:
        await gate()
        return "paid"

    async with make([pay], sqlite, close_timeout=0.0) as rt:
        await agent_at(rt).begin("go", thread="t", deps={"db": Named("first")})
        await gate.reached.wait()
    async with make([pay], sqlite) as rt:
        agent = agent_at(rt)
        await rt.recover()
        await eventually(waits(agent, "dep:db"))
        assert asked == []
        result = await asyncio.wait_for(agent.resume("t", deps={"db": Named("second")}), 20)
        assert result is not None
        assert (results(result.messages), asked) == (["paid before"], ["second"])


# Two processes over one store, of which one has what the turn needs.


async def test_a_process_without_the_dep_leaves_the_turn_to_one_that_makes_it(sqlite: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with (
        make(paid.tools(), sqlite) as without,
        make(paid.tools(), sqlite, deps={"db": lambda: Named("made")}) as rt,
    ):
        agent_at(without)
        await without.recover()
        await eventually(waits(agent_at(without), "dep:db"))
        agent = agent_at(rt)
        result = await asyncio.wait_for(agent.wait("t", 1), 30)
        assert result is not None
        assert (result.text, paid.by) == ("done", ["made"])


@pytest.mark.parametrize("start", ["run", "resume", "begin"])
async def test_a_process_without_the_dep_leaves_the_turn_to_one_that_is_brought_it(sqlite: str, start: str) -> None:
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite) as without, make(paid.tools(), sqlite) as rt:
        other = agent_at(without)
        await without.recover()
        await eventually(waits(other, "dep:db"))
        agent, brings = agent_at(rt), {"db": Named("second")}
        if start == "resume":
            await asyncio.wait_for(agent.resume("t", deps=brings), 20)
        elif start == "run":
            await asyncio.wait_for(agent.run("go", thread="t", deps=brings), 20)
        else:
            assert await agent.begin("go", thread="t", deps=brings) == 1
        result = await asyncio.wait_for(other.wait("t", 1), 20)
        assert result is not None
        assert (results(result.messages), paid.by) == (["paid by second"], ["second"])


async def test_an_agent_as_a_tool_goes_on_where_its_outer_turn_does(sqlite: str) -> None:
    paid = Paid()

    def outer_at(rt: Runtime) -> ReActAgent:
        helper = agent_at(rt, name="helper")
        rt.add(helper.as_tool("help"))
        model = Says(lambda r: "done" if r.messages[-1].role == "tool" else asks(("help", '{"task": "pay"}')))
        return ReActAgent(rt, model, name="outer", tools=["help"])

    async with make(paid.tools(), sqlite, close_timeout=0.0) as rt:
        await outer_at(rt).begin("go", thread="t", deps={"db": Named("first")})
        await paid.gate.reached.wait()
    paid.gate.open()
    async with make(paid.tools(), sqlite) as without, make(paid.tools(), sqlite) as rt:
        other = outer_at(without)
        await without.recover()
        await eventually(waits(other, "dep:db"))
        result = await asyncio.wait_for(outer_at(rt).resume("t", deps={"db": Named("second")}), 30)
        assert result is not None
        assert (results(result.messages), paid.by) == (["done"], ["second"])


async def test_a_dep_that_comes_while_another_process_looks_at_the_turn_is_not_lost(sqlite: str) -> None:
    """The process that takes the turn up has just claimed it when a caller of another process brings the dep."""
    paid = Paid()
    await interrupted(sqlite, paid)
    async with make(paid.tools(), sqlite) as without, make(paid.tools(), sqlite) as rt:
        agent_at(without)
        agent = agent_at(rt)
        looking = asyncio.ensure_future(without.recover())
        result = await asyncio.wait_for(agent.run("go", thread="t", turn=1, deps={"db": Named("second")}), 30)
        await looking
        assert (result.text, paid.by) == ("done", ["second"])


async def test_turns_that_wait_for_more_do_not_keep_another_one_waiting(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.runtime.agent_host._MAX_QUEUED", 1)
    paid = Paid()
    await interrupted(sqlite, paid)
    more = Paid()
    async with make(more.tools(), sqlite, close_timeout=0.0) as rt:
        await agent_at(rt).begin("go", thread="t2", deps={"db": Named("first"), "more": Named("more")})
        await more.gate.reached.wait()
    async with make(paid.tools(), sqlite) as without:
        other = agent_at(without)
        await without.recover()
        await eventually(waits(other, "dep:db"))

        async def waits_too() -> bool:
            return (await other.look("t2")).waiting_for == ["dep:db"]

        await eventually(waits_too)
        async with make(paid.tools(), sqlite, deps={"db": lambda: Named("made")}) as rt:
            agent = agent_at(rt)
            result = await asyncio.wait_for(agent.wait("t", 1), 30)
            assert result is not None
            assert paid.by == ["made"]
            await agent.stop("t2")
