"""`Runtime.spend`: what agents and tools spent, and what is left of the budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from clicket.engine import Engine
from clicket.engine.spend import OnBudgetReached, SpendBook
from clicket.errors import PermissionDenied
from clicket.model.spend import BudgetStatus, By, SpendReport

__all__ = ["SpendView", "spend"]


class SpendView:
    """`report = await rt.spend.report(by="thread")`. A runtime for one caller (`acting_for`) sees that caller's spend alone."""

    def __init__(self, book: SpendBook, caller: str | None) -> None:
        self._book = book
        self._caller = caller

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
        """Tokens and money by `run`, `thread`, `agent`, `caller`, `day`, `month` (UTC) or `model`, of all processes over the store, and
        the budgets.

        `since` and `until`: seconds since the epoch. `thread` and `agent`: only what was spent for them, by the agents that they called,
        too. Entries of other processes may be a second late. The ledger is read for it: `since` bounds the time that takes.
        """
        if self._caller is not None and caller not in (None, self._caller):
            raise PermissionDenied("this runtime acts for one caller, and sees that caller's spend alone.")
        whose = self._caller if caller is None else caller
        return await self._book.reader.report(by, since=since, until=until, caller=whose, thread=thread, agent=agent)

    async def budgets(self) -> list[BudgetStatus]:
        """Every budget in its current period, for each scope that has spent; for one caller: those of this caller."""
        return await self._book.reader.budgets(self._caller)

    @property
    def reached(self) -> Mapping[str, int]:
        """How often each budget was reached, in this process."""
        return self._book.notices.counts

    def on_budget_reached(self, listener: OnBudgetReached) -> None:
        """Await `listener(BudgetReached)` when a budget is reached, in this process: at least once for each budget, scope, period and
        limit. It is called again, with the same id, if it raised or the process died in it."""
        self._book.notices.listeners.append(listener)


class _HasEngine(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


class _Spend:
    """What was spent, and what is left of the budgets: `await rt.spend.report(by="thread")`, `await rt.spend.budgets()`."""

    def __get__(self, runtime: _HasEngine, owner: Any = None) -> SpendView:
        return SpendView(runtime._opened.book, runtime._caller)


spend = _Spend()
