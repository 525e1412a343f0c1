"""Checks of agents: what they see, what each decision does, whom they ask, and that one that fails refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.pictures import png
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Says, Streams
from tests.scenarios.kit import make
from tests.scenarios.test_agents_middleware import decisions

from clicket import Condition, Image, Policy, Rule, tool
from clicket.agents import (
    Agent,
    Ask,
    Change,
    Check,
    Limits,
    Middleware,
    Pass,
    PlanExecuteAgent,
    ReActAgent,
    Refuse,
    Turn,
    max_length,
    no_urls_outside,
    pii,
)
from clicket.errors import UsageError
from clicket.model import ToolCall
from clicket.model.chat import ChatReply, ChatRequest, ToolUse
from clicket.testing import ScriptedModel, StepClock, memory_runtime


async def asked(agent: Any, thread: str = "t") -> str:
    """The call that asks a person."""

    async def look() -> list[str]:
        return list((await agent.look(thread)).waiting_for)

    (id,) = await eventually(look)
    return str(id)


def texts(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages]


# The message.


async def test_a_refused_message_is_read_by_no_model_now_or_later() -> None:
    async def polite(turn: Turn, value: str) -> Refuse | Pass:
        return Refuse("Ask politely.") if "damn" in value else Pass()

    async with make() as rt:
        model = ScriptedModel(["hello"])
        agent = ReActAgent(rt, model, checks=[Check(polite, on="input")])
        refused = await agent.run("damn you", thread="t", id="one")
        assert (refused.stopped, refused.text, refused.state, refused.steps) == ("refused", "Ask politely.", "idle", 0)
        assert model.requests == []
        assert await decisions(agent) == [("polite", "input", {"do": "refuse", "text": "Ask politely."})]
        assert (await agent.run("damn you", thread="t", id="one")).turn == 1, "it is the same turn"
        assert (await agent.run("please", thread="t")).text == "hello"
        assert texts(model.requests[0]) == ["please"]
        first = (await agent.history("t")).turns[0]
        assert (first.message, first.messages) == ("damn you", ())


async def test_a_changed_message_is_what_models_read() -> None:
    async with make() as rt:
        model = ScriptedModel(["done", "again"])
        agent = ReActAgent(rt, model, checks=[Check(pii(), on="input")])
        result = await agent.run("I am ann@example.com", thread="t", id="one")
        assert texts(model.requests[0]) == ["I am [email]"]
        assert result.messages[0].content == "I am [email]"
        assert (await agent.run("I am ann@example.com", thread="t", id="one")).turn == 1
        await agent.run("and now?", thread="t")
        assert texts(model.requests[1]) == ["I am [email]", "done", "and now?"]


async def test_the_files_of_a_changed_message_stay_and_those_of_a_refused_one_are_not_read() -> None:
    def polite(turn: Turn, value: str) -> Refuse | None:
        return Refuse("Ask politely.") if "damn" in value else None

    async with make() as rt:
        model = ScriptedModel(["an image"])
        agent = ReActAgent(rt, model, checks=[Check(polite, on="input"), Check(pii(), on="input")])
        photo = Image(png(), name="photo.png")
        await agent.run(["damn this", photo], thread="t")
        (message, _) = (await agent.run(["for ann@example.com", photo], thread="t", id="one")).messages
        assert len(model.requests[0].messages) == 1
        assert message.content.startswith("for [email]")
        assert [file.name for file in message.files] == ["photo.png"]
        assert (await agent.run(["for ann@example.com", photo], thread="t", id="one")).turn == 2


async def test_checks_run_in_their_order_on_what_the_one_before_left() -> None:
    seen: list[str] = []

    def adds(letter: str) -> Check:
        def check(turn: Turn, value: str) -> Change:
            seen.append(value)
            return Change(value + letter)

        return Check(check, on="input", name=f"adds-{letter}")

    async with make() as rt:
        model = ScriptedModel(["done"])
        await ReActAgent(rt, model, checks=[adds("a"), adds("b")]).run("x")
        assert (seen, texts(model.requests[0])) == (["x", "xa"], ["xab"])


# The answer.


def short(turn: Turn, value: str) -> Refuse | Pass:
    return Refuse("One word.") if " " in value else Pass()


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_refused_answer_is_asked_for_again(retries: int) -> None:
    async with make() as rt:
        model = ScriptedModel(["far too long", "short"])
        agent = ReActAgent(rt, model, checks=[Check(short, on="output")], output_retries=retries)
        result = await agent.run("go", thread="t")
        if retries:
            assert (result.stopped, result.text) == ("finished", "short")
            assert texts(model.requests[1]) == ["go", "far too long", "One word."]
            assert [m.content for m in await agent.messages("t")] == ["go", "short"]
        else:
            assert (result.stopped, result.state, result.value) == ("refused", "idle", None)
            assert "short: One word." in result.text
        assert await decisions(agent) == [("short", "output", {"do": "refuse", "text": "One word."})]


async def test_no_reader_gets_a_text_before_the_checks_have_passed_it() -> None:
    async with make() as rt:
        model = Streams(lambda _: "mail ann@example.com now")
        agent = ReActAgent(rt, model, checks=[Check(pii(), on="output")])
        events = [event async for event in agent.stream("go", thread="t")]
        assert not any("ann@" in str(event.data) for event in events)
        assert events[-1].data["text"] == "mail [email] now"
        assert [e.data["text"] for e in events if e.type == "message"] == ["go", "mail [email] now"]


async def test_a_text_beside_calls_is_checked_and_the_calls_are_made() -> None:
    uses = (ToolUse(id="u1", name="echo", arguments='{"text": "a"}'),)
    replies = [
        ChatReply(text="I ask ann@example.com", uses=uses),
        ChatReply(text="no good", uses=uses),
        ChatReply(text="ok"),
    ]

    def not_good(turn: Turn, value: str) -> Refuse | None:
        return Refuse("no") if "good" in value else None

    async with make([echo]) as rt:
        model = Says(lambda request: replies[sum(m.role == "assistant" for m in request.messages)])
        agent = ReActAgent(rt, model, checks=[Check(pii(), on="output"), Check(not_good, on="output")])
        result = await agent.run("go", thread="t")
        assert [m.content for m in result.messages] == ["go", "I ask [email]", "a", "", "a", "ok"]


async def test_a_typed_answer_is_checked_as_json_and_must_still_fit() -> None:
    def discount(turn: Turn, value: str) -> Change:
        return Change(value.replace("100", "'ninety'" if turn.steps == 0 else "90"))

    async with make() as rt:
        agent = ReActAgent(rt, ScriptedModel(['{"euros": 100}', '{"euros": 100}']), output={
            "type": "object", "properties": {"euros": {"type": "number"}}, "required": ["euros"]
        }, checks=[Check(discount, on="output")])  # fmt: skip
        result = await agent.run("go", thread="t")
        assert (result.value, result.text, result.steps) == ({"euros": 90}, '{"euros":90}', 2)
        answers = [event.data["value"] async for event in agent.events("t") if event.type == "answer"]
        assert answers == [{"euros": 90}], "no answer that was refused"


async def test_the_steps_and_the_summary_of_a_plan_are_checked() -> None:
    async with make([echo]) as rt:
        planner = ScriptedModel(
            [
                [("plan", {"command": "create", "title": "p", "steps": ["a"]})],
                [("plan", {"command": "finish", "summary": "see bob@example.com"})],
            ]
        )
        executor = ScriptedModel(["ask ann@example.com"])
        agent = PlanExecuteAgent(rt, planner, executor=executor, checks=[Check(pii(), on="output")])
        result = await agent.run("go", thread="t")
        assert result.text == "see [email]"
        assert "ask [email]" in [m.content for m in result.messages]


async def test_what_a_drive_of_your_own_returns_is_checked() -> None:
    async def drive(turn: Turn) -> tuple[Any, str]:
        return "finished", "far too long"

    async with make() as rt:
        agent = Agent(rt, drive, name="own", limits=Limits(), checks=[Check(short, on="output")])
        assert (await agent.run("go")).stopped == "refused"


# Calls and results.


async def test_calls_are_changed_refused_and_validated_after_the_middleware() -> None:
    class Shouts(Middleware):
        def before_tool(self, turn: Turn, call: ToolCall) -> Change:
            return Change({"text": call.arguments["text"].upper()})

    def rules(turn: Turn, value: ToolCall) -> Change | Refuse | None:
        match value.arguments["text"]:
            case "RM":
                return Refuse("not that one")
            case "WRONG":
                return Change({"text": 7})
            case "A":
                return Change({"text": "checked"})
        return None

    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": text}) for text in ("rm", "wrong", "a", "b")], "done"])
        agent = ReActAgent(rt, model, middleware=[Shouts()], checks=[Check(rules, on="tool_call")])
        read = [m.content for m in (await agent.run("go", thread="t")).messages if m.role == "tool"]
        assert "not that one" in read[0]
        assert read[1].startswith("invalid_input")
        assert read[2:] == ["checked", "B"]
        made = [r.arguments for r in (await rt.history(thread="t")).items if r.state == "completed"]
        assert {"text": "checked"} in made
        assert ("rules", "tool_call", {"do": "change", "value": {"text": "checked"}}) in await decisions(agent)


async def test_changed_arguments_are_judged_by_the_policy() -> None:
    when = [Condition(path="/text", op="==", value="x")]
    policy = Policy(rules=[Rule(verdict="deny", tools=["echo"], when=when)])
    async with make([echo], policy=policy) as rt:
        to_x = Check(lambda turn, value: Change({"text": "x"}), on="tool_call", name="to-x")
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), checks=[to_x])
        read = (await agent.run("go")).messages[-2]
        assert read.failed
        assert "may not be called" in read.content


async def test_only_what_the_model_reads_of_a_result_changes() -> None:
    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": "call +49 30 901820"})], "done"])
        agent = ReActAgent(rt, model, checks=[Check(pii(), on="tool_result")])
        result = await agent.run("go", thread="t")
        assert result.messages[-2].content == "call [phone]"
        assert (await rt.history(thread="t")).items[0].output == "call +49 30 901820"


async def test_tools_limit_a_check_to_some() -> None:
    @tool
    def shout(text: str) -> str:
        return text.upper()

    async with make([echo, shout]) as rt:
        never = Check(lambda turn, value: Refuse("no"), on="tool_call", tools=["sh*"], name="never")
        model = ScriptedModel([[("echo", {"text": "a"}), ("shout", {"text": "a"})], "done"])
        read = [m.failed for m in (await ReActAgent(rt, model, checks=[never]).run("go")).messages if m.role == "tool"]
        assert read == [False, True]


# Asking a person.


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("policy", [None, Policy(ask=["echo"])])
async def test_a_call_about_which_a_check_asks_waits_for_its_own_approval(
    approved: bool, policy: Policy | None
) -> None:
    asks = Check(lambda turn, value: Ask(f"{value.tool} it?"), on="tool_call", name="asks")
    async with make([echo], policy=policy) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), checks=[asks])
        run = asyncio.create_task(agent.run("go", thread="t"))
        id = await asked(agent)
        record = await rt.get(id, thread="t")
        assert record.tool == "echo"
        question = next(event.data for event in record.events if event.type == "approval_requested")
        assert question["reason"].startswith("echo it?")
        assert "rule" not in question, "no grant answers it"
        await (rt.approve(id, thread="t") if approved else rt.deny(id, thread="t", reason="too dear"))
        read = (await run).messages[-2]
        assert read.content == "a" if approved else "too dear" in read.content
        assert await decisions(agent) == [("asks", "tool_call", {"do": "ask", "text": "echo it?"})]


async def test_what_the_policy_denies_is_not_asked() -> None:
    asks = Check(lambda turn, value: Ask("really?"), on="tool_call", name="asks")
    async with make([echo], policy=Policy(deny=["echo"])) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), tools=["echo"], checks=[asks])
        assert (await agent.run("go")).messages[-2].failed


@pytest.mark.parametrize("on", ["input", "output"])
@pytest.mark.parametrize("how", ["approve", "edit", "deny"])
async def test_a_person_decides_about_a_message_or_an_answer_from_any_process(sqlite: str, on: Any, how: str) -> None:
    def asks(turn: Turn, value: str) -> Ask | None:
        return Ask("May it go on?") if "secret" in value else None

    async with make([], sqlite) as rt, make([], sqlite) as other:
        message, answer = ("a secret", "fine") if on == "input" else ("go", "a secret")
        model = ScriptedModel([answer, "better"])
        agent = ReActAgent(rt, model, checks=[Check(asks, on=on)])
        run = asyncio.create_task(agent.run(message, thread="t"))
        id = await asked(agent)
        record = await other.get(id, thread="t")
        assert (record.tool, record.arguments["text"]) == ("check:asks", "a secret")
        shown = [event.data.get("text") for event in await agent.recorded("t", 1)]
        assert on == "input" or "a secret" not in shown
        match how:
            case "approve":
                await other.approve(id, thread="t")
            case "edit":
                await other.approve(id, thread="t", arguments={"text": "a rule"})
            case "deny":
                await other.deny(id, thread="t", reason="too dear")
        result = await run
        done = [value["do"] for _, _, value in await decisions(agent)]
        assert done == ["ask", {"approve": "pass", "edit": "change", "deny": "refuse"}[how]]
        read = texts(model.requests[-1]) if model.requests else []
        if on == "input":
            assert read == {"approve": ["a secret"], "edit": ["a rule"], "deny": []}[how]
            assert result.stopped == ("refused" if how == "deny" else "finished")
        else:
            assert result.text == {"approve": "a secret", "edit": "a rule", "deny": "better"}[how]
            assert how != "deny" or "too dear" in read[-1]


async def test_a_reply_that_waits_for_a_person_is_not_asked_for_again(sqlite: str) -> None:
    """The runtime closes meanwhile, and the next one goes on with the reply on record."""
    checked: list[str] = []

    def asks(turn: Turn, value: str) -> Ask:
        checked.append(value)
        return Ask("May it go on?")

    checks = [Check(asks, on="output"), Check(pii(), on="output")]
    async with make([], sqlite, close_timeout=0.0) as rt:
        agent = ReActAgent(rt, ScriptedModel(["ann@example.com"]), checks=checks)
        await agent.begin("go", thread="t", id="one")
        id = await asked(agent)
    async with make([], sqlite) as rt:
        model = ScriptedModel([])
        agent = ReActAgent(rt, model, checks=checks)
        run = asyncio.create_task(agent.run("go", thread="t", id="one"))
        assert await asked(agent) == id
        await rt.approve(id, thread="t")
        result = await run
        assert (result.text, result.steps, model.requests) == ("[email]", 1, [])
        assert checked == ["ann@example.com"]


async def test_a_turn_that_is_stopped_asks_no_more() -> None:
    asks = Check(lambda turn, value: Ask("May it go on?"), on="output", name="asks")
    async with make() as rt:
        agent = ReActAgent(rt, ScriptedModel(["done"]), checks=[asks])
        run = asyncio.create_task(agent.run("go", thread="t"))
        id = await asked(agent)
        await agent.stop("t")
        assert (await run).stopped == "cancelled"
        assert (await rt.get(id, thread="t")).state == "cancelled"


async def test_the_wait_for_a_person_is_no_time_of_the_turn() -> None:
    asks = Check(lambda turn, value: Ask("May it go on?"), on="output", name="asks")
    clock = StepClock()
    async with memory_runtime([], clock=clock) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", "two"]), checks=[asks], max_seconds=5)
        run = asyncio.create_task(agent.run("go", thread="t"))
        for decide in (rt.deny, rt.approve):
            await clock.settle()
            await clock.run(60)
            await decide(await asked(agent), thread="t")
        assert (await run).text == "two"


# Failing closed.


def raises(turn: Turn, value: Any) -> Any:
    raise ValueError("internal detail")


@pytest.mark.parametrize("broken", [raises, lambda turn, value: True, lambda turn, value: Refuse(5)])  # type: ignore[arg-type]
@pytest.mark.parametrize("on", ["input", "output", "tool_call", "tool_result"])
async def test_a_check_that_fails_refuses(
    on: Any, broken: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": "a"})], "done"])
        agent = ReActAgent(rt, model, checks=[Check(broken, on=on, name="guard")], output_retries=0)
        with caplog.at_level(logging.ERROR, logger="clicket.agents"):
            result = await agent.run("go", thread="t")
        assert "guard" in caplog.text
        seen = result.text + str([m.content for m in result.messages])
        assert "the check 'guard' failed" in seen
        assert "internal detail" not in seen
        if on in ("input", "output"):
            assert result.stopped == "refused"
        else:
            assert [m.failed for m in result.messages if m.role == "tool"] == [True]
            assert [r.state.value for r in (await rt.history(thread="t")).items] == [
                "failed" if on == "tool_call" else "completed"
            ]


async def test_a_result_cannot_be_put_before_a_person() -> None:
    asks = Check(lambda turn, value: Ask("May it?"), on="tool_result", name="asks")
    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), checks=[asks])
        assert "the check 'asks' failed" in (await agent.run("go")).messages[-2].content


# What an agent is.


async def test_an_agent_that_checks_less_is_another_agent() -> None:
    async with make() as rt:
        agents = [ReActAgent(rt, ScriptedModel([]), checks=[Check(max_length(10), on="output")])]
        with pytest.raises(UsageError, match="differ in middleware"):
            ReActAgent(rt, ScriptedModel([]), checks=[Check(max_length(20), on="output")])
        agents.append(ReActAgent(rt, ScriptedModel([]), checks=[Check(max_length(10), on="output")]))


async def test_a_turn_that_goes_on_with_fewer_checks_says_so(sqlite: str) -> None:
    asks = Check(lambda turn, value: Ask("May it go on?"), on="output", name="asks")
    async with make([], sqlite, close_timeout=0.0) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one"]), checks=[asks])
        await agent.begin("go", thread="t", id="one")
        await asked(agent)
    async with make([], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel([]), on_change="refuse")
        with pytest.raises(Exception, match="middleware"):
            await agent.run("go", thread="t", id="one")
        assert (await agent.look("t")).waiting_for == [], "nobody is asked any more"


@pytest.mark.parametrize(
    ("make_check", "says"),
    [
        (lambda: Check(short, on="outptu"), "'output'"),
        (lambda: Check("short", on="output"), "function"),
        (lambda: Check(short, on="output", tools=["echo"]), "for tool_call"),
        (lambda: Check(short, on="tool_call", tools="echo"), "list"),
        (lambda: Check(lambda turn, value: None, on="output"), "name="),
        (lambda: Check(pii(), on="tool_call"), "it checks input and output"),
        (lambda: pii(["mail"]), "email"),
        (lambda: max_length(0), "max_length"),
        (lambda: no_urls_outside("example.com"), "list"),
        (lambda: no_urls_outside(["https://example.com"]), "not a host"),
    ],
)
def test_mistakes_are_told_when_a_check_is_made(make_check: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make_check()


async def test_mistakes_are_told_when_an_agent_is_made() -> None:
    async with make() as rt:
        for wrong, says in (([short], "list of Check"), ([Check(short, on="output")] * 2, "name of its own")):
            with pytest.raises(UsageError, match=says):
                ReActAgent(rt, ScriptedModel([]), checks=wrong)


# Messages while a turn runs.


@pytest.mark.parametrize(("text", "turns"), [("and please hurry", 1), ("damn, hurry", 2)])
async def test_a_message_to_a_running_turn_that_a_check_does_not_let_pass_begins_a_turn_of_its_own(
    text: str, turns: int
) -> None:
    def polite(turn: Turn, value: str) -> Refuse | None:
        return Refuse("Ask politely.") if "damn" in value else None

    async def answer(request: ChatRequest) -> Any:
        if len(model.requests) == 1:
            await agent.send(text, thread="t", when="now")
            return [("echo", '{"text": "a"}')]
        return "done"

    async with make([echo]) as rt:
        model = Says(answer)
        agent = ReActAgent(rt, model, checks=[Check(polite, on="input")])
        assert (await agent.run("go", thread="t")).text == "done"

        async def ended() -> bool:
            return (await agent.look("t")).turns == turns and not await agent.queued("t")

        await eventually(ended)
        assert (text in texts(model.requests[-1])) is (turns == 1)
        last = (await agent.history("t")).turns[-1]
        assert (last.stopped, last.text) == (("finished", "done") if turns == 1 else ("refused", "Ask politely."))
