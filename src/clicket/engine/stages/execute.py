"""Stage 4: run the tool, as often as its retries allow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from clicket.engine.live_call import Call

__all__ = ["Execute"]


class Execute:
    """`start(call)` runs it. None: it ended without waiting."""

    name = "execute"

    def __init__(self, start: Callable[[Call], Awaitable[None] | None]) -> None:
        self.start = start

    def __call__(self, call: Call) -> Awaitable[None] | None:
        return self.start(call)
