"""`Runtime.grants`: approvals that also let later calls run, listed and revoked."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.engine.people.grants import Grants as EngineGrants
from clicket.errors import PermissionDenied
from clicket.model.grant import Grant, GrantState

__all__ = ["Grants"]


class Grants:
    """The grants in a store, shared by all processes over it. `rt.approve(id, grant={…})` gives one."""

    def __init__(self, grants: EngineGrants, caller: str | None) -> None:
        self._grants = grants
        self._caller = caller

    async def list(self, *, tool: str | None = None, state: GrantState | None = None) -> Sequence[Grant]:
        """The grants, the newest first: active ones, and for the retention of calls also those that were used up, expired or revoked.
        The runtime of one caller lists those that hold for it."""
        return [
            grant
            for grant in await self._grants.listed()
            if tool in (None, grant.tool)
            and state in (None, grant.state)
            and (self._caller is None or grant.covers(grant.tool, self._caller, grant.thread or ""))
        ]

    async def revoke(self, id: str, *, by: str = "") -> Grant:
        """From now on the grant lets no call run, in any process. Calls that it has approved go on. `NotFound`: there is none."""
        if self._caller is not None:
            raise PermissionDenied("grants are revoked by the operator of this runtime, not by one of its callers.")
        return (await self._grants.revoke(id, by=by))[0]
