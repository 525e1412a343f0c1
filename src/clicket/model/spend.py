"""Tokens and money that agents and tools spend, as reports show them. Money is in US dollars."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "NANO",
    "Amount",
    "BudgetBusy",
    "BudgetStatus",
    "By",
    "OnReached",
    "Period",
    "Refusal",
    "Run",
    "SpendReport",
    "SpendRow",
    "Spender",
    "usd",
]

NANO = 1_000_000_000
"""Money is stored as whole billionths of a dollar, so that sums are exact."""

By = Literal["run", "thread", "agent", "caller", "day", "month", "model"]
OnReached = Literal["warn", "ask", "stop"]
Period = Literal["run", "day", "month", "total"]


def usd(nano: int) -> float:
    return nano / NANO


class Run(msgspec.Struct, frozen=True, array_like=True):
    """One turn of an agent; or calls of a thread that no agent made, with an empty agent and the call's id."""

    thread: str
    agent: str
    turn: int = 0
    call: str = ""

    @property
    def name(self) -> str:
        return f"{self.thread}/{self.agent}.{self.turn}" if self.agent else f"{self.thread}/{self.call}"


class Spender(msgspec.Struct, frozen=True):
    """The run that spends: a caller's run, after the runs that called its agent, the outermost first."""

    caller: str
    runs: tuple[Run, ...]

    @property
    def run(self) -> Run:
        return self.runs[-1]


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """`usd` is without the money of `unpriced_tokens`, whose model has no price."""

    usd: float = 0.0
    tokens: int = 0
    """Of input and output, and what tools report."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of `input_tokens` that the vendor read from its prompt cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the vendor wrote to its prompt cache."""
    unpriced_tokens: int = 0
    assumed_usd: float = 0.0
    """The part of `usd` that was reserved for requests whose outcome is not known: their process died, or they were stopped."""
    entries: int = 0
    """Replies of models, and calls of tools that reported a cost."""


class SpendRow(Amount, frozen=True, kw_only=True):
    """The amounts of a run, a thread or an agent include those of the agents that it called; `own` is without them."""

    key: str
    own: Amount
    caller: str | None = None
    """Of a run or a thread."""
    parent: str | None = None
    """The run, or the thread, that called this one's agent."""


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A budget as it applies to one scope and period. `left_usd` and `left_tokens` count reservations as spent."""

    name: str
    scope: str
    """`all`, `caller:NAME`, `agent:NAME`, `thread:NAME`, or `run:NAME`."""
    period: str
    """`2026-11-16`, `2026-11`, `total` or `run`."""
    on_reached: OnReached
    limit_usd: float | None = None
    limit_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    raised_usd: float = 0.0
    """What people added to the limit."""
    raised_tokens: int = 0
    left_usd: float | None = None
    left_tokens: int | None = None
    reached_at: float | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request may not be sent. `ask`: a person may raise the budget."""

    ask: bool
    text: str
    arguments: dict[str, Any]
    """Of a call of `raise_budget`."""


class BudgetBusy(msgspec.Struct, frozen=True, kw_only=True):
    """A request does not fit yet: requests under way reserved what is left of a budget, and may use less."""

    text: str
    scope: str
    period: str
    key: str
    """Of the budget's account."""


class SpendReport(msgspec.Struct, frozen=True, kw_only=True):
    """The rows with the largest amounts first; days, months and callers in their order. `total` is the sum of all entries."""

    by: By
    since: float | None = None
    until: float | None = None
    items: list[SpendRow] = []
    total: Amount = Amount()
    budgets: list[BudgetStatus] = []
