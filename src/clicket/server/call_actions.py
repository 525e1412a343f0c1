"""`/calls/{id}/again`: run a call again, as a new call."""

from __future__ import annotations

from clicket.model import Record
from clicket.model.codec import clean
from clicket.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup, begun, call_path
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Again, AgainAccepted

__all__ = ["CallActionHandlers"]


class CallActionHandlers:
    def __init__(self, runtime: Runtime, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._body_reader = body_reader

    async def again(self, request: Request) -> Response:
        given = await self._body_reader.optional_json(request, Again)
        _, old = await self._lookup.find(request, waiting=False)
        view = self._acting_for_owner(request, old)
        with in_trace(request.headers):
            handle = await view.again(old.id, given.arguments, thread=old.thread, new_id=given.id)
        request.scope["clicket.call"] = handle.id
        if old.caller != request.principal.id:
            await self._runtime.audit.record("call.again", by=request.principal.name, call=handle.id, again_of=old.id)
        state, refusal = await begun(view, handle)
        if refusal is not None:
            return refusal
        made = AgainAccepted(id=handle.id, thread=handle.thread, tool=clean(old.tool), state=state, again_of=old.id)
        return json_response(made, 202, request.location(call_path(handle)))

    def _acting_for_owner(self, request: Request, record: Record) -> Runtime:
        """The new call belongs to the caller of the old one; the policy judges it by the scopes of the key that asks."""
        principal = request.principal
        return (
            principal.own
            if record.caller == principal.id
            else self._runtime.acting_for(record.caller, principal.scopes)
        )

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="POST /calls/{id}/again",
                description="Run a call again: a new call of the same tool, thread and caller, with the same arguments or with those "
                "of the body. Its `metadata.again_of` is the id of the old one. The response is 202 as soon as it is durable.",
                handler=self.again,
                scopes=("call",),
                parameters=(THREAD, CALLER),
                body=BodySpec(model=Again, optional=True),
                responses={
                    202: ResponseSpec(
                        description="Accepted: durable, and waiting or running.", model=AgainAccepted, id_at="id",
                        headers={"Location": "Where the new call is looked at."},
                    ),
                },
                problems=(404, 409, 422, 429),
            ),
        )  # fmt: skip
