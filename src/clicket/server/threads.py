"""`/agents/{threadId}/tool-states`: which tools a thread may use. Names are in camelCase here, as this interface always had them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket.hub import ThreadHub
from clicket.kernel import ToolStatus
from clicket.model.codec import clean
from clicket.server.bodies import Bodies
from clicket.server.lookup import CALLER, view_of
from clicket.server.operations import Answer, Body, Operation
from clicket.server.problems import Refused
from clicket.server.replies import Reply, json_reply
from clicket.server.request import Request
from clicket.server.shapes import Name, Reason

__all__ = ["ThreadHandlers"]


class ToolStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    status: ToolStatus
    reason: str
    last_updated: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class ThreadStanding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent_id: str
    tool_states: dict[str, ToolStanding]
    timestamp: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class ToolStates(msgspec.Struct, frozen=True, kw_only=True):
    """Every registered tool, as it stands in this thread."""

    success: bool = True
    data: ThreadStanding


class Reset(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """That tool, or all."""

    tool_name: Name | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`maintenance` or `unavailable` take a tool away, `available` gives it back."""

    status: ToolStatus
    reason: Reason = ""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """`restored` is false when the snapshot does not load: then nothing was changed."""

    restored: bool


_reset = msgspec.json.Decoder(Reset)
_setting = msgspec.json.Decoder(Setting)
_any_object = msgspec.json.Decoder(dict[str, Any])
_ANSWERS = {200: Answer(about="Every registered tool, as it stands in this thread.", model=ToolStates)}


class ThreadHandlers:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies

    async def show(self, request: Request) -> Reply:
        return await _states(_hub(request))

    async def reset(self, request: Request) -> Reply:
        body = await self._bodies.optional_json(request, _reset, Reset())
        hub = _hub(request)
        await hub.reset(body.tool_name, by=request.principal.name)
        return await _states(hub)

    async def put(self, request: Request) -> Reply:
        body = await self._bodies.json(request, _setting)
        hub = _hub(request)
        await hub.set(request.path("name"), body.status, body.reason, by=request.principal.name)
        return await _states(hub)

    async def snapshot(self, request: Request) -> Reply:
        return Reply(200, (await _hub(request).snapshot()).encode())

    async def restore(self, request: Request) -> Reply:
        text = await self._bodies.read(request)
        self._bodies.decoded(text, _any_object)
        return json_reply(Restored(restored=await _hub(request).restore(text, by=request.principal.name)))

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/agents/{threadId}/tool-states",
                about="How every registered tool stands in a thread. A thread that nobody has used yet has the defaults.",
                handler=self.show,
                scopes=("read",),
                parameters=(CALLER,),
                answers=_ANSWERS,
                tag="threads",
            ),
            Operation(
                method="POST",
                path="/agents/{threadId}/tool-states/reset",
                about="Make a tool, or all, available again.",
                handler=self.reset,
                scopes=("call",),
                parameters=(CALLER,),
                body=Body(model=Reset, optional=True),
                answers=_ANSWERS,
                problems=(404, 409, 422),
                tag="threads",
            ),
            Operation(
                method="PUT",
                path="/agents/{threadId}/tool-states/{name}",
                about="Put a tool into a status by hand: maintenance and back.",
                handler=self.put,
                scopes=("call",),
                parameters=(CALLER,),
                body=Body(model=Setting),
                answers=_ANSWERS,
                problems=(404, 409, 422),
                tag="threads",
            ),
            Operation(
                method="GET",
                path="/agents/{threadId}/tool-states/snapshot",
                about="All of it as JSON, to be kept outside or restored elsewhere.",
                handler=self.snapshot,
                scopes=("read",),
                parameters=(CALLER,),
                answers={200: Answer(about="The snapshot.", model=dict[str, Any])},
                tag="threads",
            ),
            Operation(
                method="POST",
                path="/agents/{threadId}/tool-states/restore",
                about="Put a snapshot in place of what is on record. One that does not load changes nothing.",
                handler=self.restore,
                scopes=("call",),
                parameters=(CALLER,),
                body=Body(model=dict[str, Any]),
                answers={200: Answer(about="Whether it was restored.", model=Restored)},
                problems=(409, 422),
                tag="threads",
            ),
        )


def _hub(request: Request) -> ThreadHub:
    thread = request.path("threadId")
    if not 1 <= len(thread) <= 512 or "\x00" in thread:
        raise Refused("usage", "a thread's name has 1 to 512 characters, and no NUL.")
    view = view_of(request)
    # An admin sees everything; without `caller` its own threads are meant.
    return (request.principal.own if request.query("caller") is None else view).hub(thread)


async def _states(hub: ThreadHub) -> Reply:
    states = {
        view.name: ToolStanding(status=view.status, reason=view.reason, last_updated=_iso(view.state.last_updated))
        for view in await hub.tools()
    }
    standing = ThreadStanding(agent_id=clean(hub.thread), tool_states=states, timestamp=_iso(time.time()))
    return json_reply(ToolStates(data=standing))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
