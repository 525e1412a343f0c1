"""The settings `[[budgets]]`, and the accounts that a request is charged to. Budgets of one scope and period share an account, so one
may warn, the next ask, and the last stop."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket.engine.spend.ledger import day_of
from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import canonical
from clicket.model.spend import OnReached, Period, Spender
from clicket.model.tables import FINITE, tables

__all__ = ["AccountId", "Budget", "accounts_of", "declared_budgets"]

_EACH = ("caller", "agent", "thread")
_FORMS = "all, caller, agent, thread (each has its own), caller:NAME, agent:NAME or thread:NAME"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of what agents and tools spend in a period."""

    scope: str
    """`all`; `caller`, `agent` or `thread` for one account of each; or `caller:NAME`, `agent:NAME`, `thread:NAME`."""
    limit_usd: Annotated[float, Meta(ge=0, le=FINITE)] | None = None
    """US dollars. A budget has this limit, the next one, or both."""
    limit_tokens: Annotated[int, Meta(ge=0)] | None = None
    """Tokens of models, in and out."""
    period: Period = "month"
    """`run` is one turn of an agent; days and months are those of UTC."""
    on_reached: OnReached = "stop"
    """`warn`, `ask` a person for more, or `stop`."""
    name: str = ""
    """Its name in reports and notices; its scope, period and `on_reached` unless given."""
    tell_model: bool = False
    """What is left of it is in each request to a model that is charged to it."""

    def __post_init__(self) -> None:
        kind, colon, name = self.scope.partition(":")
        if not (self.scope == "all" or self.scope in _EACH or (kind in _EACH and name)):
            near = did_you_mean(kind, ("all", *_EACH)) if not colon or kind not in _EACH else ""
            raise UsageError(f"{self.scope!r} is not a scope.{near} Write {_FORMS}.")
        if self.limit_usd is None and self.limit_tokens is None:
            raise UsageError("it has no limit. Add limit_usd, limit_tokens or both.")

    @property
    def title(self) -> str:
        return self.name or f"{self.scope} per {self.period} ({self.on_reached})"


class AccountId(msgspec.Struct, frozen=True):
    """What a budget counts: a scope (`caller:NAME`) in a period (`2026-11`). `key` names its document."""

    scope: str
    period: str
    key: str


def accounts_of(budgets: Sequence[Budget], spender: Spender, at: float) -> dict[AccountId, list[Budget]]:
    """The accounts that a spender's request is charged to, and the budgets that watch each. In the order of their keys."""
    found: dict[AccountId, list[Budget]] = {}
    for budget in budgets:
        for scope, whose in _scopes(budget.scope, spender):
            found.setdefault(_account(scope, whose, budget.period, spender, at), []).append(budget)
    return dict(sorted(found.items(), key=lambda each: each[0].key))


def _scopes(scope: str, spender: Spender) -> list[tuple[str, str]]:
    """The scopes that a budget's scope means for this spender: `(scope, caller)`, where a thread belongs to a caller."""
    kind, _, name = scope.partition(":")
    runs = spender.runs
    if kind == "all":
        return [("all", "")]
    if kind == "caller":
        return [(f"caller:{spender.caller}", "")] if not name or name == spender.caller else []
    if kind == "agent":
        agents = dict.fromkeys(run.agent for run in runs if run.agent and (not name or run.agent == name))
        return [(f"agent:{agent}", "") for agent in agents]
    if name:
        return [(scope, "")] if any(run.thread == name for run in runs) else []
    return [(f"thread:{runs[0].thread}", spender.caller)]  # the outermost, which includes those of sub-agents


def _account(scope: str, whose: str, period: Period, spender: Spender, at: float) -> AccountId:
    day = day_of(at)
    when = {"day": day, "month": day[:7], "total": "total", "run": "run"}[period]
    what: list[Any] = [scope, whose, when]
    if period == "run":
        run = spender.runs[0]
        what += [spender.caller, run.thread, run.agent, run.turn, run.call]
    return AccountId(scope, when, f"{when}/{blake2b(canonical(what), digest_size=16).hexdigest()}")


def declared_budgets(given: Any, where: str) -> tuple[Budget, ...]:
    """Read `[[budgets]]`; a mistake raises `UsageError`, which begins with `where`."""
    return tables(Budget, given, where, lambda budget: budget.title)
