"""The model is called again after transient errors, not before Retry-After, and not longer than the turn's time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.scenarios.agent_kit import Gate, Says

from clicket import RetryableError
from clicket.agents import AgentEvent, ReActAgent
from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest
from clicket.testing import ScriptedModel, StepClock, memory_runtime


class Busy(Exception):
    """The error of a vendor's SDK."""

    status_code = 429

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("rate limit")
        self.retry_after = retry_after


async def asked_at(answers: list[Any], **options: Any) -> tuple[list[float], asyncio.Task[Any], StepClock]:
    """When the model was called, in seconds after the first call, on a clock that runs for an hour."""
    clock, times = StepClock(), []
    script = iter(answers)

    def answer(_: ChatRequest) -> ChatReply:
        times.append(clock.monotonic())
        given = next(script)
        if isinstance(given, BaseException):
            raise given
        return ChatReply(text=given)

    async with memory_runtime(clock=clock) as rt:
        run = asyncio.create_task(ReActAgent(rt, Says(answer), **options).run("go"))
        await clock.settle()
        for _ in range(600):
            if run.done():
                break
            await clock.run(1)
        await asyncio.wait([run])
    return [round(at - times[0], 3) for at in times], run, clock


async def test_a_retry_waits_for_retry_after() -> None:
    times, run, _ = await asked_at([Busy(30), RetryableError("later", retry_after=7.5), "fine"], retry_delay=0.1)
    assert run.result().text == "fine"
    assert times[0] == 0
    assert times[1] >= 30
    assert times[2] >= times[1] + 7.5


async def test_delays_grow() -> None:
    times, run, _ = await asked_at([Busy(), Busy(), Busy(), "fine"], retry_delay=4.0)
    assert run.result().steps == 1
    waits = [later - sooner for sooner, later in pairwise(times)]
    for wait, most in zip(waits, (4, 8, 16), strict=True):
        assert most / 2 <= wait <= most


async def test_the_last_failure_is_raised_when_tries_are_used_up() -> None:
    times, run, _ = await asked_at([Busy()] * 9, model_retries=2, retry_delay=0.1)
    assert len(times) == 3
    with pytest.raises(Busy):
        run.result()


@pytest.mark.parametrize("error", [ValueError("no"), PermissionError("key"), KeyError("x"), UsageError("wrong")])
async def test_a_failure_that_does_not_pass_is_raised_at_once(error: Exception) -> None:
    times, run, _ = await asked_at([error, "never"])
    assert times == [0]
    assert run.exception() is error


async def test_no_retries_when_none_are_wanted() -> None:
    times, run, _ = await asked_at([Busy(), "never"], model_retries=0)
    assert times == [0]
    assert isinstance(run.exception(), Busy)


async def test_the_time_of_the_run_bounds_the_waiting_too() -> None:
    times, run, clock = await asked_at([Busy(1000), "never"], max_seconds=20)
    assert (times, run.result().stopped) == ([0], "budget")
    assert clock.monotonic() < 25


async def test_a_model_that_is_stopped_by_time_has_stopped() -> None:
    clock, gate, stopped = StepClock(), Gate(), asyncio.Event()

    async def answer(_: ChatRequest) -> str:
        try:
            await gate()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "never"

    async with memory_runtime(clock=clock) as rt:
        run = asyncio.create_task(ReActAgent(rt, Says(answer), max_seconds=3).run("go"))
        await gate.reached.wait()
        await clock.run(3.5)
        assert (await run).stopped == "budget"
        assert stopped.is_set()


async def test_readers_get_retries_and_the_deltas_of_each_attempt() -> None:
    async with memory_runtime() as rt:
        agent = ReActAgent(rt, ScriptedModel([RetryableError("busy \ud800"), "hello there"]), retry_delay=0)
        events: list[AgentEvent] = [event async for event in agent.stream("go")]
        retry = next(event for event in events if event.type == "retry")
        assert (retry.step, retry.data["retry"], retry.data["error"]) == (1, 1, "busy \\ud800")
        assert "".join(event.data["text"] for event in events if event.type == "delta") == "hello there"


async def test_a_model_streams_only_if_there_are_readers() -> None:
    ways: list[str] = []

    class Both(Says):
        async def chat(self, request: ChatRequest) -> ChatReply:
            ways.append("chat")
            return await super().chat(request)

        async def stream(self, request: ChatRequest, tell: Any) -> ChatReply:
            ways.append("stream")
            return await Says.chat(self, request)

    async with memory_runtime() as rt:
        agent = ReActAgent(rt, Both(lambda _: "ok"))
        await agent.run("go")
        [event async for event in agent.stream("go")]
        assert ways == ["chat", "stream"]


async def test_an_exception_that_cannot_say_what_it_is_ends_the_run_all_the_same() -> None:
    class Mute(Exception):
        retryable = True

        def __str__(self) -> str:
            raise RuntimeError("no words")

    async with memory_runtime() as rt:
        agent = ReActAgent(rt, ScriptedModel([Mute(), Mute(), "fine"]), model_retries=1, retry_delay=0)
        events = [event async for event in agent.stream("go", thread="t")]
        assert (events[-1].type, events[-1].data["message"]) == ("error", "Mute")
        assert (await agent.run("again", thread="t")).text == "fine"
