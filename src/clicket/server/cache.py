"""`/cache`: cached results. The cache is shared, so only an admin may list or clear it."""

from __future__ import annotations

import msgspec

from clicket.model.ports import CacheStats
from clicket.runtime.views.cache import CachePage
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, page_of
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    removed: int
    tag: str | None = None
    max_age: float | None = None


async def stats(request: Request) -> Response:
    return json_response(await request.principal.sees.cache.stats())


async def items(request: Request) -> Response:
    query = {name: request.query(name) for name in ("tag", "cursor")}
    return json_response(await request.principal.sees.cache.list(limit=request.query("limit", 100), **query))


async def clear(request: Request) -> Response:
    tag, max_age = request.query("tag"), request.query("max_age")
    removed = await request.principal.own.cache.clear(tag, max_age=max_age)
    return json_response(Cleared(removed=removed, tag=tag, max_age=max_age))


OPERATIONS = tagged(
    "cache",
    Operation(
        route="GET /cache/stats",
        description="Size, hits and misses of the cache, counted by the store since it was made.",
        handler=stats,
        scopes=("read",),
        responses={200: ResponseSpec(description="The counts.", schema=CacheStats)},
    ),
    Operation(
        route="GET /cache/items",
        description="The cached results without their bodies, in the order in which they expire.",
        handler=items,
        scopes=("admin",),
        parameters=(
            Parameter(name="tag", description="Only results with this tag."),
            *page_of("Results", pattern=r"^[0-9]{1,15}\.[0-9]{1,17}:[0-9a-f]{1,64}$"),
        ),
        responses={200: ResponseSpec(description="The page.", schema=CachePage)},
    ),
    Operation(
        route="DELETE /cache",
        description="Remove cached results: all, or those with a tag (`tool:NAME`, or one of the tool's own).",
        handler=clear,
        scopes=("admin",),
        parameters=(
            Parameter(name="tag", description="Only results with this tag."),
            Parameter(
                name="max_age",
                description="Only results that are older than this many seconds.",
                kind="number",
                minimum=0,
                maximum=1e9,
            ),
        ),
        responses={200: ResponseSpec(description="How many were removed.", schema=Cleared)},
    ),
)
