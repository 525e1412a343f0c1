"""Costs that a tool reports of its own call with `ctx.spend`, as notes among the call's events.

Each report has a key. A later report with the same key takes its place, also one of another attempt. Without a key it is numbered in its
attempt, so an attempt that is repeated replaces what the one before it reported: a call's cost is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model import Event
from clicket.model.spend import NANO

__all__ = ["COST", "Cost", "Costs", "cost_in", "cost_note", "costs_in", "read_cost"]

_MAX_KEY = 100
COST = "spend"
"""The field of a note that holds a cost."""
Costs = dict[str, tuple[int, int]]
"""Billionths of a dollar and tokens, by key."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a call has cost, as of the event `seq`. `nano`: billionths of a dollar."""

    nano: int
    tokens: int
    seq: int


def cost_note(usd: float, tokens: int, key: str) -> dict[str, Any]:
    """The data of a note; raises `UsageError` if the amounts are none."""
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not (isfinite(usd) and 0 <= usd <= 1e9):
        raise UsageError(f"ctx.spend takes usd as a number of dollars of at least 0, not {usd!r}.")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= 1 << 53:
        raise UsageError(f"ctx.spend takes tokens as a whole number of at least 0, not {tokens!r}.")
    if not isinstance(key, str) or not 1 <= len(key) <= _MAX_KEY:
        raise UsageError(f"ctx.spend takes a key of 1 to {_MAX_KEY} characters, not {key!r:.120}.")
    return {COST: {"key": key, "usd": float(usd), "tokens": int(tokens)}}


def read_cost(data: Mapping[str, Any]) -> tuple[str, tuple[int, int]] | None:
    """The cost in a note's data; None: it has none that can be read."""
    cost = data.get(COST)
    if type(cost) is not dict:
        return None
    key, usd, tokens = cost.get("key"), cost.get("usd"), cost.get("tokens")
    try:
        cost_note(usd, tokens, key)  # type: ignore[arg-type]  # it checks them
    except UsageError:
        return None
    return str(key), (round(float(usd) * NANO), int(tokens))  # type: ignore[arg-type]


def costs_in(events: Iterable[Event]) -> Costs:
    """What a call has reported, from its events."""
    return {key: amount for _, key, amount in _reports(events)}


def cost_in(events: Iterable[Event]) -> Cost | None:
    """What a call has cost, from its events; None: it has reported nothing."""
    found = Costs()
    last = 0
    for seq, key, amount in _reports(events):
        found[key], last = amount, seq
    if not found:
        return None
    nano, tokens = (sum(each) for each in zip(*found.values(), strict=True))
    return Cost(nano=nano, tokens=tokens, seq=last)


def _reports(events: Iterable[Event]) -> Iterator[tuple[int, str, tuple[int, int]]]:
    for event in events:
        if event.type == "note" and COST in event.data and len(event.data) == 2:  # beside its text nothing else
            cost = read_cost(event.data)
            if cost is not None:
                yield event.seq, *cost
