"""An agent's tool calls: offered by the hub, checked by the policy, journaled, concurrent, and each with a useful result."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs, one
from tests.scenarios.kit import make

from clicket import Policy, tool
from clicket.agents import AgentState, PlanExecuteAgent, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest
from clicket.model.ids import alias_of
from clicket.ports import Keep
from clicket.testing import ScriptedModel


@tool(max_retries=0)
async def broken() -> str:
    raise ValueError("the pump is dry")


def offered(model: ScriptedModel | Says) -> list[list[str]]:
    return [sorted(offer.name for offer in request.tools) for request in model.requests]


async def test_errors_come_back_as_observations_that_help(store: str) -> None:
    async with make([echo, broken], store, policy=Policy(deny=["secret_*"])) as rt:
        model = ScriptedModel(
            [
                [("broken", {}), ("ecko", {"text": "x"}), ("echo", {"txt": 1}), ("echo", '{"text": '), ("echo", "[1]")],
                [("secret_door", {}), ("", {}), ("echo", ""), ("echo", "null")],
                "sorry",
            ]
        )
        result = await ReActAgent(rt, model).run("go", thread="t")
        texts = [message.content for message in result.messages if message.role == "tool"]
        failed = [message.failed for message in result.messages if message.role == "tool"]
        assert failed == [True] * 7 + [False] * 2
        assert texts[0].startswith("tool_error: ")
        assert "the pump is dry" in texts[0]
        assert "Did you mean 'echo'?" in texts[1]
        assert texts[2].startswith("invalid_input: ")
        assert "txt" in texts[2]
        assert all(text.startswith("invalid_input: ") for text in texts[3:5])
        assert texts[5].startswith(("tool_not_found: ", "permission_denied: "))
        assert result.text == "sorry"
        check_pairs(result.messages)
        # Refused or not, each call is recorded once, in the agent's thread.
        items = (await rt.history(thread="t")).items
        assert sorted(alias_of(item.id) for item in items) == sorted(
            [f"react.1.1.{n}" for n in range(1, 6)] + [f"react.1.2.{n}" for n in range(1, 5)]
        )
        codes = {alias_of(item.id): item.error.code if item.error else None for item in items}
        assert codes["react.1.1.2"] == "tool_not_found"
        assert codes["react.1.1.3"] == "invalid_input"


async def test_a_failing_tool_disappears_from_the_offers_and_the_thread_continues(store: str) -> None:
    counted = iter(range(100))
    async with make([echo, broken], store) as rt:

        def answer(request: ChatRequest) -> ChatReply:
            if "broken" in {offer.name for offer in request.tools}:
                return asks(("broken", "{}"))
            return asks(("broken", "{}")) if next(counted) == 0 else ChatReply(text="I cannot.")

        model = Says(answer)
        result = await ReActAgent(rt, model, max_repeats=None).run("go", thread="t")
        assert offered(model) == [["broken", "echo"]] * 3 + [["echo"]] * 2
        assert result.stopped == "finished"
        last = [message.content for message in result.messages if message.role == "tool"][-1]
        assert last.startswith("tool_unavailable: ")
        await rt.hub("t").reset("broken")
        again = ScriptedModel(["ok"])
        await ReActAgent(rt, again).run("again", thread="t")
        assert offered(again) == [["broken", "echo"]]


async def test_a_tool_appears_once_what_it_depends_on_has_completed(store: str) -> None:
    @tool
    async def login() -> str:
        return "in"

    @tool(depends_on=["login"])
    async def fetch() -> str:
        return "data"

    async with make([login, fetch], store) as rt:
        model = ScriptedModel([[("fetch", {})], [("login", {})], [("fetch", {})], "done"])
        result = await ReActAgent(rt, model).run("go", thread="t")
        assert offered(model) == [["login"], ["login"], ["fetch", "login"], ["fetch", "login"]]
        answers = [(message.failed, message.content) for message in result.messages if message.role == "tool"]
        assert answers[0][0]
        assert "login" in answers[0][1]
        assert answers[1:] == [(False, "in"), (False, "data")]


@pytest.mark.parametrize("kind", ["react", "plan"])
async def test_only_the_tools_that_an_agent_was_given_are_offered_and_run(store: str, kind: str) -> None:
    ran: list[str] = []

    @tool
    async def pay(amount: int = 1) -> str:
        ran.append("pay")
        return "PAID"

    calls = [("pay", {"amount": 5}), ("echo", {"text": "x"}), ("nobody", {})]
    async with make([echo, pay], store) as rt:
        if kind == "react":
            model = ScriptedModel([calls, "done"])
            result = await ReActAgent(rt, model, tools=["echo"]).run("go", thread="t")
        else:
            planner = ScriptedModel([[("plan", {"command": "create", "steps": ["a"]})], "done"])
            model = ScriptedModel([calls, "did it"])
            result = await PlanExecuteAgent(rt, planner, executor=model, tools=["echo"]).run("go", thread="t")
        assert result.text == "done"
        assert offered(model) == [["echo"], ["echo"]]
        assert ran == []
        answers = [message for message in result.messages if message.role == "tool"][-3:]
        assert [answer.failed for answer in answers] == [True, False, True]
        assert answers[0].content == "permission_denied: 'pay' may not be called here: this agent has echo."
        # It is recorded, also in the audit log.
        refused = next(item for item in (await rt.history(thread="t")).items if item.tool == "pay")
        assert (refused.state.value, refused.error.code if refused.error else "") == ("failed", "permission_denied")
        assert len((await rt.history(thread="t")).items) == 3
        audited = await eventually(rt.audit)
        assert "pay" in repr(audited)
        assert (await rt.hub("t").status("pay")).status == "available"


async def test_calls_of_one_step_run_side_by_side_and_one_failure_harms_no_other(store: str) -> None:
    at_once = most = 0
    full = asyncio.Event()

    @tool
    async def meet(n: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 3:
            full.set()
        await full.wait()
        at_once -= 1
        if n == 2:
            raise ValueError("not me")
        return n

    async with make([meet], store) as rt:
        model = ScriptedModel([[("meet", {"n": n}) for n in range(9)], "done"])
        result = await ReActAgent(rt, model, max_concurrency=3).run("go", thread="t")
        assert most == 3
        answers = [message for message in result.messages if message.role == "tool"]
        assert [answer.failed for answer in answers] == [n == 2 for n in range(9)]
        assert [answer.content for answer in answers if not answer.failed] == [str(n) for n in range(9) if n != 2]
        check_pairs(result.messages)


# Approval.


async def waiting(agent: ReActAgent, thread: str) -> list[str]:
    async def look() -> list[str]:
        return (await agent.look(thread)).waiting_for

    found: list[str] = await eventually(look)
    return found


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_waits_for_a_person_keeps_the_run_running(store: str, approved: bool) -> None:
    async with make([echo], store, policy=Policy(ask=["echo"])) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "done"]))
        run = asyncio.create_task(agent.run("go", thread="t"))
        assert [alias_of(id) for id in await waiting(agent, "t")] == ["react.1.1.1"]
        assert agent.state("t") is AgentState.RUNNING
        view = await agent.look("t")
        assert (view.state, view.turns) == (AgentState.RUNNING, 0)
        if approved:
            assert await rt.approve("react.1.1.1", thread="t")
        else:
            assert await rt.deny("react.1.1.1", thread="t", reason="too dear")
        result = await run
        assert (result.stopped, result.text) == ("finished", "done")
        answer = result.messages[2]
        assert answer.failed is not approved
        assert answer.content == "x" if approved else "too dear" in answer.content
        assert (await agent.look("t")).waiting_for == []


async def test_approval_is_given_from_another_process_after_a_restart(sqlite: str) -> None:
    """The turn waits for an approval, its runtime closes, and days later another runtime resumes it."""
    policy = Policy(ask=["echo"])
    rt = make([echo], sqlite, policy=policy, close_timeout=0.0)
    await rt.open()
    agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})]]))
    await agent.begin("go", thread="t")
    await waiting(agent, "t")
    await rt.close()
    async with make([echo], sqlite, policy=policy) as there:
        other = ReActAgent(there, ScriptedModel(["done"], position="counter"))
        assert (await other.look("t")).state is AgentState.RUNNING
        resumed = asyncio.create_task(other.resume("t"))
        assert [alias_of(id) for id in await waiting(other, "t")] == ["react.1.1.1"]
        async with make([echo], sqlite, policy=policy) as third:
            assert await third.approve("react.1.1.1", thread="t", by="ann")
        result = await resumed
        assert result is not None
        assert (result.text, result.steps, result.messages[2].content) == ("done", 2, "x")
        assert len((await there.history(thread="t")).items) == 1


async def test_a_denied_tool_is_an_observation(store: str) -> None:
    async with make([echo], store, policy=Policy(deny=["echo"])) as rt:
        result = await ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "ok"])).run("go", thread="t")
        assert result.messages[2].content.startswith("permission_denied: ")
        assert (await rt.get("react.1.1.1", thread="t")).error.code == "permission_denied"  # type: ignore[union-attr]


# Long results, and calls inside calls.


async def test_a_long_result_is_cut_and_the_rest_can_be_read(store: str) -> None:
    @tool
    async def book() -> str:
        return "".join(f"{n:06d}\n" for n in range(10_000))

    async with make([book], store) as rt:
        result = await ReActAgent(rt, ScriptedModel([[("book", {})], "ok"]), max_observation=500).run("go", thread="t")
        text = result.messages[2].content
        assert text.startswith("000000\n")
        assert len(text) < 800
        assert "70,000 characters" in text or "of more" in text
        artifact = text.split("artifact ")[1].split("]")[0].split(" ")[0].strip()
        whole = await rt.artifact(artifact)
        assert whole.decode().endswith("009999\n")


@pytest.mark.parametrize("size", [1_000, 200_000])
async def test_what_a_transcript_refers_to_outlives_the_call_it_is_of(store: str, size: int) -> None:
    """Calls are kept for a day, threads for a month: a truncated result's artifact stays as long as the thread that
    names it."""

    @tool(max_result_size=50_000)
    async def book() -> str:
        return "x" * size

    async with make([book], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("book", {})], "ok"]), max_observation=500)
        result = await agent.run("go", thread="t")
        artifact = result.messages[2].content.split("artifact ")[1].split("]")[0].strip()
        tomorrow = rt.clock.now() + 2 * 24 * 3600
        swept = await rt.store.sweep(Keep(now=tomorrow, since=tomorrow), 1_000)
        assert swept.calls >= 2
        assert len(await rt.artifact(artifact)) == size


async def test_a_stop_reaches_calls_that_a_tool_makes(store: str) -> None:
    gate = Gate()

    @tool(timeout=None)
    async def inner() -> str:
        await gate()
        return "never"

    @tool(timeout=None)
    async def outer() -> str:
        return str((await rt.call("inner", {}, thread="t", id="the-inner-one")).output)

    async with make([inner, outer], store) as rt:
        handle = await rt.submit("outer", {}, thread="t")
        await gate.reached.wait()
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state.value == "cancelled"
        record = await eventually(lambda: _ended(rt, "the-inner-one"))
        assert record.state.value == "cancelled"


async def _ended(rt: object, id: str) -> object:
    record = await rt.get(id, thread="t")  # type: ignore[attr-defined]
    return record if record.state.is_terminal else None


async def test_a_stop_reaches_the_turn_of_a_sub_agent_and_its_tool(store: str) -> None:
    gate = Gate()

    @tool(timeout=None)
    async def dig() -> str:
        await gate()
        return "never"

    async with make([dig], store) as rt:
        below = ReActAgent(rt, ScriptedModel([[("dig", {})], "dug", "fine"]), name="below", tools=["dig"])
        rt.add(below.as_tool("research", "Digs."))
        agent = ReActAgent(rt, ScriptedModel([[("research", {"task": "dig"})], "done", "next"]), tools=["research"])
        run = asyncio.create_task(agent.run("go", thread="t"))
        await gate.reached.wait()
        assert await agent.stop("t")
        result = await run
        assert (result.stopped, result.state) == ("cancelled", AgentState.IDLE)
        check_pairs(result.messages)
        inner = "t/react.1.1.1"
        view = await eventually(lambda: _idle(below, inner))
        assert view.stopped == "cancelled"
        assert (await rt.get("below.1.1.1", thread=inner)).state.value == "cancelled"
        gate.open()
        assert (await agent.run("again", thread="t")).stopped == "finished"


async def _idle(agent: ReActAgent, thread: str) -> object:
    view = await agent.look(thread)
    return view if view.turns and view.state is not AgentState.RUNNING else None


async def test_ids_of_any_kind_are_paired(store: str) -> None:
    """Duplicated, empty, taken from an earlier step, or equal to a generated id."""
    async with make([echo], store) as rt:
        answers = iter(
            [
                asks(
                    *one("echo", '{"text":"1"}', "react-1-1_2"),
                    *one("echo", '{"text":"2"}', ""),
                    *one("echo", "{}", ""),
                ),
                asks(*one("echo", '{"text":"3"}', "react-1-1_2"), *one("echo", '{"text":"4"}', "x" * 900)),
                asks(
                    *one("echo", '{"text":"5"}', "x" * 900),
                    *one("echo", '{"text":"6"}', "\x00"),
                    *one("echo", "{}", "\ud800"),
                ),
                ChatReply(text="done"),
            ]
        )
        result = await ReActAgent(rt, Says(lambda _: next(answers))).run("go", thread="t")
        assert len(check_pairs(result.messages)) == 8
        assert len((await rt.history(thread="t")).items) == 8
