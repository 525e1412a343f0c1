"""`/calls/{id}/again`: run a call again, as a new call. `/bulk`: one action on many calls."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clicket.model import Record
from clicket.model.codec import clean
from clicket.runtime.calls.bulk import BulkResult, order_of, perform
from clicket.runtime.calls.effects import Effect
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup, begun, call_path
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.problems import Refused
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Again, AgainAccepted, BulkRequest

__all__ = ["CallActionHandlers"]


class EffectList(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which they were asked for."""

    items: list[Effect]


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

    async def effects(self, request: Request) -> Response:
        _, old = await self._lookup.find(request, waiting=False)
        view = self._acting_for_owner(request, old)
        return json_response(EffectList(items=await view.effects(old.id, thread=old.thread)))

    async def bulk(self, request: Request) -> Response:
        given = await self._body_reader.json(request, BulkRequest)
        principal = request.principal
        decides = given.action in ("approve", "deny")
        needed = "approve" if decides else "call"
        if not principal.may(needed):
            text = f"the action {given.action} needs the scope {needed}. Use a key that has it."
            raise Refused("missing_scope", text, needed=(needed,))
        ids = (
            None
            if given.ids is None
            else [each if isinstance(each, str) else msgspec.structs.asdict(each) for each in given.ids]
        )
        which = None if given.filter is None else msgspec.to_builtins(given.filter)
        order = order_of(
            given.action, ids, which, reason=given.reason, dry=given.dry, limit=given.limit, cursor=given.cursor
        )
        sees: Callable[[Record], bool] | None = None
        if (
            decides and not principal.is_admin
        ):  # it decides about waiting calls of all callers, and sees no other calls of them
            sees = lambda record: record.waiting_for == "approval" or record.caller == principal.id  # noqa: E731

        async def note(record: Record) -> None:
            if not decides and record.caller != principal.id:  # decisions are in the audit log anyway
                what = "call.cancelled" if given.action == "cancel" else "call.again"
                await self._runtime.audit.record(what, by=principal.name, call=record.id, thread=record.thread)

        runtime = self._runtime if decides else principal.sees
        with in_trace(request.headers):
            result = await perform(
                runtime, order, approver=principal.approver, scopes=principal.scopes, sees=sees, on_acted=note
            )
        return json_response(result)

    def _acting_for_owner(self, request: Request, record: Record) -> Runtime:
        """The new call belongs to the caller of the old one; the policy judges it by the scopes of the key that asks."""
        principal = request.principal
        return principal.own if record.caller == principal.id else principal.in_name_of(self._runtime, record.caller)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="POST /calls/{id}/again",
                description="Run a call again: a new call of the same tool, thread and caller, with the same arguments or with those "
                "of the body. Its `metadata.again_of` is the id of the old one. The response is 202 as soon as it is durable.",
                handler=self.again,
                scopes=("call",),
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=Again, optional=True),
                responses={
                    202: ResponseSpec(
                        description="Accepted: durable, and waiting or running.", schema=AgainAccepted, id_at="id",
                        headers={"Location": "Where the new call is looked at."},
                    ),
                },
                problems=(404, 409, 422, 429),
            ),
            Operation(
                route="GET /calls/{id}/effects",
                description="The effects that `POST /calls/{id}/again` would repeat: of the call, of its program's uses of tools, and of "
                "agents that it called.",
                handler=self.effects,
                scopes=("read",),
                parameters=(THREAD, CALLER),
                responses={200: ResponseSpec(description="The calls with an effect.", schema=EffectList)},
                problems=(404, 409),
            ),
            Operation(
                route="POST /bulk",
                description="Cancel, run again, approve or deny many calls, named by `ids` or found by `filter`, the newest first. "
                "A filter finds only calls to which the action applies: active ones for `cancel`, ended ones for `again`, waiting "
                "ones for `approve` and `deny`. A call that fails affects no other; `failures` says why. Needs scope `call`; "
                "`approve` and `deny` need scope `approve`.",
                handler=self.bulk,
                scopes=("call", "approve"),
                body=BodySpec(schema=BulkRequest),
                responses={200: ResponseSpec(description="Counts and failures.", schema=BulkResult)},
                problems=(409, 422),
            ),
        )  # fmt: skip
