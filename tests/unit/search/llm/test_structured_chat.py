"""One question to a model: retries, an answer that is sent back, token counts, time limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clicket.errors import RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.models.adapter import as_model
from clicket.search.llm import StructuredChat
from clicket.search.llm.response_formats import QUERIES
from clicket.search.llm.structured_chat import NoAnswer
from clicket.search.usage import track_usage
from clicket.testing import ScriptedModel

GOOD = '{"sub_queries": ["a"]}'


def asking(*answers: Any, **options: Any) -> tuple[StructuredChat, ScriptedModel, list[float]]:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    model = ScriptedModel(answers)
    return StructuredChat(model, pause=pause, **options), model, pauses


async def test_a_transient_failure_is_retried_after_a_pause() -> None:
    ask, model, pauses = asking(RetryableError("busy", retry_after=9), ConnectionError("gone"), GOOD)
    assert await ask.ask(QUERIES, "system", "prompt") == ("a",)
    assert pauses == [9, 1.0]
    assert model.requests[0].schema == QUERIES.schema


async def test_retries_are_limited() -> None:
    ask, model, pauses = asking(*[RetryableError("busy")] * 9)
    with pytest.raises(NoAnswer, match="busy"):
        await ask.ask(QUERIES, "", "")
    assert (len(model.requests), pauses) == (3, [0.5, 1.0])


async def test_a_pause_longer_than_the_stage_is_not_started() -> None:
    ask, model, pauses = asking(RetryableError("busy", retry_after=50), GOOD)
    with track_usage(seconds=40), pytest.raises(NoAnswer, match="busy"):
        await ask.ask(QUERIES, "", "")
    assert (len(model.requests), pauses) == (1, [])


async def test_other_errors_are_noted_without_secrets() -> None:
    ask, model, _ = asking(ValueError("no such thing: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"), GOOD)
    with pytest.raises(NoAnswer, match="no such thing") as raised:
        await ask.ask(QUERIES, "", "")
    assert "abcdefghijklmnop" not in str(raised.value)
    assert len(model.requests) == 1


async def test_a_wrong_answer_is_sent_back_once() -> None:
    ask, model, _ = asking("I think we should look around.", GOOD)
    assert await ask.ask(QUERIES, "", "") == ("a",)
    assert [one.role for one in model.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert "not of the form" in model.requests[1].messages[-1].content

    ask, model, _ = asking("No.", "Still no.", GOOD)
    with pytest.raises(NoAnswer, match="asked again"):
        await ask.ask(QUERIES, "", "")
    assert len(model.requests) == 2


async def test_a_refusal_is_not_retried() -> None:
    ask, model, _ = asking(ChatReply(text="I cannot help with that.", ended="refusal"), GOOD)
    with pytest.raises(NoAnswer, match="declined"):
        await ask.ask(QUERIES, "", "")
    assert len(model.requests) == 1


async def test_a_model_that_hangs_times_out() -> None:
    async def hang(prompt: str) -> str:
        await asyncio.Event().wait()
        return prompt

    with pytest.raises(NoAnswer, match="did not answer"):
        await StructuredChat(as_model(hang), seconds=0.01).ask(QUERIES, "", "")
    with track_usage(seconds=0.01), pytest.raises(NoAnswer, match="did not answer"):
        await StructuredChat(as_model(hang)).ask(QUERIES, "", "")


async def test_tokens_are_counted_and_their_budget_is_kept() -> None:
    used = Usage(input_tokens=100, output_tokens=20)
    ask, model, _ = asking("no", ChatReply(text=GOOD, usage=used))
    with track_usage(max_tokens=1_000) as stage:
        await ask.ask(QUERIES, "", "x" * 400)
    first = stage.usage.total - used.total
    assert 100 < first < 200  # the script's own count, by length
    assert model.requests[0].max_tokens is not None
    assert model.requests[0].max_tokens <= 1_000 - 100

    ask, model, _ = asking(GOOD)
    with track_usage(max_tokens=100) as stage, pytest.raises(NoAnswer, match="budget"):
        await ask.ask(QUERIES, "", "x" * 400)
    assert (model.requests, stage.usage) == ([], Usage())


async def test_usage_is_estimated_for_a_model_that_reports_none() -> None:
    with track_usage() as stage:
        await StructuredChat(as_model(lambda prompt: GOOD)).ask(QUERIES, "system", "prompt")
    assert stage.usage.input_tokens > 0
    assert stage.usage.output_tokens > 0


async def test_half_characters_can_be_sent() -> None:
    ask, model, _ = asking(GOOD)
    await ask.ask(QUERIES, "", "a\ud800b")
    model.requests[0].text.encode()


# --- anything can be the model ----------------------------------------------------------------------------------------


class Message:
    def __init__(self, content: Any) -> None:
        self.content = content


class Chain:
    """Like LangChain's models."""

    async def ainvoke(self, prompt: str) -> Message:
        return Message([{"type": "text", "text": prompt}, "!"])


class Seeds:
    async def achat(self, prompt: str) -> Message:
        return Message(prompt)


class Calls:
    async def __call__(self, prompt: str) -> dict[str, str]:
        return {"text": prompt}


class Theirs:
    async def chat(self, messages: list[dict[str, str]]) -> str:
        return messages[-1]["content"]


class Ours:
    async def chat(self, wanted: ChatRequest) -> ChatReply:
        return ChatReply(text=wanted.messages[-1].content)


def plain(prompt: str) -> str:
    return prompt


async def coroutine(prompt: str) -> Message:
    return Message(prompt)


def later(prompt: str) -> Any:
    return coroutine(prompt)


@pytest.mark.parametrize("thing", [plain, coroutine, later, Chain(), Seeds(), Calls(), Theirs(), Ours()])
async def test_functions_and_other_objects_become_models(thing: Any) -> None:
    model = as_model(thing)
    request = ChatRequest(messages=(ChatMessage(role="user", content="hello"),))
    assert (await model.chat(request)).text.rstrip("!") == "hello"
    assert model.name


def test_objects_that_are_no_models_are_refused() -> None:
    for thing in (3, "openai:gpt", None, ScriptedModel):
        with pytest.raises(UsageError, match="model="):
            as_model(thing)


async def test_a_function_that_gives_no_text_has_failed() -> None:
    with pytest.raises(NoAnswer, match="no text"):
        await StructuredChat(as_model(lambda prompt: 3)).ask(QUERIES, "", "")
