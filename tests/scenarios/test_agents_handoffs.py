"""Handoffs: a turn goes on with another agent, in the thread and under the limits of the one that began it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, check_pairs
from tests.scenarios.kit import make

from clicket import Runtime, ToolContext, tool
from clicket.agents import (
    Agent,
    AgentBusy,
    Ask,
    Check,
    Handoff,
    Limits,
    Memory,
    Middleware,
    PlanExecuteAgent,
    ReActAgent,
    Refuse,
    Turn,
    Workspace,
)
from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatMessage, ChatRequest

TO_BILLING = ("hand_to_billing", '{"reason": "a refund"}')
TO_TRIAGE = ("hand_to_triage", '{"reason": "not mine"}')


def script(*answers: Any) -> Says:
    """Answers in turn."""
    rest = iter(answers)
    return Says(lambda _: next(rest))


def texts(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages]


def offered(request: ChatRequest) -> list[str]:
    return [offer.name for offer in request.tools]


async def entries(rt: Runtime, turn: int = 1, agent: str = "triage") -> list[dict[str, Any]]:
    record = await rt.get(f"turn-{turn}", thread=f"agent:{agent}/t")
    return [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]


async def handed(rt: Runtime, turn: int = 1) -> list[dict[str, Any]]:
    return [entry for entry in await entries(rt, turn) if entry["e"] == "handoff"]


def results(messages: list[ChatMessage]) -> list[tuple[bool, str]]:
    return [(message.failed, message.content) for message in messages if message.role == "tool"]


@tool
async def refund(order: int) -> str:
    return f"refunded {order}"


@tool
async def look_up(order: int) -> str:
    return f"order {order}"


async def test_the_other_agent_goes_on_with_its_own_system_model_tools_and_output(store: str) -> None:
    first = script([("look_up", '{"order": 7}')], [TO_BILLING])
    second = script([("refund", '{"order": 7}')], '{"n": 7}')
    async with make([refund, look_up], store) as rt:
        billing = ReActAgent(rt, second, name="billing", system="You refund.", tools=["refund"], output=dict[str, int])
        triage = ReActAgent(
            rt, first, name="triage", system="You sort.", tools=["look_up"],
            handoffs=[Handoff(billing, description="For money.")],
        )  # fmt: skip
        result = await triage.run("my money back", thread="t")
        assert (result.agent, result.value, result.steps, result.thread, result.turn) == (
            "billing",
            {"n": 7},
            4,
            "t",
            1,
        )
        assert (await billing.look("t")).turns == 0, "the turn is in the thread of the agent that began it"
        check_pairs(result.messages)
        assert offered(first.requests[0]) == ["look_up", "hand_to_billing"]
        assert "For money." in first.requests[0].tools[1].description
        asked = second.requests[0]
        assert asked.messages[0].content.startswith("You refund.")
        assert offered(asked) == ["refund"]
        assert texts(asked)[1:3] == ["my money back", ""]
        assert texts(asked)[-2:] == [
            "billing goes on with this conversation.",
            "[triage has handed this conversation to you, billing: a refund]",
        ]
        (entry,) = await handed(rt)
        assert {name: entry[name] for name in ("agent", "by", "reason", "step", "system", "tools", "model")} == {
            "agent": "billing", "by": "triage", "reason": "a refund", "step": 2, "system": "You refund.",
            "tools": ["refund"], "model": "says",
        }  # fmt: skip
        events = [event async for event in triage.events("t")]
        (event,) = [event for event in events if event.type == "handoff"]
        assert (event.data["from"], event.data["to"], event.data["reason"]) == ("triage", "billing", "a refund")
        assert events[-1].data["agent"] == "billing"
        assert (await triage.history("t")).turns[0].agent == "billing"


async def test_a_turn_without_handoffs_writes_nothing_more() -> None:
    async with make([echo]) as rt:
        plain = await ReActAgent(rt, script("a"), name="triage").run("go", thread="t")
        assert plain.agent == "triage"
        begun, _, ended = await entries(rt)
        assert "handoffs" not in begun
        assert "max_handoffs" not in begun["limits"]
        assert "agent" not in ended


async def test_two_agents_hand_to_each_other_by_name() -> None:
    async with make([echo]) as rt:
        triage = ReActAgent(rt, script([TO_BILLING], "sorted"), name="triage", handoffs=["billing"])
        ReActAgent(rt, script([TO_TRIAGE]), name="billing", handoffs=["triage"])
        result = await triage.run("go", thread="t")
        assert (result.text, result.agent) == ("sorted", "triage")
        assert [(each["by"], each["agent"]) for each in await handed(rt)] == [
            ("triage", "billing"),
            ("billing", "triage"),
        ]


async def test_the_next_turn_begins_with_the_last_agent() -> None:
    async with make([echo]) as rt:
        second = script("one", "two", [TO_TRIAGE])
        first = script([TO_BILLING], "three", "four")
        billing = ReActAgent(rt, second, name="billing", handoffs=["triage"])
        triage = ReActAgent(rt, first, name="triage", handoffs=[billing])
        said = [(r.text, r.agent) for r in [await triage.run(f"{n}", thread="t") for n in range(4)]]
        assert said == [("one", "billing"), ("two", "billing"), ("three", "triage"), ("four", "triage")]
        assert [len(await handed(rt, turn)) for turn in (1, 2, 3, 4)] == [1, 1, 2, 0]
        assert (await entries(rt, 2))[0]["agent"] == "triage", "the thread is still its own"


async def test_or_with_the_first_one() -> None:
    async with make([echo]) as rt:
        billing = ReActAgent(rt, script("one"), name="billing")
        triage = ReActAgent(rt, script([TO_BILLING], "two"), name="triage", handoffs=[billing], return_to="first")
        assert (await triage.run("a", thread="t")).agent == "billing"
        assert (await triage.run("b", thread="t")).agent == "triage"


async def test_of_a_batch_other_calls_run_first_and_the_first_handoff_counts() -> None:
    order: list[str] = []

    @tool
    async def note(text: str) -> str:
        await asyncio.sleep(0)
        order.append(text)
        return text

    def answered(request: ChatRequest) -> str:
        order.append("asked")
        return "done"

    async with make([note]) as rt:
        billing = ReActAgent(rt, Says(answered), name="billing")
        ReActAgent(rt, script(), name="sales")
        batch = [TO_BILLING, ("hand_to_sales", '{"reason": "x"}'), ("note", '{"text": "noted"}')]
        triage = ReActAgent(rt, script(batch), name="triage", handoffs=[billing, "sales"])
        result = await triage.run("go", thread="t")
        assert (result.agent, order) == ("billing", ["noted", "asked"])
        read = results(result.messages)
        assert [failed for failed, _ in read] == [False, True, False]
        assert "hands over once, and hand_to_billing came first" in read[1][1]


async def test_over_the_limit_the_turn_goes_on() -> None:
    async with make([echo]) as rt:
        first = script([TO_BILLING], [TO_BILLING], "I answer")
        ReActAgent(rt, script([TO_TRIAGE]), name="billing", handoffs=["triage"], max_handoffs=50)
        triage = ReActAgent(rt, first, name="triage", handoffs=["billing"], max_handoffs=2)
        result = await triage.run("go", thread="t")
        assert (result.text, result.agent, result.stopped) == ("I answer", "triage", "finished")
        assert "max_handoffs" in results(result.messages)[-1][1]
        assert len(await handed(rt)) == 2


@pytest.mark.parametrize(
    ("history", "reads"),
    [
        ("last", ["second", "[triage has handed this conversation to you, billing: a refund]"]),
        ("none", ["[triage has handed this conversation to you, billing: a refund]"]),
    ],
)
async def test_what_the_other_agent_reads(history: Any, reads: list[str]) -> None:
    async with make([echo]) as rt:
        second = script("done", "again")
        billing = ReActAgent(rt, second, name="billing")
        first = script("hello", [("echo", '{"text": "x"}'), TO_BILLING])
        triage = ReActAgent(rt, first, name="triage", handoffs=[Handoff(billing, history=history)])
        await triage.run("first", thread="t")
        result = await triage.run("second", thread="t")
        assert texts(second.requests[0]) == reads
        assert result.messages[0].content == "first", "the thread keeps all"
        check_pairs(result.messages)
        await triage.run("third", thread="t")
        assert texts(second.requests[1]) == [*reads, "done", "third"], "also in the next turn"


async def test_limits_and_spend_are_those_of_the_agent_that_began() -> None:
    async with make([echo]) as rt:
        second = Says(lambda _: [("echo", '{"text": "x"}')])
        billing = ReActAgent(rt, second, name="billing", max_steps=50)
        triage = ReActAgent(rt, script([TO_BILLING]), name="triage", max_steps=3, handoffs=[billing])
        result = await triage.run("go", thread="t")
        assert (result.stopped, result.steps, second.asked) == ("max_steps", 3, 2)
        assert [(row.key, row.entries) for row in (await rt.spend.report("agent")).items] == [("triage", 3)]


async def test_options_of_a_run_hold_for_the_other_agent_too() -> None:
    async with make([refund, look_up]) as rt:
        second = script([("refund", '{"order": 1}')], '{"n": 1}')
        billing = ReActAgent(rt, second, name="billing", system="You refund.")
        own = script()
        triage = ReActAgent(rt, own, name="triage", handoffs=[billing])
        result = await triage.run(
            "go", thread="t", tools=["look_up"], model=script([TO_BILLING]), system="Be brief.", output=dict[str, int],
            limits=Limits(max_steps=3),
        )  # fmt: skip
        assert (result.agent, result.value) == ("billing", {"n": 1})
        assert results(result.messages)[1][0], "the caller has not allowed it"
        assert second.requests[0].messages[0].content.startswith("You refund.")
        assert own.asked == 0


async def test_checks_of_messages_stay_and_other_checks_are_the_other_agents() -> None:
    seen: list[str] = []

    def note(name: str, refuses: bool = False) -> Any:
        def judge(turn: Turn, value: Any) -> Any:
            seen.append(name)
            return Refuse("no") if refuses else None

        return judge

    async with make([echo]) as rt:
        billing = ReActAgent(
            rt, script("bad", "good"), name="billing", output_retries=1,
            checks=[Check(note("other in", refuses=True), on="input", name="in"), Check(note("other out"), on="output", name="out")],
        )  # fmt: skip
        triage = ReActAgent(
            rt, script([TO_BILLING]), name="triage", handoffs=[billing],
            checks=[Check(note("in"), on="input", name="in"), Check(note("out"), on="output", name="out")],
        )  # fmt: skip
        assert (await triage.run("go", thread="t")).text == "bad"
        assert (await triage.run("again", thread="t")).text == "good"
        assert seen == ["in", "other out", "in", "other out"]


async def test_tools_of_the_first_agents_middleware_are_gone() -> None:
    class Brings(Middleware):
        def tools(self, turn: Turn) -> list[Any]:
            return [refund]

    async with make([echo]) as rt:
        second = script([("refund", '{"order": 1}')], "done")
        billing = ReActAgent(rt, second, name="billing", tools=["echo"])
        triage = ReActAgent(
            rt, script([TO_BILLING]), name="triage", tools=[], handoffs=[billing], middleware=[Brings()]
        )
        result = await triage.run("go", thread="t")
        assert offered(second.requests[0]) == ["echo"]
        assert results(result.messages)[1][0]


async def test_a_check_or_a_person_decides_about_a_handoff() -> None:
    async with make([echo]) as rt:
        refuses = Check(lambda turn, call: Refuse("stay"), on="tool_call", tools=["hand_to_billing"], name="r")
        billing = ReActAgent(rt, script("done"), name="billing")
        one = ReActAgent(rt, script([TO_BILLING], "mine"), name="triage", handoffs=[billing], checks=[refuses])
        result = await one.run("go", thread="t")
        assert (result.agent, results(result.messages)[0][0]) == ("triage", True)
        asks = Check(lambda turn, call: Ask("really?"), on="tool_call", tools=["hand_to_billing"], name="a")
        two = ReActAgent(rt, script([TO_BILLING]), name="asking", handoffs=[billing], checks=[asks])
        running = asyncio.ensure_future(two.run("go", thread="t"))

        async def waits() -> list[str]:
            return (await two.look("t")).waiting_for

        (call,) = await eventually(waits)
        await rt.approve(call)
        assert (await running).agent == "billing"


async def test_a_model_hands_only_to_agents_of_its_list() -> None:
    async with make([echo]) as rt:
        billing = ReActAgent(rt, script("done"), name="billing")
        ReActAgent(rt, script(), name="triage", handoffs=[billing])
        other = ReActAgent(rt, script([TO_BILLING], "mine"), name="other", tools=["echo"])
        result = await other.run("go", thread="t")
        assert (result.agent, results(result.messages)[0][0]) == ("other", True)


async def test_a_plan_can_be_handed_to() -> None:
    plan = ("plan", '{"command": "create", "title": "x", "steps": [{"text": "a", "depends_on": []}]}')
    async with make([echo]) as rt:
        executor = script([("echo", '{"text": "x"}')], "did it")
        planner = PlanExecuteAgent(rt, script([plan], "all done"), executor=executor, name="billing")
        triage = ReActAgent(rt, script([TO_BILLING]), name="triage", handoffs=[planner])
        result = await triage.run("go", thread="t")
        assert (result.text, result.agent, result.plan is not None) == ("all done", "billing", True)
        with pytest.raises(UsageError, match="handoffs"):
            PlanExecuteAgent(rt, script(), name="p", handoffs=["triage"])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("billing", "is a list"),
        (["triage"], "to itself"),
        (["billing", Handoff("billing")], "twice"),
        (["a" * 57], "56 letters"),
        ([7], "not an agent"),
        ([Handoff("billing", history="some")], "history"),  # type: ignore[arg-type]
    ],
)
async def test_wrong_handoffs_are_refused(given: Any, says: str) -> None:
    async with make([echo]) as rt:
        with pytest.raises(UsageError, match=says):
            ReActAgent(rt, script(), name="triage", handoffs=given)


async def test_an_agent_that_is_not_there_is_named_before_a_turn_begins() -> None:
    async with make([echo]) as rt, make([echo]) as other:
        triage = ReActAgent(rt, script(), name="triage", handoffs=["biling"])
        for send in (triage.run, triage.begin, triage.send):
            with pytest.raises(UsageError, match="'biling'"):
                await send("go", thread="t")  # type: ignore[operator]
        assert (await triage.look("t")).turns == 0
        with pytest.raises(UsageError, match="of this runtime"):
            ReActAgent(rt, script(), name="x", handoffs=[ReActAgent(other, script(), name="billing")])


async def test_a_tool_of_the_users_is_not_taken_for_a_handoff() -> None:
    @tool
    async def hand_to_billing(reason: str) -> str:
        return "paper"

    async with make([hand_to_billing]) as rt:
        with pytest.raises(UsageError, match="'hand_to_billing'"):
            ReActAgent(rt, script(), name="triage", handoffs=["billing"])


async def test_handoffs_are_part_of_what_an_agent_may_do() -> None:
    async with make([echo]) as rt:
        agents = [ReActAgent(rt, script(), name="triage")]
        with pytest.raises(UsageError, match="handoffs"):
            agents.append(ReActAgent(rt, script(), name="triage", handoffs=["billing"]))


# After a crash.


def pair(rt: Runtime, first: Any, second: Any, **options: Any) -> ReActAgent:
    billing = ReActAgent(rt, second, name="billing", **options)
    return ReActAgent(rt, first, name="triage", handoffs=[billing])


async def interrupted(store: str, second: Says | None = None) -> None:
    """A turn that was handed over, and whose other agent was asked."""
    model = second or Says(Gate())
    async with make([echo, refund], store, close_timeout=0.0) as rt:
        triage = pair(rt, script([TO_BILLING]), model, system="Refund.")
        await triage.begin("go", thread="t")
        await model.answer.reached.wait()  # type: ignore[attr-defined]


async def test_another_process_goes_on_with_the_other_agent(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        second = script("done")
        triage = pair(rt, script(), second, system="Refund.")
        result = await triage.run("go", thread="t")
        assert (result.text, result.agent, result.turn) == ("done", "billing", 1)
        assert texts(second.requests[0])[-1].startswith("[triage has handed")
        assert len(await handed(rt)) == 1


async def test_a_process_without_the_other_agent_waits_for_it(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        triage = ReActAgent(rt, script(), name="triage", handoffs=["billing"])
        await rt.recover()

        async def waits() -> bool:
            return (await triage.look("t")).waiting_for == ["agent:billing"]

        await eventually(waits)
        ReActAgent(rt, script("done"), name="other")
        made = ReActAgent(rt, script("done"), name="billing", system="Refund.")
        result = await triage.resume("t")
        assert result is not None
        assert (result.text, result.agent) == ("done", made.name)


async def test_a_turn_that_waits_for_an_agent_can_be_stopped_and_says_so(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        triage = ReActAgent(rt, script(), name="triage", handoffs=["billing"])
        await rt.recover()

        async def waits() -> bool:
            return (await triage.look("t")).waiting_for == ["agent:billing"]

        await eventually(waits)
        assert await triage.stop("t")
        result = await triage.wait("t", 1)
        assert result is not None
        assert result.stopped == "cancelled"
        assert result.messages[0].content == "go"


async def test_another_message_is_told_what_the_turn_waits_for(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        triage = ReActAgent(rt, script(), name="triage")
        await rt.recover()

        async def waits() -> bool:
            return (await triage.look("t")).waiting_for == ["agent:billing"]

        await eventually(waits)
        with pytest.raises(AgentBusy, match="the agent 'billing'"):
            await triage.run("later", thread="t")
        await triage.stop("t")


async def test_an_agent_that_has_changed_goes_on_as_it_was_recorded(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        second = script([("echo", '{"text": "x"}')], "done")
        triage = pair(rt, script(), second, system="Refund quickly.", tools=["refund"])
        result = await triage.run("go", thread="t")
        assert second.requests[0].messages[0].content.startswith("Refund.")
        assert offered(second.requests[0]) == ["refund"]
        assert results(result.messages)[1][0]
        (changed,) = [entry for entry in await entries(rt) if entry["e"] == "changed"]
        assert (changed["agent"], sorted(changed["what"])) == ("billing", ["system", "tools"])


async def test_or_ends_the_turn_if_it_refuses_to(sqlite: str) -> None:
    await interrupted(sqlite)
    async with make([echo, refund], sqlite) as rt:
        triage = pair(rt, script(), script(), system="Refund.", tools=["refund"], on_change="refuse")
        with pytest.raises(ClicketError, match="the agent 'billing' has changed"):
            await triage.run("go", thread="t", turn=1)
        (turn,) = (await triage.history("t")).turns
        assert (turn.code, turn.agent) == ("agent_changed", "billing")
        assert [m.role for m in turn.messages] == ["user", "assistant", "tool", "user"], "what was done is kept"


async def test_agents_of_one_name_stand_beside_each_other() -> None:
    """One pair for each request: each turn goes on with the agent that its own first agent was given."""
    async with make([echo]) as rt:
        pairs = [pair(rt, script([TO_BILLING], [TO_BILLING]), Says(lambda _, n=n: f"pair {n}")) for n in range(2)]
        said = await asyncio.gather(*(each.run("go", thread=f"t{n}") for n, each in enumerate(pairs)))
        assert [result.text for result in said] == ["pair 0", "pair 1"]


async def test_a_called_agent_hands_over_too() -> None:
    async with make([refund]) as rt:
        billing = ReActAgent(rt, script([("refund", '{"order": 3}')], "refunded"), name="billing")
        triage = ReActAgent(rt, script([TO_BILLING]), name="triage", handoffs=[billing])
        rt.add(triage.as_tool("help", "Helps."))
        boss = ReActAgent(rt, script([("help", '{"task": "refund 3"}')], "thanks"), name="boss", tools=["help"])
        result = await boss.run("go", thread="t")
        assert results(result.messages) == [(False, "refunded")]


async def test_a_drive_of_your_own_hands_over() -> None:
    from clicket.agents import Actor, Loop, Thinker

    async with make([echo]) as rt:
        billing = ReActAgent(rt, script("done"), name="billing")
        loop = Loop(Thinker(script([TO_BILLING])), Actor())

        async def drive(turn: Turn) -> Any:
            assert list(turn.handoffs) == ["hand_to_billing"]
            return await loop(turn)

        own = Agent(rt, drive, name="triage", limits=Limits(), handoffs=[billing])
        result = await own.run("go", thread="t")
        assert (result.text, result.agent) == ("done", "billing")


async def test_sensitive_values_in_a_reason_are_masked() -> None:
    @tool(sensitive=["pin"])
    async def unlock(pin: str, ctx: ToolContext) -> str:
        return "open"

    async with make([unlock]) as rt:
        second = script("done")
        first = script([("unlock", '{"pin": "verysecret77"}')], [("hand_to_billing", '{"reason": "pin verysecret77"}')])
        triage = pair(rt, first, second)
        await triage.run("go", thread="t")
        assert "verysecret77" in texts(second.requests[0])[-1], "the model gets it"
        assert "verysecret77" not in str(await entries(rt))
        assert "verysecret77" not in str((await triage.history("t")).turns)


async def test_the_other_agents_middleware_brings_its_tools(store: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("closed on Mondays")
    asked: list[list[str]] = []

    def answer(request: ChatRequest) -> Any:
        asked.append(offered(request))
        return [
            [("remember", '{"fact": "The user has order 7."}'), ("read_file", '{"path": "note.txt"}')],
            [TO_TRIAGE],
        ][len(asked) - 1]

    async with make([], store) as rt:
        here = [Memory(), Workspace(tmp_path, write=False, shell=False)]
        billing = ReActAgent(rt, Says(answer), name="billing", handoffs=["triage"], middleware=here)
        triage = ReActAgent(rt, script([TO_BILLING], "done"), name="triage", handoffs=[billing])
        result = await triage.run("where is it?", thread="t")
        assert result.text == "done"
        assert {"remember", "recall", "read_file"} <= {*asked[0]}
        read = [text for failed, text in results(result.messages) if not failed]
        assert any("Remembered" in text for text in read)
        assert any("closed on Mondays" in text for text in read)
        assert [fact.text for fact in await rt.memory.list()] == ["The user has order 7."]
