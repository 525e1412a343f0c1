"""Why a search failed, in a sentence that says what to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clicket.model import ToolResult
from clicket.search.engines.adapter import EngineFailed
from clicket.search.extract.html import plain_text

__all__ = ["USUAL", "failed"]

USUAL: Mapping[int, str] = {
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


def failed(engine: str, result: ToolResult, hints: Mapping[int, str] = USUAL) -> EngineFailed:
    """The error of a call as the error of an engine."""
    error = result.error
    if error is None:
        return EngineFailed(f"{engine}: the search was {result.state}.", engine=engine)
    status = error.details.get("status")
    said = plain_text(error.message) if _MARKUP.search(error.message) else " ".join(error.message.split())
    said = said[:400] + "…" if len(said) > 400 else said.rstrip(".")
    advice = hints.get(status, USUAL.get(status, "")) if isinstance(status, int) else ""
    tries = f" (tried {result.attempts} times)" if result.attempts > 1 else ""
    return EngineFailed(
        f"{engine}: {said}{tries}. {advice}".strip(),
        engine=engine,
        reason=error.code,
        **({"status": status} if isinstance(status, int) else {}),
    )
