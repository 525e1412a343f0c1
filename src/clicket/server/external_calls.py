"""`/external/{token}/…`: results from outside. The token alone authorises: it belongs to one call, and no key is needed.

The token is checked before the body is read. It is not logged: the access log has the template of the path.
"""

from __future__ import annotations

import asyncio

from clicket.runtime.runtime import Runtime
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import ExternalCall, ExternalFailure, ExternalOutput, ExternalProgress

__all__ = ["ExternalCallHandlers"]

_LOOKUPS = 8
"""Tokens that are looked up at the same time."""
_PROBLEMS = (400, 404, 408, 409, 413, 415, 503)


class ExternalCallHandlers:
    def __init__(self, runtime: Runtime, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._body_reader = body_reader
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    async def complete(self, request: Request) -> Response:
        token = await self._checked(request)
        given = await self._body_reader.optional_json(request, ExternalOutput)
        return _written(await self._runtime.complete(token, given.output))

    async def fail(self, request: Request) -> Response:
        token = await self._checked(request)
        given = await self._body_reader.json(request, ExternalFailure)
        return _written(await self._runtime.fail(token, given.error, type=given.type))

    async def output(self, request: Request) -> Response:
        token = await self._checked(request)
        given = await self._body_reader.json(request, ExternalOutput)
        return _written(await self._runtime.emit(token, given.output))

    async def heartbeat(self, request: Request) -> Response:
        token = await self._checked(request)
        given = await self._body_reader.optional_json(request, ExternalProgress)
        if given.step is None:
            return _written(await self._runtime.heartbeat(token))
        return _written(await self._runtime.report_progress(token, given.step, given.total, given.text))

    async def _checked(self, request: Request) -> str:
        token = request.path("token")
        async with self._lookups:  # requests without a key must not load the store
            await self._runtime.check_token(token)
        return token

    def operations(self) -> tuple[Operation, ...]:
        written = {200: ResponseSpec(description="It is on record.", schema=ExternalCall)}
        return tagged(
            "external calls",
            Operation(
                route="POST /external/{token}/complete",
                description="Complete the call of a token. Without a body, or with `output` null, what was streamed is the output. A token "
                "completes or fails its call once.",
                handler=self.complete,
                public=True,
                body=BodySpec(schema=ExternalOutput, optional=True),
                responses=written,
                problems=_PROBLEMS,
            ),
            Operation(
                route="POST /external/{token}/fail",
                description="Fail the call of a token. It counts as a failure of the tool.",
                handler=self.fail,
                public=True,
                body=BodySpec(schema=ExternalFailure),
                responses=written,
                problems=_PROBLEMS,
            ),
            Operation(
                route="POST /external/{token}/output",
                description="Stream a piece of output into the call of a token: at most 1,000 pieces, and 1 MiB in all.",
                handler=self.output,
                public=True,
                body=BodySpec(schema=ExternalOutput),
                responses=written,
                problems=_PROBLEMS,
            ),
            Operation(
                route="POST /external/{token}/heartbeat",
                description="Say that the work on the call of a token goes on, and how far it is. It holds off the tool's `idle_timeout`.",
                handler=self.heartbeat,
                public=True,
                body=BodySpec(schema=ExternalProgress, optional=True),
                responses=written,
                problems=_PROBLEMS,
            ),
        )


def _written(id: str) -> Response:
    return json_response(ExternalCall(id=id))
