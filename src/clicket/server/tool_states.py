"""`/agents/{threadId}/tool-states`: which tools a thread may use. Field names are in camelCase, for compatibility."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket import system
from clicket.engine.hub import ThreadHub
from clicket.kernel import ToolStatus
from clicket.model.codec import clean
from clicket.server.call_lookup import CALLER, own_runtime, thread_of
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Name, Reason

__all__ = ["ToolStateHandlers"]


class ToolStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    status: ToolStatus
    reason: str
    last_updated: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class ThreadStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent_id: str
    tool_states: dict[str, ToolStanding]
    timestamp: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class ToolStates(msgspec.Struct, frozen=True, kw_only=True):
    """Every registered tool and its status in this thread."""

    success: bool = True
    data: ThreadStanding


class Reset(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """That tool, or all."""

    tool_name: Name | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`maintenance` or `unavailable` take a tool out of service, `available` puts it back."""

    status: ToolStatus
    reason: Reason = ""


class RunReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run of the tool ended that clicket did not make."""

    ok: bool
    error: Reason = ""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """`restored` is false if the snapshot cannot be read: then nothing was changed."""

    restored: bool


_STATES = {200: ResponseSpec(description="Every registered tool and its status in this thread.", schema=ToolStates)}


class ToolStateHandlers:
    def __init__(self, body_reader: BodyReader) -> None:
        self._body_reader = body_reader

    async def show(self, request: Request) -> Response:
        return await _states(_hub(request))

    async def reset(self, request: Request) -> Response:
        body = await self._body_reader.optional_json(request, Reset)
        hub = _hub(request)
        await hub.reset(body.tool_name, by=request.principal.name)
        return await _states(hub)

    async def put(self, request: Request) -> Response:
        body = await self._body_reader.json(request, Setting)
        hub = _hub(request)
        await hub.set(request.path("name"), body.status, body.reason, by=request.principal.name)
        return await _states(hub)

    async def report(self, request: Request) -> Response:
        body = await self._body_reader.json(request, RunReport)
        hub = _hub(request)
        await hub.report(request.path("name"), ok=body.ok, error=body.error)
        return await _states(hub)

    async def snapshot(self, request: Request) -> Response:
        return Response(200, (await _hub(request).snapshot()).encode())

    async def restore(self, request: Request) -> Response:
        text = await self._body_reader.read(request)
        self._body_reader.decoded(text, dict[str, Any])
        return json_response(Restored(restored=await _hub(request).restore(text, by=request.principal.name)))

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "threads",
            Operation(
                route="GET /agents/{threadId}/tool-states",
                description="The status of every registered tool in a thread. A new thread has the defaults.",
                handler=self.show,
                scopes=("read",),
                parameters=(CALLER,),
                responses=_STATES,
            ),
            Operation(
                route="POST /agents/{threadId}/tool-states/reset",
                description="Make a tool, or all, available again.",
                handler=self.reset,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=Reset, optional=True),
                responses=_STATES,
                problems=(404, 409, 422),
            ),
            Operation(
                route="PUT /agents/{threadId}/tool-states/{name}",
                description="Set a tool's status, as for maintenance.",
                handler=self.put,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=Setting),
                responses=_STATES,
                problems=(404, 409, 422),
            ),
            Operation(
                route="POST /agents/{threadId}/tool-states/{name}/report",
                description="Report how a run of a tool ended that clicket did not make. It counts for the tool's health, its breaker, and "
                "the tools that depend on it.",
                handler=self.report,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=RunReport),
                responses=_STATES,
                problems=(404, 409, 422),
            ),
            Operation(
                route="GET /agents/{threadId}/tool-states/snapshot",
                description="All states of the thread as JSON, to restore them later or in another store.",
                handler=self.snapshot,
                scopes=("read",),
                parameters=(CALLER,),
                responses={200: ResponseSpec(description="The snapshot.", schema=dict[str, Any])},
            ),
            Operation(
                route="POST /agents/{threadId}/tool-states/restore",
                description="Replace the states with a snapshot. One that cannot be read changes nothing.",
                handler=self.restore,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=dict[str, Any]),
                responses={200: ResponseSpec(description="Whether it was restored.", schema=Restored)},
                problems=(409, 422),
            ),
        )


def _hub(request: Request) -> ThreadHub:
    return own_runtime(request).hub(thread_of(request))


async def _states(hub: ThreadHub) -> Response:
    states = {
        view.name: ToolStanding(status=view.status, reason=view.reason, last_updated=_iso(view.state.last_updated))
        for view in await hub.tools()
    }
    standing = ThreadStanding(agent_id=clean(hub.thread), tool_states=states, timestamp=_iso(system.now()))
    return json_response(ToolStates(data=standing))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
