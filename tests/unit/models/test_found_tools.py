"""Deferred tools, and results of `find_tools`, through the real SDKs: what Anthropic's API gets, and what every other server does."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.adapters.provider import Provider
from tests.scenarios.kit import make
from tests.scenarios.test_tool_search import TOOLS
from tests.unit.models.kit import ADD, READ, anthropic_model, asks, assistant, openai_model, result, says, user

from clicket.agents import ReActAgent
from clicket.model.chat import ToolOffer
from clicket.tools.search import FIND_OFFER

FOUND = json.dumps({"found": ["files.read", "gone"], "tools": [{"name": "files.read"}]})
LATER = ToolOffer(name="later", description="Later.", input_schema={"type": "object"}, deferred=True)


def deferred(offer: ToolOffer) -> ToolOffer:
    return msgspec.structs.replace(offer, deferred=True)


SEARCHED = (
    user("Go"),
    assistant(("c1", "find_tools", '{"query": "read"}')),
    result("c1", FOUND),
)


async def test_found_tools_are_references_and_stay_deferred(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, "Done.")]
    await anthropic_model(provider, defer_tools=True).chat(asks(*SEARCHED, tools=(ADD, READ, FIND_OFFER, LATER)))
    sent = provider.requests[0]
    flags = {tool["name"]: tool.get("defer_loading", False) for tool in sent["tools"]}
    read = next(name for name in flags if name.startswith("files_read"))
    assert flags == {"add": False, read: True, "find_tools": False, "later": True}
    answer = sent["messages"][-1]["content"][0]
    assert answer["content"] == [{"type": "tool_reference", "tool_name": read}], (
        "a tool that is gone is not referred to"
    )


async def test_without_deferred_tools_results_are_text_with_the_models_names(provider: Provider) -> None:
    for model in (anthropic_model, openai_model):
        provider.answers = [says(model, "Done.")]
        await model(provider).chat(asks(*SEARCHED, tools=(ADD, READ, FIND_OFFER)))
        text = json.dumps(provider.requests[-1]["messages"][-1])
        assert "files_read_" in text
        assert "files.read" not in text
        assert "tool_reference" not in text


async def test_a_server_that_refuses_gets_the_found_tools_alone(provider: Provider) -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        flagged = any("defer_loading" in tool for tool in body.get("tools", ()))
        return "tools.1.defer_loading: Extra inputs are not permitted" if flagged else None

    provider.refuses = refuses
    provider.answers = [says(anthropic_model, "Done."), says(anthropic_model, "Done.")]
    model = anthropic_model(provider, defer_tools=True)
    for _ in range(2):
        assert (await model.chat(asks(*SEARCHED, tools=(ADD, READ, FIND_OFFER, LATER)))).text == "Done."
    assert len(provider.requests) == 3, "what was refused once is not sent again"
    assert [tool["name"][:10] for tool in provider.requests[-1]["tools"]] == ["add", "files_read", "find_tools"]
    assert "tool_reference" not in json.dumps(provider.requests[-1])


async def test_an_agent_sends_all_tools_deferred_to_a_model_that_can(provider: Provider) -> None:
    provider.answers = [
        says(anthropic_model, "", ("c1", "find_tools", '{"query": "refund stripe charge", "limit": 2}')),
        says(anthropic_model, "", ("c2", "stripe_refund_charge", '{"charge": "x"}')),
        says(anthropic_model, "Done."),
    ]
    async with make(TOOLS[:990]) as rt:
        agent = ReActAgent(rt, anthropic_model(provider, defer_tools=True), max_offered=5)
        result = await agent.run("zzz", thread="t")
    assert result.text == "Done."
    first, second, third = provider.requests
    assert len(first["tools"]) == len(second["tools"]) == len(third["tools"]) == 991
    assert [tool["name"] for tool in first["tools"] if not tool.get("defer_loading")] == ["find_tools"]
    plain = {tool["name"]: tool.get("defer_loading") for tool in second["tools"]}
    assert plain["stripe_refund_charge"] is True, "it is loaded by the reference; the prompt stays as it was"
    assert "stripe_refund_charge" in json.dumps(second["messages"][-1])


async def test_the_reply_has_its_id_and_model(provider: Provider) -> None:
    for model in (anthropic_model, openai_model):
        provider.answers = [says(model, "Done."), says(model, "Done.")]
        for reply in (await model(provider).chat(asks()), await model(provider).stream(asks(), lambda piece: None)):
            assert reply.id, model
            assert reply.model, model


def test_only_a_model_that_was_told_so_defers(provider: Provider) -> None:
    assert anthropic_model(provider, defer_tools=True).defers_tools
    assert not anthropic_model(provider).defers_tools
    assert deferred(ADD).deferred
