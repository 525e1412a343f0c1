"""Webhooks of one runtime: what it records, sends and reads again. Made only if the settings have webhooks; calls know nothing of it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from clicket import system
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.ports import Clock, Store
from clicket.model.worker import WorkerInfo
from clicket.safety.vault import Vault
from clicket.telemetry.webhooks.approval_links import ApprovalLinks
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.delivery import Delivery
from clicket.telemetry.webhooks.facts import Fact, clipped, facts_of, has_fact
from clicket.telemetry.webhooks.follower import Follower
from clicket.telemetry.webhooks.outbox import Health, Outbox
from clicket.telemetry.webhooks.sender import HttpSender, Sender

__all__ = ["FOLLOW_EVERY", "LOOK_EVERY", "Webhooks"]

logger = logging.getLogger("clicket.webhooks")
LOOK_EVERY = 1.0
FOLLOW_EVERY = 15.0
_LAST = 2.0
_MAX_FRESH = 10_000
"""Calls whose facts wait to be recorded; beyond that, the follower finds them."""


class Webhooks:
    """`workers()`: the workers of the store, also lost ones. `spawn` runs something in the background."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: random.Random,
        vault: Vault,
        endpoints: Sequence[Endpoint],
        *,
        me: str,
        public_url: str | None,
        link_timeout: float,
        retention: float,
        workers: Callable[[], Awaitable[Sequence[WorkerInfo]]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        sender: Sender | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._workers = workers
        self._spawn = spawn
        self._fresh: deque[tuple[Any, int]] = deque()
        self._recording = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.links = ApprovalLinks(store, vault, clock.now, public_url)
        self.outbox = Outbox(
            store,
            clock.now,
            endpoints,
            me=me,
            links=public_url is not None,
            link_seconds=link_timeout,
            retention=retention,
        )
        self.delivery = Delivery(
            self.outbox, store, sender or HttpSender(), clock, chance, link=self.links.of, confirm=self._is_announced
        )
        self.follower = Follower(store, self.outbox, clock.now, every=FOLLOW_EVERY)

    async def start(self) -> None:
        """Before the runtime takes its first call."""
        await self.follower.begin()
        await self.delivery.read_disabled()

    # Calls of this process.

    def on_events(self, entry: Any, events: Sequence[Event]) -> None:
        """Durable events of a call. Facts among them are recorded in the background."""
        if has_fact(events, self.outbox.wanted) and len(self._fresh) < _MAX_FRESH:
            self._fresh.append((entry, events[0].seq - 1))
            if not self._recording:
                self._recording = True
                self._idle.clear()
                self._spawn(self._record_fresh())

    async def _record_fresh(self) -> None:
        try:
            while self._fresh:
                entry, after = self._fresh.popleft()
                for fact in facts_of(entry.events, self.outbox.wanted, after):
                    await self.outbox.record(fact)
        except ClicketError as error:
            logger.warning("a notice could not be recorded yet; it is found in the journal later: %s", error)
        finally:
            self._recording = False
            self._idle.set()

    # Changes of tools' statuses: the hub calls these around the write.

    async def hold(self, caller: str, thread: str, tool: str, before: str, after: str, reason: str) -> Fact | None:
        if "tool.health" not in self.outbox.wanted:
            return None
        data = {
            "tool": tool,
            "thread": thread,
            "caller": caller,
            "before": before,
            "after": after,
            "reason": clipped(reason),
        }
        key = [caller, thread, tool, system.random_hex(8)]
        fact = Fact(type="tool.health", key=key, at=self._clock.now(), data=data)
        await self.outbox.hold(fact, Health(caller=caller, thread=thread, tool=tool, after=after))
        return fact

    async def settle(self, held: Sequence[Fact | None], written: bool) -> None:
        for fact in held:
            if fact is not None:
                await (self.outbox.release(fact) if written else self.outbox.drop(fact))

    async def _is_announced(self, health: Health) -> bool:
        rows = await self._store.tool_health(health.caller, health.thread)
        return any(row.tool == health.tool and row.announced == health.after for row in rows)

    # Chores.

    async def follow(self) -> None:
        """Record what no process recorded: facts in the journal, and workers that were lost."""
        await self.follower.follow(always=False)
        if "worker.lost" in self.outbox.wanted:
            for worker in await self._workers():
                if worker.state == "lost":
                    data = {"worker": worker.id, "host": worker.host, "role": worker.role, "seen_at": worker.seen_at}
                    await self.outbox.emit("worker.lost", data, key=[worker.id], at=worker.seen_at)

    async def sweep(self) -> None:
        await self.outbox.sweep()
        await self.links.sweep()

    async def close(self) -> None:
        """What is not recorded within two seconds, another process finds in the journal."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _LAST)
        await self.delivery.close()
