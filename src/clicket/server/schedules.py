"""`/schedules`: calls that are made again and again. A schedule belongs to the key that made it; an admin sees and changes all."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket.errors import NotFound
from clicket.runtime.schedules import CatchUp, Overlap, Schedule
from clicket.runtime.schedules.view import Schedules
from clicket.server.call_lookup import CALLER
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Name, Seconds

__all__ = ["ScheduleHandlers"]


class ScheduleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to make or change. `cron`: five fields, or `@daily` and the like. The tool's schema validates `arguments`."""

    cron: Annotated[str, Meta(min_length=1, max_length=500)]
    tool: Name
    arguments: dict[str, Any] | None = None
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    jitter: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    thread: Name | None = None
    timeout: Seconds | None = None
    deadline: Seconds | None = None
    priority: Annotated[float, Meta(ge=-1_000_000, le=1_000_000, multiple_of=1)] = 0
    metadata: dict[str, Any] | None = None


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    """In the order of their names."""

    items: list[Schedule]


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds since 1970, without jitter."""

    times: list[float]


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    removed: bool


class ScheduleHandlers:
    def __init__(self, body_reader: BodyReader) -> None:
        self._body_reader = body_reader

    async def listing(self, request: Request) -> Response:
        return json_response(ScheduleList(items=list(await request.principal.sees.schedules.list())))

    async def get(self, request: Request) -> Response:
        return json_response(await _seen(request).get(request.path("name"), caller=request.query("caller")))

    async def next(self, request: Request) -> Response:
        count, caller = request.query("count", 5), request.query("caller")
        return json_response(Times(times=list(await _seen(request).next(request.path("name"), count, caller=caller))))

    async def put(self, request: Request) -> Response:
        given = await self._body_reader.json(request, ScheduleRequest)
        principal = request.principal
        options: dict[str, Any] = {
            name: getattr(given, name)
            for name in ("timezone", "overlap", "catch_up", "jitter", "thread", "timeout", "deadline", "metadata")
        }
        made = await principal.own.schedules.put(
            request.path("name"),
            given.cron,
            given.tool,
            given.arguments,
            by=principal.name,
            priority=int(given.priority),
            **options,
        )
        return json_response(made)

    async def pause(self, request: Request) -> Response:
        return json_response(await _seen(request).pause(request.path("name"), **_who(request)))

    async def resume(self, request: Request) -> Response:
        return json_response(await _seen(request).resume(request.path("name"), **_who(request)))

    async def remove(self, request: Request) -> Response:
        name = request.path("name")
        if not await _seen(request).remove(name, **_who(request)):
            raise NotFound(f"there is no schedule {name!r:.120}.")
        return json_response(Removed(name=name, removed=True))

    def operations(self) -> tuple[Operation, ...]:
        one = {200: ResponseSpec(description="The schedule.", schema=Schedule)}
        return tagged(
            "schedules",
            Operation(
                route="GET /schedules",
                description="The schedules of this key, or of all keys for an admin.",
                handler=self.listing,
                scopes=("read",),
                responses={200: ResponseSpec(description="The schedules.", schema=ScheduleList)},
            ),
            Operation(
                route="GET /schedules/{name}",
                description="A schedule, its next time, and what became of its last times.",
                handler=self.get,
                scopes=("read",),
                parameters=(CALLER,),
                responses=one,
                problems=(404,),
            ),
            Operation(
                route="GET /schedules/{name}/next",
                description="The next times of a schedule, also of a paused one.",
                handler=self.next,
                scopes=("read",),
                parameters=(
                    CALLER,
                    Parameter(
                        name="count",
                        description="How many times; 5 if left out.",
                        kind="integer",
                        minimum=1,
                        maximum=1_000,
                    ),
                ),
                responses={200: ResponseSpec(description="The times.", schema=Times)},
                problems=(404,),
            ),
            Operation(
                route="PUT /schedules/{name}",
                description="Make or change a schedule of this key. If nothing is different, nothing is changed.",
                handler=self.put,
                scopes=("call",),
                body=BodySpec(schema=ScheduleRequest),
                responses=one,
                problems=(404, 422),
            ),
            Operation(
                route="DELETE /schedules/{name}",
                description="Remove a schedule; its calls stay.",
                handler=self.remove,
                scopes=("call",),
                parameters=(CALLER,),
                responses={200: ResponseSpec(description="It was removed.", schema=Removed)},
                problems=(404,),
            ),
            Operation(
                route="POST /schedules/{name}/pause",
                description="Let a schedule fire no more until it is resumed.",
                handler=self.pause,
                scopes=("call",),
                parameters=(CALLER,),
                responses=one,
                problems=(404,),
            ),
            Operation(
                route="POST /schedules/{name}/resume",
                description="Let a paused schedule fire again, from its next time on.",
                handler=self.resume,
                scopes=("call",),
                parameters=(CALLER,),
                responses=one,
                problems=(404,),
            ),
        )


def _seen(request: Request) -> Schedules:
    return request.principal.sees.schedules


def _who(request: Request) -> dict[str, Any]:
    return {"by": request.principal.name, "caller": request.query("caller")}
