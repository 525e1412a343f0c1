"""Reads the ledger and the accounts of budgets: for reports, which need no engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clicket.engine.spend.accounts import Account, Accounts, status_of
from clicket.engine.spend.budgets import Budget
from clicket.engine.spend.ledger import Ledger, day_of
from clicket.engine.spend.report import check_by, spend_report
from clicket.model.ports import Records, SystemClock
from clicket.model.spend import BudgetStatus, By, SpendReport

__all__ = ["SpendReader"]


class SpendReader:
    def __init__(self, ledger: Ledger, accounts: Accounts, budgets: Sequence[Budget], now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._budgets = tuple(budgets)
        self._now = now

    @classmethod
    def over(cls, records: Records, budgets: Sequence[Budget]) -> SpendReader:
        """A reader of a store that no runtime has open here."""
        clock = SystemClock()
        ledger = Ledger(records, clock, lambda work: work.close())
        return cls(ledger, Accounts(records, ledger), budgets, clock.now)

    async def report(
        self,
        by: By = "day",
        *,
        since: float | None = None,
        until: float | None = None,
        caller: str | None = None,
        thread: str | None = None,
        agent: str | None = None,
    ) -> SpendReport:
        """See `clicket.runtime.views.spend.SpendView.report`."""
        check_by(by)
        await self._ledger.write_pending()
        which: dict[str, Any] = {"since": since, "until": until, "caller": caller, "thread": thread, "agent": agent}
        found = await spend_report(self._ledger.pages(since, until), by, **which)
        return msgspec.structs.replace(found, budgets=await self.budgets(caller))

    async def budgets(self, caller: str | None = None) -> list[BudgetStatus]:
        """Every budget in its current period, for each scope that has spent; of one caller: only its own."""
        if not self._budgets:
            return []
        day = day_of(self._now())
        found: list[BudgetStatus] = []
        async for _, account, _ in self._accounts.listed([day, day[:7], "total"]):
            kind = account.scope.partition(":")[0]
            for budget in self._budgets:
                when = {"day": day, "month": day[:7]}.get(budget.period, budget.period)
                mine = caller is None or account.scope == f"caller:{caller}"
                if mine and when == account.period and budget.scope in (account.scope, kind):
                    found.append(status_of(account, budget))
        known = {each.name for each in found}
        for budget in self._budgets:  # those that nothing was charged to yet
            is_one = budget.scope == "all" or ":" in budget.scope
            mine = caller is None or budget.scope == f"caller:{caller}"
            if is_one and mine and budget.period != "run" and budget.title not in known:
                when = {"day": day, "month": day[:7]}.get(budget.period, budget.period)
                found.append(status_of(Account(scope=budget.scope, period=when), budget))
        return sorted(found, key=lambda each: (each.scope, each.period, each.name))
