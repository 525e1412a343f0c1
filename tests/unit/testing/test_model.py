"""The model with a script."""

from __future__ import annotations

import pytest

from clicket.errors import RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.testing import ScriptedModel

HELLO = ChatRequest(messages=(ChatMessage(role="user", content="Hello"),))


async def test_it_answers_in_turn_and_then_says_that_it_is_over() -> None:
    whole = ChatReply(text="b", usage=Usage(input_tokens=1))
    model = ScriptedModel(["a", whole, RetryableError("busy"), KeyError, [("add", {"a": 1})]])
    assert (await model.chat(HELLO)).text == "a"
    assert await model.chat(HELLO) is whole
    with pytest.raises(RetryableError, match="busy"):
        await model.chat(HELLO)
    with pytest.raises(KeyError):
        await model.chat(HELLO)
    with pytest.raises(UsageError, match="agents"):
        await model.chat(HELLO)
    assert model.left == 0
    with pytest.raises(UsageError, match="5 answers"):
        await model.chat(HELLO)
    assert model.requests == [HELLO] * 6


def test_what_is_no_answer_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="Answer 2"):
        ScriptedModel(["a", 3])
