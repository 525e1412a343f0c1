"""The access log: one line per request, without query, headers, key and body, so that it cannot leak them.

The caller chose the call's id, so what looks like a secret in it is hidden. `clicket serve` writes several lines at a time and does not
use the module `logging`, which costs as much as the rest of a small request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from clicket import system
from clicket.model.printable import escaped_json
from clicket.safety.vault import hide_text

__all__ = ["AccessLog", "log_request", "logger"]

logger = logging.getLogger("clicket.access")
_FLUSH_EVERY = 0.05
"""Seconds for which a line may wait for others."""
_MAX_PENDING = 200


class AccessLog:
    """Writes the access log to a stream, as text or JSON, in the format of the server's other log lines."""

    def __init__(self, stream: TextIO, *, json: bool) -> None:
        self._stream = stream
        self._json = json
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._second = 0
        self._prefix = ""

    def add(self, method: str, route: str, status: int, took: float, key: str, call: str) -> None:
        now = system.now()
        if self._json:
            line: dict[str, Any] = {
                "at": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"), "level": "info",
                "logger": logger.name, "message": f"{method} {route} {status}", "method": method, "route": route,
                "status": status, "duration_ms": took, "key": key,
            }  # fmt: skip
            if call:
                line["call_id"] = call
            self._lines.append(escaped_json(msgspec.json.encode(line).decode()))
        else:
            second = int(now)
            if second != self._second:
                self._second, self._prefix = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            shown = ascii(call)[1:-1] if call else "-"
            self._lines.append(
                f"{self._prefix},{int(now * 1000) % 1000:03d} INFO    {logger.name} {method} {route} {status} {took:.2f}ms "
                f"key={ascii(key)[1:-1] or '-'} call={shown}"
            )
        if len(self._lines) >= _MAX_PENDING:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_EVERY, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            with suppress(OSError, ValueError):  # nothing reads the log any more; the server goes on
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()


def log_request(scope: Any, status: int, started: float, log: AccessLog | None = None) -> None:
    """Log one request. The path is logged as its template, such as `/calls/{id}`: callers choose the names in it."""
    took = round((system.monotonic() - started) * 1000, 2)
    principal = scope.get("clicket.principal")
    key = principal.id if principal is not None else ""
    call = hide_text(scope.get("clicket.call", ""))
    route = scope.get("clicket.route", "-")
    method = scope["method"]
    if log is not None:
        log.add(method, route, status, took, key, call)
        return
    logger.info(
        "%s %s %d %.2fms key=%s call=%s",
        method,
        route,
        status,
        took,
        ascii(key)[1:-1] or "-",
        ascii(call)[1:-1] if call else "-",
        extra={"method": method, "route": route, "status": status, "duration_ms": took, "key": key, "call_id": call},
    )
