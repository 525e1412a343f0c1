"""A bus that drops, doubles, delays, reorders and forges messages, by seed. A real bus may do the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from clicket.stores.bus import OnText

__all__ = ["FaultyBus", "FaultyCarrier"]

_OLD = 50
"""Messages that may be delivered again later."""


class FaultyBus:
    """`drop`, `double` and `forge` are probabilities per message; each copy arrives after up to `delay` seconds."""

    def __init__(
        self, seed: int = 0, *, drop: float = 0.25, double: float = 0.25, forge: float = 0.25, delay: float = 0.02
    ) -> None:
        self.chance = random.Random(seed)
        self.drop, self.double, self.forge, self.delay = drop, double, forge, delay
        self.members: dict[tuple[str, int], OnText] = {}
        self.sent: list[tuple[str, int, bytes]] = []

    def send(self, space: str, sender: int, to: int, text: bytes) -> None:
        self.sent.append((space, to, text))
        if self.chance.random() >= self.drop:
            self._deliver(space, sender, to, text)
        if self.chance.random() < self.double:
            self._deliver(space, sender, *self.chance.choice(self.sent[-_OLD:])[1:])
        if self.chance.random() < self.forge:
            self._deliver(space, sender, to, self._forged(text))

    def _forged(self, text: bytes) -> bytes:
        """A forged message: another outcome, another signature, or garbage."""
        kind = self.chance.randrange(3)
        if kind == 0:
            return text.replace(b'"completed"', b'"forged"').replace(b'"x":', b'"x":9').replace(b"[", b"[ ", 1)
        if kind == 1:
            return bytes(self.chance.randrange(256) for _ in range(64))
        return b"0" * 32 + text[32:]

    def _deliver(self, space: str, sender: int, to: int, text: bytes) -> None:
        asyncio.get_running_loop().call_later(self.chance.random() * self.delay, self._arrive, space, sender, to, text)

    def _arrive(self, space: str, sender: int, to: int, text: bytes) -> None:
        for (their_space, number), on_text in list(self.members.items()):
            if their_space == space and number != sender and to in (0, number):
                on_text(to, text)


class FaultyCarrier:
    """One process's connection to the bus."""

    name = "faulty"
    max_size = 100_000

    def __init__(self, bus: FaultyBus) -> None:
        self.trouble: str | None = None
        self._bus = bus
        self._place = ("", 0)

    def start(self, space: str, me: int, on_text: OnText) -> None:
        self._place = (space, me)
        self._bus.members[self._place] = on_text

    async def send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        space, me = self._place
        for to, text in messages:
            self._bus.send(space, me, to, text)

    async def close(self) -> None:
        self._bus.members.pop(self._place, None)
