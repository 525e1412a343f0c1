"""Stage 4: run the tool, as often as its options allow."""

from __future__ import annotations

from collections.abc import Awaitable

from clicket.execution import Runner
from clicket.journal import LiveCall

__all__ = ["Execute"]


class Execute:
    name = "execute"

    def __init__(self, runner: Runner) -> None:
        self._start = runner.start

    def __call__(self, call: LiveCall) -> Awaitable[None] | None:
        return self._start(call)
