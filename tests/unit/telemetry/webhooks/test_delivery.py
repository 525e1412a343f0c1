"""Sending, on a stepped clock: hours of retries, several processes over one store, and what a follower finds."""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kit.waiting import eventually

from clicket.model.notice import Notice
from clicket.ports import Owner, Store, ToolHealth
from clicket.safety.vault import Vault
from clicket.stores.memory import MemoryStore
from clicket.telemetry.webhooks import Webhooks, delivery, endpoints_of
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.outbox import LEASE
from clicket.telemetry.webhooks.sender import Answer
from clicket.testing import StepClock

SECRET = "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode()


class FakeSender:
    """Answers in turn; the last answer again and again. `hold`: requests wait until it is set."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [Answer(status=204)]
        self.sent: list[tuple[str, float]] = []
        self.hold: asyncio.Event | None = None

    async def send(self, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer:
        self.sent.append((id, at))
        if self.hold is not None:
            await self.hold.wait()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    one = MemoryStore()
    await one.open(Owner(host="h", boot="b", pid=1, started="s", lease=10))
    yield one
    await one.close()


async def _no_workers() -> list[Any]:
    return []


def process(store: Store, clock: StepClock, sender: FakeSender, **more: Any) -> Webhooks:
    hook = {"url": "https://x.example/", "secret": SECRET, "name": "x", **more}
    return Webhooks(
        store, clock, random.Random(1), Vault(), endpoints_of([hook]),
        me=f"process-{id(sender)}", public_url=None, link_timeout=60, retention=1000, workers=_no_workers,
        spawn=lambda work: asyncio.get_running_loop().create_task(work), sender=sender,
    )  # fmt: skip


async def emit(webhooks: Webhooks, number: int = 1) -> None:
    await webhooks.outbox.emit("budget.reached", {"n": number}, key=[number], at=1_000.0 + number)


async def only(webhooks: Webhooks) -> Notice:
    [notice] = (await webhooks.outbox.page()).items
    return notice


async def settled(webhooks: Webhooks, tries: int) -> Notice:
    async def look() -> Notice | None:
        notice = await only(webhooks)
        return notice if notice.tries == tries else None

    found: Notice = await eventually(look)
    return found


async def test_retries_go_on_for_hours_with_jitter_and_end(store: Store) -> None:
    clock, sender = StepClock(), FakeSender(Answer(status=500, problem="it answered 500"))
    webhooks = process(store, clock, sender)
    await emit(webhooks)
    waits = []
    for number in range(1, 8):
        notice = await settled(webhooks, number)
        assert notice.next_at is not None
        waits.append(notice.next_at - clock.now())
        clock.advance(waits[-1] - 0.5)
        await webhooks.delivery.look()
        assert len(sender.sent) == number  # not before its time
        clock.advance(1)
        await webhooks.delivery.look()
    notice = await settled(webhooks, 8)
    assert (notice.state, len(sender.sent)) == ("failed", 8)
    assert len({id for id, _ in sender.sent}) == 1
    plain = (5, 60, 300, 1_800, 7_200, 18_000, 36_000)
    assert all(abs(wait - base) <= 0.2 * base for wait, base in zip(waits, plain, strict=True))
    assert waits != list(plain)
    await webhooks.close()


async def test_retry_after_wins_over_the_schedule(store: Store) -> None:
    clock, sender = StepClock(), FakeSender(Answer(status=503, problem="busy", retry_after=900.0), Answer(status=200))
    webhooks = process(store, clock, sender)
    await emit(webhooks)
    notice = await settled(webhooks, 1)
    assert notice.next_at == pytest.approx(clock.now() + 900)
    await emit(webhooks, 2)  # the endpoint asked for no requests
    await webhooks.delivery.look()
    assert len(sender.sent) == 1
    clock.advance(901)
    await webhooks.delivery.look()
    await eventually(lambda: webhooks.outbox.delivered == 2)
    await webhooks.close()


async def test_processes_share_the_work_and_send_each_notice_once(store: Store) -> None:
    clock, senders = StepClock(), [FakeSender() for _ in range(4)]
    fleet = [process(store, clock, sender) for sender in senders]
    silent = process(store, clock, FakeSender())
    silent.outbox.ready = lambda endpoint: False  # it records, and leaves the sending to others
    for number in range(60):
        await emit(silent, number)
    await asyncio.gather(*(webhooks.delivery.look() for webhooks in fleet for _ in range(3)))
    await eventually(lambda: sum(webhooks.outbox.delivered for webhooks in fleet) == 60)
    sent = [id for sender in senders for id, _ in sender.sent]
    assert len(sent) == len(set(sent)) == 60
    assert (await silent.outbox.figures()).pending == 0
    for webhooks in [*fleet, silent]:
        await webhooks.close()


async def test_the_claim_of_a_dead_process_ends(store: Store) -> None:
    clock, hung = StepClock(), FakeSender()
    hung.hold = asyncio.Event()
    dead, alive = process(store, clock, hung), process(store, clock, sender := FakeSender())
    await emit(dead)
    await eventually(lambda: hung.sent)
    await alive.delivery.look()
    assert sender.sent == []
    clock.advance(LEASE + 1)
    await alive.delivery.look()
    await eventually(lambda: alive.outbox.delivered == 1)
    assert [id for id, _ in sender.sent] == [id for id, _ in hung.sent]
    hung.hold.set()  # it was not dead: its late success changes nothing
    await eventually(lambda: dead.outbox.delivered == 1)
    assert (await only(alive)).state == "delivered"
    for webhooks in (dead, alive):
        await webhooks.close()


async def test_what_waited_longer_than_its_claim_is_not_sent_twice(store: Store) -> None:
    clock, slow = StepClock(), FakeSender()
    slow.hold = asyncio.Event()
    first, second = process(store, clock, slow), process(store, clock, sender := FakeSender())
    for number in range(10):
        await emit(first, number)
    await eventually(lambda: len(slow.sent) == 4)  # the other six wait behind them
    clock.advance(LEASE + 1)
    await second.delivery.look()
    await eventually(lambda: second.outbox.delivered == 10)
    slow.hold.set()
    await eventually(lambda: first.outbox.delivered == 4)
    await first.close()
    await second.close()
    assert len(slow.sent) == 4
    assert len({id for id, _ in sender.sent}) == 10


async def test_closing_gives_back_what_was_not_sent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_LAST", 0.01)
    clock, hung = StepClock(), FakeSender()
    hung.hold = asyncio.Event()
    closing = process(store, clock, hung)
    for number in range(10):
        await emit(closing, number)
    await eventually(lambda: len(hung.sent) == 4)  # so many at once
    await closing.close()
    other = process(store, clock, sender := FakeSender())
    await other.delivery.look()
    await eventually(lambda: other.outbox.delivered == 10)
    assert len({id for id, _ in sender.sent}) == 10
    await other.close()


async def test_a_status_is_announced_only_if_it_was_written(store: Store) -> None:
    clock = StepClock()
    webhooks = process(store, clock, sender := FakeSender())
    other = process(store, clock, FakeSender())
    for written in (False, True):
        held = await webhooks.hold("", "t1", "pay", "available", "maintenance", "closed")
        await webhooks.delivery.look()
        await other.delivery.look()
        assert sender.sent == []
        await webhooks.settle([held], written)
        await eventually(lambda written=written: webhooks.outbox.delivered == written)
    paused = await webhooks.hold("", "t1", "pay", "maintenance", "available", "")
    clock.advance(LEASE + 1)
    await other.delivery.look()  # it takes the process for dead, and the status is not on record: it drops the notice
    assert len((await other.outbox.page()).items) == 1
    await webhooks.settle([paused], True)
    await eventually(lambda: webhooks.outbox.delivered == 2)
    await webhooks.hold("", "t1", "pay", "available", "disabled", "by hand")  # then the process dies
    await store.put_tool_health("", "t1", ToolHealth(tool="pay", announced="disabled"), 0)
    clock.advance(LEASE + 1)
    await other.delivery.look()
    await eventually(lambda: other.outbox.delivered == 1)
    for each in (webhooks, other):
        await each.close()


async def test_pages_and_retention(store: Store) -> None:
    clock = StepClock()
    webhooks = process(store, clock, FakeSender())
    for number in range(7):
        await emit(webhooks, number)
    await eventually(lambda: webhooks.outbox.delivered == 7)
    webhooks.outbox.ready = lambda endpoint: False
    await emit(webhooks, 8)
    found, cursor = [], None
    while True:
        page = await webhooks.outbox.page(limit=3, cursor=cursor)
        found += [notice.created_at for notice in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == [1_008.0, *(1_000.0 + number for number in reversed(range(7)))]
    assert len((await webhooks.outbox.page(state="pending")).items) == 1
    assert (await webhooks.outbox.page(type="call.ended")).items == []
    assert (await webhooks.outbox.figures()).pending == 1
    assert await webhooks.outbox.sweep() == 7  # they happened long ago
    await webhooks.close()
