"""An agent around a real model that is far too small for it. For any answer, the loop ends within its limits, states
follow their table, and every tool call has one result, so that any vendor would accept the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models_kit.aimock import Aimock, serving
from tests.models_kit.transcripts import taken_by_both

from clicket import Runtime, Settings, tool
from clicket.agents import AgentResult, ReActAgent
from clicket.kernel import AGENT, AgentState
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta
from clicket.models import OpenAIModel, SchemaTools

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]  # a busy machine makes it many times slower

MAX_STEPS = 4
RAN: list[str] = []


@tool(name="math.add")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    RAN.append("math.add")
    return a + b


@tool
def weather(city: str) -> dict[str, str]:
    """The weather of a city."""
    RAN.append("weather")
    return {"city": city, "sky": "blue"}


@tool(max_retries=0)
def broken(reason: str = "") -> str:
    """Send a message to a person."""
    RAN.append("broken")
    raise RuntimeError("the post is closed")


@pytest.fixture(scope="module")
def vendors() -> Iterator[Aimock]:
    with serving() as made:
        yield made


class Eager:
    """By itself the model writes text and uses no tool. Here it must use one in the first `steps` answers to a
    question; the model chooses the tool and its arguments."""

    def __init__(self, model: OpenAIModel, steps: int) -> None:
        self.name = model.name
        self._model = SchemaTools(model)
        self._steps = steps

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._model.chat(self._must(request))

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return await self._model.stream(self._must(request), tell)

    def _must(self, request: ChatRequest) -> ChatRequest:
        since = list(takewhile(lambda message: message.role != "user", reversed(request.messages)))
        answers = sum(message.role == "assistant" for message in since)
        return msgspec.structs.replace(request, tool_choice="required") if answers < self._steps else request


MODELS: dict[str, Callable[[OpenAIModel], Any]] = {
    "native": lambda model: model,  # the request lists the tools, but this model ignores them
    "schema": SchemaTools,
    "eager": lambda model: Eager(model, 2),
    "endless": lambda model: Eager(model, 1_000),
}


EAGER = ("eager", "endless")


@pytest.fixture(params=list(MODELS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def model(kind: str, address: str, seed: int) -> AsyncIterator[Any]:
    options = {"temperature": 1.2, "seed": seed}
    made = OpenAIModel("smollm2", base_url=f"{address}/v1", timeout=300, options=options)
    yield MODELS[kind](made)
    await made.close()


def check_pairs(messages: list[ChatMessage]) -> list[str]:
    """Each call has one answer, directly after it. Returns the names of the called tools."""
    called: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.use_id in waiting
            assert not message.content.startswith("cancelled")  # such an answer is made up for a call without a result
            waiting.remove(message.use_id)
            continue
        assert waiting == []
        waiting = [use.id for use in message.uses]
        assert len(set(waiting)) == len(waiting)
        called += [use.name for use in message.uses]
    assert waiting == []
    return called


def check_end(result: AgentResult) -> None:
    ends = {"finished": AgentState.FINISHED}
    assert result.state is ends.get(result.stopped, AgentState.IDLE)
    assert 1 <= result.steps <= MAX_STEPS
    if result.stopped == "max_steps":
        assert result.steps == MAX_STEPS
        assert result.text == f"Terminated: Reached max steps ({MAX_STEPS})"
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


QUESTIONS = ("What is 17 + 25?", "How is the weather in Paris?", "Tell Anna that I am late. Use a tool.")


async def test_whatever_it_answers(kind: str, model: Any, vendors: Aimock, tmp_path: Path) -> None:
    RAN.clear()
    changes: list[tuple[AgentState, AgentState]] = []
    called: list[str] = []
    kept = f"sqlite:///{tmp_path}/calls.db" if kind in EAGER else "memory://"
    async with Runtime([add, weather, broken], settings=Settings(store=kept, close_timeout=5.0)) as rt:
        agent = ReActAgent(
            rt,
            model,
            max_steps=MAX_STEPS,
            max_answer_tokens=60,
            max_repeats=None if kind == "endless" else 2,
            on_state_changed=lambda before, after, thread: changes.append((before, after)),
        )
        for thread, question in enumerate((*QUESTIONS, "Are you sure?")):
            result = await agent.run(question, thread=f"t{min(thread, 2)}")
            check_end(result)
            assert agent.state(f"t{min(thread, 2)}") is result.state
            called += check_pairs(result.new_messages)
            check_pairs(result.messages)
            await taken_by_both(vendors, result.messages)
        made = [one for place in range(3) for one in (await rt.history(thread=f"t{place}", limit=1_000)).items]

    assert set(changes) <= set(AGENT.pairs())
    assert [after for _, after in changes].count(AgentState.RUNNING) == 4
    assert all(one.state.is_terminal for one in made)
    assert len(RAN) <= len(made) <= len(called)
    assert called or kind not in EAGER


async def test_it_is_reported_as_it_happens(model: Any) -> None:
    async with Runtime([add, weather], store="memory://") as rt:
        agent = ReActAgent(rt, model, max_steps=2, max_answer_tokens=40)
        events = [event async for event in agent.stream("What is 2 + 3?", thread="t")]
    assert events[-1].type == "final"
    started = [event.data["id"] for event in events if event.type == "tool_started"]
    ended = [event.data["id"] for event in events if event.type == "tool_result"]
    assert sorted(ended) == sorted(set(ended))
    assert set(started) <= set(ended)
