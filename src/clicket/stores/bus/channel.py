"""Messages over a carrier: collected by recipient, signed, sent together; checked when they arrive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

import msgspec

from clicket.model.ports.bus import Hear
from clicket.stores.bus.carrier import Carrier
from clicket.stores.bus.signing import BusMessage, read, sealed, written

__all__ = ["Channel"]

logger = logging.getLogger("clicket.bus")

HINTS = frozenset({"events", "work", "signal", "slot", "health"})
_GATHER = 0.005
"""Seconds that a message which is not urgent waits for others."""
_MAX_WAITING = 10_000
"""Messages that wait to be sent; more are dropped."""
_LEAVE = 1.0
_NULL = b"null"


class Channel:
    """`on_hint(kind, key)` is called for messages without a body, `hear` for those with one. The sender does not hear its own."""

    def __init__(self, carrier: Carrier, on_hint: Callable[[str, int], None]) -> None:
        self._carrier = carrier
        self.name = carrier.name
        self.me = 0
        self.hear: Hear = lambda kind, key, body: None
        self.forged = 0
        """Envelopes that were dropped, because no process with access to the store wrote them."""
        self._on_hint = on_hint
        self._secret = b""
        self._waiting: dict[int, list[BusMessage]] = {}
        self._plain: set[tuple[int, str, int]] = set()
        """Recipient, kind and key of the messages without a body that wait."""
        self._count = 0
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = False

    @property
    def trouble(self) -> str | None:
        return self._carrier.trouble

    def open(self, space: str, me: int, secret: bytes) -> None:
        self.me, self._secret = me, secret
        self._carrier.start(space, me, self._on_text)
        self._task = asyncio.get_running_loop().create_task(self._send(), name="clicket-bus")

    async def close(self) -> None:
        """Send what waits, if that is quickly done, and leave."""
        task, self._task = self._task, None
        if task is not None:
            self._leaving = True
            self._wake.set()
            await asyncio.wait([task], timeout=_LEAVE)
            task.cancel()
            await asyncio.wait([task])
        if self._timer is not None:
            self._timer.cancel()
        await self._carrier.close()

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"", *, soon: bool = True) -> None:
        if self._task is None or self._carrier.trouble is not None or self._count >= _MAX_WAITING:
            return
        if body:
            message = BusMessage(kind, key, msgspec.Raw(body))
        elif (to, kind, key) in self._plain:
            return
        else:
            message = BusMessage(kind, key)
            self._plain.add((to, kind, key))
        self._waiting.setdefault(to, []).append(message)
        self._count += 1
        if soon:
            self._wake.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self._on_gathered)

    def _on_gathered(self) -> None:
        self._timer = None
        if self._waiting:  # else all of it went with a commit
            self._wake.set()

    def seal(self, to: int, messages: Sequence[BusMessage], new: int = 0) -> tuple[list[BusMessage], bytes] | None:
        """An envelope to one process, for the store to send with a commit: messages to it that wait here, which are taken out, and these.
        `new`: how many of them have no key yet. None: nothing is carried now, or it would be too long for one envelope."""
        if self._task is None or self._carrier.trouble is not None:
            return None
        waiting = self._waiting.get(to, [])
        text = sealed([*waiting, *messages], self.me, to, self._secret, self._carrier.max_size, new)
        if text is None:
            return None
        if waiting:
            del self._waiting[to]
            self._count -= len(waiting)
            self._plain.difference_update((to, message.kind, message.key) for message in waiting)
        return waiting, text

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            waiting, self._waiting, self._count = self._waiting, {}, 0
            self._plain.clear()
            messages = [
                (to, text)
                for to, messages in waiting.items()
                for text in written(messages, self.me, to, self._secret, self._carrier.max_size)
            ]
            if messages:
                with contextlib.suppress(asyncio.CancelledError) if self._leaving else contextlib.nullcontext():
                    await self._carrier.send(messages)
            if self._leaving:
                return

    def _on_text(self, to: int, text: bytes) -> None:
        envelope = read(text, to, self._secret) if to in (0, self.me) else None
        if envelope is None:
            self.forged += 1
            if self.forged == 1:
                logger.warning("%s: a message that no process of this store wrote was dropped", self.name)
            return
        sender, messages = envelope
        if sender == self.me:
            return
        for message in messages:
            body = bytes(message.body)
            try:
                if body != _NULL:
                    self.hear(message.kind, message.key, body)
                elif message.kind in HINTS:
                    self._on_hint(message.kind, message.key)
            except Exception:
                logger.exception("the follow-up of a message (%s, %d) failed", message.kind, message.key)
