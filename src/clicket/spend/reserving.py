"""Does a request fit into the budgets of an account? If not: which one forbids it, in words, and what a person may add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clicket.model.spend import BudgetStatus, Refusal
from clicket.spend.accounts import Account, Hold, Reached, Short, fits, limits_of, status_of
from clicket.spend.budgets import AccountId, Budget

__all__ = ["in_words", "refusal_of", "take"]


def take(
    found: Account, account: AccountId, budgets: Sequence[Budget], id: str, hold: Hold, nano: int | None
) -> tuple[Short | None, list[BudgetStatus], list[BudgetStatus]]:
    """Reserve, or say which budget forbids it; which budgets are reached for the first time; and what is left of those that the model
    may know of."""
    told = [status_of(found, budget) for budget in budgets if budget.tell_model]
    if id in found.holds:  # a lost answer: it was reserved
        return None, [], told
    short = [budget for budget in budgets if not fits(found, budget, nano, hold.tokens)]
    new: list[BudgetStatus] = []
    for budget in short:
        if nano is None and fits(found, budget, 0, hold.tokens):  # it is not reached: the request has no price
            continue
        limits = limits_of(found, budget)
        known = found.reached.get(budget.title)
        if known is None or known.limits != limits:
            found.reached[budget.title] = Reached(hold.at, False, limits)
            new.append(status_of(found, budget))
    forbids = sorted(
        (budget for budget in short if budget.on_reached != "warn"), key=lambda budget: budget.on_reached != "stop"
    )
    if forbids:
        return Short(forbids[0], account, status_of(found, forbids[0]), nano, hold.tokens), new, told
    found.holds[id] = hold
    return None, new, told


def refusal_of(short: Short) -> Refusal:
    status, budget = short.status, short.budget
    unpriced = short.wanted_nano is None and budget.limit_usd is not None
    if unpriced:
        why = "the model has no price, so its requests cannot be counted in money; add it to [[prices]]"
    else:
        wanted = [] if budget.limit_usd is None else [f"{(short.wanted_nano or 0) / 1e9:.6g} USD"]
        wanted += [] if budget.limit_tokens is None else [f"{short.wanted_tokens:,} tokens"]
        why = f"the next request may need {' and '.join(wanted)}"
    what = "Not covered by" if unpriced else "Reached"
    text = f"{what} the budget {status.name!r} of {status.scope}, {status.period} ({in_words(status)}): {why}"
    add: dict[str, Any] = {}
    if budget.limit_usd is not None:
        add["add_usd"] = round(max(budget.limit_usd / 10, 2 * (short.wanted_nano or 0) / 1e9), 6)
    if budget.limit_tokens is not None:
        add["add_tokens"] = max(budget.limit_tokens // 10, 2 * short.wanted_tokens)
    arguments = {
        "budget": status.name, "account": short.account.key, "scope": status.scope, "period": status.period,
        "now": in_words(status), **add,
    }  # fmt: skip
    # No amount that a person could add makes a request without a price fit.
    return Refusal(ask=budget.on_reached == "ask" and not unpriced, text=text, arguments=arguments)


def in_words(status: BudgetStatus, on: str = "") -> str:
    parts = []
    if status.limit_usd is not None:
        parts.append(
            f"{status.spent_usd:.6g} of {status.limit_usd + status.raised_usd:.6g} USD spent, {status.reserved_usd:.6g} reserved"
        )
    if status.limit_tokens is not None:
        parts.append(
            f"{status.spent_tokens:,} of {status.limit_tokens + status.raised_tokens:,} tokens spent, {status.reserved_tokens:,} reserved"
        )
    return "; ".join([*parts, on] if on else parts)
