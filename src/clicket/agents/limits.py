"""What one run may use, and what it has used. Every bound is a number that was counted, never a word that a model said."""

from __future__ import annotations

from math import inf, isfinite
from typing import Literal

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import Usage

__all__ = ["Limits", "Spent", "Stopped", "counted"]

Stopped = Literal["finished", "max_steps", "cancelled", "budget", "repeated"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run; None is no bound. `max_seconds` counts what the model and the tools take, not what people take to approve."""

    max_steps: int = 20
    max_calls: int | None = 200
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_repeats: int | None = 5
    """How often the same tool may be called with the same arguments."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_calls", "max_tokens", "max_repeats"):
            value = getattr(self, name)
            if value is None and name != "max_steps":
                continue
            least = 1 if name == "max_repeats" else 0
            if type(value) is not int or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        for name in ("max_cost", "max_seconds"):
            value = getattr(self, name)
            wrong = isinstance(value, bool) or not isinstance(value, int | float | None)
            if wrong or (value is not None and not (isfinite(value) and value >= 0)):
                raise UsageError(f"{name} must be a number of at least 0, not {value!r}.")


def counted(usage: object) -> Usage:
    """What a model says that an answer took, as far as it can be counted: never less than nothing, never without end."""
    if not isinstance(usage, Usage):
        return Usage()
    figures = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if all(type(one) is int and one >= 0 for one in figures) and type(usage.cost) is float and 0 <= usage.cost < inf:
        return usage
    tokens = [one if type(one) is int and one >= 0 else 0 for one in figures]
    cost = usage.cost if isinstance(usage.cost, int | float) and 0 <= usage.cost < inf else 0.0
    return Usage(input_tokens=tokens[0], output_tokens=tokens[1], cached_tokens=tokens[2], cost=float(cost))


class Spent:
    """Counted anew for each run."""

    __slots__ = ("ahead", "asking", "calls", "seconds", "steps", "usage")

    def __init__(self) -> None:
        self.steps: int = 0
        self.asking: int = 0
        """Models that are being asked now: lines of thought side by side must not take the last step twice."""
        self.ahead: int = 0
        """Answers that are on record and were not come by yet: they are steps, too."""
        self.calls: int = 0
        self.seconds: float = 0.0
        self.usage: Usage = Usage()

    def over(self, limits: Limits) -> tuple[Stopped, str] | None:
        """Why the model may not be asked once more: what stopped the run, and the sentence that says so. A run that has made
        all its tool calls may still answer; one more call ends it."""
        if self.steps + self.asking + self.ahead >= limits.max_steps:
            return "max_steps", f"Terminated: Reached max steps ({limits.max_steps})"
        if limits.max_tokens is None and limits.max_cost is None and limits.max_seconds is None:
            return None
        for name, used, bound in (
            ("tokens", self.usage.total, limits.max_tokens),
            ("cost", self.usage.cost, limits.max_cost),
            ("seconds", round(self.seconds, 3), limits.max_seconds),
        ):
            if bound is not None and used >= bound and (self.steps or not bound):
                return "budget", f"Terminated: Reached the budget of {name} ({used:g} of {bound:g})"
        return None

    def seconds_left(self, limits: Limits) -> float | None:
        return None if limits.max_seconds is None else max(limits.max_seconds - self.seconds, 0.0)
