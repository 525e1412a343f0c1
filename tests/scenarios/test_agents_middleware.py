"""Middleware of agents: what each method can change, what is recorded of it, and what its errors look like."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.tools import echo
from tests.scenarios.agent_kit import Says, Streams, check_pairs
from tests.scenarios.kit import make

from clicket import ToolResult, tool
from clicket.agents import AgentResult, Change, Edit, Middleware, PlanExecuteAgent, ReActAgent, Refuse, Turn
from clicket.errors import MiddlewareFailed, UsageError
from clicket.model import ToolCall
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest
from clicket.testing import ScriptedModel


async def decisions(agent: Any, thread: str = "t") -> list[tuple[str, str, Any]]:
    events = [event async for event in agent.events(thread)]
    return [(e.data["by"], e.data["on"], e.data["value"]) for e in events if e.type == "decision"]


def system_of(request: ChatRequest) -> str:
    return request.messages[0].content


async def test_a_middleware_that_changes_nothing_writes_nothing() -> None:
    class Silent(Middleware):
        def before_model(self, turn: Turn, request: ChatRequest) -> None: ...
        async def after_model(self, turn: Turn, reply: ChatReply) -> None: ...
        def before_tool(self, turn: Turn, call: ToolCall) -> None: ...
        def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> None: ...
        def at_end(self, turn: Turn, result: AgentResult) -> None: ...
        def instructions(self, turn: Turn) -> str:
            return ""

    async def kinds(*middleware: object) -> list[str]:
        async with make([echo]) as rt:
            agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), middleware=middleware)
            assert (await agent.run("go", thread="t")).text == "done"
            record = await rt.get("turn-1", thread="agent:react/t")
            return [event.data["entry"]["e"] for event in record.events if "entry" in event.data]

    assert await kinds(Silent()) == await kinds()


async def test_instructions_are_recorded_when_they_change() -> None:
    class Countdown(Middleware):
        def instructions(self, turn: Turn) -> str:
            return "Hurry." if turn.steps >= 2 else "Take your time."

    async with make([echo]) as rt:
        model = Says(lambda request: "done" if len(request.messages) > 6 else [("echo", '{"text": "a"}')])
        agent = ReActAgent(rt, model, system="Be kind.", middleware=[Countdown()])
        await agent.run("go", thread="t")
        assert [system_of(request) for request in model.requests] == [
            "Be kind.\n\nTake your time.",
            "Be kind.\n\nTake your time.",
            "Be kind.\n\nHurry.",
            "Be kind.\n\nHurry.",
        ]
        assert await decisions(agent) == [
            ("Countdown", "instructions", "Take your time."),
            ("Countdown", "instructions", "Hurry."),
        ]


async def test_tools_that_a_middleware_brings_are_offered_and_run() -> None:
    @tool
    def remember(fact: str) -> str:
        """Remembers a fact."""
        return f"noted: {fact}"

    class Memory(Middleware):
        def tools(self, turn: Turn) -> list[Any]:
            return [remember]

    async with make([echo]) as rt:
        model = Says(lambda r: "done" if r.messages[-1].role == "tool" else [("remember", '{"fact": "tea"}')])
        agent = ReActAgent(rt, model, tools=["echo"], middleware=[Memory()])
        result = await agent.run("go", thread="t")
        assert [offer.name for offer in model.requests[0].tools] == ["echo", "remember"]
        assert [m.content for m in result.messages if m.role == "tool"] == ["noted: tea"]
        # An agent without it cannot call the tool.
        other = ReActAgent(rt, Says(model.answer), name="other", tools=["echo"])
        refused = (await other.run("go", thread="t")).messages[-2]
        assert refused.failed
        assert "there is no tool 'remember' for callers" in refused.content


class Brings(Middleware):
    def __init__(self, *tools: Any) -> None:
        self._tools = tools

    def tools(self, turn: Turn) -> list[Any]:
        return [*self._tools]


async def test_a_tool_that_middleware_brings_is_for_turns_of_its_agents_alone() -> None:
    @tool
    def vault(key: str) -> str:
        return f"the secret of {key}"

    def answer(request: ChatRequest) -> Any:
        return "done" if request.messages[-1].role == "tool" else [("vault", '{"key": "k"}')]

    async with make([echo]) as rt:
        brings = Brings(vault)
        for name in ("one", "two"):
            agent = ReActAgent(rt, Says(answer), name=name, middleware=[brings])
            read = [m for m in (await agent.run("go", thread="t")).messages if m.role == "tool"]
            assert [m.content for m in read] == ["the secret of k"]
        other = ReActAgent(rt, Says(answer), name="other")
        refused = (await other.run("go", thread="t")).messages[-2]
        assert refused.failed
        assert "only the agents whose middleware brings it can call it" in refused.content
        for caller in (rt, rt.acting_for("mallory")):
            result = await caller.call("vault", {"key": "k"}, thread="t")
            assert result.error is not None
            assert result.error.code == "tool_not_found"
        assert [info.name for info in await rt.tools()] == ["echo"]
        assert [offer.name for offer in await rt.host.offers("t")] == ["echo"]


async def test_two_tools_of_one_name_are_refused() -> None:
    def made(text: str) -> Any:
        @tool(name="vault")
        def open_it() -> str:
            return text

        return open_it

    model = ScriptedModel([[("vault", {})], "done", "done"])
    async with make([echo]) as rt:
        await ReActAgent(rt, model, middleware=[Brings(made("a"))]).run("go")
        for other in (Brings(made("b")), Brings(tool(echo.fn, name="echo"))):
            with pytest.raises(UsageError, match="the middleware 'Brings' brings a tool: two tools are named"):
                await ReActAgent(rt, model, name="other", middleware=[other], replace=True).run("go")
        with pytest.raises(UsageError, match="two tools are named 'vault'"):
            rt.add(made("c"))


async def test_an_edit_adds_drops_narrows_and_instructs() -> None:
    class Edits(Middleware):
        name = "edits"

        def before_model(self, turn: Turn, request: ChatRequest) -> Edit | None:
            if turn.number == 2 and turn.steps == 0:
                old = [m.id for m in request.messages if m.content == "asked: a"]
                hint = ChatMessage(role="user", content="a hint")
                return Edit(drop=old, add=[hint], tools=["echo"], instructions="Only echo.")
            return None

    @tool
    def ask(text: str) -> str:
        return f"asked: {text}"

    async with make([echo, ask]) as rt:
        model = Says(lambda r: "done" if r.messages[-1].role == "tool" else [("ask", '{"text": "a"}')])
        agent = ReActAgent(rt, model, middleware=[Edits()])
        await agent.run("one", thread="t")
        result = await agent.run("two", thread="t")
        first = model.requests[2]
        assert system_of(first) == "Only echo."
        assert [m.content for m in first.messages[1:]] == ["one", "done", "two", "a hint"], (
            "with the call of the result"
        )
        assert [offer.name for offer in first.tools] == ["echo"]
        assert not any(message.id for message in first.messages), "the model gets no ids"
        denied = [m for m in result.new_messages if m.role == "tool"]
        assert denied[0].failed
        assert "this request offered echo" in denied[0].content
        later = model.requests[3]
        assert [m.content for m in later.messages if m.role == "user"] == ["one", "two", "a hint"]
        assert [offer.name for offer in later.tools] == ["echo", "ask"], "for one request"
        check_pairs(later.messages)
        assert "a hint" in [m.content for m in await agent.messages("t")]


async def test_a_derived_request_has_the_edits_of_middleware_that_comes_after_it() -> None:
    class Last(Middleware):
        is_derived = True

        def before_model(self, turn: Turn, request: ChatRequest) -> Any:
            return msgspec.structs.replace(request, messages=[request.messages[0], request.messages[-1]])

    class Hurry(Middleware):
        def before_model(self, turn: Turn, request: ChatRequest) -> Edit:
            return Edit(instructions="Hurry.")

    async with make([echo]) as rt:
        model = Says(lambda request: "done" if request.messages[-1].role == "tool" else [("echo", '{"text": "a"}')])
        agent = ReActAgent(rt, model, system="Be kind.", middleware=[Last(), Hurry()])
        await agent.run("go", thread="t")
        assert [len(request.messages) for request in model.requests] == [2, 2]
        assert all(system_of(request).endswith("Hurry.") for request in model.requests)


async def test_replies_are_changed_before_they_are_recorded_and_no_piece_of_them_is_shown() -> None:
    class Polite(Middleware):
        async def after_model(self, turn: Turn, reply: ChatReply) -> ChatReply | None:
            if "damn" not in reply.text:
                return None
            return ChatReply(text=reply.text.replace("damn", "very"), usage=reply.usage)

    async with make() as rt:
        agent = ReActAgent(rt, Streams(lambda _: "a damn good tea"), middleware=[Polite()])
        events = [event async for event in agent.stream("go", thread="t")]
        assert not any("damn" in str(event.data) for event in events if event.type != "decision")
        assert (await agent.messages("t"))[-1].content == "a very good tea"
        assert await decisions(agent) == [
            ("Polite", "after_model", {"do": "change", "was": {"text": "a damn good tea", "calls": []}})
        ]


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_refused_answer_is_asked_for_again(retries: int) -> None:
    class Digits(Middleware):
        def after_model(self, turn: Turn, reply: ChatReply) -> Refuse | None:
            return None if reply.uses or reply.text.isdigit() else Refuse("Answer with digits alone.")

    async with make([echo]) as rt:
        model = ScriptedModel(["three", "3 (three)", "3"])
        agent = ReActAgent(rt, model, middleware=[Digits()], output_retries=retries)
        result = await agent.run("How many?", thread="t")
        if retries:
            assert (result.stopped, result.text, result.steps) == ("finished", "3", 3)
            seen = [message.content for message in model.requests[2].messages]
            assert seen == [
                "How many?", "three", "Answer with digits alone.", "3 (three)", "Answer with digits alone.",
            ]  # fmt: skip
            assert [m.content for m in await agent.messages("t")] == ["How many?", "3"]
        else:
            assert (result.stopped, result.ended) == ("refused", None)
            assert "Digits" in result.text
            assert "Answer with digits alone." in result.text
        events = [event async for event in agent.events("t")]
        assert not any(e.data.get("text") == "three" for e in events if e.type == "message")


async def test_calls_are_changed_and_refused_before_they_are_made() -> None:
    class Guard(Middleware):
        async def before_tool(self, turn: Turn, call: ToolCall) -> Change | Refuse | None:
            if call.arguments["text"] == "rm":
                return Refuse("not that one")
            return Change({"text": call.arguments["text"].upper()}) if call.arguments["text"] == "a" else None

    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": "a"}), ("echo", {"text": "rm"}), ("echo", {"text": "b"})], "done"])
        agent = ReActAgent(rt, model, middleware=[Guard()])
        result = await agent.run("go", thread="t")
        read = [m.content for m in result.messages if m.role == "tool"]
        assert read[0] == "A"
        assert "not that one" in read[1]
        assert read[2] == "b"
        made = [(r.arguments, str(r.state)) for r in (await rt.history(thread="t")).items]
        assert sorted(made, key=str) == [
            (None, "failed"), ({"text": "A"}, "completed"), ({"text": "b"}, "completed"),
        ]  # fmt: skip
        assert sorted(map(str, await decisions(agent))) == sorted(
            map(
                str,
                [
                    ("Guard", "before_tool", {"do": "change", "value": {"text": "A"}}),
                    ("Guard", "before_tool", {"do": "refuse", "text": "not that one"}),
                ],
            )
        )


async def test_changed_arguments_are_validated() -> None:
    class Breaks(Middleware):
        def before_tool(self, turn: Turn, call: ToolCall) -> Change:
            return Change({"text": 7, "more": True})

    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), middleware=[Breaks()])
        read = (await agent.run("go", thread="t")).messages[-2]
        assert read.failed
        assert read.content.startswith("invalid_input")


async def test_results_are_changed_for_the_model_alone() -> None:
    class Hides(Middleware):
        def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> Change | Refuse | None:
            assert result.tool == call.tool == "echo"
            return Refuse("too secret") if result.output == "b" else Change(result.content.replace("4711", "****"))

    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": "pin 4711"}), ("echo", {"text": "b"})], "done"])
        result = await ReActAgent(rt, model, middleware=[Hides()]).run("go", thread="t")
        assert [(m.content, m.failed) for m in result.messages if m.role == "tool"] == [
            ("pin ****", False), ("too secret", True),
        ]  # fmt: skip
        assert {r.output for r in (await rt.history(thread="t")).items} == {"pin 4711", "b"}


async def test_the_end_can_be_changed_and_is_seen_however_the_turn_ends() -> None:
    seen: list[str] = []

    class Signs(Middleware):
        def at_end(self, turn: Turn, result: AgentResult) -> Change | None:
            seen.append(result.stopped)
            return Change(f"{result.text} — the agent") if result.stopped == "finished" else None

    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel(["done"]), middleware=[Signs()])
        assert (await agent.run("go", thread="t")).text == "done — the agent"
        looping = ReActAgent(rt, Says(lambda _: [("echo", "{}")]), name="b", max_steps=2, middleware=[Signs()])
        assert (await looping.run("go", thread="t")).stopped == "max_steps"
        assert seen == ["finished", "max_steps"]


async def test_methods_are_called_as_listed_before_and_reversed_after() -> None:
    calls: list[str] = []

    class Notes:
        def __init__(self, name: str) -> None:
            self.name = name

        def before_model(self, turn: Turn, request: ChatRequest) -> None:
            calls.append(f"{self.name} before_model")

        def after_model(self, turn: Turn, reply: ChatReply) -> None:
            calls.append(f"{self.name} after_model")

        def before_tool(self, turn: Turn, call: ToolCall) -> None:
            calls.append(f"{self.name} before_tool")

        def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
            calls.append(f"{self.name} after_tool")

    async with make([echo]) as rt:
        model = ScriptedModel([[("echo", {"text": "a"})], "done"])
        await ReActAgent(rt, model, middleware=[Notes("a"), Notes("b")]).run("go", thread="t")
        step = ["a before_model", "b before_model", "b after_model", "a after_model"]
        assert calls == [*step, "a before_tool", "b before_tool", "b after_tool", "a after_tool", *step]


@pytest.mark.parametrize(
    "on", ["tools", "instructions", "before_model", "after_model", "before_tool", "after_tool", "at_end"]
)
@pytest.mark.parametrize("wrong", [ValueError("broken"), object()])
async def test_an_error_ends_the_turn_and_names_the_middleware(on: str, wrong: object) -> None:
    def method(*given: Any) -> object:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    broken = type("Broken", (), {on: method})()
    async with make([echo]) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "a"})], "done"]), middleware=[broken])
        with pytest.raises(MiddlewareFailed, match=f"'Broken' .*{on}"):
            await agent.run("go", thread="t")
        view = await agent.look("t")
        assert view.state == "error"
        assert "Broken" in view.error
        check_pairs(await agent.messages("t"))


async def test_an_agent_with_other_middleware_is_another_agent() -> None:
    class One(Middleware):
        def instructions(self, turn: Turn) -> str:
            return "one"

    async with make([echo]) as rt:
        kept = ReActAgent(rt, ScriptedModel([]), middleware=[One()])
        with pytest.raises(UsageError, match="differ in middleware"):
            ReActAgent(rt, ScriptedModel([]))
        assert kept.name == "react"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("one", "middleware is a list"),
        ([Middleware], "not classes"),
        ([object()], "is not middleware"),
        ([type("Near", (), {"before_modell": lambda self: None})()], "before_model"),
        ([type("A", (), {"at_end": print})(), type("A", (), {"at_end": print})()], "same name"),
    ],
)
async def test_mistakes_are_told_when_the_agent_is_made(given: Any, says: str) -> None:
    async with make() as rt:
        with pytest.raises(UsageError, match=says):
            ReActAgent(rt, ScriptedModel([]), middleware=given)


def test_an_edit_refuses_what_it_cannot_mean() -> None:
    for wrong in ({"add": ["text"]}, {"add": [ChatMessage(role="system")]}, {"tools": "echo"}, {"drop": [1]}):
        with pytest.raises(UsageError, match="Edit"):
            Edit(**wrong)  # type: ignore[arg-type]


async def test_a_tool_that_is_not_offered_cannot_be_chosen() -> None:
    class Chooses(Middleware):
        def before_model(self, turn: Turn, request: ChatRequest) -> Edit:
            return Edit(tools=["ecoh"])

    async with make([echo]) as rt:
        with pytest.raises(MiddlewareFailed, match=r"'ecoh'.*'echo'"):
            await ReActAgent(rt, ScriptedModel(["x"]), middleware=[Chooses()]).run("go")


async def test_the_steps_of_a_plan_have_it_too() -> None:
    class Loud(Middleware):
        def before_tool(self, turn: Turn, call: ToolCall) -> Change:
            return Change({"text": call.arguments["text"].upper()})

    async with make([echo]) as rt:
        planner = ScriptedModel(
            [
                [("plan", {"command": "create", "title": "p", "steps": ["a"]})],
                [("plan", {"command": "finish", "summary": "ok"})],
            ]
        )
        executor = ScriptedModel([[("echo", {"text": "a"})], "done"])
        agent = PlanExecuteAgent(rt, planner, executor=executor, middleware=[Loud()])
        result = await agent.run("go", thread="t")
        assert "A" in [m.content for m in result.messages if m.role == "tool"]
