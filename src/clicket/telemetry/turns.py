"""Counts of agents' turns. A turn is an internal call, which the figures of tools leave out.

The store adds up how long turns took, for all processes. Why turns stopped, their steps, tokens and cost are counted here, from the
journal of this process since it started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clicket.engine.journal import Entry, Observers
from clicket.model import Event
from clicket.model.figures import Figure

__all__ = ["PREFIX", "TurnCounts", "Turns", "ended_in", "is_turn"]

PREFIX = "agent:"
"""The name of the internal tool of an agent's turns is this and the agent's name. No other tool can have such a name."""


def is_turn(figure: Figure) -> bool:
    return figure.tool.startswith(PREFIX)


def ended_in(events: Iterable[Event]) -> dict[str, Any] | None:
    """The entry that records the end of a turn; None: it has not ended."""
    for event in events:
        if event.type == "note":
            entry = event.data.get("entry")
            if type(entry) is dict and entry.get("e") == "ended":
                return entry
    return None


class Turns(msgspec.Struct):
    """Sums over turns of one caller with one agent that stopped for one reason."""

    turns: int = 0
    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0


class TurnCounts:
    """A listener of the journal: it counts turns whose end is durable."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], Turns] = {}

    @classmethod
    def over(cls, observers: Observers) -> TurnCounts:
        """The counts of a runtime, since the first call of this function."""
        found = next((each for each in observers.listeners if isinstance(each, cls)), None)
        if found is None:
            found = cls()
            observers.add(found)
        return found

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        if not entry.internal or not entry.tool.startswith(PREFIX):
            return
        end = ended_in(events)
        if end is None:
            return
        key = (entry.caller, entry.tool.removeprefix(PREFIX), str(end.get("stopped") or end.get("state") or ""))
        sums = self._sums.setdefault(key, Turns())
        usage = end.get("usage") or {}
        sums.turns += 1
        sums.steps += end.get("steps", 0)
        sums.calls += end.get("calls", 0)
        sums.input_tokens += usage.get("input_tokens", 0)
        sums.output_tokens += usage.get("output_tokens", 0)
        sums.cached_tokens += usage.get("cached_tokens", 0)
        sums.cache_write_tokens += usage.get("cache_write_tokens", 0)
        sums.cost += usage.get("cost", 0.0)

    def seen_by(self, caller: str | None) -> dict[tuple[str, str], Turns]:
        """Sums by agent and reason, of one caller or of all."""
        seen: dict[tuple[str, str], Turns] = {}
        for (owner, agent, stopped), each in self._sums.items():
            if caller is None or owner == caller:
                sums = seen.setdefault((agent, stopped), Turns())
                for name in Turns.__struct_fields__:
                    setattr(sums, name, getattr(sums, name) + getattr(each, name))
        return seen
