"""`/cache`: results that equal calls may have without running their tool. It is shared, so only an admin empties it."""

from __future__ import annotations

import msgspec

from clicket.ports import CacheStats
from clicket.server.operations import Answer, Operation
from clicket.server.parameters import Parameter
from clicket.server.replies import Reply, json_reply
from clicket.server.request import Request

__all__ = ["OPERATIONS"]


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    removed: int
    tag: str | None = None


async def stats(request: Request) -> Reply:
    return json_reply(await request.principal.sees.cache.stats())


async def clear(request: Request) -> Reply:
    tag = request.query("tag")
    return json_reply(Cleared(removed=await request.principal.own.cache.clear(tag), tag=tag))


OPERATIONS = (
    Operation(
        method="GET",
        path="/cache/stats",
        about="How much is cached and how often it served; counted by the store, since it was made.",
        handler=stats,
        scopes=("read",),
        answers={200: Answer(about="The counts.", model=CacheStats)},
        tag="cache",
    ),
    Operation(
        method="DELETE",
        path="/cache",
        about="Remove cached results: all, or those with a tag (`tool:NAME`, or one of the tool's own).",
        handler=clear,
        scopes=("admin",),
        parameters=(Parameter(name="tag", about="Only results with this tag."),),
        answers={200: Answer(about="How many were removed.", model=Cleared)},
        tag="cache",
    ),
)
