"""A store that keeps back what is appended to one call, so that a test decides when it is durable."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clicket.model.ports import Append
from clicket.model.ports.store import Done
from clicket.stores.sqlite import SqliteStore

__all__ = ["HeldStore"]


class HeldStore(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.holds = ""
        """The id of the call; empty: nothing is kept back."""
        self.reached = asyncio.Event()
        """Something is kept back."""
        self._held: list[tuple[Append, Done]] = []

    def append(self, change: Append, done: Done) -> None:
        if change.call.id == self.holds:
            self._held.append((change, done))
            self.reached.set()
        else:
            super().append(change, done)

    def pass_on(self) -> None:
        """Append what is kept back now."""
        held, self._held = self._held, []
        self.reached.clear()
        for change, done in held:
            super().append(change, done)

    def let_go(self) -> None:
        self.holds = ""
        self.pass_on()

    async def close(self) -> None:
        self.let_go()
        await super().close()
