"""`/calls`: make calls, read them, cancel them. Calls of other keys are not found."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol, get_args

import msgspec

from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Record, ToolResult
from clicket.model.codec import clean
from clicket.model.ports import Handle
from clicket.model.record import NAMED_WAITS, WAITS, WaitingFor
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import (
    CALLER,
    REFUSALS,
    THREAD,
    CallLookup,
    as_seen_by,
    begun,
    call_path,
    page_response,
    visible_runtime,
)
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.parameters import Parameter, instant, page_of
from clicket.server.problems import Refused, problem_of_result
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader, ClientDisconnected, decode_body
from clicket.server.responses import Response, json_response
from clicket.server.schemas import (
    Accepted,
    CallRequest,
    Cancelled,
    Listing,
    RecordPage,
    Stop,
    record_json,
    result_json,
)

__all__ = ["CallHandlers"]

_MAX_FULL_RECORDS = 100
_KEY = re.compile("[!-~]{1,512}")
_STATE = "|".join(State)
_WAITS = f"one of {', '.join(get_args(WaitingFor))}, or {', '.join(f'{kind}:NAME' for kind in NAMED_WAITS)}"
_FILTERS = ("thread", "tool", "since", "until", "waiting_for", "code", "request_id", "id_contains", "cursor")


class _Handle(Handle, Protocol):
    def leave(self, reason: str) -> None: ...


class CallHandlers:
    def __init__(self, runtime: Runtime, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._body_reader = body_reader

    # Create.

    async def create(self, request: Request) -> Response:
        call = self._call_request(await self._body_reader.read(request), request)
        options: dict[str, Any] = {
            "id": call.id,
            "thread": call.thread,
            "timeout": call.timeout,
            "deadline": call.deadline,
            "priority": int(call.priority),
            "request_id": call.request_id,
            "metadata": call.metadata,
            "not_before": call.not_before,
        }
        given = bytes(call.arguments)
        arguments = None if given in (b"", b"null") else given
        with in_trace(request.headers):
            return await self._make(request, call, arguments, options)

    def _call_request(self, body: bytes, request: Request) -> CallRequest:
        call = decode_body(body, CallRequest)
        given = bytes(call.arguments)  # the runtime validates the arguments, and records the outcome
        self._body_reader.refuse_ambiguous(body.replace(given, b"0", 1) if given else body)
        key = request.header(b"idempotency-key")
        if key is not None:
            if call.id is not None and call.id != key:
                raise Refused("conflict", "the body's id and the header Idempotency-Key differ. Send one of them.")
            if not _KEY.fullmatch(key):
                raise Refused("usage", "Idempotency-Key must be 1 to 512 printable ASCII characters without spaces.")
            call = msgspec.structs.replace(call, id=key)
        return call

    async def _make(
        self, request: Request, call: CallRequest, arguments: bytes | None, options: dict[str, Any]
    ) -> Response:
        own = request.principal.own
        if call.wait is True and not call.cancel_on_disconnect:
            result = await own.call(call.tool, arguments, **options)
            request.scope["clicket.call"] = result.call_id
            return await self._outcome(request, result)
        handle = await own.submit(call.tool, arguments, **options)
        request.scope["clicket.call"] = handle.id
        if handle.is_removed:
            return await self._outcome(request, await handle.result())
        if call.wait:
            seconds = None if call.wait is True else call.wait
            waited = await _wait(request, handle, seconds, cancel=call.cancel_on_disconnect)
            if waited is not None:
                return await self._outcome(request, waited)
        return await _accepted(request, handle, call.tool)

    async def _outcome(self, request: Request, result: ToolResult) -> Response:
        error = result.error
        if error is not None and error.code in REFUSALS:
            return problem_of_result(error, result.call_id)
        return Response(200, result_json(result))

    # Read.

    async def show(self, request: Request) -> Response:
        _, record = await self._lookup.find(request)
        return Response(200, record_json(as_seen_by(request, record)))

    async def listing(self, request: Request) -> Response:
        waiting = request.query("waiting_for")
        principal = request.principal
        caller = request.query("caller")
        decides = waiting == "approval" and principal.may("approve")
        if not principal.may("read") and waiting != "approval":
            text = "scope approve lists calls that wait: pass waiting_for=approval. The rest needs read."
            raise Refused("missing_scope", text, needed=("read",))
        everything = self._runtime if caller is None else self._runtime.acting_for(caller)
        view = everything if decides else visible_runtime(request)
        whole, limit = request.query("full", False), request.query("limit", 100)
        state = request.query("state")
        page = await view.history(
            state=None if state is None else state.split(","),
            **{name: request.query(name) for name in _FILTERS},
            active=request.query("active", False),
            metadata=request.named("metadata."),
            order=request.query("order", "desc"),
            limit=min(limit, _MAX_FULL_RECORDS) if whole else limit,
        )
        if whole:
            page = msgspec.structs.replace(page, items=[as_seen_by(request, record) for record in page.items])
        return page_response(page, whole=whole)

    # Cancel.

    async def cancel(self, request: Request) -> Response:
        stop = await self._body_reader.optional_json(request, Stop)
        id = request.scope["clicket.call"] = request.path("id")
        try:
            handle = await visible_runtime(request).handle(id, thread=request.query("thread"))
        except UsageError as several:
            raise await self._lookup.ambiguous(request, several) from None
        done = await handle.cancel(stop.reason)
        principal = request.principal
        if done and handle.caller != principal.id:
            await self._runtime.audit.record("call.cancelled", by=principal.name, call=id, thread=handle.thread)
        state = await self._runtime.acting_for(handle.caller).state(id, thread=handle.thread)
        return json_response(Cancelled(id=id, thread=handle.thread, cancelled=done, state=state))

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="POST /calls",
                description="Make a call. The response is 202 as soon as it is durable; with `wait` the result, or 202 after that time. "
                "For an id whose call was removed by retention it is the result.",
                handler=self.create,
                scopes=("call",),
                parameters=(
                    Parameter(name="Idempotency-Key", description="The same as `id` in the body.", source="header",
                        schema={"type": "string", "pattern": f"^{_KEY.pattern}$"},
                    ),
                ),
                body=BodySpec(schema=CallRequest),
                responses={
                    200: ResponseSpec(description="The outcome, unless the call was refused.", schema=ToolResult, id_at="call_id"),
                    202: ResponseSpec(
                        description="Accepted: durable, and waiting or running.",
                        schema=Accepted,
                        id_at="id",
                        headers={"Location": "Where the call is looked at."},
                    ),
                },
                problems=(404, 409, 422, 429),
            ),
            Operation(
                route="GET /calls",
                description="Calls, the newest first unless `order` is `asc`. Scope `approve` may list the waiting calls of all callers.",
                handler=self.listing,
                scopes=("read", "approve"),
                parameters=(
                    Parameter(name="thread", description="Only calls of this thread."),
                    Parameter(name="tool", description="Only calls of this tool."),
                    Parameter(
                        name="state", description="Only calls in this state, or in one of several, with commas between them.",
                        pattern=f"^({_STATE})(,({_STATE})){{0,8}}$", expected=f"states with commas between them, of {', '.join(State)}",
                    ),
                    Parameter(
                        name="waiting_for", description="Only calls that wait for this. Turns of agents can wait for something that has a "
                        "name, such as `dep:NAME`.", pattern=WAITS, expected=_WAITS,
                    ),
                    Parameter(name="active", description="Only calls that have not ended.", kind="boolean"),
                    instant("since", "Only calls made at or after this time (seconds since 1970)."),
                    instant("until", "Only calls made before this time (seconds since 1970)."),
                    Parameter(name="code", description="Only calls that this error code ended.", max_length=64),
                    Parameter(name="request_id", description="Only calls of this request."),
                    Parameter(
                        name="metadata.", description="`metadata.KEY=VALUE`: only calls whose metadata has that value; a value that is "
                        "no text is written as JSON.", prefix=True, min_length=0,
                    ),
                    Parameter(name="id_contains", description="Only calls whose id contains this text."),
                    Parameter(name="order", description="`asc`: the oldest first.", choices=("asc", "desc")),
                    *page_of("Calls"),
                    Parameter(name="full", description="Whole records, at most 100 on a page.", kind="boolean"),
                    CALLER,
                ),
                responses={200: ResponseSpec(description="A page of calls.", schema=Listing, or_schema=RecordPage)},
            ),
            Operation(
                route="GET /calls/{id}",
                description="Everything known about a call: stages, attempts, events.",
                handler=self.show,
                scopes=("read", "approve"),
                parameters=(THREAD, CALLER),
                responses={200: ResponseSpec(description="The record.", schema=Record)},
                problems=(404, 409),
            ),
            Operation(
                route="POST /calls/{id}/cancel",
                description="Cancel a call, in whatever process it runs.",
                handler=self.cancel,
                scopes=("call",),
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=Stop, optional=True),
                responses={200: ResponseSpec(description="Its state now.", schema=Cancelled)},
                problems=(404, 409, 422),
            ),
        )  # fmt: skip


async def _wait(request: Request, handle: _Handle, seconds: float | None, *, cancel: bool) -> ToolResult | None:
    """The result; None after `seconds`. With `cancel`, the call is cancelled if the client disconnects."""
    ending = asyncio.ensure_future(handle.result())
    leaving = asyncio.ensure_future(_disconnected(request)) if cancel else None
    waited = (ending,) if leaving is None else (ending, leaving)
    try:
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return ending.result()
        if leaving is not None and leaving.done():
            handle.leave("its client went away")
            raise ClientDisconnected
        return None
    finally:
        for each in waited:
            each.cancel()
        await asyncio.gather(*waited, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _accepted(request: Request, handle: Handle, tool: str) -> Response:
    state, refusal = await begun(request.principal.own, handle)
    if refusal is not None:
        return refusal
    accepted = Accepted(id=handle.id, thread=handle.thread, tool=clean(tool), state=state)
    return json_response(accepted, 202, request.location(call_path(handle)))
