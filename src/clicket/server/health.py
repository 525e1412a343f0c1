"""Is it alive, is it ready? Both answer without a key, and say no more than that."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import msgspec

from clicket.errors import ClicketError
from clicket.server.context import Context
from clicket.server.operations import Answer, Asked, Operation
from clicket.server.replies import JSON, Reply, json_reply

__all__ = ["OPERATIONS"]

_PATIENCE = 3.0
_FRESH = 1.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` says why not, in one word: shutting_down, store_unavailable."""

    ready: bool
    reason: str | None = None


async def healthz(asked: Asked) -> Reply:
    return Reply(200, b'{"status":"ok"}', JSON)


async def readyz(asked: Asked) -> Reply:
    context = asked.context
    reason = "shutting_down" if context.draining else await _look(context)
    headers = () if reason is None else ((b"retry-after", b"2"),)
    return json_reply(Readiness(ready=reason is None, reason=reason), 200 if reason is None else 503, *headers)


async def _look(context: Context) -> str | None:
    """Ask the store, at most once a second and once at a time: whoever asks without a key must not be able to load it."""
    at, reason = context.ready
    if time.monotonic() - at < _FRESH:
        return reason
    if context.looking is None:
        context.looking = asyncio.ensure_future(_ask(context))
    return await asyncio.shield(context.looking)


async def _ask(context: Context) -> str | None:
    reason = None
    try:
        async with asyncio.timeout(_PATIENCE):
            await context.store.document("ping", "ping")
    except (ClicketError, TimeoutError):
        reason = "store_unavailable"
    finally:
        context.looking = None
    context.ready = (time.monotonic(), reason)
    return reason


OPERATIONS = (
    Operation(
        method="GET",
        path="/healthz",
        about="The process is alive.",
        handler=healthz,
        public=True,
        answers={200: Answer(about="It is.", model=Health)},
        tag="health",
    ),
    Operation(
        method="GET",
        path="/readyz",
        about="Store and engine can take calls.",
        handler=readyz,
        public=True,
        answers={
            200: Answer(about="They can.", model=Readiness),
            503: Answer(about="They cannot now.", model=Readiness, headers={"Retry-After": "Seconds."}),
        },
        tag="health",
    ),
)
