"""`/grants`: approvals that also let later calls run. The scope `approve` sees and revokes those of all callers."""

from __future__ import annotations

from clicket.model.grant import Grant
from clicket.runtime.runtime import Runtime
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.request import Request
from clicket.server.responses import Response, json_response
from clicket.server.schemas import GrantList

__all__ = ["GrantHandlers"]


class GrantHandlers:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def listing(self, request: Request) -> Response:
        principal = request.principal
        view = self._runtime if principal.may("approve") else principal.own
        found = await view.grants.list(tool=request.query("tool"), state=request.query("state"))
        return json_response(GrantList(items=list(found)))

    async def revoke(self, request: Request) -> Response:
        return json_response(await self._runtime.grants.revoke(request.path("id"), by=request.principal.name))

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "approvals",
            Operation(
                route="GET /grants",
                description="Approvals that also let later calls run, the newest first. Scope `approve` lists those of all callers, "
                "`read` those that hold for the key's own calls.",
                handler=self.listing,
                scopes=("read", "approve"),
                parameters=(
                    Parameter(name="tool", description="Only grants for this tool."),
                    Parameter(
                        name="state",
                        description="Only grants in this state.",
                        choices=("active", "used_up", "expired", "revoked"),
                    ),
                ),
                responses={200: ResponseSpec(description="The grants.", schema=GrantList)},
            ),
            Operation(
                route="DELETE /grants/{id}",
                description="Revoke a grant: from now on it lets no call run, in any process.",
                handler=self.revoke,
                scopes=("approve",),
                responses={200: ResponseSpec(description="The grant, revoked.", schema=Grant)},
                problems=(404,),
            ),
        )
