"""Which failures are retried, how often, and after how long."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound, label, make, states

from clicket import RetryableError, State, ToolContext, tool
from clicket.engine.executors.retry import MAX_DELAY, backoff
from clicket.tools.options import Options


class Http(Exception):
    """An HTTP error like those of common HTTP clients."""

    def __init__(self, status: int, where: str) -> None:
        super().__init__(f"HTTP {status}")
        if where == "response":
            self.response = type("Response", (), {"status_code": status})()
        else:
            setattr(self, where, status)


class Certain(Exception):
    """An error that declares whether another try may help."""

    def __init__(self, *, retryable: bool) -> None:
        super().__init__("certain")
        self.retryable = retryable


def failing(*errors: BaseException, **options: Any) -> tuple[Any, list[int]]:
    """A tool that raises these in turn and then returns, and the attempts that it saw."""
    seen: list[int] = []

    @tool(**{"retry_delay": 0.001, **options})
    async def flaky(ctx: ToolContext) -> str:
        seen.append(ctx.attempt)
        if len(seen) <= len(errors):
            raise errors[len(seen) - 1]
        return "done"

    return flaky, seen


@pytest.mark.parametrize(
    "error",
    [
        RetryableError("try again"),
        ConnectionError("reset"),
        ConnectionRefusedError("refused"),
        BrokenPipeError("gone"),
        Http(429, "status_code"),
        Http(502, "status"),
        Http(503, "response"),
        Http(504, "response"),
        Certain(retryable=True),
    ],
    ids=label,
)
async def test_errors_that_say_they_are_transient_are_tried_again(store: str, error: Exception) -> None:
    flaky, seen = failing(error, error)
    async with make([flaky], store) as rt:
        result = await rt.call("flaky")
        record = await rt.get(result.call_id)
    assert result.output == "done"
    assert result.attempts == 3
    assert seen == [1, 2, 3]
    assert states(record.events) == [
        "pending", "initializing", "running", "retrying", "running", "retrying", "running", "completed",
    ]  # fmt: skip
    assert [a.outcome for a in record.attempts] == ["tool_error", "tool_error", "ok"]
    assert all(a.error is not None and a.error.retryable for a in record.attempts[:2])
    assert all(a.ended_at is not None and a.ended_at >= a.started_at for a in record.attempts)
    assert_sound(record)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        TimeoutError("the tool's own"),
        OSError("disk"),
        KeyError("k"),
        Http(500, "status_code"),
        Http(404, "response"),
        Certain(retryable=False),
        SystemExit(1),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        MemoryError(),
    ],
    ids=label,
)
async def test_other_errors_are_not(store: str, error: BaseException) -> None:
    flaky, seen = failing(error)
    async with make([flaky], store) as rt:
        result = await rt.call("flaky")
        assert (await rt.call("flaky")).output == "done"  # and the runtime still works
    assert result.state is State.FAILED
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert not result.error.retryable
    assert result.error.message
    assert seen[0] == 1
    assert result.attempts == 1


async def test_retry_on_names_more(store: str) -> None:
    flaky, seen = failing(KeyError("a"), IndexError("b"), retry_on=(LookupError,))
    async with make([flaky], store) as rt:
        assert (await rt.call("flaky")).attempts == 3
    assert seen == [1, 2, 3]


async def test_an_error_that_says_no_is_not_overruled_by_retry_on(store: str) -> None:
    flaky, _ = failing(Certain(retryable=False), retry_on=Certain)
    async with make([flaky], store) as rt:
        assert (await rt.call("flaky")).attempts == 1


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_max_retries_is_exact(store: str, retries: int) -> None:
    flaky, seen = failing(*[RetryableError("again")] * 10, max_retries=retries)
    async with make([flaky], store) as rt:
        result = await rt.call("flaky")
        record = await rt.get(result.call_id)
    assert result.state is State.FAILED
    assert result.attempts == len(record.attempts) == len(seen) == retries + 1
    assert states(record.events).count("retrying") == retries
    assert result.error is not None
    assert result.error.message == "again"


async def test_a_transient_error_that_used_up_its_tries_still_says_that_it_is_transient(store: str) -> None:
    flaky, _ = failing(*[RetryableError("busy")] * 2, max_retries=1)
    async with make([flaky], store) as rt:
        result = await rt.call("flaky")
    assert result.error is not None
    assert result.error.retryable


async def test_a_sync_tool_is_retried_too(store: str) -> None:
    tries = []

    @tool(retry_delay=0.001)
    def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionResetError("again")
        return len(tries)

    async with make([flaky], store) as rt:
        assert (await rt.call("flaky")).output == 3


async def test_a_stream_that_breaks_starts_its_output_anew(store: str) -> None:
    tries = []

    @tool(retry_delay=0.001)
    async def stream() -> Any:
        tries.append(1)
        yield "a"
        if len(tries) == 1:
            raise RetryableError("broke")
        yield "b"

    async with make([stream], store) as rt:
        result = await rt.call("stream")
        record = await rt.get(result.call_id)
    assert result.output == "ab"
    assert [e.data["content"] for e in record.events if e.type == "output"] == ["a", "a", "b"]
    assert states(record.events) == [
        "pending", "initializing", "running", "streaming", "retrying", "running", "streaming", "completed",
    ]  # fmt: skip
    assert_sound(record)


async def test_retry_after_is_honoured(store: str) -> None:
    times = []

    @tool(retry_delay=0.001, max_retries=1)
    async def flaky() -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            raise RetryableError("later", retry_after=0.15)

    async with make([flaky], store) as rt:
        result = await rt.call("flaky")
        record = await rt.get(result.call_id)
    assert result.success
    assert times[1] - times[0] >= 0.15
    assert record.attempts[0].delay == 0.15


async def test_the_planned_delay_is_on_record_and_was_waited(store: str) -> None:
    flaky, _ = failing(RetryableError("x"), RetryableError("x"), retry_delay=0.04)
    async with make([flaky], store) as rt:
        record = await rt.get((await rt.call("flaky")).call_id)
    first, second, third = record.attempts
    assert first.delay is not None
    assert second.delay is not None
    assert 0.02 <= first.delay <= 0.04
    assert 0.04 <= second.delay <= 0.08
    assert first.ended_at is not None
    assert second.ended_at is not None
    assert second.started_at - first.ended_at >= first.delay - 0.001
    assert third.started_at - second.ended_at >= second.delay - 0.001


def test_backoff_doubles_is_jittered_and_capped() -> None:
    options = Options(retry_delay=1.0)
    error = RetryableError("x")
    for retry in range(1, 8):
        drawn = [backoff(retry, options, error, random.Random(seed)) for seed in range(200)]
        most = min(2.0 ** (retry - 1), MAX_DELAY)
        assert all(most / 2 <= delay <= most for delay in drawn)
        assert len(set(drawn)) > 100
    assert backoff(500, options, error, random.Random(0)) <= MAX_DELAY
    same = [
        [backoff(n, options, error, chance) for n in range(1, 6)] for chance in (random.Random(7), random.Random(7))
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize(("asked", "least"), [(5, 5.0), (0.2, 0.5), (-3, 0.5), (None, 0.5), ("soon", 0.5)])
def test_backoff_is_never_shorter_than_the_servers_retry_after(asked: Any, least: float) -> None:
    error = RetryableError("x")
    error.retry_after = asked
    assert backoff(1, Options(retry_delay=1.0), error, random.Random(1)) >= least


async def test_no_further_attempt_after_a_cancel_during_backoff(store: str) -> None:
    flaky, seen = failing(*[RetryableError("again")] * 9, retry_delay=10 * PATIENCE)
    async with make([flaky], store) as rt:
        handle = await rt.submit("flaky")
        async for event in handle.events():
            if event.state is State.RETRYING:
                break
        started = time.monotonic()
        assert await handle.cancel("enough")
        result = await handle.result()
        took = time.monotonic() - started
        record = await rt.get(handle.id)
    assert result.state is State.CANCELLED
    assert took < PATIENCE
    assert seen == [1]
    assert states(record.events)[-2:] == ["retrying", "cancelled"]
    assert_sound(record)


async def test_one_call_that_backs_off_does_not_hold_up_others(store: str) -> None:
    flaky, _ = failing(RetryableError("x"), retry_delay=60.0)

    @tool
    async def quick() -> str:
        return "quick"

    async with make([flaky, quick], store) as rt:
        handle = await rt.submit("flaky")
        assert (await rt.call("quick")).output == "quick"
        await handle.cancel()
