"""`Client.spend`: what was spent on the server, and what is left of its budgets."""

from __future__ import annotations

from clicket.client.connection import Connection
from clicket.model.spend import BudgetStatus, By, SpendReport

__all__ = ["Spend"]


class Spend:
    """The same methods as `Runtime.spend`, without `on_budget_reached`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        """Tokens and money by `run`, `thread`, `agent`, `caller`, `day`, `month` or `model`: of this key, or of all for an admin."""
        query = {"by": by, "since": since, "until": until, "caller": caller, "thread": thread, "agent": agent}
        return await self._connection.get("/spend", SpendReport, query=query)

    async def budgets(self) -> list[BudgetStatus]:
        """Every budget in its current period; for a key that is not an admin: those of this key."""
        return await self._connection.read_field("GET", "/spend/budgets", "items", list[BudgetStatus])
