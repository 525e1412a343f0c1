"""`/calls/{id}/undo` and `/agents/{threadId}/undo`: undo a call, or the calls of a turn. The response is the report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clicket.model.undo import UndoReport
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER, THREAD, CallLookup, own_runtime, thread_of
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import UndoRequest, UndoTurnRequest

__all__ = ["UndoHandlers"]

_Undo = Callable[..., Coroutine[Any, Any, UndoReport]]


class UndoHandlers:
    def __init__(self, runtime: Runtime, lookup: CallLookup, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._body_reader = body_reader

    async def call(self, request: Request) -> Response:
        given = await self._body_reader.optional_json(request, UndoRequest)
        _, record = await self._lookup.find(request, waiting=False)
        principal = request.principal
        is_own = record.caller == principal.id
        view = principal.own if is_own else principal.in_name_of(self._runtime, record.caller)
        if not is_own and not given.dry:
            await self._runtime.audit.record("call.undo", by=principal.name, call=record.id, thread=record.thread)
        return await self._answer(request, view.undo, given, record.id, thread=record.thread)

    async def turn(self, request: Request) -> Response:
        given = await self._body_reader.json(request, UndoTurnRequest)
        thread = thread_of(request)
        view = own_runtime(request)
        return await self._answer(request, view.undo, given, thread=thread, turn=given.turn, agent=given.agent)

    async def _answer(self, request: Request, undo: _Undo, given: UndoRequest, *names: str, **place: Any) -> Response:
        """The undo goes on if the caller leaves, or does not wait until its end."""
        options = {"strict": given.strict, **place}
        if given.dry:
            return json_response(await undo(*names, dry=True, **options))
        outcome: asyncio.Future[UndoReport] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                report = await undo(*names, retry=given.retry, **options)
            except BaseException as error:
                if not outcome.done():
                    outcome.set_exception(error)
                    outcome.exception()  # the caller may have left
                if not isinstance(error, Exception):
                    raise
            else:
                if not outcome.done():
                    outcome.set_result(report)

        with in_trace(request.headers):
            self._runtime.spawn(work())
        seconds = None if given.wait is True else float(given.wait)
        await asyncio.wait((outcome,), timeout=seconds)
        if outcome.done():
            return json_response(outcome.result())
        return json_response(await undo(*names, dry=True, **options), 202)

    def operations(self) -> tuple[Operation, ...]:
        responses = {
            200: ResponseSpec(description="What was undone and what was not, with reasons.", schema=UndoReport),
            202: ResponseSpec(
                description="It goes on: the report so far. Ask again to wait for the rest.", schema=UndoReport
            ),
        }
        return (
            Operation(
                route="POST /calls/{id}/undo",
                description="Undo a call, by the undo of its tool. The undo is one call `undo:NAME` under the policy: asked again, it has "
                "the outcome that is on record. With `dry` nothing is changed, and `waiting` lists what would be undone.",
                handler=self.call,
                scopes=("call",),
                parameters=(THREAD, CALLER),
                body=BodySpec(schema=UndoRequest, optional=True),
                responses=responses,
                problems=(404, 409, 422, 429),
            ),
            Operation(
                route="POST /agents/{threadId}/undo",
                description="Undo the calls of a turn, with those of the agents that it called, the last one first. The first undo that "
                "fails stops the rest; so does a call of which it is unknown whether it happened, unless `strict` is false.",
                handler=self.turn,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=UndoTurnRequest),
                responses=responses,
                problems=(404, 409, 422, 429),
            ),
        )  # fmt: skip
