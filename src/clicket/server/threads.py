"""`/threads`: conversations with their last activity. A key sees its own, an admin all."""

from __future__ import annotations

from clicket.runtime.views.threads import ThreadPage
from clicket.server.call_lookup import CALLER, visible_runtime
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import page_of
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]


async def listing(request: Request) -> Response:
    limit, cursor = request.query("limit", 100), request.query("cursor")
    return json_response(await visible_runtime(request).threads(limit=limit, cursor=cursor))


OPERATIONS = tagged(
    "threads",
    Operation(
        route="GET /threads",
        description="Threads with their last activity, counts of calls by state and the state of their agents; those with the newest "
        "call first, then those of which only an agent's memory is left. A page may be shorter than `limit` and still have a cursor.",
        handler=listing,
        scopes=("read",),
        parameters=(
            *page_of("Threads", pattern="^(c[0-9]{1,18}|a[!-~]{0,8000})$", max_length=8_001),
            CALLER,
        ),
        responses={200: ResponseSpec(description="A page of threads.", schema=ThreadPage)},
    ),
)
