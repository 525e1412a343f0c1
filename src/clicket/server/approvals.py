"""`/calls/{id}/approve` and `/deny`. The scope `approve` sees and decides the waiting calls of all callers."""

from __future__ import annotations

from typing import Any

from clicket.model import Record
from clicket.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Decided, Decision, Denial

__all__ = ["ApprovalHandlers"]


class ApprovalHandlers:
    def __init__(self, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._lookup = lookup
        self._body_reader = body_reader

    async def approve(self, request: Request) -> Response:
        decision = await self._body_reader.optional_json(request, Decision)
        view, record = await self._lookup.to_decide(request, decision.seen)
        edited: dict[str, Any] = {} if decision.arguments is None else {"arguments": decision.arguments}
        by = request.principal.name
        done = await view.approve(
            record.id, thread=record.thread, by=by, reason=decision.reason, seen=decision.seen, **edited
        )
        return await _decided(view, record, by, approved=True, done=done)

    async def deny(self, request: Request) -> Response:
        denial = await self._body_reader.optional_json(request, Denial)
        view, record = await self._lookup.to_decide(request, denial.seen)
        by = request.principal.name
        done = await view.deny(record.id, thread=record.thread, by=by, reason=denial.reason, seen=denial.seen)
        return await _decided(view, record, by, approved=False, done=done)

    async def _refuse_unseen(self, request: Request) -> None:
        """For a key without the scope: calls of other keys are not found, whether they wait or not."""
        await self._lookup.find(request, waiting=False)

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "approvals",
            Operation(
                route="POST /calls/{id}/approve",
                description="Let a call run that waits for approval; its arguments may be replaced.",
                handler=self.approve,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(model=Decision, optional=True),
                responses={200: ResponseSpec(description="It goes on.", model=Decided)},
                problems=(404, 409, 422),
            ),
            Operation(
                route="POST /calls/{id}/deny",
                description="Refuse a call that waits for approval.",
                handler=self.deny,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(model=Denial, optional=True),
                responses={200: ResponseSpec(description="It ended.", model=Decided)},
                problems=(404, 409, 422),
            ),
        )


async def _reason(view: Runtime, record: Record) -> str:
    given = (await view.get(record.id, thread=record.thread)).approval or {}
    if given.get("approved") is None:
        return "does not wait for approval (any more)"
    decision = "approved" if given["approved"] else "denied"
    return f"does not wait for approval any more: it was {decision} by {given.get('by') or 'someone'!r} already"


async def _decided(view: Runtime, record: Record, by: str, *, approved: bool, done: bool) -> Response:
    if not done:
        raise Refused("not_waiting", f"call {record.id!r} {await _reason(view, record)}. Nothing was changed.")
    state = await view.state(record.id, thread=record.thread)
    return json_response(Decided(id=record.id, thread=record.thread, approved=approved, by=by, state=state))
