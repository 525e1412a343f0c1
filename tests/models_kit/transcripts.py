"""Sends a conversation to both vendors through our models, and validates the sent requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.models_kit.aimock import Aimock, answer
from tests.models_kit.vendor_rules import accepted

from clicket.model.chat import ChatMessage, ChatRequest, ToolOffer
from clicket.models import AnthropicModel, OpenAIModel

__all__ = ["anthropic_model", "openai_model", "responses_model", "taken_by_both"]


def openai_model(server: Aimock, **options: Any) -> OpenAIModel:
    return OpenAIModel("gpt-x", base_url=f"{server.url}/v1", api_key="k", **options)


def responses_model(server: Aimock, **options: Any) -> OpenAIModel:
    return openai_model(server, api="responses", **options)


def anthropic_model(server: Aimock, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-x", base_url=server.url, api_key="k", **options)


async def taken_by_both(server: Aimock, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer] = ()) -> None:
    """Raises `NotAccepted` if one of them would refuse the next request of this conversation.

    Replaces the server's script. A conversation that ends with the assistant's answer gets a next question.
    """
    asked = (*messages, ChatMessage(role="user", content="And then?")) if _is_over(messages) else tuple(messages)
    request = ChatRequest(messages=asked, tools=tuple(tools), max_tokens=50)
    makes = (openai_model, responses_model, anthropic_model)
    server.script(*[answer("Then nothing.")] * len(makes))
    for make in makes:
        model = make(server)
        try:
            assert (await model.chat(request)).text == "Then nothing."
        finally:
            await model.close()
    sent = server.asked
    assert len(sent) == len(makes), [one.path for one in sent]
    for one in sent:
        accepted(one.path, one.body)


def _is_over(messages: Sequence[ChatMessage]) -> bool:
    return not messages or (messages[-1].role == "assistant" and not messages[-1].uses)
