"""`/unknown` and `/calls/{id}/resolve`. The scope `approve` sees and settles the unknown outcomes of all callers."""

from __future__ import annotations

import msgspec

from clicket.model import Record
from clicket.runtime.calls.unknown_outcomes import resolve_as
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup, as_seen_by, page_response, visible_runtime
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.parameters import Parameter, instant, page_of
from clicket.server.problems import Refused
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response
from clicket.server.schemas import Listing, Resolution, record_json

__all__ = ["UnknownOutcomeHandlers"]

_MAX_FULL_RECORDS = 100
_FILTERS = ("tool", "thread", "since", "until", "cursor")


class UnknownOutcomeHandlers:
    def __init__(self, runtime: Runtime, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._body_reader = body_reader

    async def listing(self, request: Request) -> Response:
        caller = request.query("caller")
        whole = request.query("full", False)
        limit = request.query("limit", 100)
        everything = self._runtime if caller is None else self._runtime.acting_for(caller)
        view = everything if request.principal.may("approve") else visible_runtime(request)
        page = await view.unknown(
            limit=min(limit, _MAX_FULL_RECORDS) if whole else limit, **{name: request.query(name) for name in _FILTERS}
        )
        if whole:
            page = msgspec.structs.replace(page, items=[as_seen_by(request, record) for record in page.items])
        return page_response(page, whole=whole)

    async def resolve(self, request: Request) -> Response:
        given = await self._body_reader.json(request, Resolution)
        principal = request.principal
        if given.rerun and not principal.may("call"):
            text = "running the call again needs the scope call, too. Settle it without rerun."
            raise Refused("missing_scope", text, needed=("call",))
        record = await self._lookup.to_resolve(request)
        mine = record.caller == principal.id
        view = principal.own if mine else principal.in_name_of(self._runtime, record.caller)
        with in_trace(request.headers):
            settled = await resolve_as(
                view,
                record.id,
                principal.approver,
                happened=given.happened,
                output=given.output,
                note=given.note,
                thread=record.thread,
                rerun=given.rerun,
            )
        return Response(200, record_json(as_seen_by(request, settled)))

    async def _refuse_unseen(self, request: Request) -> None:
        """For a key without the scope: calls of other keys are not found."""
        await self._lookup.find(request, waiting=False)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="GET /unknown",
                description="Calls whose outcome is unknown and not settled, the oldest first. Scope `approve` lists those of all callers.",
                handler=self.listing,
                scopes=("read", "approve"),
                parameters=(
                    Parameter(name="tool", description="Only calls of this tool."),
                    Parameter(name="thread", description="Only calls of this thread."),
                    instant("since", "Only calls made at or after this time (seconds since 1970)."),
                    instant("until", "Only calls made before this time (seconds since 1970)."),
                    *page_of("Calls"),
                    Parameter(name="full", description="Whole records, at most 100 on a page.", kind="boolean"),
                    CALLER,
                ),
                responses={200: ResponseSpec(description="A page of calls.", schema=Listing)},
            ),
            Operation(
                route="POST /calls/{id}/resolve",
                description="Settle a call whose outcome is unknown: say whether it happened. The outcome on record stays as it is; the "
                "record's `resolution` is the settlement. The name of the key is recorded with it. `rerun` also needs scope `call`. A "
                "call that waits for a decision about it (`recovery=\"ask\"`) goes on by it, under the rules of approvals.",
                handler=self.resolve,
                scopes=("approve",),
                unscoped=self._refuse_unseen,
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=Resolution),
                responses={200: ResponseSpec(description="The record, with the resolution.", schema=Record)},
                problems=(404, 409, 422, 429),
            ),
        )  # fmt: skip
