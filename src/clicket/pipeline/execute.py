"""Stage 4: run the tool, as often as its retries allow."""

from __future__ import annotations

from collections.abc import Awaitable

from clicket.call import Call
from clicket.execution import Runner

__all__ = ["Execute"]


class Execute:
    name = "execute"

    def __init__(self, runner: Runner) -> None:
        self.start = runner.start
        """The stage. None: it ended without waiting."""

    def __call__(self, call: Call) -> Awaitable[None] | None:
        return self.start(call)
