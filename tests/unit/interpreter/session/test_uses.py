"""Uses of tools as the host takes them: in order, bounded, and none after the block's end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import PATIENCE

from clicket.interpreter.session.block_clock import BlockClock
from clicket.interpreter.session.protocol import UseFrame, Violation, WithdrawFrame, decode
from clicket.interpreter.session.timers import Timers
from clicket.interpreter.session.uses import SessionUses


class Pipe:
    """What a session's connection does for uses."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.paused = 0
        self.unsent = 0

    def send(self, frame: bytes) -> None:
        self.sent.append(msgspec.json.decode(frame[4:]))

    def pause_all(self) -> None:
        self.paused += 1

    async def drain_commands(self) -> None:
        return None


class Handler:
    def __init__(self) -> None:
        self.listing: dict[str, Any] = {"tools": []}
        self.begun: list[tuple[str, bytes, Callable[[bytes], Awaitable[None] | None]]] = []
        self.cancelled: list[int] = []

    def begin(
        self, tool: str, arguments: bytes, reply: Callable[[bytes], Awaitable[None] | None]
    ) -> Callable[[], object]:
        self.begun.append((tool, arguments, reply))
        place = len(self.begun)
        return lambda: self.cancelled.append(place)


class Scene:
    def __init__(self) -> None:
        self.pipe, self.handler, self.room = Pipe(), Handler(), 0
        self.timers = Timers()
        self.clock = BlockClock(self.timers, lambda: None)
        self.uses = SessionUses(self.pipe, self.clock, self.on_room)  # type: ignore[arg-type]

    def on_room(self) -> None:
        self.room += 1


def use(number: int, arguments: bytes = b"{}") -> UseFrame:
    return UseFrame(id=1, use=number, tool="t", arguments=msgspec.Raw(arguments))


async def test_uses_are_handed_on_and_answered() -> None:
    scene = Scene()
    assert scene.uses.begin(scene.handler) == {"tools": {"tools": []}}
    scene.uses.take(use(1, b'{"n":1}'))
    tool, arguments, reply = scene.handler.begun[0]
    assert (tool, arguments) == ("t", b'{"n":1}')
    assert reply(b'"value":7') is None
    assert reply(b'"value":8') is None, "a second answer is dropped"
    assert scene.pipe.sent == [{"op": "answer", "use": 1, "value": 7}]
    assert scene.uses.begin(scene.handler) == {}, "the worker knows the tools"
    assert scene.uses.begin(None) == {"tools": None}


async def test_numbers_have_no_gaps_in_all_blocks() -> None:
    scene = Scene()
    scene.uses.begin(scene.handler)
    scene.uses.take(use(1))
    for wrong in (1, 3, 2**53):
        with pytest.raises(Violation):
            scene.uses.take(use(wrong))
    with pytest.raises(Violation):
        scene.uses.take(WithdrawFrame(id=1, use=2))
    scene.uses.close()
    scene.uses.begin(scene.handler)
    with pytest.raises(Violation):
        scene.uses.take(use(1))
    scene.uses.take(use(2))


async def test_a_program_without_tools_uses_none() -> None:
    scene = Scene()
    scene.uses.begin(None)
    with pytest.raises(Violation):
        scene.uses.take(use(1))


async def test_the_end_of_the_block_cancels_what_is_under_way() -> None:
    scene = Scene()
    scene.uses.begin(scene.handler)
    for number in (1, 2, 3):
        scene.uses.take(use(number))
    scene.uses.take(WithdrawFrame(id=1, use=2))
    assert scene.handler.cancelled == [2]
    scene.uses.close()
    assert scene.handler.cancelled == [2, 1, 3]
    for _, _, reply in scene.handler.begun:
        reply(b'"value":1')
    assert not scene.pipe.sent, "nothing is answered after the end"
    scene.uses.take(use(4))  # from the handler of its interrupt
    assert scene.pipe.sent[0]["error"]["code"] == "cancelled"
    assert len(scene.handler.begun) == 3


async def test_many_bytes_under_way_make_the_program_wait() -> None:
    scene = Scene()
    scene.uses.begin(scene.handler)
    big = b'"' + b"x" * 3_000_000 + b'"'
    for number in (1, 2):
        scene.uses.take(use(number, big))
    assert (scene.uses.full, scene.pipe.paused) == (False, 0)
    scene.uses.take(use(3, big))
    assert (scene.uses.full, scene.pipe.paused) == (True, 1)
    scene.handler.begun[0][2](b'"value":1')
    assert (scene.uses.full, scene.room) == (False, 1)


async def test_unread_answers_make_further_uses_wait() -> None:
    scene = Scene()
    scene.uses.begin(scene.handler)
    scene.uses.take(use(1))
    scene.pipe.unsent = 10_000_000
    waiting = scene.handler.begun[0][2](b'"value":1')
    assert waiting is not None
    await waiting


async def test_the_clock_of_a_block_stands_still_meanwhile() -> None:
    due: list[str] = []
    timers = Timers()
    clock = BlockClock(timers, lambda: due.append("due"))
    started: list[float] = []
    timers.start = lambda name, delay, action, *arguments: started.append(delay)  # type: ignore[method-assign]
    clock.start(10)
    clock.pause()
    clock.pause()
    clock.resume()
    clock.resume()
    assert len(started) == 2
    assert 9 < started[1] <= 10
    clock.stop()
    clock.resume()
    assert len(started) == 2, "a block that ended has no time"
    clock.start(None)
    clock.pause()
    clock.resume()
    assert len(started) == 2, "no limit stays no limit"


async def test_a_program_that_computes_while_a_use_is_under_way_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.interpreter.session.block_clock._LOOK_EVERY", 0.01)
    due, looks = asyncio.Event(), 0

    def computes() -> float:
        nonlocal looks
        looks += 1
        return looks * 10.0  # on many cores

    clock = BlockClock(Timers(), due.set, computes)
    clock.start(0.1)
    clock.pause()
    await asyncio.wait_for(due.wait(), PATIENCE)
    assert looks > 3, "no more is charged than the time that passed"

    idle_looks = asyncio.Event()
    due.clear()

    def waits() -> float:
        nonlocal looks
        looks += 1
        if looks == 60:
            idle_looks.set()
        return 7.0

    looks, clock = 0, BlockClock(Timers(), due.set, waits)
    clock.start(0.1)
    clock.pause()
    await asyncio.wait_for(idle_looks.wait(), PATIENCE)
    assert not due.is_set(), "a program that waits is not charged"
    clock.resume()
    await asyncio.wait_for(due.wait(), PATIENCE)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"use","id":1,"use":0,"tool":"t","arguments":{}}',
        b'{"type":"use","id":1,"use":1,"arguments":{}}',
        b'{"type":"use","id":1,"use":1,"tool":7,"arguments":{}}',
        b'{"type":"use","id":1,"use":1,"tool":"t","arguments":{},"caller":"admin"}',
        b'{"type":"use","id":1,"use":1,"tool":"' + b"t" * 3_000 + b'","arguments":{}}',
        b'{"type":"use","id":1,"use":1,"tool":"t","arguments":{"x":"' + b"x" * 5_000_000 + b'"}}',
        b'{"type":"withdraw","id":1}',
    ],
)
def test_frames_that_no_worker_sends_are_violations(body: bytes) -> None:
    with pytest.raises(Violation):
        decode(body)
