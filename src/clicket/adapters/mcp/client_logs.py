"""Limits what the SDK's client logs about a server's messages: one line without a traceback, at most once a minute.

A server that sends invalid messages could otherwise fill the disk with tracebacks, which also show the messages' content.
"""

from __future__ import annotations

import logging

from clicket import system

__all__ = ["EVERY", "guard_client_logs"]

EVERY = 60.0
"""Seconds until the same place in the SDK may log again."""
_LOGGERS = {
    "mcp.client.stdio": "stdio.py",
    "mcp.client.streamable_http": "streamable_http.py",
    "client": "session.py",
    "mcp.shared.tool_name_validation": "tool_name_validation.py",
}
"""Loggers, and the file whose records are limited: the logger `client` may be used by other programs."""
_MAX_LENGTH = 300


class _OneLine(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        debug = logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        if debug or record.filename != _LOGGERS.get(record.name) or record.levelno < logging.WARNING:
            return True
        place = (record.name, record.lineno)
        now = system.monotonic()
        if now - self._last.get(place, float("-inf")) < EVERY:
            return False
        self._last[place] = now
        record.msg, record.args = _shown(record.getMessage()), None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _shown(text: str) -> str:
    """The message may quote the server, so line breaks and control characters are replaced."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_MAX_LENGTH])


_filter = _OneLine()


def guard_client_logs() -> None:
    """Add the filter; calling this again changes nothing. A logger at level DEBUG is not limited."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)
