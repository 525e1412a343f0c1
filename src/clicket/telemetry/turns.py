"""Figures of agents' turns. A turn is an internal call: the figures of tools leave it out, and this module counts it.

The store adds up how long turns took, for all processes. Each process counts for itself, from its journal and since its start, why
turns stopped, and their steps, tokens and cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.journal import Entry, Observers
from clicket.model import Event
from clicket.model.figures import Figure

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["PREFIX", "TurnCounts", "Turns", "ended_in", "is_turn", "turn_metrics"]

PREFIX = "agent:"
"""How the inner tool behind an agent's turns is named; no tool can be named so."""


def is_turn(figure: Figure) -> bool:
    return figure.tool.startswith(PREFIX)


def ended_in(events: Iterable[Event]) -> dict[str, Any] | None:
    """What a turn's call has on record of its end."""
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
    cost: float = 0.0


class TurnCounts:
    """A listener of the journal: what it counts is durable."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], Turns] = {}

    @classmethod
    def over(cls, observers: Observers) -> TurnCounts:
        """The counts of a runtime; they begin with the first call of this function."""
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
        sums, usage = self._sums.setdefault(key, Turns()), end.get("usage") or {}
        sums.turns += 1
        sums.steps += end.get("steps", 0)
        sums.calls += end.get("calls", 0)
        sums.input_tokens += usage.get("input_tokens", 0)
        sums.output_tokens += usage.get("output_tokens", 0)
        sums.cost += usage.get("cost", 0.0)

    def seen_by(self, caller: str | None) -> dict[tuple[str, str], Turns]:
        """By agent and reason, of one caller or of all."""
        seen: dict[tuple[str, str], Turns] = {}
        for (whose, agent, stopped), each in self._sums.items():
            if caller is None or whose == caller:
                sums = seen.setdefault((agent, stopped), Turns())
                for name in Turns.__struct_fields__:
                    setattr(sums, name, getattr(sums, name) + getattr(each, name))
        return seen


def turn_metrics(counts: dict[tuple[str, str], Turns], agents: Iterable[str]) -> Iterator[Metric]:
    """`agents` are those that are there now: each is listed, also before its first turn."""
    from prometheus_client.core import CounterMetricFamily

    turns = CounterMetricFamily(
        "clicket_agent_turns", "Turns that ended in this process, by what stopped them.", labels=("agent", "stopped")
    )
    steps = CounterMetricFamily("clicket_agent_steps", "Answers of the model in these turns.", labels=("agent",))
    calls = CounterMetricFamily("clicket_agent_tool_calls", "Tool calls of these turns.", labels=("agent",))
    tokens = CounterMetricFamily("clicket_agent_tokens", "Tokens of these turns.", labels=("agent", "direction"))
    cost = CounterMetricFamily(
        "clicket_agent_cost", "What these turns cost, in the currency of the models' prices.", labels=("agent",)
    )
    for agent in sorted({*agents, *(name for name, _ in counts)}):
        own = {stopped: sums for (name, stopped), sums in counts.items() if name == agent}
        for stopped, sums in sorted({"finished": Turns(), **own}.items()):
            turns.add_metric((agent, stopped), sums.turns)
        steps.add_metric((agent,), sum(sums.steps for sums in own.values()))
        calls.add_metric((agent,), sum(sums.calls for sums in own.values()))
        tokens.add_metric((agent, "input"), sum(sums.input_tokens for sums in own.values()))
        tokens.add_metric((agent, "output"), sum(sums.output_tokens for sums in own.values()))
        cost.add_metric((agent,), sum(sums.cost for sums in own.values()))
    yield from (turns, steps, calls, tokens, cost)
