"""`/memory`: what agents remember about a caller; `/forget`: everything that the store has of one. A key has its own; an admin names
another caller."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from clicket.model.fact import Fact
from clicket.model.forgotten import Forgotten
from clicket.runtime.runtime import Runtime
from clicket.server.call_lookup import CALLER
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response

__all__ = ["MemoryHandlers"]

_Text = Annotated[str, Meta(min_length=1, max_length=500)]
_AGENT = Parameter(
    name="agent",
    description="Only what this agent remembers for itself; empty: only what all agents read.",
    max_length=64,
    min_length=0,
)


class NewFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`agent`: the only agent that reads it; left out: all agents of the caller do."""

    text: _Text
    agent: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{0,64}$")] = ""


class FactText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: _Text


class FactList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Fact]


class MemoryHandlers:
    def __init__(self, body_reader: BodyReader) -> None:
        self._body_reader = body_reader

    async def listing(self, request: Request) -> Response:
        found = await _runtime(request).memory.list(caller=request.query("caller"), agent=request.query("agent"))
        return json_response(FactList(items=list(found)))

    async def add(self, request: Request) -> Response:
        given = await self._body_reader.json(request, NewFact)
        whose, by = request.query("caller"), request.principal.name
        return json_response(await _runtime(request).memory.add(given.text, caller=whose, agent=given.agent, by=by))

    async def edit(self, request: Request) -> Response:
        given = await self._body_reader.json(request, FactText)
        whose, by = request.query("caller"), request.principal.name
        return json_response(
            await _runtime(request).memory.edit(request.path("factId"), given.text, caller=whose, by=by)
        )

    async def forget_fact(self, request: Request) -> Response:
        whose, by = request.query("caller"), request.principal.name
        return json_response(await _runtime(request).memory.forget(request.path("factId"), caller=whose, by=by))

    async def forget(self, request: Request) -> Response:
        whose, by = request.query("caller"), request.principal.name
        return json_response(await _runtime(request).forget(caller=whose, by=by))

    def operations(self) -> tuple[Operation, ...]:
        one = {200: ResponseSpec(description="The fact.", schema=Fact)}
        return tagged(
            "memory",
            Operation(
                route="GET /memory",
                description="What agents remember about this key: facts that all agents read, then those of single agents.",
                handler=self.listing,
                scopes=("read",),
                parameters=(CALLER, _AGENT),
                responses={200: ResponseSpec(description="The facts.", schema=FactList)},
            ),
            Operation(
                route="POST /memory",
                description="Remember a fact for all agents, or for one. Their next turns read it.",
                handler=self.add,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=NewFact),
                responses=one,
                problems=(422,),
            ),
            Operation(
                route="PUT /memory/{factId}",
                description="Replace the text of a fact.",
                handler=self.edit,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=FactText),
                responses=one,
                problems=(404, 422),
            ),
            Operation(
                route="DELETE /memory/{factId}",
                description="Forget a fact. Turns that have begun still know it.",
                handler=self.forget_fact,
                scopes=("call",),
                parameters=(CALLER,),
                responses=one,
                problems=(404,),
            ),
            Operation(
                route="POST /forget",
                description="Remove everything that is kept of this key, or of the caller that an admin names: threads, calls and their "
                "outcomes, artifacts, memory and queued messages. Refused while one of its calls has not ended. It may be sent again.",
                handler=self.forget,
                scopes=("call",),
                parameters=(CALLER,),
                responses={200: ResponseSpec(description="What was removed.", schema=Forgotten)},
                problems=(400, 409),
            ),
        )


def _runtime(request: Request) -> Runtime:
    """The runtime that acts for the key; or the one that may name any caller, for an admin."""
    principal = request.principal
    return principal.own if request.query("caller") in (None, principal.id) else principal.sees
