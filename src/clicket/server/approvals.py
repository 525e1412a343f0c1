"""Approving and denying calls that wait for it. The scope `approve` sees and decides the waiting calls of every caller."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model import Record
from clicket.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Decided, Decision, Denial

__all__ = ["ApprovalHandlers"]

_approval = msgspec.json.Decoder(Decision)
_denial = msgspec.json.Decoder(Denial)


class ApprovalHandlers:
    def __init__(self, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._lookup = lookup
        self._body_reader = body_reader

    async def approve(self, request: Request) -> Response:
        decision = await self._body_reader.optional_json(request, _approval, Decision())
        view, record = await self._lookup.to_decide(request, decision.seen)
        edited: dict[str, Any] = {} if decision.arguments is None else {"arguments": decision.arguments}
        by = request.principal.name
        done = await view.approve(
            record.id, thread=record.thread, by=by, reason=decision.reason, seen=decision.seen, **edited
        )
        return await _decided(view, record, by, approved=True, done=done)

    async def deny(self, request: Request) -> Response:
        denial = await self._body_reader.optional_json(request, _denial, Denial())
        view, record = await self._lookup.to_decide(request, denial.seen)
        by = request.principal.name
        done = await view.deny(record.id, thread=record.thread, by=by, reason=denial.reason, seen=denial.seen)
        return await _decided(view, record, by, approved=False, done=done)

    async def _is_there(self, request: Request) -> None:
        """A key without the scope is refused for its own calls; calls of others are not found, whether they wait or not."""
        await self._lookup.find(request, waiting=False)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="POST /calls/{id}/approve",
                description="Let a call run that waits for approval, perhaps with other arguments.",
                handler=self.approve,
                scopes=("approve",),
                unscoped=self._is_there,
                parameters=(THREAD, CALLER),
                body=BodySpec(model=Decision, optional=True),
                responses={200: ResponseSpec(description="It goes on.", model=Decided)},
                problems=(404, 409, 422),
                tag="approvals",
            ),
            Operation(
                route="POST /calls/{id}/deny",
                description="Refuse a call that waits for approval.",
                handler=self.deny,
                scopes=("approve",),
                unscoped=self._is_there,
                parameters=(THREAD, CALLER),
                body=BodySpec(model=Denial, optional=True),
                responses={200: ResponseSpec(description="It ended.", model=Decided)},
                problems=(404, 409, 422),
                tag="approvals",
            ),
        )


async def _why_not(view: Runtime, record: Record) -> str:
    given = (await view.get(record.id, thread=record.thread)).approval or {}
    if given.get("approved") is None:
        return "does not wait for approval (any more)"
    word = "approved" if given["approved"] else "denied"
    return f"does not wait for approval any more: it was {word} by {given.get('by') or 'somebody'!r} already"


async def _decided(view: Runtime, record: Record, by: str, *, approved: bool, done: bool) -> Response:
    if not done:
        raise Refused("not_waiting", f"call {record.id!r} {await _why_not(view, record)}. Nothing was changed.")
    state = await view.state(record.id, thread=record.thread)
    return json_response(Decided(id=record.id, thread=record.thread, approved=approved, by=by, state=state))
