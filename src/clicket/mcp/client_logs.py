"""What the SDK's client logs about a server's messages: one line, without a traceback, and not for each of them.

What a server sends is not our program's mistake: a traceback for each line of junk would fill the disk, and show its content.
"""

from __future__ import annotations

import logging
from time import monotonic

__all__ = ["EVERY", "guard_client_logs"]

EVERY = 60.0
"""Seconds until the same place in the SDK may log again."""
_LOGGERS = {
    "mcp.client.stdio": "stdio.py",
    "mcp.client.streamable_http": "streamable_http.py",
    "client": "session.py",
    "mcp.shared.tool_name_validation": "tool_name_validation.py",
}
"""Names of loggers, and the file whose records are meant: one of the names is nobody's own."""
_MOST = 300


class _OneLine(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        asked = logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        if asked or record.filename != _LOGGERS.get(record.name) or record.levelno < logging.WARNING:
            return True
        place, now = (record.name, record.lineno), monotonic()
        if now - self._last.get(place, float("-inf")) < EVERY:
            return False
        self._last[place] = now
        record.msg, record.args = _shown(record.getMessage()), None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _shown(text: str) -> str:
    """A server's words may be in it: no line of theirs begins a new one of ours."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_MOST])


_filter = _OneLine()


def guard_client_logs() -> None:
    """Add the filter; a second time changes nothing. Whoever sets these loggers to DEBUG sees everything."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)
