"""Slots that processes share: a call starts when all processes together have a free slot, and always releases its slot."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.inputs import Inputs
from clicket.engine.live_call import Call
from clicket.engine.slots.gate import SharedSlotGate
from clicket.engine.slots.rates import Rates
from clicket.errors import StoreUnavailable


@tool(max_concurrency=2)
async def limited() -> str:
    return ""


@tool
async def free() -> str:
    return ""


class Slots:
    """Slots held by all processes, answered when the test allows it."""

    def __init__(self) -> None:
        self.spare = 0
        self.asked: list[tuple[str, int]] = []
        self.given: list[str] = []
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def take_spare(self, name: str) -> bool:
        self.spare -= 1
        return self.spare >= 0

    async def take(self, name: str, capacity: int) -> bool:
        self.asked.append((name, capacity))
        return await asyncio.shield(self.answer)

    def give(self, name: str) -> None:
        self.given.append(name)


class Parts:
    def __init__(self, *, shares: bool = True) -> None:
        self.low, slots = Lower(limited, free), Slots()
        self.slots = slots
        self.log: list[tuple[str, Any]] = []
        self.rates = Rates(self.low.store, self.low.registry, self.low.clock, self.low.phase)
        given: Any = slots
        inputs: Any = Recorder(
            Inputs,
            slots_granted=lambda call: self.log.append(("start", call)),
            slots_refused=lambda call: self.log.append(("wait", call)),
            stopped_before_start=lambda call: self.log.append(("stopped", call)),
        )
        self.gate = SharedSlotGate(
            self.low.limiter,
            given,
            self.rates,
            self.low.journal,
            self.low.phase,
            inputs,
            shares=shares,
            spawn=self.low.spawn,
        )

    def call(self, name: str = "limited") -> Call:
        call = self.low.pending(name)
        assert self.low.limiter.take(call)
        return call

    async def answered(self, granted: bool | Exception) -> None:
        await self.low.settle()
        if isinstance(granted, bool):
            self.slots.answer.set_result(granted)
        else:
            self.slots.answer.set_exception(granted)
        await self.low.settle()


async def test_a_call_starts_at_once_where_nothing_is_shared() -> None:
    assert Parts(shares=False).gate.admits(Parts(shares=False).call())
    parts = Parts()
    assert parts.gate.admits(parts.call("free")), "a tool without a limit"
    assert parts.slots.asked == []


async def test_a_call_takes_what_another_call_here_gave_back() -> None:
    parts = Parts()
    call = parts.call()
    parts.slots.spare = 1
    assert parts.gate.admits(call)
    assert (call.shared_slot, parts.slots.asked) == (True, [])
    assert parts.gate.admits(call), "its next attempt has the slot already"
    parts.gate.release(call)
    assert (parts.slots.given, call.slot, call.shared_slot) == (["tool:limited"], False, False)
    parts.gate.release(call)
    assert parts.slots.given == ["tool:limited"], "released once"


async def test_a_call_starts_when_the_store_grants_a_slot() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    await parts.answered(True)
    assert (parts.log, call.shared_slot) == ([("start", call)], True)
    assert parts.slots.asked == [("tool:limited", 2)]


async def test_a_call_that_gets_none_waits_in_the_queue_and_tries_again() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    await parts.answered(False)
    assert (parts.log, call.queued, call.slot, call.shared_slot) == ([("wait", call)], True, False, False)
    assert parts.low.limiter.used == {}, "meanwhile its slot here is free for others"
    parts.low.clock.advance(0.1)
    assert parts.low.logged("start") == [call], "the limiter starts it, and start asks the gate again"


async def test_an_unreachable_store_grants_nothing() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    await parts.answered(StoreUnavailable("away"))
    assert (parts.log, call.queued) == ([("wait", call)], True)


async def test_a_call_that_was_stopped_meanwhile_does_not_start() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    call.stopping = "cancel"
    await parts.answered(True)
    assert parts.log == [("stopped", call)]
    assert call.shared_slot, "the part that ends the call releases it"


async def test_a_call_that_ended_meanwhile_gives_back_what_it_was_granted() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    call.seal()
    await parts.answered(True)
    assert (parts.slots.given, call.slot) == (["tool:limited"], False)
    assert parts.log == [], "it neither starts nor waits"


async def test_nothing_starts_after_closing() -> None:
    parts = Parts()
    call = parts.call()
    assert not parts.gate.admits(call)
    await parts.answered(False)
    parts.low.phase.closing = True
    parts.gate.look_again()
    assert parts.low.logged("start") == []


# Rates.


@tool(rate="1/h", max_concurrency=2)
async def rated() -> str:
    return ""


class RatedWorld(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.low.registry.add(rated)
        self.slots.answer.set_result(True)


async def test_a_call_without_a_token_gives_its_slots_back_and_waits() -> None:
    parts = RatedWorld()
    first, second = parts.call("rated"), parts.call("rated")
    assert not parts.gate.admits(first)
    await parts.low.settle()
    assert parts.log == [("start", first)]
    assert parts.gate.admits(first), "it has a token"
    assert not parts.gate.admits(second)
    await parts.low.settle()
    assert parts.log[1:] == [("wait", second)]
    assert (second.slot, second.queued, second.shared_slot, parts.slots.given) == (False, True, False, ["tool:rated"])
    parts.gate.note_wait(second)
    assert second.entry.waiting_for == "rate"


async def test_no_call_is_claimed_for_a_token_that_a_call_here_is_about_to_take() -> None:
    parts, tries = RatedWorld(), list[str]()
    first = parts.call("rated")

    async def allowed() -> dict[str, int]:
        return await parts.rates.allowed({"rated": 5, "free": 5}, again=lambda: tries.append("again"))

    assert await allowed() == {"rated": 1, "free": 5}
    assert not parts.gate.admits(first)
    assert await allowed() == {"free": 5}, "the store has a token left: the first call's"
    parts.low.clock.advance(0.01)
    assert tries == ["again"]
    await parts.low.settle()
    assert parts.log == [("start", first)]
    assert await allowed() == {"free": 5}, "the token is used"


async def test_a_call_that_was_stopped_while_the_store_was_asked_does_not_start() -> None:
    parts = RatedWorld()
    call = parts.call("rated")
    assert not parts.gate.admits(call)
    call.seal()
    await parts.low.settle()
    assert (parts.log, call.slot) == ([], False)
