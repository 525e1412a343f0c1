"""Messages over a carrier: signed, checked, split, and dropped without harm if they cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.kit.waiting import eventually

from clicket.stores.bus import Channel, OnText
from clicket.stores.bus.signing import BusMessage, read, written

SECRET = b"s" * 32


class Line:
    """A carrier that passes messages to the other end."""

    name = "line"

    def __init__(self, max_size: int = 10_000) -> None:
        self.max_size = max_size
        self.trouble: str | None = None
        self.sent: list[tuple[int, bytes]] = []
        self.ends: dict[int, OnText] = {}

    def start(self, space: str, me: int, on_text: OnText) -> None:
        self.ends[me] = on_text

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        self.sent += messages
        for to, text in messages:
            for number, on_text in self.ends.items():
                if to in (0, number):
                    on_text(to, text)

    async def close(self) -> None:
        self.ends.clear()


class End:
    def __init__(self, line: Line, me: int) -> None:
        self.hints: list[tuple[str, int]] = []
        self.bodies: list[tuple[str, int, bytes]] = []
        self.channel = Channel(line, lambda kind, key: self.hints.append((kind, key)))
        self.channel.hear = lambda kind, key, body: self.bodies.append((kind, key, body))
        self.channel.open("space", me, SECRET)


@asynccontextmanager
async def ends(line: Line, count: int = 2) -> AsyncIterator[list[End]]:
    made = [End(line, number) for number in range(1, count + 1)]
    try:
        yield made
    finally:
        for end in made:
            await end.channel.close()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_message_reaches_the_one_it_is_for_or_all_others() -> None:
    async with ends(Line(), 3) as (one, two, three):
        one.channel.post("work", 7, 2)
        one.channel.post("slot", 0)
        one.channel.post("events", 5, 3, b'["a"]')
        await settle()
        assert (two.hints, two.bodies) == ([("work", 7), ("slot", 0)], [])
        assert (three.hints, three.bodies) == ([("slot", 0)], [("events", 5, b'["a"]')])
        assert (one.hints, one.bodies) == ([], []), "the sender does not get its own"


async def test_what_goes_to_one_process_goes_in_one_message_and_once() -> None:
    line = Line()
    async with ends(line) as (one, two):
        for _ in range(3):
            one.channel.post("work", 7, 2)
        one.channel.post("events", 1, 2, b"[1]")
        one.channel.post("events", 1, 2, b"[2]")
        await settle()
        assert len(line.sent) == 1
        assert two.hints == [("work", 7)]
        assert [body for *_, body in two.bodies] == [b"[1]", b"[2]"], "in their order"


async def test_a_message_that_can_wait_goes_with_the_next_one() -> None:
    line = Line()
    async with ends(line) as (one, two):
        one.channel.post("events", 1, 2, b"[1]", soon=False)
        await settle()
        assert line.sent == []
        one.channel.post("events", 1, 2, b"[2]")
        await settle()
        assert len(line.sent) == 1
        assert len(two.bodies) == 2
        one.channel.post("events", 1, 2, b"[3]", soon=False)
        await asyncio.sleep(0.05)
        assert len(two.bodies) == 3, "nor does it wait for ever"


async def test_what_is_forged_is_dropped_and_counted() -> None:
    line = Line()
    async with ends(line) as (one, two):
        one.channel.post("work", 7, 2)
        await settle()
        ((to, text),) = line.sent
        two.hints.clear()
        for forged in (b"", b"rubbish", b"\xff" * 40, b"0" * 32 + text[32:], text.replace(b"7", b"8"), text + b" "):
            line.ends[2](to, forged)
        line.ends[2](0, text)  # addressed to one, sent to all
        assert two.hints == []
        assert two.channel.forged == 7
        line.ends[2](to, text)
        assert two.hints == [("work", 7)], "the same message may arrive twice"


async def test_a_body_that_is_too_long_is_left_out_and_many_messages_are_split() -> None:
    line = Line(max_size=500)
    async with ends(line) as (one, two):
        one.channel.post("events", 1, 2, b'"' + b"x" * 1_000 + b'"')
        for key in range(100):
            one.channel.post("work", key, 2)
        await settle()
        assert two.hints == [("events", 1), *(("work", key) for key in range(100))]
        assert all(len(text) <= 500 for _, text in line.sent)


async def test_while_the_carrier_is_down_nothing_is_kept() -> None:
    line = Line()
    async with ends(line) as (one, two):
        line.trouble = "the bus is away"
        one.channel.post("work", 1)
        line.trouble = None
        one.channel.post("work", 2)
        await settle()
        assert two.hints == [("work", 2)]


async def test_a_follow_up_that_fails_does_not_stop_the_next_message() -> None:
    async with ends(Line()) as (one, two):

        def hear(kind: str, key: int, body: bytes) -> None:
            raise RuntimeError("a part that fails")

        two.channel.hear = hear
        one.channel.post("events", 1, 2, b"[1]")
        one.channel.post("work", 2, 2)
        await settle()
        assert two.hints == [("work", 2)]


async def test_a_closing_channel_sends_what_waits() -> None:
    line = Line()
    async with ends(line) as (one, two):
        one.channel.post("work", 1, soon=False)
        await one.channel.close()
        assert two.hints == [("work", 1)]


@pytest.mark.parametrize("other", [b"t" * 32, b""])
def test_a_message_is_read_with_its_own_secret_alone(other: bytes) -> None:
    (text,) = written([BusMessage("work", 1)], 5, 0, SECRET, 1_000)
    assert read(text, 0, SECRET) == (5, [BusMessage("work", 1)])
    assert read(text, 0, other) is None
    assert read(text, 3, SECRET) is None


async def test_a_message_that_the_store_sends_takes_what_waited_along() -> None:
    line = Line()
    async with ends(line) as (one, two):
        one.channel.post("events", 7, 2, b'["start"]', soon=False)
        one.channel.post("health", 0, 2, soon=False)
        sealed = one.channel.seal(2, [BusMessage("events", 7, msgspec.Raw(b'["end"]'))])
        assert sealed is not None
        taken, text = sealed
        assert [message.kind for message in taken] == ["events", "health"]
        line.ends[2](2, text)
        assert two.bodies == [("events", 7, b'["start"]'), ("events", 7, b'["end"]')]
        assert two.hints == [("health", 0)]
        one.channel.post("health", 0, 2)
        await eventually(lambda: len(two.hints) == 2)
        assert len(two.bodies) == 2, "what was taken along is not sent again"


async def test_the_store_puts_the_keys_of_new_calls_in_front() -> None:
    line = Line()
    async with ends(line) as (one, two):
        offers = [BusMessage("work", -1, msgspec.Raw(b"[%d]" % n)) for n in range(2)]
        sealed = one.channel.seal(2, [offers[0], BusMessage("events", 7, msgspec.Raw(b"[]")), offers[1]], new=2)
        assert sealed is not None
        line.ends[2](2, b"+41,42\n" + sealed[1])
        assert two.bodies == [("work", 41, b"[0]"), ("events", 7, b"[]"), ("work", 42, b"[1]")]
        for keys in (b"+41", b"+41,42,43", b"+", b"+a,b"):
            line.ends[2](2, keys + b"\n" + sealed[1])
        assert (len(two.bodies), two.channel.forged) == (3, 4)


async def test_a_message_that_cannot_be_one_is_not_sealed() -> None:
    line = Line(max_size=300)
    async with ends(line) as (one, _):
        one.channel.post("events", 7, 2, b'["start"]', soon=False)
        assert one.channel.seal(2, [BusMessage("events", 7, msgspec.Raw(b'"%b"' % (b"x" * 300)))]) is None
        line.trouble = "away"
        assert one.channel.seal(2, [BusMessage("events", 7)]) is None
        line.trouble = None
        sealed = one.channel.seal(2, [])
        assert sealed is not None
        assert len(sealed[0]) == 1, "what waits stays until it is taken"
