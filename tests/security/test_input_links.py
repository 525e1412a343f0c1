"""The approver page for a question that a tool asks: it shows the form as text, and takes an answer or a refusal; the tool goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.security.test_approval_links import HOSTILE, allowing, ask, sent

from clicket import ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.tools.question import InputQuestion

__all__ = ["sent"]


@tool
async def order(amount: int, ctx: ToolContext, link: bool = False) -> list[Any]:
    """Asks a person in the middle."""
    form = {"type": "object", "properties": {"size": {"type": "integer", "title": HOSTILE}}, "required": ["size"]}
    asked = InputQuestion(key="q", source="the shop", message=f"Which size? {HOSTILE}", schema=None if link else form,
                          url="https://shop.example/terms" if link else "")  # fmt: skip
    answer = questions(ctx).ask(asked, None)
    return [answer.action, answer.content]


async def test_a_link_answers_the_question_of_a_tool(sent: list[dict[str, Any]]) -> None:
    async with allowing("edit", "respond", tools=[order]) as it:
        id, path = await ask(it, sent, "order")
        page = (await it.get(path)).text
        assert ("A tool asks for your input" in page, "Which size?" in page, "&quot;size&quot;" in page) == (True,) * 3
        assert ("<script" in page, "\u202e" in page) == (False, False)
        assert ('name="output"' in page, 'name="arguments"' in page, 'value="approve"' in page) == (True, False, False)
        for wrong in ("", "{", "[]", '{"size": "big"}'):
            refused = await it.post(path, data={"decision": "respond", "output": wrong})
            assert (refused.status_code, "A tool asks" in refused.text) == (422, True), wrong
        assert (await it.post(path, data={"decision": "approve"})).status_code == 422
        assert (await it.runtime.get(id)).waiting_for == "approval"
        done = await it.post(path, data={"decision": "respond", "output": '{"size": 4}'})
        assert (done.status_code, "The tool goes on with your answer" in done.text) == (200, True)
        assert (await (await it.runtime.handle(id)).result()).output == ["accept", {"size": 4}]


@pytest.mark.parametrize(("language", "text"), [("en", "The tool goes on without an answer"), ("zh", "已谢绝")])
async def test_a_link_declines_the_question_of_a_tool(sent: list[dict[str, Any]], language: str, text: str) -> None:
    async with allowing(tools=[order]) as it:
        id, path = await ask(it, sent, "order")
        assert 'name="output"' not in (await it.get(path)).text
        done = await it.post(path, data={"decision": "deny"}, headers={"accept-language": language})
        assert (done.status_code, text in done.text) == (200, True)
        assert (await (await it.runtime.handle(id)).result()).output == ["decline", None]


async def test_a_link_confirms_that_an_address_was_opened(sent: list[dict[str, Any]]) -> None:
    async with allowing(tools=[order]) as it:
        id, path = await ask(it, sent, "order", link=True)
        page = (await it.get(path)).text
        assert ("https://shop.example/terms" in page, "<a" in page) == (True, False)
        assert (await it.post(path, data={"decision": "approve"})).status_code == 200
        assert (await (await it.runtime.handle(id)).result()).output == ["accept", None]
