"""`/notices`: what webhook endpoints get. They are the operator's, so a key needs the scope `admin`."""

from __future__ import annotations

from clicket.model.notice import NOTICE_TYPES, Notice, NoticePage
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, page_of
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]

_STATES = ("pending", "delivered", "failed")


async def listing(request: Request) -> Response:
    given = {name: request.query(name) for name in ("state", "type", "cursor")}
    return json_response(await request.principal.sees.notices.list(limit=request.query("limit", 100), **given))


async def one(request: Request) -> Response:
    return json_response(await request.principal.sees.notices.get(request.path("id")))


async def replay(request: Request) -> Response:
    principal = request.principal
    return json_response(await principal.sees.notices.replay(request.path("id"), by=principal.name))


OPERATIONS = tagged(
    "notices",
    Operation(
        route="GET /notices",
        description="Notices to webhook endpoints, the newest first, without their payloads.",
        handler=listing,
        scopes=("admin",),
        parameters=(
            Parameter(name="state", description="Only notices in this state.", choices=_STATES),
            Parameter(name="type", description="Only notices of this type.", choices=NOTICE_TYPES),
            *page_of("Notices", pattern=r"^msg_[0-9a-f]{32}$"),
        ),
        responses={200: ResponseSpec(description="A page of notices.", schema=NoticePage)},
    ),
    Operation(
        route="GET /notices/{id}",
        description="One notice, with its payload and its last attempts.",
        handler=one,
        scopes=("admin",),
        responses={200: ResponseSpec(description="The notice.", schema=Notice)},
        problems=(404,),
    ),
    Operation(
        route="POST /notices/{id}/replay",
        description="Send a notice again that was delivered or given up, under the same id. The name of the key is in the audit log.",
        handler=replay,
        scopes=("admin",),
        responses={200: ResponseSpec(description="It waits to be sent.", schema=Notice)},
        problems=(404, 409),
    ),
)
