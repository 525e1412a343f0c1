"""`Client.evals`: evaluations whose results are in the server's store. The key needs the scope `admin`."""

from __future__ import annotations

from clicket.client.connection import Connection, path_segment
from clicket.model.evaluation import EvalReport, EvalRunPage, Outcome

__all__ = ["Evals"]


class Evals:
    """What `runs_of` and `report_of` of `clicket.evals` read from a store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, name: str | None = None, *, limit: int = 100, cursor: str | None = None) -> EvalRunPage:
        """Runs of an evaluation, or of all, the newest first, in pages of up to 1,000; `cursor` of one page fetches the next."""
        return await self._connection.get("/evals", EvalRunPage, query={"name": name, "limit": limit, "cursor": cursor})

    async def report(
        self,
        name: str,
        run: str,
        *,
        case: str | None = None,
        agent: str | None = None,
        outcome: Outcome | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EvalReport:
        """One run: the figures of each agent, and a page of its trials, up to 1,000. `case`, `agent`, `outcome`: only these trials.
        `NotFound`: there is no such run."""
        query = {"case": case, "agent": agent, "outcome": outcome, "limit": limit, "cursor": cursor}
        return await self._connection.get(f"/evals/{path_segment(name)}/{path_segment(run)}", EvalReport, query=query)
