"""The log level that each 2025-11-25 session set with `logging/setLevel`. Later clients send the level with each request."""

from __future__ import annotations

from collections import OrderedDict
from typing import get_args

import mcp_types as types

from clicket.adapters.mcp.request_context import SdkContext

__all__ = ["LogLevels"]

_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
_MAX_SESSIONS = 10_000


class LogLevels:
    """The handler of `logging/setLevel`. A session that set no level gets messages from `info` on."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, ctx: SdkContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._levels[_session(ctx)] = params.level
        self._levels.move_to_end(_session(ctx))
        while len(self._levels) > _MAX_SESSIONS:
            self._levels.popitem(last=False)
        return types.EmptyResult()

    def allowed(self, ctx: SdkContext) -> frozenset[str]:
        return frozenset(_LEVELS[_LEVELS.index(self._levels.get(_session(ctx), "info")) :])


def _session(ctx: SdkContext) -> str:
    headers = getattr(ctx.request, "headers", None)
    return (headers.get("mcp-session-id") if headers is not None else None) or ""
