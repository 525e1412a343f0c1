"""Sends notices: claims those that are due, a few to each endpoint at once, and records what came of each attempt.

An endpoint that is slow or down delays no other one, and no call: notices wait in the store. `look` finds notices that other
processes left, and those whose next attempt is due.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.model.codec import encode
from clicket.model.notice import DeliveryAttempt
from clicket.model.ports import Clock, Records
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.outbox import PAGE, Claimed, Health, Outbox, StoredNotice
from clicket.telemetry.webhooks.sender import Answer, Sender

__all__ = ["Delivery"]

logger = logging.getLogger("clicket.webhooks")
DISABLED = "notice.endpoint"
_AT_ONCE = 4
"""Requests to one endpoint."""
_MAX_WAITING = 200
"""Claimed notices of one endpoint that wait in this process; more of them wait in the store."""
_PAGES = 4
_JITTER = 0.2
_MARGIN = 30.0
"""Seconds of a claim that are left when the longest request has ended."""
_LAST = 2.0
_UNKNOWN_FOR = 24 * 3600.0


class Delivery:
    """`link(stored, allows)`: the approval link of a notice, or None. `confirm(health)`: is this status of a tool on record?"""

    def __init__(
        self,
        outbox: Outbox,
        store: Records,
        sender: Sender,
        clock: Clock,
        chance: random.Random,
        *,
        link: Callable[[StoredNotice, frozenset[str]], Awaitable[str | None]],
        confirm: Callable[[Health], Awaitable[bool]],
    ) -> None:
        self._outbox = outbox
        self._store = store
        self._sender = sender
        self._clock = clock
        self._chance = chance
        self._link = link
        self._confirm = confirm
        self._waiting: dict[str, deque[Claimed]] = {name: deque() for name in outbox.endpoints}
        self._tasks: dict[str, set[asyncio.Task[None]]] = {name: set() for name in outbox.endpoints}
        self._paused: dict[str, float] = {}
        """Until when an endpoint asked for no requests."""
        self._disabled: frozenset[str] = frozenset()
        self._cursor = ""
        self._looking = False
        self._closed = False
        outbox.ready, outbox.send = self._is_ready, self._send

    # Finding work.

    async def look(self) -> None:
        """Claim notices that are due, up to what may wait here."""
        if self._looking or self._closed:
            return
        self._looking = True
        try:
            await self.read_disabled()
            for _ in range(_PAGES):
                page = await self._outbox.pending(self._cursor)
                for document in page:
                    await self._claim(document)
                self._cursor = page[-1].key if len(page) == PAGE else ""
                if not self._cursor or self._closed:
                    return
        finally:
            self._looking = False

    async def _claim(self, document: Any) -> None:
        name = _endpoint_of(document.body)
        if name not in self._waiting:
            await self._expire_unknown(document)
        elif self._is_ready(name):
            claimed = await self._outbox.claim(document, self._confirm)
            if claimed is not None:
                self._send(claimed)

    async def _expire_unknown(self, document: Any) -> None:
        """No setting of this process names the endpoint. Another process may have it; after a day it is given up."""
        if document.updated_at < self._clock.now() - _UNKNOWN_FOR:
            claimed = await self._outbox.claim(document, self._confirm)
            if claimed is not None:
                problem = "no endpoint of this name is in the settings any more"
                await self._outbox.end(
                    claimed, DeliveryAttempt(at=self._clock.now(), seconds=0.0, problem=problem), "failed"
                )

    async def read_disabled(self) -> None:
        """Which endpoints answered 410, also to other processes."""
        before = self._disabled
        found = await self._store.documents(DISABLED)
        marks = {each.key: each.body.decode("ascii", "replace") for each in found}
        if self._disabled is before:  # an attempt that ended meanwhile knows better
            self._disabled = frozenset(
                name for name, endpoint in self._outbox.endpoints.items() if marks.get(name) == endpoint.mark
            )

    def _is_ready(self, name: str) -> bool:
        if self._closed or name not in self._waiting or len(self._waiting[name]) >= _MAX_WAITING:
            return False
        return self._paused.get(name, 0.0) <= self._clock.now()

    # Sending.

    def _send(self, claimed: Claimed) -> None:
        name = claimed.stored.notice.endpoint
        self._waiting[name].append(claimed)
        if len(self._tasks[name]) < _AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._work(name))
            self._tasks[name].add(task)
            task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks[name].discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a delivery failed", exc_info=task.exception())

    async def _work(self, name: str) -> None:
        endpoint = self._outbox.endpoints[name]
        waiting = self._waiting[name]
        while waiting and not self._closed:
            claimed = waiting.popleft()
            try:
                renewed = await self._outbox.renewed(claimed, endpoint.timeout + _MARGIN)  # it may have waited for long
                if renewed is None:
                    continue
                claimed = renewed
                if self._paused.get(name, 0.0) > self._clock.now():
                    await self._outbox.unclaim(claimed, self._paused[name])
                else:
                    await self._deliver(endpoint, claimed)
            except asyncio.CancelledError:
                waiting.appendleft(claimed)  # `close` gives it back
                raise
            except ClicketError as error:  # the claim ends by itself, and the notice is sent again
                logger.warning("notice %s could not be recorded: %s", claimed.stored.notice.id, error)

    async def _deliver(self, endpoint: Endpoint, claimed: Claimed) -> None:
        notice = claimed.stored.notice
        at = self._clock.now()
        if endpoint.name in self._disabled and not notice.replays:
            problem = "it answered 410 before, so it is disabled; replay a notice to enable it"
            await self._outbox.end(claimed, DeliveryAttempt(at=at, seconds=0.0, problem=problem), "failed")
            return
        begun = self._clock.monotonic()
        body = await self._body(endpoint, claimed.stored)
        answer = await self._sender.send(endpoint, notice.id, at, body)
        seconds = round(self._clock.monotonic() - begun, 6)
        await self._record(
            endpoint,
            claimed,
            answer,
            DeliveryAttempt(at=at, seconds=seconds, status=answer.status, problem=answer.problem),
        )

    async def _body(self, endpoint: Endpoint, stored: StoredNotice) -> bytes:
        payload = stored.notice.payload or {}
        link = await self._link(stored, endpoint.link_allows)
        if link is not None:
            payload = {**payload, "data": {**payload.get("data", {}), "link": link}}
        return encode(payload)

    async def _record(self, endpoint: Endpoint, claimed: Claimed, answer: Answer, attempt: DeliveryAttempt) -> None:
        notice = claimed.stored.notice
        name = endpoint.name
        if not answer.problem:
            self._paused.pop(name, None)
            await self._outbox.end(claimed, attempt, "delivered")
            if name in self._disabled:
                await self._store.delete_document(DISABLED, name)
                self._disabled -= {name}
            return
        if answer.gone:
            logger.warning("the webhook endpoint %s answered 410: nothing more is sent to it", name)
            await self._store.put_document(DISABLED, name, endpoint.mark.encode(), None)
            self._disabled |= {name}
            await self._outbox.end(claimed, attempt, "failed")
            return
        wait = _wait(endpoint, notice.tries, self._chance)
        if wait is None:
            logger.warning("notice %s to %s is given up: %s", notice.id, name, answer.problem)
            await self._outbox.end(claimed, attempt, "failed")
            return
        now = self._clock.now()
        if answer.retry_after is not None:
            wait = max(wait, answer.retry_after)
            self._paused[name] = max(self._paused.get(name, 0.0), now + answer.retry_after)
        logger.info("notice %s to %s: %s; again in %.0f s", notice.id, name, answer.problem, wait)
        await self._outbox.postpone(claimed, attempt, now + wait)

    # Closing.

    async def close(self) -> None:
        """Give requests under way two seconds; give back what was claimed and not sent."""
        tasks = {task for each in self._tasks.values() for task in each}
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST)
        self._closed = True
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for waiting in self._waiting.values():
            while waiting:
                with suppress(ClicketError):
                    await self._outbox.unclaim(waiting.popleft(), self._clock.now())
        await self._sender.close()


def _wait(endpoint: Endpoint, tries: int, chance: random.Random) -> float | None:
    """Seconds until the next attempt, with jitter; None: there was the last."""
    if tries >= len(endpoint.retry):
        return None
    return endpoint.retry[tries] * chance.uniform(1 - _JITTER, 1 + _JITTER)


def _endpoint_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Sketch).notice.endpoint
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


class _Named(msgspec.Struct):
    endpoint: str


class _Sketch(msgspec.Struct):
    notice: _Named
