"""`/cache`: results that equal calls may have without running their tool. It is shared, so only an admin empties it."""

from __future__ import annotations

import msgspec

from clicket.cache_view import CachePage
from clicket.ports import CacheStats
from clicket.server.operations import Answer, Operation
from clicket.server.parameters import Parameter
from clicket.server.replies import Reply, json_reply
from clicket.server.request import Request

__all__ = ["OPERATIONS"]


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    removed: int
    tag: str | None = None
    max_age: float | None = None


async def stats(request: Request) -> Reply:
    return json_reply(await request.principal.sees.cache.stats())


async def items(request: Request) -> Reply:
    query = {name: request.query(name) for name in ("tag", "cursor")}
    return json_reply(await request.principal.sees.cache.list(limit=request.query("limit", 100), **query))


async def clear(request: Request) -> Reply:
    tag, max_age = request.query("tag"), request.query("max_age")
    removed = await request.principal.own.cache.clear(tag, max_age=max_age)
    return json_reply(Cleared(removed=removed, tag=tag, max_age=max_age))


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
        method="GET",
        path="/cache/items",
        about="The cached results without their bodies, those that expire first before the others.",
        handler=items,
        scopes=("admin",),
        parameters=(
            Parameter(name="tag", about="Only results with this tag."),
            Parameter(name="limit", about="Results on a page; 100 if left out.", kind="integer", least=1, most=1_000),
            Parameter(
                name="cursor",
                about="The `cursor` of the page before.",
                pattern=r"^[0-9]{1,15}\.[0-9]{1,17}:[0-9a-f]{1,64}$",
                wanted="one that a page gave",
            ),
        ),
        answers={200: Answer(about="The page.", model=CachePage)},
        tag="cache",
    ),
    Operation(
        method="DELETE",
        path="/cache",
        about="Remove cached results: all, or those with a tag (`tool:NAME`, or one of the tool's own).",
        handler=clear,
        scopes=("admin",),
        parameters=(
            Parameter(name="tag", about="Only results with this tag."),
            Parameter(
                name="max_age",
                about="Only results that were made more than so many seconds ago.",
                kind="number",
                least=0,
                most=1e9,
            ),
        ),
        answers={200: Answer(about="How many were removed.", model=Cleared)},
        tag="cache",
    ),
)
