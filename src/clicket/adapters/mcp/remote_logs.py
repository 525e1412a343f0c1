"""Log messages of another server, in our log: one line each, of bounded length, and only a bounded number a minute."""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
import msgspec

from clicket import system
from clicket.model.printable import escaped

__all__ = ["MAX_LINES", "RemoteLogs"]

logger = logging.getLogger("clicket.mcp.server")

MAX_LINES = 30
"""Lines of one server in a minute."""
_MINUTE = 60.0
_MAX_LENGTH = 500
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


class RemoteLogs:
    """The handler of `notifications/message`."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._since = float("-inf")
        self._lines = self._left_out = 0

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        level = _LEVELS[params.level]
        if not logger.isEnabledFor(level):
            return
        now = system.monotonic()
        if now - self._since >= _MINUTE:
            if self._left_out:
                logger.warning("MCP server %s: %d log messages were left out", self._server, self._left_out)
            self._since = now
            self._lines = 0
            self._left_out = 0
        if self._lines >= MAX_LINES:
            self._left_out += 1
            return
        self._lines += 1
        logger.log(level, "MCP server %s: %s", self._server, _line(params.data))


def _line(data: Any) -> str:
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    return escaped(text[:_MAX_LENGTH])
