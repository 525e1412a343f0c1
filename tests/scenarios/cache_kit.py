"""Shared by the tests of cached results: a tool that counts its runs, and a runtime with a stepped clock."""

from __future__ import annotations

from typing import Any

from tests.scenarios.kit import make

from clicket import Runtime, tool
from clicket.testing import StepClock, with_clock


class Counted:
    """A tool that counts its runs."""

    def __init__(self, **options: Any) -> None:
        self.runs: list[Any] = []
        runs = self.runs

        @tool(**{"name": "look", "cache": 300, **options})
        async def look(x: Any = None, y: Any = None) -> Any:
            runs.append((x, y))
            return {"x": x, "run": len(runs)}

        self.tool = look


def stepped(tools: Any, store: Any, clock: StepClock, **settings: Any) -> Runtime:
    """A runtime with a stepped clock."""
    return with_clock(make(tools, store, **settings), clock)
