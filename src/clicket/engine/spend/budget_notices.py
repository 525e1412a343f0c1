"""Tells listeners that a budget is reached: in the log, and by callbacks, at least once for each budget, account and limit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from clicket.engine.spend.accounts import Account, Accounts, Reached, status_of
from clicket.engine.spend.budgets import AccountId, Budget
from clicket.engine.spend.lineage import spender_of_call
from clicket.engine.spend.reserving import in_words
from clicket.model.codec import canonical
from clicket.model.ports import Clock
from clicket.model.spend import BudgetStatus, Spender

__all__ = ["BudgetNotices", "BudgetReached", "OnBudgetReached"]

logger = logging.getLogger("clicket.spend")
_AGAIN_AFTER = 10.0
"""Seconds after which listeners that were not told are told again."""


class BudgetReached(msgspec.Struct, frozen=True, kw_only=True):
    """A budget is reached: the next request did not fit into it. `id` is the same whenever this is told again."""

    id: str
    at: float
    budget: BudgetStatus
    caller: str
    thread: str
    agent: str
    run: str


OnBudgetReached = Callable[[BudgetReached], Awaitable[None]]
"""Called at least once for each budget and period. It is called again, with the same id, if it raises or the process dies in it."""


class BudgetNotices:
    """`listeners` are called when a budget is reached. That it is reached is durable before, and that they were told after."""

    def __init__(self, accounts: Accounts, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._accounts = accounts
        self._clock = clock
        self._spawn = spawn
        self.listeners: list[OnBudgetReached] = []
        self.counts: dict[str, int] = {}
        """How often each budget was reached, in this process."""

    def tell(self, account: AccountId, new: list[BudgetStatus], spender: Spender, at: float) -> None:
        """`at`: when the budget was reached; the same whenever it is told again."""
        for status in new:
            run = spender.runs[0]
            who = [
                account.key,
                status.name,
                status.limit_usd,
                status.limit_tokens,
                status.raised_usd,
                status.raised_tokens,
            ]
            notice = BudgetReached(
                id=blake2b(canonical(who), digest_size=16).hexdigest(),
                at=at,
                budget=status,
                caller=spender.caller,
                thread=run.thread,
                agent=run.agent,
                run=run.name,
            )
            self.counts[status.name] = self.counts.get(status.name, 0) + 1
            logger.warning(
                "budget %r is reached: %s, %s; %s",
                status.name,
                status.scope,
                status.period,
                in_words(status, on=status.on_reached),
            )
            self._spawn(self._tell_listeners(account, notice))

    async def _tell_listeners(self, account: AccountId, notice: BudgetReached) -> None:
        try:
            for listener in self.listeners:
                await listener(notice)
            await self._accounts.change(account, lambda found: _mark_told(found, notice.budget.name))
        except Exception as error:  # `sweep` tells them again
            logger.warning("a listener of budgets failed, and is called again later: %s", error)

    def tell_again(self, id: AccountId, account: Account, budgets: Sequence[Budget]) -> None:
        for budget in budgets:
            reached = account.reached.get(budget.title)
            if reached is not None and not reached.told and reached.at < self._clock.now() - _AGAIN_AFTER:
                last = next(iter(account.holds.values()), None)
                spender, _ = spender_of_call("" if last is None else last.caller, "", "")
                if last is not None and last.runs:
                    spender = Spender(last.caller, last.runs)
                self.tell(id, [status_of(account, budget)], spender, reached.at)


def _mark_told(found: Account, budget: str) -> None:
    reached = found.reached.get(budget)
    if reached is not None:
        found.reached[budget] = Reached(reached.at, True, reached.limits)
