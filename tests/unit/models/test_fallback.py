"""Several models as one: what counts as failing, who is asked next and who is held, without any wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.adapters.provider import Provider
from tests.kit.stalling_vendor import stalling
from tests.unit.models.kit import (
    KEY,
    VENDORS,
    Make,
    anthropic_model,
    asks,
    assistant,
    result,
    says,
    user,
)

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolOffer
from clicket.model.ports.model_chain import FailedTry, ModelChain
from clicket.model.ports.services import StreamingModel
from clicket.models import AnthropicModel, Fallback, OpenAIModel, SchemaTools
from clicket.testing import ScriptedModel, StepClock

DEFAULT = ("unavailable", "rate_limit", "timeout", "stalled")


class Status(Exception):
    """As SDKs raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status


class APITimeoutError(Exception):
    pass


class Odd(Exception):
    pass


def chain(*models: Any, **options: Any) -> tuple[Fallback, StepClock]:
    clock = StepClock()
    return Fallback(*models, clock=clock, **options), clock


def model(name: str, *answers: Any) -> ScriptedModel:
    return ScriptedModel(answers, name=name)


async def ask(one: Fallback) -> tuple[str, list[tuple[str, str, str]]]:
    """The text of the answer, and of each failed try the model, the reason and the next model."""
    failed: list[FailedTry] = []
    reply = await one.chat(asks(), on_failed=failed.append)
    return reply.text, [(each.model, each.reason, each.next) for each in failed]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RetryableError("no"), "unavailable"),
        (RetryableError("no", reason="rate_limit"), "rate_limit"),
        (RetryableError("no", reason="stalled"), "stalled"),
        (ClicketError("the account is spent", reason="rate_limit"), "rate_limit"),
        (ConnectionResetError("no"), "unavailable"),
        (TimeoutError("no"), "timeout"),
        (APITimeoutError("no"), "timeout"),
        (Status(429), "rate_limit"),
        (Status(408), "timeout"),
        (Status(504), "timeout"),
        (Status(500), "unavailable"),
        (Status(529), "unavailable"),
    ],
    ids=repr,
)
async def test_what_counts_as_failing(answer: Exception, reason: str) -> None:
    one, _ = chain(model("a", answer), model("b", "yes"))
    assert await ask(one) == ("yes", [("a", reason, "b")])
    one, _ = chain(model("a", answer), model("b", "yes"), on=[each for each in DEFAULT if each != reason])
    with pytest.raises(type(answer)):
        await ask(one)


@pytest.mark.parametrize(
    "answer", [UsageError("no key"), ClicketError("too long"), Status(400), Status(501), Odd("?")], ids=repr
)
async def test_what_does_not(answer: Exception) -> None:
    second = model("b", "yes")
    one, _ = chain(model("a", answer), second)
    with pytest.raises(type(answer)) as raised:
        await ask(one)
    assert raised.value is answer
    assert not second.requests
    one, _ = chain(model("a", answer), model("b", "yes"), on=(type(answer),))
    assert await ask(one) == ("yes", [("a", type(answer).__name__, "b")])


@pytest.mark.parametrize("ended", ["refusal", "length"])
async def test_answers_that_end_so_if_they_are_listed(ended: Any) -> None:
    bad = ChatReply(text="so far", ended=ended)
    one, _ = chain(model("a", bad), model("b", "yes"))
    assert await ask(one) == ("so far", [])
    one, _ = chain(model("a", bad, "again"), model("b", "yes"), on=(ended,))
    assert await ask(one) == ("yes", [("a", ended, "b")])
    assert await ask(one) == ("again", [])  # no model is held for it
    one, _ = chain(model("a", bad), model("b", bad), on=(ended,))
    assert await ask(one) == ("so far", [("a", ended, "b")])  # the last answer is the answer


async def test_a_model_that_failed_is_held() -> None:
    first, second = model("a", RetryableError("no"), "first"), model("b", "one", "two", "three")
    one, clock = chain(first, second, hold=60.0)
    assert await ask(one) == ("one", [("a", "unavailable", "b")])
    clock.advance(59)
    assert await ask(one) == ("two", [])
    clock.advance(2)
    assert await ask(one) == ("first", [])
    assert len(first.requests) == 2


async def test_it_is_held_as_long_as_its_vendor_asks() -> None:
    no = RetryableError("no", reason="rate_limit", retry_after=300.0)
    one, clock = chain(model("a", no, "first"), model("b", "one", "two"), hold=1.0)
    await ask(one)
    clock.advance(299)
    assert (await ask(one))[0] == "two"
    clock.advance(2)
    assert (await ask(one))[0] == "first"


async def test_a_date_that_is_changed_makes_no_hold_longer() -> None:
    one, clock = chain(model("a", RetryableError("no"), "first"), model("b", "one"))
    await ask(one)
    clock.set_date(clock.now() - 1_000_000)
    assert (await ask(one))[0] == "first"


async def test_if_none_answers_each_was_asked_once_and_then_one_for_each_retry() -> None:
    no = RetryableError("no")
    first, second, third = (model(name, no) for name in "abc")
    one, clock = chain(first, second, third)
    with pytest.raises(RetryableError) as raised:
        await one.chat(asks())
    assert str(raised.value) == (
        "No model answered. a: unavailable after 0 s: no; b: unavailable after 0 s: no; c: unavailable after 0 s: no"
    )
    assert raised.value.retry_after is None
    assert raised.value.__context__ is None
    for expected in (first, second, third, first):
        before = [len(each.requests) for each in (first, second, third)]
        clock.advance(1)
        with pytest.raises(RetryableError):
            await one.chat(asks())
        after = [len(each.requests) for each in (first, second, third)]
        assert [new - old for new, old in zip(after, before, strict=True)] == [
            int(each is expected) for each in (first, second, third)
        ]


async def test_no_model_is_asked_before_its_vendors_pause_is_over() -> None:
    first = model("a", RetryableError("no", retry_after=100.0), "yes")
    second = model("b", RetryableError("no", retry_after=200.0))
    one, clock = chain(first, second)
    for wait in (100.0, 60.0):
        with pytest.raises(RetryableError) as raised:
            await one.chat(asks())
        assert raised.value.retry_after == wait
        clock.advance(40)
    assert (len(first.requests), len(second.requests)) == (1, 1)
    clock.advance(21)
    assert (await ask(one))[0] == "yes"


async def test_an_error_that_no_retry_helps_is_raised_as_it_is() -> None:
    spent = ClicketError("spent", reason="rate_limit")
    one, _ = chain(model("a", spent), model("b", spent))
    with pytest.raises(ClicketError) as raised:
        await ask(one)
    assert raised.value is spent


async def test_holds_are_of_the_process() -> None:
    one = Fallback(model("held-here", RetryableError("no")), model("b", "one"))
    other = Fallback(model("held-here", "never"), model("b", "two"))
    assert ((await ask(one))[0], (await ask(other))[0]) == ("one", "two")


# Stalls.


class Slow:
    """Sends pieces, and waits for the clock in between: `pauses` in seconds."""

    def __init__(self, name: str, clock: StepClock, *pauses: float) -> None:
        self.name = name
        self.clock = clock
        self.pauses = pauses
        self.cancelled = False

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        try:
            for number, pause in enumerate(self.pauses):
                woken = asyncio.Event()
                self.clock.call_later(pause, woken.set)
                await woken.wait()
                if number < len(self.pauses) - 1:
                    tell(Delta("text", str(number)))
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return ChatReply(text="".join(map(str, range(len(self.pauses) - 1))))


@pytest.mark.parametrize(
    ("pauses", "after"),
    [((10.5, 1.0), 10.0), ((9.0, 20.5), 29.0), ((9.0, 19.0, 20.5), 48.0), ((9.0, 19.0, 19.0), None)],
    ids=["no first piece", "no end", "no next piece", "slow, but alive"],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_stalled_request_is_cancelled(pauses: tuple[float, ...], after: float | None, streamed: bool) -> None:
    clock = StepClock()
    slow = Slow("slow", clock, *pauses)
    one = Fallback(slow, model("b", "yes"), clock=clock)
    failed: list[FailedTry] = []
    pieces: list[str] = []
    request = (
        one.stream(asks(), lambda piece: pieces.append(piece.text), on_failed=failed.append)
        if streamed
        else one.chat(asks(), on_failed=failed.append)
    )
    work = asyncio.create_task(request)
    await clock.run(sum(pauses) + 1)
    reply = await work
    assert slow.cancelled == (after is not None)
    assert [(each.reason, each.seconds) for each in failed] == ([] if after is None else [("stalled", after)])
    assert reply.text == ("01" if after is None else "yes")
    assert not clock.pending or after is not None
    if streamed:
        assert "".join(pieces).endswith(reply.text)


async def test_no_limits_no_streaming() -> None:
    class Whole(ScriptedModel):
        async def stream(self, request: ChatRequest, tell: Any) -> ChatReply:
            raise AssertionError

    one, _ = chain(Whole(["yes"]), first_piece=None, next_piece=None)
    assert (await ask(one))[0] == "yes"


async def test_a_cancelled_caller_cancels_the_request() -> None:
    clock = StepClock()
    slow = Slow("slow", clock, 5.0)
    work = asyncio.create_task(Fallback(slow, model("b", "yes"), clock=clock).chat(asks()))
    await clock.settle()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert slow.cancelled


async def test_a_model_without_tools_works_while_its_pieces_are_withheld() -> None:
    """What it writes may be a tool call, so readers get no piece of it before the end."""
    clock = StepClock()
    slow = Slow("slow", clock, *([9.0] * 6))
    one = Fallback(SchemaTools(slow), model("b", "yes"), clock=clock)
    pieces: list[Delta] = []
    work = asyncio.create_task(one.stream(asks(), pieces.append))
    await clock.run(60)
    assert (await work).text == "01234"
    assert pieces == [Delta("text", "01234")]


async def test_pieces_of_a_model_that_does_not_stream() -> None:
    class Whole:
        name = "whole"

        async def chat(self, request: ChatRequest) -> ChatReply:
            return ChatReply(text="all of it", thought="hm")

    pieces: list[Delta] = []
    one, _ = chain(Whole())
    await one.stream(asks(), pieces.append)
    assert pieces == [Delta("thought", "hm"), Delta("text", "all of it")]


@pytest.mark.parametrize("pieces", [None, [], ["Hm", "m"]], ids=["no head", "no piece", "in mid-stream"])
async def test_the_connection_of_a_stalled_request_is_closed(provider: Provider, pieces: list[str] | None) -> None:
    provider.answers = [says(anthropic_model, "yes")]
    clock = StepClock()
    async with stalling() as vendor:
        vendor.pieces = pieces
        first = OpenAIModel("slow", base_url=vendor.url, api_key=KEY)
        one = Fallback(first, anthropic_model(provider), clock=clock)
        seen: list[str] = []
        arrived = asyncio.Event()

        def took(piece: Delta) -> None:
            seen.append(piece.text)
            if len(seen) == len(pieces or ()):
                arrived.set()

        work = asyncio.create_task(one.stream(asks(), took))
        await vendor.asked.wait()
        if pieces:
            await arrived.wait()
        clock.advance(21 if pieces else 11)
        reply = await work
        await vendor.left.wait()
        assert reply.text == "yes"
        assert len(vendor.requests) == 1
        assert "".join(seen) == "".join(pieces or ()) + "yes"
        await one.close()


# What only one model can read.

THOUGHTS = {"anthropic": [{"type": "thinking", "thinking": "hm", "signature": "s1"}, {"type": "tool_use"}]}


async def test_signed_thoughts_go_to_their_own_model_alone() -> None:
    first = model("a", ChatReply(text="Hm.", vendor=THOUGHTS), RetryableError("no"), "back")
    second = model("b", ChatReply(text="B", vendor={"b": [1]}), "more")
    one, clock = chain(first, second)
    wrote = await one.chat(asks())
    said = assistant(text=wrote.text, vendor=wrote.vendor)
    foreign = assistant(text="of a turn before the chain", vendor=THOUGHTS)
    ours = user("news")
    conversation = (user("x"), foreign, user("q"), said, user("go on"), ours)
    other = await one.chat(asks(*conversation))
    assert [message.vendor for message in second.requests[0].messages] == [None] * 6
    clock.advance(61)
    back = await one.chat(asks(*conversation, assistant(text=other.text, vendor=other.vendor), user("?")))
    assert back.text == "back"
    seen = [message.vendor for message in first.requests[2].messages]
    assert seen == [None, THOUGHTS, None, THOUGHTS, None, None, None, None]


async def test_thinking_is_off_for_a_step_that_another_model_began(provider: Provider) -> None:
    """With `thinking`, the API refuses tool results whose call has no signed thought before it."""
    one = anthropic_model(provider, options={"thinking": {"type": "enabled", "budget_tokens": 1024}})
    provider.answers = [says(anthropic_model, "yes")] * 3
    call = ("c1", "add", '{"a": 1}')
    await one.chat(asks(user("q"), assistant(call), result("c1", "2")))
    await one.chat(asks(user("q"), assistant(call, vendor=THOUGHTS), result("c1", "2")))
    await one.chat(asks(user("q"), assistant(call), result("c1", "2"), assistant(text="Two."), user("more")))
    assert ["thinking" in body for body in provider.requests] == [False, True, True]


async def test_deferred_tools_go_to_models_that_take_them() -> None:
    class Defers(ScriptedModel):
        defers_tools = True

    first, second = Defers([RetryableError("no")], name="a"), model("b", "yes")
    one, _ = chain(first, second)
    assert one.defers_tools
    await one.chat(asks(tools=(ToolOffer(name="x"), ToolOffer(name="y", deferred=True))))
    assert [offer.name for offer in first.requests[0].tools] == ["x", "y"]
    assert [offer.name for offer in second.requests[0].tools] == ["x"]


# The vendors' errors.


@VENDORS
@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rate_limit"), (503, "unavailable"), (529, "unavailable"), (504, "timeout")]
)
async def test_statuses_of_vendors(provider: Provider, make: Make, status: int, reason: str) -> None:
    error = {"type": "error", "error": {"type": "x", "message": "not now"}}
    provider.answers = [{"status": status, "headers": {"retry-after": "90"}, "body": error}, says(make, "yes")]
    one, _ = chain(make(provider), make(provider))
    failed: list[FailedTry] = []
    reply = await one.chat(asks(), on_failed=failed.append)
    name = make(provider).name
    assert (reply.text, [(each.model, each.reason, each.next) for each in failed]) == (
        "yes",
        [(name, reason, f"{name}#2")],
    )
    with pytest.raises(IndexError):  # the second is asked again, the first is held: there is no answer left
        provider.next()


# How it is made.


def test_it_is_a_model_that_streams() -> None:
    one = Fallback(model("a"), model("b"))
    assert isinstance(one, StreamingModel)
    assert isinstance(one, ModelChain)
    assert not isinstance(model("a"), ModelChain)
    assert one.name == "a, b"
    named = Fallback(
        OpenAIModel("x", base_url="http://one/v1", api_key="k"),
        OpenAIModel("x", base_url="http://two/v1", api_key="k"),
        AnthropicModel("y", api_key="k"),
    )
    assert named.name == "openai:x, openai:x#2, anthropic:y"
    assert len({link.key for link in named._links}) == 3


@pytest.mark.parametrize(
    ("models", "options", "why"),
    [
        ((), {}, "needs models"),
        (("openai:x",), {}, "model_of"),
        ((Fallback(ScriptedModel([])),), {}, "in one"),
        ((ScriptedModel([]),), {"on": "refusal"}, "list"),
        ((ScriptedModel([]),), {"on": ["refuse"]}, "Did you mean 'refusal'"),
        ((ScriptedModel([]),), {"on": [3]}, "neither"),
        ((ScriptedModel([]),), {"first_piece": 0}, "first_piece"),
        ((ScriptedModel([]),), {"next_piece": True}, "next_piece"),
        ((ScriptedModel([]),), {"hold": -1}, "hold"),
        ((ScriptedModel([]),), {"hold": None}, "hold"),
    ],
)
def test_mistakes(models: Any, options: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Fallback(*models, **options)


@pytest.mark.parametrize(
    ("ways", "by"),
    [
        (("schema", "schema"), "schema"),
        (("schema", "tool"), "tool"),
        (("tool", "text"), "text"),
        (("schema", "text"), "text"),
    ],
)
def test_an_answer_of_a_type_is_asked_for_in_a_way_that_all_models_take(ways: tuple[Any, Any], by: str) -> None:
    models = (ScriptedModel([], name=way_name, typed_by=way) for way_name, way in zip("ab", ways, strict=True))
    assert Fallback(*models).typed_by == by
