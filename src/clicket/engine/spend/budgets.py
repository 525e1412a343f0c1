"""The settings `[[budgets]]`, and the accounts that a request is charged to. Budgets of one scope and period share an account, so one
may warn, the next ask, and the last stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any

import msgspec

from clicket.engine.spend.ledger import day_of
from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import canonical
from clicket.model.spend import OnReached, Period, Spender

__all__ = ["AccountId", "Budget", "accounts_of", "declared_budgets"]

_EACH = ("caller", "agent", "thread")
_FORMS = "all, caller, agent, thread (each has its own), caller:NAME, agent:NAME or thread:NAME"


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scope`: `all`; `caller`, `agent` or `thread` for one account of each; or `caller:NAME`, `agent:NAME`, `thread:NAME`.

    `tell_model`: what is left of it is in each request to a model that is charged to it.
    """

    scope: str
    limit_usd: float | None = None
    limit_tokens: int | None = None
    period: Period = "month"
    on_reached: OnReached = "stop"
    name: str = ""
    tell_model: bool = False

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
    """Read `[[budgets]]`; a mistake raises `UsageError`, which names its place."""
    if not isinstance(given, list | tuple):
        raise UsageError(f"{where}: budgets must be a list of tables. In TOML, write [[budgets]] before each.")
    made = tuple(_budget(each, f"{where}: budget {number}") for number, each in enumerate(given, start=1))
    titles = [budget.title for budget in made]
    for title in titles:
        if titles.count(title) > 1:
            raise UsageError(f'{where}: two budgets are called {title!r}. Give each a name of its own: name = "…".')
    return made


def _budget(given: Any, where: str) -> Budget:
    known = Budget.__struct_fields__
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} must be a table with {', '.join(known)}, not {given!r}.")
    for name in given:
        if name not in known:
            raise UsageError(
                f"{where}: unknown key {name!r}.{did_you_mean(str(name), known)} Known: {', '.join(known)}."
            )
    try:
        budget = msgspec.convert(dict(given), Budget)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}. Scopes are {_FORMS}.") from None
    kind, colon, name = budget.scope.partition(":")
    if not (budget.scope == "all" or budget.scope in _EACH or (kind in _EACH and name)):
        near = did_you_mean(kind, ("all", *_EACH)) if not colon or kind not in _EACH else ""
        raise UsageError(f"{where}: {budget.scope!r} is not a scope.{near} Write {_FORMS}.")
    if budget.limit_usd is None and budget.limit_tokens is None:
        raise UsageError(f"{where}: it has no limit. Add limit_usd, limit_tokens or both.")
    for value in (budget.limit_usd, budget.limit_tokens):
        if value is not None and not (isfinite(value) and value >= 0):
            raise UsageError(f"{where}: a limit is a number of at least 0, not {value!r}.")
    return budget
