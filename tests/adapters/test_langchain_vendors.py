"""LangChain's models of vendors as models of agents, against the fake provider. Their packages are no extras of clicket: the test runs
where `langchain-openai` and `langchain-anthropic` are installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.provider import Provider
from tests.unit.models.kit import (
    KEY,
    READ,
    STREAMED,
    Make,
    anthropic_model,
    ask,
    asks,
    assistant,
    openai_model,
    result,
    says,
    user,
)

from clicket import tool
from clicket.agents import ReActAgent
from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.names import wire_names
from clicket.models import as_model
from clicket.models.langchain import LangChainModel
from clicket.testing import memory_runtime

of_openai = pytest.importorskip("langchain_openai")
of_anthropic = pytest.importorskip("langchain_anthropic")

WIRE = wire_names(["files.read"])["files.read"]
VENDORS = pytest.mark.parametrize("make", [openai_model, anthropic_model], ids=["openai", "anthropic"])


@tool(name="files.read")
async def read(path: str) -> str:
    return f"{path}: 3 lines"


def through(make: Make, provider: Provider, **options: Any) -> LangChainModel:
    made: Any
    if make is openai_model:
        made = of_openai.ChatOpenAI(
            model="gpt-5", base_url=f"{provider.url}/v1", api_key=KEY, max_retries=0, stream_usage=True, **options
        )
    else:
        made = of_anthropic.ChatAnthropic(
            model="claude-x", base_url=provider.url, api_key=KEY, max_retries=0, **options
        )
    model = as_model(made)
    assert isinstance(model, LangChainModel)
    return model


@VENDORS
@STREAMED
async def test_a_conversation_with_a_vendor(provider: Provider, make: Make, streamed: bool) -> None:
    name = "prompt" if make is openai_model else "input"
    usage = {
        f"{name}_tokens": 5,
        "completion_tokens" if make is openai_model else "output_tokens": 1,
        "total_tokens": 6,
    }
    provider.answers = [
        says(make, "Let me see.", ("c1", WIRE, '{"path": "x"}')),
        {**says(make, "3 lines."), "usage": usage},
    ]
    model = through(make, provider)
    asked = asks(user("How long?"), tools=(READ,), max_tokens=99)
    reply = await ask(model, asked, streamed=streamed)
    [use] = reply.uses
    assert (reply.text, use.id, use.name, json.loads(use.arguments)) == (
        "Let me see.",
        "c1",
        "files.read",
        {"path": "x"},
    )
    said = assistant((use.id, use.name, use.arguments), text=reply.text, vendor=reply.vendor)
    then = asks(*asked.messages, said, result("c1", "x: 3 lines"), tools=(READ,), tool_choice="none")
    last = await ask(model, then, streamed=streamed)
    assert (last.text, last.usage.input_tokens, last.usage.output_tokens) == ("3 lines.", 5, 1)
    first = provider.requests[0]
    assert first.get("max_tokens") or first.get("max_completion_tokens") == 99


@STREAMED
async def test_signed_thoughts_go_back_to_anthropic(provider: Provider, streamed: bool) -> None:
    thought = {"type": "thinking", "thinking": "Which file?", "signature": "sig"}
    call = {"type": "tool_use", "id": "c1", "name": WIRE, "input": {"path": "x"}}
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}
    provider.answers = [{"content": [thought, call], "usage": usage}, says(anthropic_model, "3 lines.")]
    async with memory_runtime([read]) as rt:
        agent = ReActAgent(rt, through(anthropic_model, provider), name="a")
        events = [event async for event in agent.stream("How long?")] if streamed else []
        r = events[-1].data if streamed else await agent.run("How long?")
    if not streamed:
        assert (r.text, r.messages[1].thought) == ("3 lines.", "Which file?")
        assert (r.usage.input_tokens, r.usage.cached_tokens, r.usage.cache_write_tokens) == (116, 100, 5)
    sent = provider.requests[1]["messages"][1]["content"]
    assert [block for block in sent if block["type"] == "thinking"] == [thought]


@STREAMED
@pytest.mark.parametrize("version", ["responses/v1", "v1"])
async def test_reasoning_items_go_back_to_openai(provider: Provider, streamed: bool, version: str) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": WIRE, "arguments": '{"path": "x"}'}
    said = {"type": "message", "id": "m_1", "role": "assistant"}
    text = {"type": "output_text", "text": "3 lines.", "annotations": []}
    provider.answers = [{"output": [thought, call]}, {"output": [{**said, "content": [text]}]}]
    model = through(openai_model, provider, use_responses_api=True, output_version=version, store=False)
    asked = asks(user("How long?"), tools=(READ,))
    reply = await ask(model, asked, streamed=streamed)
    uses = tuple((use.id, use.name, use.arguments) for use in reply.uses)
    await model.chat(asks(*asked.messages, assistant(*uses, vendor=reply.vendor), result("c1", "3"), tools=(READ,)))
    kept = [item for item in provider.requests[1]["input"] if item.get("type") == "reasoning"]
    assert [(item["id"], item["encrypted_content"]) for item in kept] == [("rs_1", "gAAA")]


@VENDORS
@STREAMED
@pytest.mark.parametrize(
    ("answer", "error", "wait"),
    [
        ({"status": 429, "headers": {"retry-after": "7"}}, RetryableError, 7.0),
        ({"status": 503}, RetryableError, None),
        ({"status": 401, "body": {"error": {"message": f"Incorrect key {KEY}"}}}, UsageError, None),
        ({"status": 400, "body": {"error": {"message": f"wrong, {KEY}"}}}, ClicketError, None),
    ],
    ids=["429", "503", "401", "400"],
)
async def test_failures_are_ours(
    provider: Provider, make: Make, streamed: bool, answer: Any, error: Any, wait: float | None
) -> None:
    provider.answers = [answer] * 5
    with pytest.raises(error) as raised:
        await ask(through(make, provider), asks(), streamed=streamed)
    assert KEY not in str(raised.value)
    assert getattr(raised.value, "retry_after", None) == wait
