"""The bytes of a connection: answers to questions, what comes unasked, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ResponseError
from tests.kit.waiting import eventually
from tests.unit.engine.fakes import Recorder

from clicket.stores.redis.line import Line


def line() -> tuple[Line, list[bytes]]:
    sent: list[bytes] = []
    transport: Any = Recorder(write=sent.append)
    return Line(transport, ResponseError), sent


async def test_replies_go_to_the_question_and_the_others_to_the_listener() -> None:
    it, sent = line()
    heard: list[Any] = []
    it.on_reply = heard.append
    answer = it.ask(b"two", 2, 10.0)
    it.data_received(b":1\r\n-ERR no")
    assert not answer.done()
    it.data_received(b"\r\n+unasked\r\n")
    first, second = await answer
    assert (sent, first, str(second), heard) == ([b"two"], 1, "ERR no", [b"unasked"])
    it.data_received(b"+more\r\n")
    assert heard == [b"unasked", b"more"]


@pytest.mark.parametrize("end", ["closed", "eof", "error", "nonsense"])
async def test_whoever_waits_learns_that_the_line_is_lost(end: str) -> None:
    it, _ = line()
    staying = asyncio.ensure_future(it.stays(60.0))
    await asyncio.sleep(0)
    answer = it.ask(b"x", 1, 10.0)
    if end == "closed":
        it.connection_lost(None)
    elif end == "eof":
        it.eof_received()
    elif end == "error":
        it.connection_lost(OSError("gone"))
    else:
        it.data_received(b"nonsense\r\n")
    for waiting in (answer, staying, it.ask(b"y", 1, 10.0)):
        with pytest.raises((OSError, ValueError)):
            await waiting


async def test_a_question_that_is_not_answered_in_time_ends_the_line() -> None:
    it, _ = line()
    patient = it.ask(b"x", 1, 60.0)
    it.data_received(b":1\r\n")
    assert await patient == [1]
    with pytest.raises(TimeoutError):
        await it.ask(b"y", 1, 0.01)  # although the timer of the first one is late
    assert it.lost is not None


async def test_an_early_timer_looks_again() -> None:
    it, _ = line()
    first = it.ask(b"x", 1, 0.01)
    it.data_received(b":1\r\n")
    assert await first == [1]
    second = it.ask(b"y", 1, 0.05)
    await eventually(second.done)
    with pytest.raises(TimeoutError):
        await second
