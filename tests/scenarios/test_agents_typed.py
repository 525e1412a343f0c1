"""Typed answers: asked for in each way that a model takes, read, repaired, recorded, and given as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from tests.kit.tools import echo
from tests.scenarios.agent_kit import Says, check_pairs
from tests.scenarios.kit import make

from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.errors import UsageError
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel


@dataclass
class Price:
    item: str
    euros: float


class Priced(pydantic.BaseModel):
    item: str
    euros: float = pydantic.Field(gt=0)


class Told(msgspec.Struct):
    item: str
    euros: float


class Written(TypedDict):
    item: str
    euros: float


JSON = '{"item": "tea", "euros": 3.5}'
SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "euros": {"type": "number"}},
    "required": ["item", "euros"],
}


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (Price, Price("tea", 3.5)),
        (Priced, Priced(item="tea", euros=3.5)),
        (Told, Told("tea", 3.5)),
        (Written, {"item": "tea", "euros": 3.5}),
        (SCHEMA, {"item": "tea", "euros": 3.5}),
    ],
)
@pytest.mark.parametrize("text", [JSON, f"Here it is:\n```json\n{JSON}\n```\nEnjoy."])
async def test_a_plain_answer_becomes_a_value(output: Any, value: Any, text: str) -> None:
    async with make() as rt:
        agent = ReActAgent(rt, ScriptedModel([text]), output=output)
        result = await agent.run("How much is tea?", thread="t")
        assert (result.stopped, result.value) == ("finished", value)
        assert type(result.value) is type(value)
        again = await agent.wait("t", 1)
        assert again is not None
        assert again.value == value
        events = [event async for event in agent.events("t")]
        answers = [event.data["value"] for event in events if event.type == "answer"]
        assert answers == [{"item": "tea", "euros": 3.5}] == [events[-1].data["value"]]


@pytest.mark.parametrize("output", [list[int], dict[str, int], int | None])
async def test_a_type_that_is_no_class(output: Any) -> None:
    value = {list[int]: [1, 2], dict[str, int]: {"a": 1}}.get(output, 7)
    async with make() as rt:
        result = await ReActAgent(rt, ScriptedModel([msgspec.json.encode(value).decode()]), output=output).run("go")
        assert result.value == value


async def test_a_model_is_asked_in_the_way_that_it_takes() -> None:
    async def asked(by: Any) -> ChatRequest:
        async with make([echo]) as rt:
            script = [[("final_answer", {"item": "tea", "euros": 1})]] if by == "tool" else [JSON]
            model = ScriptedModel(script, typed_by=by)
            result = await ReActAgent(rt, model, output=Price, system="Be brief.").run("go")
            assert result.value == Price("tea", 1 if by == "tool" else 3.5)
            check_pairs(result.messages)
            return model.requests[0]

    by_schema = await asked("schema")
    assert (by_schema.schema or {})["properties"].keys() == {"item", "euros"}
    assert by_schema.schema_name == "Price"
    by_tool = await asked("tool")
    assert [offer.name for offer in by_tool.tools] == ["echo", "final_answer"]
    assert by_tool.schema is None
    by_text = await asked("text")
    assert by_text.messages[0].content.startswith("Be brief.\n\n")
    assert '"euros"' in by_text.messages[0].content
    assert [offer.name for offer in by_text.tools] == ["echo"]


@pytest.mark.parametrize("by", ["schema", "tool", "text"])
async def test_an_answer_that_does_not_fit_is_repaired(by: Any) -> None:
    def answer(value: Any) -> Any:
        return [("final_answer", value)] if by == "tool" else msgspec.json.encode(value).decode()

    async with make() as rt:
        model = ScriptedModel(
            [answer({"item": "tea"}), answer({"item": "tea", "euros": -1}), answer({"item": "t", "euros": 2})],
            typed_by=by,
        )
        agent = ReActAgent(rt, model, output=Priced)
        result = await agent.run("go", thread="t")
        assert (result.value, result.steps) == (Priced(item="t", euros=2), 3)
        told = [m.content for m in model.requests[2].messages if m.role == "user"]
        assert "euros" in told[1]
        assert "minimum of 0" in told[2]
        assert [m.role for m in await agent.messages("t")] == ["user", "assistant"]
        events = [event async for event in agent.events("t")]
        refused = [event.data["by"] for event in events if event.type == "decision"]
        assert refused == ["output", "output"]


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_model_that_never_answers_in_the_type(retries: int) -> None:
    async with make() as rt:
        model = Says(lambda _: "It costs about three euros.")
        result = await ReActAgent(rt, model, output=Price, output_retries=retries).run("go")
        assert (result.stopped, result.value, result.ended) == ("invalid_output", None, None)
        assert result.state == "idle"
        assert model.asked == retries + 1
        assert "about three" not in result.text


async def test_tools_of_a_batch_run_before_its_answer_counts() -> None:
    async with make([echo]) as rt:
        model = ScriptedModel(
            [[("echo", {"text": "a"}), ("final_answer", {"item": "tea", "euros": 1})]], typed_by="tool"
        )
        result = await ReActAgent(rt, model, output=Price).run("go", thread="t")
        assert (result.stopped, result.value) == ("finished", Price("tea", 1))
        assert [r.tool for r in (await rt.history(thread="t")).items] == ["echo"]
        check_pairs(result.messages)


async def test_an_answer_of_a_batch_that_does_not_fit_is_asked_for_after_the_tools() -> None:
    async with make([echo]) as rt:
        model = ScriptedModel(
            [
                [("echo", {"text": "a"}), ("final_answer", {"item": 7})],
                [("final_answer", {"item": "tea", "euros": 1})],
            ],
            typed_by="tool",
        )
        result = await ReActAgent(rt, model, output=Price).run("go")
        assert (result.value, result.steps) == (Price("tea", 1), 2)


async def test_a_plan_ends_with_a_typed_answer() -> None:
    async with make([echo]) as rt:
        planner = ScriptedModel(
            [
                [("plan", {"command": "create", "title": "p", "steps": ["a"]})],
                [("plan", {"command": "finish", "summary": "all done"})],
                JSON,
            ]
        )
        agent = PlanExecuteAgent(rt, planner, executor=ScriptedModel(["did it"]), output=Price)
        result = await agent.run("go")
        assert (result.stopped, result.value) == ("finished", Price("tea", 3.5))


async def test_a_turn_goes_on_with_the_type_that_it_began_with(sqlite: str) -> None:
    from tests.scenarios.agent_kit import Gate

    gate = Gate()

    async def wait(_: ChatRequest) -> str:
        await gate()
        return JSON

    rt = make([], sqlite, close_timeout=0.0)
    async with rt:
        await ReActAgent(rt, Says(wait), output=Price).begin("go", thread="t")
        await gate.reached.wait()
    async with make([], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["[1]", JSON]), output=list[int])
        result = await agent.run("go", thread="t")
        assert (result.stopped, result.value) == ("finished", {"item": "tea", "euros": 3.5})


@pytest.mark.parametrize("wrong", [7, Price("tea", 1), {"example": "of an answer"}])
async def test_what_is_no_type_is_refused_when_the_agent_is_made(wrong: Any) -> None:
    async with make() as rt:
        with pytest.raises(UsageError, match="output"):
            ReActAgent(rt, ScriptedModel([]), output=wrong)
