"""`/workers`: the runtimes over the store, and their states. They are the operator's, so a key needs the scope `admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from clicket.model.worker import WorkerInfo
from clicket.runtime.views.workers import Workers
from clicket.server.operations import Handler, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]


class WorkerList(msgspec.Struct, frozen=True, kw_only=True):
    """The worker that started first comes first. Lost ones are listed for an hour."""

    items: list[WorkerInfo]


async def workers(request: Request) -> Response:
    return json_response(WorkerList(items=list(await request.principal.sees.workers.list())))


def _changing(change: Callable[..., Awaitable[WorkerInfo]]) -> Handler:
    async def handle(request: Request) -> Response:
        principal = request.principal
        return json_response(await change(principal.sees.workers, request.path("id"), by=principal.name))

    return handle


def _change(name: str, description: str, change: Callable[..., Awaitable[WorkerInfo]]) -> Operation:
    return Operation(
        route=f"POST /workers/{{id}}/{name}",
        description=f"{description} The worker knows it within a third of its lease.",
        handler=_changing(change),
        scopes=("admin",),
        responses={200: ResponseSpec(description="The worker in its new state.", schema=WorkerInfo)},
        problems=(404, 409),
    )


OPERATIONS = tagged(
    "workers",
    Operation(
        route="GET /workers",
        description="The workers over this store: host, process, tools, load and state; for an hour also those that were lost.",
        handler=workers,
        scopes=("admin",),
        responses={200: ResponseSpec(description="The workers.", schema=WorkerList)},
    ),
    _change(
        "drain",
        "Let a worker finish its running calls, and hand its waiting ones to other workers. A worker process ends then.",
        Workers.drain,
    ),
    _change("cordon", "Let a worker take no new calls.", Workers.cordon),
    _change("uncordon", "Let a worker take calls again.", Workers.uncordon),
)
