"""A planner and its executors: ready steps run concurrently, a failing step affects no other, messages are merged in the order of the
steps, and the limits hold for the whole turn."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, check_legal, check_pairs
from tests.scenarios.kit import make

from clicket import Runtime, tool
from clicket.agents import AgentState, PlanExecuteAgent
from clicket.errors import UsageError
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel


def create(*steps: Any) -> list[tuple[str, Any]]:
    return [("plan", {"command": "create", "title": "T", "steps": list(steps)})]


def apart(*texts: str) -> list[Any]:
    return [{"text": text, "depends_on": []} for text in texts]


def task_of(request: ChatRequest) -> str:
    """The task of an executor."""
    asked = next(m.content for m in reversed(request.messages) if m.role == "user" and "Carry out step" in m.content)
    return asked.rpartition(": ")[2]


def steps_of(request: ChatRequest) -> int:
    """How many replies this executor got."""
    last = max(place for place, m in enumerate(request.messages) if m.role == "user" and "Carry out step" in m.content)
    return sum(message.role == "assistant" for message in request.messages[last:])


async def test_a_plan_is_made_carried_out_and_answered(store: str) -> None:
    async with make([echo], store) as rt:
        planner = ScriptedModel([create("find", "tell"), "All done."])

        def carry_out(request: ChatRequest) -> Any:
            task = task_of(request)
            return [("echo", f'{{"text": "{task}"}}')] if not steps_of(request) else f"did {task}"

        executor = Says(carry_out)
        agent = PlanExecuteAgent(rt, planner, executor=executor)
        events = [event async for event in agent.stream("go", thread="t")]
        assert events[-1].type == "final"
        assert (events[-1].data["text"], events[-1].data["steps"], events[-1].data["calls"]) == ("All done.", 6, 3)
        view = await agent.look("t")
        assert [step["status"] for step in view.plan["steps"]] == ["completed", "completed"]  # type: ignore[index]
        assert [step["notes"] for step in view.plan["steps"]] == ["did find", "did tell"]  # type: ignore[index]
        plans = [[step["status"] for step in event.data["steps"]] for event in events if event.type == "plan"]
        assert plans == [
            ["not_started", "not_started"],
            ["in_progress", "not_started"],
            ["completed", "not_started"],
            ["completed", "in_progress"],
            ["completed", "completed"],
        ]
        check_pairs(await agent.messages("t"))
        assert [offer.name for offer in planner.requests[0].tools] == ["plan"]
        assert [offer.name for offer in executor.requests[0].tools] == ["echo"]
        # The runtime has only the executors' calls.
        assert [item.tool for item in (await rt.history(thread="t")).items] == ["echo", "echo"]
        assert [event.id for event in events if event.id] == [event.id async for event in agent.events("t")]


async def test_steps_that_are_ready_run_side_by_side_and_are_merged_in_their_order(store: str) -> None:
    gates = {name: Gate() for name in ("a", "b", "c")}

    async def answer(request: ChatRequest) -> str:
        task = task_of(request)
        await gates[task]()
        return f"did {task}"

    async with make([echo], store) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel([create(*apart("a", "b", "c")), "done"]), executor=Says(answer))
        run = asyncio.create_task(agent.run("go", thread="t"))
        for gate in gates.values():
            await gate.reached.wait()
        for name in ("c", "a", "b"):
            gates[name].open()
            await asyncio.sleep(0)
        result = await run
        assert [m.content for m in result.messages if m.content.startswith("did ")] == ["did a", "did b", "did c"]
        check_pairs(result.messages)


async def test_a_failing_fork_blocks_its_step_and_harms_no_other(store: str) -> None:
    def answer(request: ChatRequest) -> str:
        if task_of(request) == "b":
            raise ValueError("b is broken")
        return f"did {task_of(request)}"

    async with make([echo], store) as rt:
        planner = ScriptedModel([create(*apart("a", "b", "c")), "as far as it goes"])
        agent = PlanExecuteAgent(rt, planner, executor=Says(answer))
        result = await agent.run("go", thread="t")
        assert (result.stopped, result.state, result.text) == ("finished", AgentState.FINISHED, "as far as it goes")
        assert [step["status"] for step in result.plan["steps"]] == ["completed", "blocked", "completed"]  # type: ignore[index]
        assert "b is broken" in planner.requests[1].messages[-1].content
        check_pairs(result.messages)


async def test_forks_side_by_side_do_not_pass_the_limit_of_steps(store: str) -> None:
    counted = iter(range(1_000))
    for most in (2, 3, 5, 7):
        async with make([echo], store) as rt:

            async def answer(_: ChatRequest) -> Any:
                await asyncio.sleep(0)
                return [("echo", f'{{"text": "{next(counted)}"}}')]

            planner = ScriptedModel([create(*apart("a", "b", "c", "d", "e")), "never"])
            agent = PlanExecuteAgent(rt, planner, executor=Says(answer), max_steps=most)
            result = await agent.run("go", thread=f"t{most}")
            assert (result.stopped, result.state) == ("max_steps", AgentState.IDLE)
            assert result.steps == most
            check_pairs(result.messages)
            assert (
                await PlanExecuteAgent(rt, ScriptedModel(["fine"]), replace=True).run("again", thread=f"t{most}")
            ).text == "fine"


async def test_a_task_has_a_limit_of_its_own(store: str) -> None:
    counted = iter(range(1_000))

    def answer(request: ChatRequest) -> Any:
        return "did it" if task_of(request) == "quick" else [("echo", f'{{"text": "{next(counted)}"}}')]

    async with make([echo], store) as rt:
        planner = ScriptedModel([create(*apart("quick", "endless")), "enough"])
        result = await PlanExecuteAgent(rt, planner, executor=Says(answer), max_task_steps=3).run("go")
        assert (result.stopped, result.text) == ("finished", "enough")
        assert [step["status"] for step in result.plan["steps"]] == ["completed", "blocked"]  # type: ignore[index]


async def test_a_stop_ends_all_forks_and_leaves_a_paired_thread(store: str) -> None:
    gate, reached = Gate(), []

    @tool(timeout=None)
    async def hold(n: str) -> str:
        reached.append(n)
        if len(reached) == 2:
            gate.reached.set()
        await gate.opened.wait()
        return n

    changes: list[tuple[AgentState, AgentState]] = []
    async with make([hold], store) as rt:
        executor = Says(lambda request: [("hold", f'{{"n": "{task_of(request)}"}}')])
        agent = PlanExecuteAgent(
            rt,
            ScriptedModel([create(*apart("a", "b")), "fine"]),
            executor=executor,
            on_state_changed=lambda *change: changes.append(change[:2]),
        )
        run = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()
        assert await agent.stop("t")
        result = await run
        assert (result.stopped, result.state) == ("cancelled", AgentState.IDLE)
        check_pairs(result.messages)
        assert [m.failed for m in result.messages if m.role == "tool"] == [False, True, True]
        assert {item.state.value for item in (await rt.history(thread="t")).items} == {"cancelled"}
        gate.open()
        assert (await agent.run("again", thread="t")).text == "fine"
    check_legal(changes, first=AgentState.IDLE)


async def test_a_plan_continues_after_the_runtime_closed_in_a_batch_of_steps(sqlite: str) -> None:
    """The executors' finished work is not repeated, and there are no more steps than without the restart."""
    ran: list[str] = []

    @tool
    async def note(text: str) -> str:
        ran.append(text)
        return text

    def answer(request: ChatRequest) -> Any:
        return [("note", f'{{"text": "{task_of(request)}"}}')] if not steps_of(request) else f"did {task_of(request)}"

    async def halting(request: ChatRequest) -> Any:
        if steps_of(request) and task_of(request) == "b":
            await gate()
        return answer(request)

    gate, script = Gate(), [create(*apart("a", "b", "c")), "done"]
    async with make([note], sqlite, close_timeout=0.0) as rt:
        first = PlanExecuteAgent(rt, ScriptedModel(script, position="counter"), executor=Says(halting))
        await first.begin("go", thread="t")
        await gate.reached.wait()
    executor = Says(answer)
    async with make([note], sqlite) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(["done"]), executor=executor, max_steps=8)
        result = await agent.resume("t")
        assert result is not None
        assert (result.text, result.steps, result.stopped) == ("done", 8, "finished")
        assert sorted(ran) == ["a", "b", "c"]
        assert [m.content for m in result.messages if m.content.startswith("did ")] == ["did a", "did b", "did c"]
        check_pairs(result.messages)
        assert_told_plan([event async for event in agent.events("t")])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("at", ["planner", "a", "c"])
async def test_only_requests_that_were_interrupted_begin_again(sqlite: str, at: str, streams: bool) -> None:
    """The steps a and b run side by side, c waits for both, d for c. Readers are told which answer is void."""
    gate = Gate()

    async def answer(who: str) -> str:
        if who == at:
            await gate()
        return f"did {who}"

    def agent_on(rt: Runtime) -> PlanExecuteAgent:
        async def plan(request: ChatRequest) -> Any:
            if len(request.messages) > 2:
                return "done"
            await answer("planner")
            ((name, given),) = create(*apart("a", "b"), {"text": "c", "depends_on": [1, 2]}, "d")
            return [(name, msgspec.json.encode(given).decode())]

        return PlanExecuteAgent(rt, Says(plan), executor=Says(lambda r: answer(task_of(r))))

    async with make([echo], sqlite, close_timeout=0.0) as rt:
        agent = agent_on(rt)
        with agent.listening("t") if streams else nullcontext():
            await agent.begin("go", thread="t")
            await gate.reached.wait()
            if at == "a":  # b has ended meanwhile
                await eventually(lambda: _has_reply(rt, "did b"))
    gate.open()
    async with make([echo], sqlite) as rt:
        result = await agent_on(rt).resume("t")
        assert result is not None
        assert result.text == "done"
        entries = [event.data["entry"] for event in await _events(rt) if "entry" in event.data]
        begun_again = [(each.get("branch", ""), each["why"]) for each in entries if each["e"] == "restart"]
        assert begun_again == [({"planner": "", "a": "1-1", "c": "1-3"}[at], "the turn was interrupted")]


async def _events(rt: Runtime) -> list[Any]:
    return list((await rt.get("turn-1", thread="agent:plan/t")).events)


async def _has_reply(rt: Runtime, text: str) -> bool:
    return any(text in str(event.data) for event in await _events(rt))


async def test_a_restart_in_a_batch_of_steps_keeps_the_limits(sqlite: str) -> None:
    """Stored replies count from the beginning: no other executor may use their steps while they are replayed."""
    a_done, c_waits = asyncio.Event(), Gate()

    @tool
    async def note(text: str) -> str:
        return text

    @tool(timeout=None)
    async def wait_for_a() -> str:
        await a_done.wait()
        return "a is done"

    def answer(request: ChatRequest) -> Any:
        task, steps = task_of(request), steps_of(request)
        if task == "a" and steps < 2:
            return [("note", f'{{"text": "{steps}"}}')]
        if task == "a":
            a_done.set()
        elif task == "b" and not steps:
            return [("wait_for_a", "{}")]
        return f"did {task}"

    async def halting(request: ChatRequest) -> Any:
        if task_of(request) == "c":
            await c_waits()
        return answer(request)

    planner = [create(*apart("a", "b", "c"))]
    async with make([note, wait_for_a], sqlite, close_timeout=0.0) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(planner), executor=Says(halting), max_steps=6)
        await agent.begin("go", thread="t")
        await c_waits.reached.wait()
        await a_done.wait()

        async def b_was_answered() -> bool:
            record = await rt.get("turn-1", thread="agent:plan/t")
            return "a is done" in msgspec.json.encode(record.events).decode()

        await eventually(b_was_answered)
    async with make([note, wait_for_a], sqlite) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(planner), executor=Says(answer), max_steps=6)
        result = await agent.resume("t")
        assert result is not None
        assert (result.stopped, result.steps) == ("max_steps", 6)
        check_pairs(result.messages)


def assert_told_plan(events: list[Any]) -> None:
    places = [tuple(map(int, event.id.replace("-", ".").split("."))) for event in events]
    assert places == sorted(set(places))
    assert events[-1].type == "final"
    started = [event.data["id"] for event in events if event.type == "tool_started"]
    ended = [event.data["id"] for event in events if event.type == "tool_result"]
    assert sorted(started) == sorted(ended)
    assert len(set(started)) == len(started)


async def test_a_planner_with_invalid_commands_gets_errors_and_ends_at_its_limits(store: str) -> None:
    answers: list[Any] = [
        [("echo", {"text": "x"})],
        [("plan", "{")],
        [("plan", "[]")],
        [("plan", {"command": "finish"})],
        [("plan", {"command": "create", "steps": [{"text": "a", "depends_on": [1]}]})],
        "I give up",
    ]
    async with make([echo], store) as rt:
        model = ScriptedModel(answers)
        result = await PlanExecuteAgent(rt, model).run("go", thread="t")
        assert (result.text, result.stopped) == ("I give up", "finished")
        assert all(m.failed for m in result.messages if m.role == "tool")
        assert "the tool `plan` alone" in result.messages[2].content
        check_pairs(result.messages)
        assert (await rt.history(thread="t")).items == []
        endless = Says(lambda _: [("plan", "{")])
        ended = await PlanExecuteAgent(rt, endless, max_repeats=3).run("go", thread="u")
        assert (ended.stopped, ended.steps) == ("repeated", 4)


async def test_finish_gives_the_summary(store: str) -> None:
    async with make([echo], store) as rt:
        planner = ScriptedModel([create("a"), [("plan", {"command": "finish", "summary": "a is \x00done"})]])
        result = await PlanExecuteAgent(rt, planner, executor=Says(lambda _: "did it")).run("go")
        assert (result.text, result.stopped, result.steps) == ("a is \\x00done", "finished", 3)


def test_options_that_make_no_sense_are_refused() -> None:
    rt = make([])
    for wrong in ({"max_task_steps": 0}, {"max_parallel": 0}, {"max_parallel": 1.5}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            PlanExecuteAgent(rt, ScriptedModel([]), **wrong)  # type: ignore[arg-type]
