"""Which errors count as transient, and the delay before a retry. Whether an attempt is retried, also after a timeout, is decided in
`engine/call/attempts.py`."""

from __future__ import annotations

import random
from math import isfinite
from typing import Any

from clicket.errors import ClicketError, RetryableError
from clicket.model import ToolError
from clicket.model.codec import clean
from clicket.tools import Options

__all__ = ["backoff", "describe", "transient"]

MAX_DELAY = 60.0
_CLICKET_ONLY_CODES = ("usage", "not_found", "clicket_error", "invalid_transition")
_TRANSIENT_STATUS = frozenset({429, 502, 503, 504})


def transient(error: BaseException, options: Options) -> bool:
    """Is the error marked as transient, by itself or by the tool's options?"""
    retryable = getattr(error, "retryable", None)
    if isinstance(retryable, bool):
        return retryable
    if isinstance(error, RetryableError | ConnectionError):
        return True
    if options.retry_on and isinstance(error, options.retry_on):
        return True
    return _status(error) in _TRANSIENT_STATUS


def _status(error: BaseException) -> Any:
    """The HTTP status of a client's exception, under the attribute names in use."""
    response = getattr(error, "response", None)
    return (
        getattr(error, "status_code", None) or getattr(error, "status", None) or getattr(response, "status_code", None)
    )


def backoff(retry: int, options: Options, error: BaseException, chance: random.Random) -> float:
    """Seconds before retry number `retry` (1, 2, …): doubled, jittered, capped, never shorter than Retry-After."""
    delay = min(options.retry_delay * 2.0 ** min(retry - 1, 60), MAX_DELAY) * (0.5 + chance.random() / 2)
    asked = getattr(error, "retry_after", None)
    return max(delay, float(asked)) if isinstance(asked, int | float) and isfinite(asked) else delay


def describe(error: BaseException, *, retryable: bool) -> ToolError:
    """An exception as a value: its code if it is ours, else `tool_error`; never a traceback, never a bare repr."""
    if isinstance(error, RecursionError):
        message = "the tool recursed too deeply"
    elif isinstance(error, SystemExit):
        message = f"the tool called sys.exit({error.code!r})"
    else:
        message = _text(error) or f"the tool raised {type(error).__name__} without a message"
    code = error.code if isinstance(error, ClicketError) else "tool_error"
    if code in _CLICKET_ONLY_CODES:
        code = "tool_error"  # raised by the tool's own body while it used clicket
    name = getattr(error, "type", None)
    said = error.details if isinstance(error, ClicketError) else {}
    details = {k: clean(v) if isinstance(v, str) else v for k, v in said.items() if isinstance(v, str | int | bool)}
    return ToolError(
        code=code,
        message=clean(message)[:4_000],
        type=clean(name if isinstance(name, str) else type(error).__name__),
        retryable=retryable,
        details=details,
    )


def _text(error: BaseException) -> str:
    """The text of an exception; it is foreign code, so its `__str__` may raise."""
    try:
        return str(error)
    except Exception:
        return ""
