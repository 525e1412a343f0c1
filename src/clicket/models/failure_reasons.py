"""Why a model did not answer, as one word. Our own models say it in their errors; the errors of others are read."""

from __future__ import annotations

from typing import Any, Literal, get_args

from clicket.errors import ClicketError, RetryableError

__all__ = ["CONDITIONS", "Condition", "condition_of", "is_transient", "of_status"]

Condition = Literal["unavailable", "rate_limit", "timeout", "stalled"]
"""Of a vendor: it fails or cannot be reached, it takes no more requests from us for now, it did not answer in time, or it began and then
fell silent."""
CONDITIONS: frozenset[str] = frozenset(get_args(Condition))
_STATUS: dict[int, Condition] = {408: "timeout", 429: "rate_limit", 504: "timeout"}
_NAMES: tuple[tuple[str, Condition], ...] = (
    ("Timeout", "timeout"),
    ("RateLimit", "rate_limit"),
    ("ConnectionError", "unavailable"),
    ("ConnectError", "unavailable"),
    ("NetworkError", "unavailable"),
)
"""Parts of the names of exceptions of other libraries."""


def condition_of(error: Exception) -> Condition | None:
    """None: the error has another cause, such as the request itself."""
    said = error.details.get("reason") if isinstance(error, ClicketError) else None
    if said in CONDITIONS:
        return said  # type: ignore[no-any-return]
    if isinstance(error, TimeoutError):
        return "timeout"
    status = _status(error)
    if status is not None:
        return of_status(status)
    if isinstance(error, RetryableError | ConnectionError) or getattr(error, "retryable", None) is True:
        return "unavailable"
    if isinstance(error, ClicketError):
        return None
    names = [each.__name__ for each in type(error).__mro__]
    return next((reason for part, reason in _NAMES if any(part in name for name in names)), None)


def of_status(status: int) -> Condition | None:
    """Of an HTTP status."""
    known = _STATUS.get(status)
    return known or ("unavailable" if status >= 500 and status != 501 else None)


def is_transient(error: Exception) -> bool:
    """May the same model answer soon? A spent quota is a `rate_limit` that no retry helps."""
    if isinstance(error, ClicketError):
        return isinstance(error, RetryableError)
    return condition_of(error) is not None


def _status(error: Exception) -> int | None:
    response: Any = getattr(error, "response", None)
    for value in (
        getattr(error, "status_code", None),
        getattr(error, "status", None),
        getattr(response, "status_code", None),
    ):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
