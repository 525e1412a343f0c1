"""`/calls/{id}/approve`, `/deny` and `/respond`. The scope `approve` sees and decides the waiting calls of all callers.

The person behind a key may not approve or answer calls that any of that person's keys made, unless the policy allows it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model import Record
from clicket.runtime.calls.approvals import approve_as, deny_as, respond_as
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Decided, Decision, Denial, PersonsAnswer

__all__ = ["ApprovalHandlers"]


class ApprovalHandlers:
    def __init__(self, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._lookup = lookup
        self._body_reader = body_reader

    async def approve(self, request: Request) -> Response:
        decision = await self._body_reader.optional_json(request, Decision)
        view, record = await self._lookup.to_decide(request, decision.seen)
        given: dict[str, Any] = {} if decision.arguments is None else {"arguments": decision.arguments}
        if decision.grant is not None:
            given["grant"] = msgspec.to_builtins(decision.grant)
        done = await approve_as(
            view,
            record.id,
            request.principal.approver,
            thread=record.thread,
            reason=decision.reason,
            seen=decision.seen,
            **given,
        )
        return await _decided(view, record, request, approved=True, done=done)

    async def deny(self, request: Request) -> Response:
        denial = await self._body_reader.optional_json(request, Denial)
        view, record = await self._lookup.to_decide(request, denial.seen)
        done = await deny_as(
            view, record.id, request.principal.approver, thread=record.thread, reason=denial.reason, seen=denial.seen
        )
        return await _decided(view, record, request, approved=False, done=done)

    async def respond(self, request: Request) -> Response:
        answer = await self._body_reader.json(request, PersonsAnswer)
        view, record = await self._lookup.to_decide(request, answer.seen)
        done = await respond_as(
            view,
            record.id,
            answer.output,
            request.principal.approver,
            thread=record.thread,
            reason=answer.reason,
            seen=answer.seen,
        )
        return await _decided(view, record, request, approved=True, done=done)

    async def _refuse_unseen(self, request: Request) -> None:
        """For a key without the scope: calls of other keys are not found, whether they wait or not."""
        await self._lookup.find(request, waiting=False)

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "approvals",
            Operation(
                route="POST /calls/{id}/approve",
                description="Let a call run that waits for approval; its arguments may be replaced, and later calls granted. The person "
                "who made the call may not, unless the policy allows it. If the policy wants several approvers, `missing` says "
                "how many more.",
                handler=self.approve,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=Decision, optional=True),
                responses={200: ResponseSpec(description="It goes on.", schema=Decided)},
                problems=(404, 409, 422),
            ),
            Operation(
                route="POST /calls/{id}/deny",
                description="Refuse a call that waits for approval; or decline a question of its tool, which goes on without an answer.",
                handler=self.deny,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=Denial, optional=True),
                responses={200: ResponseSpec(description="It ended.", schema=Decided)},
                problems=(404, 409, 422),
            ),
            Operation(
                route="POST /calls/{id}/respond",
                description="Answer in the tool's place: a call that waits for approval completes with this output, and its tool does "
                "not run. The output must fit the tool's output schema. `metadata.answered_by` is the name of the key. If the tool itself "
                "asks (`approval.purpose` is `input`), the output is the answer to its question, and the tool goes on.",
                handler=self.respond,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=PersonsAnswer),
                responses={200: ResponseSpec(description="It completes.", schema=Decided)},
                problems=(404, 409, 422),
            ),
        )


async def _reason(view: Runtime, record: Record) -> str:
    given = (await view.get(record.id, thread=record.thread)).approval or {}
    if given.get("approved") is None:
        return "does not wait for approval (any more)"
    decision = "approved" if given["approved"] else "denied"
    return f"does not wait for approval any more: it was {decision} by {given.get('by') or 'someone'!r} already"


async def _decided(view: Runtime, record: Record, request: Request, *, approved: bool, done: bool) -> Response:
    if not done:
        raise Refused("not_waiting", f"call {record.id!r} {await _reason(view, record)}. Nothing was changed.")
    after = await view.get(record.id, thread=record.thread)
    state = await view.state(record.id, thread=record.thread)
    asked = after.approval or {}
    missing = asked["approvers"] - len(asked["approvals"]) if after.waiting_for == "approval" else 0
    return json_response(
        Decided(
            id=record.id,
            thread=record.thread,
            approved=approved,
            by=request.principal.name,
            state=state,
            missing=missing,
            grant=asked.get("grant"),
        )
    )
