"""Limits of one turn, and the counters that are checked against them. Counts are our own, except for the tokens that a model reports.

`Spent.over` decides about steps, tokens, cost and seconds. `Spent.count_call` decides about tool calls and repeats.
"""

from __future__ import annotations

from collections import Counter
from math import inf, isfinite
from typing import Any, Literal

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ToolUse, Usage
from clicket.model.codec import canonical, decode

__all__ = [
    "NO_STEPS",
    "AnswerEnd",
    "Ending",
    "Limits",
    "RefusedAs",
    "Repeats",
    "Spent",
    "Stopped",
    "check_counts",
    "counted",
]

Stopped = Literal["finished", "max_steps", "cancelled", "budget", "repeated", "refused", "invalid_output"]
RefusedAs = Literal["refused", "invalid_output"]
"""How a turn ends whose answers were refused too often: by a check or a middleware, or because they did not fit the type."""
AnswerEnd = Literal["stop", "length", "refusal", "empty"]
"""How an answer ended: whole, cut at its limit of tokens, declined by the model, or without any text."""
Ending = tuple[Stopped, str]
"""Why a turn ended, and its final text."""
Repeats = Counter[tuple[str, bytes]]
"""How often one turn, or one branch, has called a tool with the same arguments."""
NO_STEPS = "No steps executed"
"""The text of a turn that ended before its first step."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one turn; None means no bound. `max_seconds` counts the time of the model and the tools, not the time until an approval."""

    max_steps: int = 20
    max_calls: int | None = 200
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_repeats: int | None = 5
    """How often the same tool may be called with the same arguments."""

    def __post_init__(self) -> None:
        check_counts(0, max_steps=self.max_steps)
        check_counts(0, optional=True, max_calls=self.max_calls, max_tokens=self.max_tokens)
        check_counts(1, optional=True, max_repeats=self.max_repeats)
        for name in ("max_cost", "max_seconds"):
            value = getattr(self, name)
            wrong = isinstance(value, bool) or not isinstance(value, int | float | None)
            if wrong or (value is not None and not (isfinite(value) and value >= 0)):
                raise UsageError(f"{name} must be a number of at least 0, not {value!r}.")


def check_counts(least: int, *, optional: bool = False, **values: object) -> None:
    """Raise `UsageError` unless each value is a whole number of at least `least`, or None if it is optional."""
    for name, value in values.items():
        if not (optional and value is None) and (type(value) is not int or value < least):
            raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def counted(usage: object) -> Usage:
    """The usage that a model reported, with values that are not finite and non-negative replaced by 0."""
    if not isinstance(usage, Usage):
        return Usage()
    names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    counts = [getattr(usage, name) for name in names]
    cost = usage.cost
    if all(type(one) is int and one >= 0 for one in counts) and type(cost) is float and 0 <= cost < inf:
        return usage
    known = {name: one for name, one in zip(names, counts, strict=True) if type(one) is int and one >= 0}
    return Usage(**known, cost=float(cost) if isinstance(cost, int | float) and 0 <= cost < inf else 0.0)


class Spent:
    """Counters of one turn, shared by its branches."""

    __slots__ = ("ahead", "asking", "called", "calls", "open", "seconds", "steps", "usage")

    def __init__(self) -> None:
        self.steps: int = 0
        self.asking: int = 0
        """Requests to models under way: parallel branches must not both take the last step."""
        self.ahead: int = 0
        """Recorded replies that were not replayed yet: they count as steps."""
        self.calls: int = 0
        self.seconds: float = 0.0
        self.usage: Usage = Usage()
        self.called: Usage = Usage()
        """Of the agents that it called, if it has a limit of tokens or cost."""
        self.open: dict[str, Spent] = {}
        """Of turns of such agents that go on in this process, by thread."""

    @property
    def used(self) -> Usage:
        """By the turn and by all that it called, until now."""
        return sum((each.used for each in self.open.values()), self.usage + self.called)

    def left(self, limits: Limits) -> dict[str, Any]:
        """The limits of tokens and cost that an agent has which is called now."""
        used = self.used
        left: dict[str, Any] = {}
        if limits.max_tokens is not None:
            left["max_tokens"] = max(limits.max_tokens - used.total, 0)
        if limits.max_cost is not None:
            left["max_cost"] = max(limits.max_cost - used.cost, 0.0)
        return left

    def over(self, limits: Limits) -> Ending | None:
        """The limit that forbids another request to the model, or None. A turn that has used all its tool calls may still answer."""
        if self.steps + self.asking + self.ahead >= limits.max_steps:
            return "max_steps", f"Terminated: Reached max steps ({limits.max_steps})"
        if limits.max_tokens is None and limits.max_cost is None and limits.max_seconds is None:
            return None
        seconds = ("seconds", round(self.seconds, 3), limits.max_seconds)
        found = _reached(*self._shared(limits), seconds)
        return None if found is None or not (self.steps or not found[2]) else ("budget", _over_budget(*found))

    def over_shared(self, limits: Limits, agent: str) -> Ending | None:
        """The limit of tokens or cost that forbids another request to an agent whose task comes from this turn, which is `agent`'s."""
        found = _reached(*self._shared(limits))
        return (
            None if found is None else ("budget", f"{_over_budget(*found)} of the agent {agent!r}, which gave the task")
        )

    def _shared(self, limits: Limits) -> tuple[_Bound, _Bound]:
        used = self.used
        return ("tokens", used.total, limits.max_tokens), ("cost", used.cost, limits.max_cost)

    def count_call(self, use: ToolUse, limits: Limits, repeats: Repeats) -> Ending | None:
        """Count a tool call; or return the limit that forbids it. `repeats` are the turn's own, or the branch's."""
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            return "budget", f"Terminated: Reached the budget of tool calls ({limits.max_calls})"
        if limits.max_repeats is not None:
            key = _repeat_key(use)
            times = repeats.get(key, 0)
            if times >= limits.max_repeats:
                most = limits.max_repeats
                return "repeated", f"Terminated: Repeated {use.name!r} with the same arguments over {most} times"
            repeats[key] = times + 1
        self.calls += 1
        return None

    def seconds_left(self, max_seconds: float) -> float:
        return max(max_seconds - self.seconds, 0.0)


_Bound = tuple[str, float, float | None]
"""The name of a limit, what is used of it, and the limit."""


def _reached(*bounds: _Bound) -> _Bound | None:
    return next((each for each in bounds if each[2] is not None and each[1] >= each[2]), None)


def _over_budget(name: str, used: float, bound: float | None) -> str:
    return f"Terminated: Reached the budget of {name} ({used:g} of {bound:g})"


def _repeat_key(use: ToolUse) -> tuple[str, bytes]:
    """Equal for calls of one tool with the same arguments, whatever their JSON looks like."""
    try:
        return use.name, canonical(decode(use.arguments or "{}"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return use.name, use.arguments.encode("utf-8", "backslashreplace")
