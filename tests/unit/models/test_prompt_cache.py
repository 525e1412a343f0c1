"""What a vendor's prompt cache can keep of an agent's requests: computed from the requests of recorded runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.provider import Provider
from tests.models_kit.prompt_cache import PromptCache
from tests.unit.models.kit import (
    ADD,
    Make,
    anthropic_model,
    asks,
    assistant,
    openai_model,
    result,
    says,
    user,
)

from clicket import tool
from clicket.agents import ReActAgent
from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, ToolOffer
from clicket.models import AnthropicModel
from clicket.models.model_names import model_of
from clicket.testing import memory_runtime

SYSTEM = "You look up orders and answer questions about them. Check every number that you give.\n" * 12
STEPS = 20


@tool
async def order(number: int) -> str:
    """Look up an order by its number: who bought what, when, at which price, and where it is now."""
    return f"Order {number}: " + "2 x tea, 3 x cups, paid, packed, waits for the carrier. " * 10


@tool
async def customer(name: str) -> str:
    """Look up a customer."""
    return name


async def run(provider: Provider, make: Make, *, calls: int = 1, **options: Any) -> Any:
    """A run of 20 steps with some calls in each but the last."""
    for step in range(STEPS - 1):
        numbers = range(step * calls, step * calls + calls)
        used = [(f"c{n}", "order", json.dumps({"number": n})) for n in numbers]
        provider.answers.append(says(make, f"Step {step}: I look up the next orders.", *used))
    provider.answers.append(says(make, "All of them wait for the carrier."))
    async with memory_runtime([order, customer]) as rt:
        agent = ReActAgent(rt, make(provider, **options), name="clerk", system=SYSTEM, max_steps=STEPS, max_calls=None)
        r = await agent.run("Where are the orders?")
    assert (r.stopped, r.steps) == ("finished", STEPS)
    return r


def shares(requests: list[dict[str, Any]]) -> tuple[float, float]:
    """The parts of the input tokens that the vendor's cache gave, and that were marked for it."""
    cache, sums = PromptCache(), dict[str, int]()
    for request in requests:
        for name, count in cache.usage(request).items():
            sums[name] = sums.get(name, 0) + count
    read, wrote = sums["cache_read_input_tokens"], sums["cache_creation_input_tokens"]
    return read / sum(sums.values()), (read + wrote) / sum(sums.values())


@pytest.mark.parametrize("calls", [1, 30], ids=["one call a step", "30 calls a step"])
async def test_most_of_a_long_run_comes_from_the_cache(provider: Provider, calls: int) -> None:
    await run(provider, anthropic_model, calls=calls)
    read, marked = shares(provider.requests)
    print(
        f"{calls} calls a step: {read:.1%} of the input tokens are read from the cache, {marked:.1%} are marked for it"
    )
    assert read >= 0.8
    assert marked >= 0.9  # the first requests are too short for the cache


async def test_nothing_is_marked_if_the_cache_is_off(provider: Provider) -> None:
    await run(provider, anthropic_model, cache="off")
    assert "cache_control" not in json.dumps(provider.requests)
    assert shares(provider.requests) == (0.0, 0.0)


async def test_each_request_to_openai_begins_as_the_one_before(provider: Provider) -> None:
    """OpenAI caches prefixes by itself."""
    await run(provider, openai_model)
    for before, after in zip(provider.requests, provider.requests[1:], strict=False):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]


async def test_what_the_cache_gave_and_took_is_in_the_usage_and_in_the_ledger(provider: Provider) -> None:
    counts = {"input_tokens": 100, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 300}
    answer = {**says(anthropic_model, "Here."), "usage": {**counts, "output_tokens": 10}}
    provider.answers = [answer]
    prices = [{"model": "claude-x", "input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 3.75}]
    async with memory_runtime([order], prices=prices) as rt:
        r = await ReActAgent(rt, anthropic_model(provider), name="clerk").run("Where is it?")
        spent = (await rt.spend.report()).total
    assert (r.usage.input_tokens, r.usage.cached_tokens, r.usage.cache_write_tokens) == (1_400, 1_000, 300)
    assert (spent.input_tokens, spent.cached_tokens, spent.cache_write_tokens) == (1_400, 1_000, 300)
    assert r.usage.cost == spent.usd == pytest.approx((100 * 3 + 1_000 * 0.3 + 300 * 3.75 + 10 * 15) / 1e6)


async def test_a_single_question_pays_for_no_write_to_the_cache(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, '{"a": 1}')] * 2
    await anthropic_model(provider).chat(asks(tools=(), schema=ADD.input_schema))
    assert "cache_control" not in json.dumps(provider.requests)
    await anthropic_model(provider).chat(asks(user("Go"), assistant(text="Where?"), user("On"), tools=()))
    assert "cache_control" in json.dumps(provider.requests)


async def test_deferred_tools_and_thoughts_get_no_mark(provider: Provider) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = assistant(text="", vendor={"anthropic": [thought]}, thought="hm")
    late = ToolOffer(name="late", input_schema=ADD.input_schema, deferred=True)
    provider.answers = [says(anthropic_model, "a")]
    called = assistant(("c1", "add", '{"a": 1}'), vendor={"anthropic": [thought]})
    await anthropic_model(provider, defer_tools=True).chat(
        asks(user("Go"), called, result("c1", "2"), said, tools=(ADD, late))
    )
    [request] = provider.requests  # the provider refuses what the vendor refuses
    assert ["cache_control" in each for each in request["tools"]] == [True, False]


async def test_a_server_that_refuses_the_marks_gets_none_again(provider: Provider) -> None:
    provider.refuses = lambda body: (
        "messages.0.content.0.text.cache_control: Extra inputs are not permitted"
        if "cache_control" in json.dumps(body)
        else None
    )
    provider.answers = [says(anthropic_model, "a")] * 2
    model = anthropic_model(provider)
    assert (await model.chat(asks())).text == (await model.chat(asks())).text == "a"
    assert ["cache_control" in json.dumps(one) for one in provider.requests] == [True, False, False]
    assert all(one["tools"] for one in provider.requests)


async def test_marks_of_the_callers_own_options_are_the_only_ones(provider: Provider) -> None:
    provider.answers = [says(anthropic_model, "a")]
    own = {"type": "ephemeral", "ttl": "1h"}
    await anthropic_model(provider, options={"cache_control": own}).chat(asks())
    [request] = provider.requests
    assert request.pop("cache_control") == own
    assert "cache_control" not in json.dumps(request)


def test_a_wrong_setting_says_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(UsageError, match="cache must be 'auto' or 'off'"):
        AnthropicModel("m", api_key="k", cache="always")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'openai' has no option 'cache'"):
        model_of({"kind": "openai", "model": "m", "cache": "off"})
    model_of({"kind": "anthropic", "model": "m", "cache": "off"})


async def test_what_a_budget_leaves_does_not_change_the_prompt_before_it() -> None:
    class Keeping:
        name = "gpt-5-mini"

        def __init__(self) -> None:
            self.requests: list[ChatRequest] = []

        async def chat(self, request: ChatRequest) -> ChatReply:
            self.requests.append(request)
            uses = assistant((f"c{len(self.requests)}", "customer", '{"name": "x"}')).uses
            return ChatReply(text="", uses=uses) if len(self.requests) < 4 else ChatReply(text="done")

    model = Keeping()
    budget = {"scope": "all", "limit_usd": 10.0, "period": "total", "on_reached": "stop", "tell_model": True}
    async with memory_runtime([customer], budgets=[budget]) as rt:
        await ReActAgent(rt, model, name="clerk", system=SYSTEM).run("Where are the orders?")
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        same = len(before.messages) - 1
        assert after.messages[:same] == before.messages[:same]
        assert "USD left" in after.messages[-1].content
