"""The error of a failed search, with advice by HTTP status."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.model import ToolResult
from clicket.search.engines.adapter import EngineFailed
from clicket.search.extract.html import plain_text

__all__ = ["USUAL_HINTS", "engine_error"]

USUAL_HINTS: Mapping[int, str] = {
    400: "Check the engine's options.",
    401: "Check the key.",
    402: "The plan is used up; look at the account.",
    403: "Check the key and what it may do.",
    404: "Check the engine's url.",
    422: "Check the key and the engine's options.",
    429: "Too many requests: lower rate=…, or wait.",
    500: "Try again later.",
    502: "Try again later.",
    503: "Try again later.",
    504: "Try again later.",
}
_MARKUP = re.compile(r"<[a-zA-Z!/][^<>]*+>")


def engine_error(engine: str, result: ToolResult, hints: Mapping[int, str] = USUAL_HINTS) -> EngineFailed:
    """The error of a failed call as `EngineFailed`."""
    error = result.error
    if error is None:
        return EngineFailed(f"{engine}: the search was {result.state}.", engine=engine)
    status = error.details.get("status")
    message = plain_text(error.message) if _MARKUP.search(error.message) else " ".join(error.message.split())
    message = message[:400] + "…" if len(message) > 400 else message.rstrip(".")
    advice = hints.get(status, USUAL_HINTS.get(status, "")) if isinstance(status, int) else ""
    tries = f" (tried {result.attempts} times)" if result.attempts > 1 else ""
    return EngineFailed(
        f"{engine}: {message}{tries}. {advice}".strip(),
        engine=engine,
        reason=error.code,
        **({"status": status} if isinstance(status, int) else {}),
    )
