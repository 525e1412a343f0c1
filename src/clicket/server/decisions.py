"""Approving and denying calls that wait for it. The scope `approve` sees and decides the waiting calls of every caller."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model import Record
from clicket.runtime import Runtime
from clicket.server.bodies import Bodies
from clicket.server.lookup import CALLER, THREAD, CallLookup
from clicket.server.operations import Answer, Body, Operation
from clicket.server.problems import Refused
from clicket.server.replies import Reply, json_reply
from clicket.server.request import Request
from clicket.server.shapes import Decided, Decision, Denial

__all__ = ["DecisionHandlers"]

_approval = msgspec.json.Decoder(Decision)
_denial = msgspec.json.Decoder(Denial)


class DecisionHandlers:
    def __init__(self, lookup: CallLookup, bodies: Bodies) -> None:
        self._lookup = lookup
        self._bodies = bodies

    async def approve(self, request: Request) -> Reply:
        decision = await self._bodies.optional_json(request, _approval, Decision())
        view, record = await self._lookup.to_decide(request, decision.seen)
        edited: dict[str, Any] = {} if decision.arguments is None else {"arguments": decision.arguments}
        by = request.principal.name
        done = await view.approve(
            record.id, thread=record.thread, by=by, reason=decision.reason, seen=decision.seen, **edited
        )
        return await _decided(view, record, by, approved=True, done=done)

    async def deny(self, request: Request) -> Reply:
        denial = await self._bodies.optional_json(request, _denial, Denial())
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
                method="POST",
                path="/calls/{id}/approve",
                about="Let a call run that waits for approval, perhaps with other arguments.",
                handler=self.approve,
                scopes=("approve",),
                unscoped=self._is_there,
                parameters=(THREAD, CALLER),
                body=Body(model=Decision, optional=True),
                answers={200: Answer(about="It goes on.", model=Decided)},
                problems=(404, 409, 422),
                tag="approvals",
            ),
            Operation(
                method="POST",
                path="/calls/{id}/deny",
                about="Refuse a call that waits for approval.",
                handler=self.deny,
                scopes=("approve",),
                unscoped=self._is_there,
                parameters=(THREAD, CALLER),
                body=Body(model=Denial, optional=True),
                answers={200: Answer(about="It ended.", model=Decided)},
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


async def _decided(view: Runtime, record: Record, by: str, *, approved: bool, done: bool) -> Reply:
    if not done:
        raise Refused("not_waiting", f"call {record.id!r} {await _why_not(view, record)}. Nothing was changed.")
    state = await view.state(record.id, thread=record.thread)
    return json_reply(Decided(id=record.id, thread=record.thread, approved=approved, by=by, state=state))
