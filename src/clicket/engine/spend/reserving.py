"""Does a request fit into the budgets of its accounts? If not: which one forbids it, in words, and what a person may add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clicket.engine.spend.accounts import Account, Books, Hold, Reached, fits, limits_of, status_of
from clicket.engine.spend.budgets import AccountId, Budget
from clicket.model.spend import BudgetBusy, BudgetStatus, Refusal

__all__ = ["Short", "Taken", "busy_of", "in_words", "refusal_of", "take"]


class Short(msgspec.Struct, frozen=True):
    """A budget that a request does not fit into."""

    budget: Budget
    account: AccountId
    status: BudgetStatus
    wanted_nano: int | None
    """None: the model has no price, so it cannot be said whether the request fits."""
    wanted_tokens: int


class Taken(msgspec.Struct, kw_only=True):
    """What became of a reservation. It was made if neither `short` nor `busy` is set."""

    short: Short | None = None
    """What is spent, with this request, passes the limit."""
    busy: Short | None = None
    """The request fits as soon as others have settled what they reserved. Nothing was changed."""
    reached: dict[AccountId, list[BudgetStatus]] = {}
    """Budgets that are reached for the first time."""
    left: list[BudgetStatus] = []
    """What is left of the budgets that the model may know of."""


def take(books: Books, charged: Mapping[AccountId, Sequence[Budget]], id: str, hold: Hold, nano: int | None) -> Taken:
    """Reserve in every account, or in none."""
    left = [status_of(books.accounts[account], each) for account, each in _watching(charged) if each.tell_model]
    if id in books.entries or any(id in account.holds for account in books.accounts.values()):
        return Taken(left=left)  # a lost answer: it was reserved, and may have been assumed as spent since
    over = [
        (account, budget)
        for account, budget in _watching(charged)
        if not fits(books.accounts[account], budget, nano, hold.tokens)
    ]
    forbids = sorted(
        (each for each in over if each[1].on_reached != "warn"), key=lambda each: each[1].on_reached != "stop"
    )
    final = [each for each in forbids if not fits(books.accounts[each[0]], each[1], nano, hold.tokens, reserved=False)]
    if forbids and not final:
        return Taken(busy=_short(books, forbids[0], nano, hold), left=left)
    reached: dict[AccountId, list[BudgetStatus]] = {}
    for account, budget in over:
        found = books.accounts[account]
        if (budget.on_reached == "warn" or (account, budget) in final) and _reach(found, budget, hold, nano):
            reached.setdefault(account, []).append(status_of(found, budget))
    if final:
        return Taken(short=_short(books, final[0], nano, hold), reached=reached, left=left)
    for found in books.accounts.values():
        found.holds[id] = hold
    return Taken(reached=reached, left=left)


def _watching(charged: Mapping[AccountId, Sequence[Budget]]) -> Iterator[tuple[AccountId, Budget]]:
    return ((account, budget) for account, budgets in charged.items() for budget in budgets)


def _reach(found: Account, budget: Budget, hold: Hold, nano: int | None) -> bool:
    """Record that a budget is reached; False: it is known, or it is not reached: the request has no price."""
    if nano is None and fits(found, budget, 0, hold.tokens):
        return False
    limits = limits_of(found, budget)
    known = found.reached.get(budget.title)
    if known is not None and known.limits == limits:
        return False
    found.reached[budget.title] = Reached(hold.at, False, limits)
    return True


def _short(books: Books, which: tuple[AccountId, Budget], nano: int | None, hold: Hold) -> Short:
    account, budget = which
    return Short(budget, account, status_of(books.accounts[account], budget), nano, hold.tokens)


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
        "budget": status.name,
        "account": short.account.key,
        "scope": status.scope,
        "period": status.period,
        "now": in_words(status),
        **add,
    }
    # No amount that a person could add makes a request without a price fit.
    return Refusal(ask=budget.on_reached == "ask" and not unpriced, text=text, arguments=arguments)


def busy_of(short: Short) -> BudgetBusy:
    status = short.status
    text = (
        f"Waits for requests under way, which reserved what is left of the budget {status.name!r} ({in_words(status)})"
    )
    account = short.account
    return BudgetBusy(text=text, scope=account.scope, period=account.period, key=account.key)


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
