"""What all requests of one server share: the runtime, who may ask, the streams, and whether it is on its way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clicket.server.options import Options

if TYPE_CHECKING:
    from clicket.agents import Agent
    from clicket.ports import Store
    from clicket.runtime import Runtime
    from clicket.server.artifacts import Sizes
    from clicket.server.auth import Doorkeeper
    from clicket.server.grants import Grants
    from clicket.server.operations import Operation
    from clicket.server.readers import Readers
    from clicket.server.ring import Ring
    from clicket.server.watch import Watch

__all__ = ["Context"]


class Context:
    """One per application."""

    doorkeeper: Doorkeeper
    readers: Readers
    ring: Ring
    grants: Grants
    sizes: Sizes
    watch: Watch
    operations: tuple[Operation, ...]
    straight: dict[tuple[str, str], Any]
    """What answers to a method on a path, where the path alone says it."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime = runtime
        self.options = options
        self.agents: dict[str, Agent] = {}
        """By name; they are there while the application runs."""
        self.draining = False
        self.leaving: list[Callable[[], object]] = []
        """Called when the server begins to leave."""
        self.ready: tuple[float, str | None] = (float("-inf"), None)
        self.looking: asyncio.Future[str | None] | None = None

    @property
    def store(self) -> Store:
        store: Store = self.runtime.engine.store
        return store

    def drain(self) -> None:
        """Take no more requests; streams say goodbye."""
        if not self.draining:
            self.draining = True
            for leave in self.leaving:
                leave()
        self.readers.wake_all()
