"""Which remarks of tools a client of 2025-11-25 wants to hear. Later versions say it with each request."""

from __future__ import annotations

from collections import OrderedDict
from typing import get_args

import mcp_types as types

from clicket.mcp.visit import Context

__all__ = ["Levels"]

_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
_MAX_SESSIONS = 10_000


class Levels:
    """The handler of `logging/setLevel`, and what it was told by each session. Silence means: everything from info on."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._told[_session(ctx)] = params.level
        self._told.move_to_end(_session(ctx))
        while len(self._told) > _MAX_SESSIONS:
            self._told.popitem(last=False)
        return types.EmptyResult()

    def allowed(self, ctx: Context) -> frozenset[str]:
        return frozenset(_LEVELS[_LEVELS.index(self._told.get(_session(ctx), "info")) :])


def _session(ctx: Context) -> str:
    headers = getattr(ctx.request, "headers", None)
    return (headers.get("mcp-session-id") if headers is not None else None) or ""
