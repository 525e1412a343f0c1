"""The access log: one line per request. It has no query, no header, no key and no body, so it cannot leak what they hold.

A call's id is in it, which its caller chose: what looks like a secret in there is hidden.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from clicket.vault import hide_known

__all__ = ["logger", "note"]

logger = logging.getLogger("clicket.access")


def note(scope: Any, status: int, started: float) -> None:
    """`route` is the template, not the path: names that callers chose stay out, but for the call's id."""
    took = round((time.perf_counter() - started) * 1000, 2)
    who = scope.get("clicket.who")
    key = who.id if who is not None else ""
    call = hide_known(scope.get("clicket.call", ""))
    route = scope.get("clicket.route", "-")
    method = scope["method"]
    logger.info(
        "%s %s %d %.2fms key=%s call=%s", method, route, status, took, key or "-", ascii(call)[1:-1] if call else "-",
        extra={"method": method, "route": route, "status": status, "duration_ms": took, "key": key, "call_id": call},
    )  # fmt: skip
