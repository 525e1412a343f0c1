"""`/dead` and `/calls/{id}/requeue`: calls that were given up, and running one again."""

from __future__ import annotations

from clicket.model.codec import clean
from clicket.runtime.calls.dead_letters import DeadPage
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup, begun, call_path, visible_runtime
from clicket.server.operations import Operation, ResponseSpec
from clicket.server.parameters import Parameter, page_of
from clicket.server.request import Request, in_trace
from clicket.server.responses import Response, json_response
from clicket.server.schemas import AgainAccepted

__all__ = ["DeadLetterHandlers"]


class DeadLetterHandlers:
    def __init__(self, runtime: Runtime, lookup: CallLookup) -> None:
        self._runtime = runtime
        self._lookup = lookup

    async def listing(self, request: Request) -> Response:
        which = {name: request.query(name) for name in ("tool", "thread", "cursor")}
        page = await visible_runtime(request).dead(
            limit=request.query("limit", 100), requeued=request.query("requeued", False), **which
        )
        return json_response(page)

    async def requeue(self, request: Request) -> Response:
        _, old = await self._lookup.find(request, waiting=False)
        principal = request.principal
        mine = old.caller == principal.id
        view = principal.own if mine else principal.in_name_of(self._runtime, old.caller)
        with in_trace(request.headers):
            handle = await view.requeue(old.id, thread=old.thread)
        request.scope["clicket.call"] = handle.id
        if not mine:
            await self._runtime.audit.record("call.requeued", by=principal.name, call=handle.id, again_of=old.id)
        state, refusal = await begun(view, handle)
        if refusal is not None:
            return refusal
        made = AgainAccepted(id=handle.id, thread=handle.thread, tool=clean(old.tool), state=state, again_of=old.id)
        return json_response(made, 202, request.location(call_path(handle)))

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="GET /dead",
                description="Calls that were given up, newest first: failed for good, out of time, of unknown outcome, or damaged.",
                handler=self.listing,
                scopes=("read",),
                parameters=(
                    Parameter(name="tool", description="Only calls of this tool."),
                    Parameter(name="thread", description="Only calls of this thread."),
                    CALLER,
                    Parameter(name="requeued", description="Also those that run again already.", kind="boolean"),
                    *page_of("Calls"),
                ),
                responses={200: ResponseSpec(description="The page.", schema=DeadPage)},
            ),
            Operation(
                route="POST /calls/{id}/requeue",
                description="Run a call that was given up again, as a new call whose `metadata.again_of` is the id of the old one. A "
                "second request makes no second call.",
                handler=self.requeue,
                scopes=("call",),
                parameters=(THREAD, CALLER),
                responses={
                    202: ResponseSpec(
                        description="Accepted: durable, and waiting or running.", schema=AgainAccepted, id_at="id",
                        headers={"Location": "Where the new call is looked at."},
                    ),
                },
                problems=(404, 409, 422, 429),
            ),
        )  # fmt: skip
