"""Errors of models that other libraries bring, as ours: which of them a retry can help, and without the key that they may repeat.

The libraries are not imported: their errors are known by the HTTP status that they carry, or by the names of their classes.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.foreign import clean, field

__all__ = ["translated"]

_MAX_TEXT = 300
_KEYS = re.compile(r"\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{20,}|\bBearer\s+\S+", re.IGNORECASE)
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_TRANSIENT = frozenset(
    {
        "APIConnectionError", "DeadlineExceeded", "InternalServerError", "ModelConnectionError", "ModelRateLimitError",
        "ModelRequestTimeout", "ModelServerError", "ModelUnavailableError", "RateLimitError", "ResourceExhausted",
        "ServiceUnavailable", "TransportError",
    }
)  # fmt: skip
"""Classes of the SDKs of OpenAI, Anthropic and Google, of httpx, and of pydantic-ai."""
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")


def translated(error: Exception, model: str) -> Exception:
    """The error as `RetryableError`, `UsageError` or `ClicketError`; itself if nothing is known about it."""
    if isinstance(error, ClicketError):
        return error
    names, status = {each.__name__ for each in type(error).__mro__}, _status(error)
    text = _KEYS.sub("***", " ".join(clean(error).split()))[:_MAX_TEXT]
    if status in (401, 403) or names & {"ModelAuthenticationError", "UserError"}:
        # A server's message may repeat the key, a mistake in the program does not.
        why = text if "UserError" in names else "it refused the key"
        return UsageError(f"The model {model} cannot be asked: {why}")
    if "ModelQuotaExceededError" in names or any(word in text for word in _QUOTA):
        return ClicketError(f"The account of the model {model} is spent: {text}")
    transient = status in _TRANSIENT_STATUS or (status is not None and status >= 500 and status != 501)
    if transient or names & _TRANSIENT or isinstance(error, ConnectionError | TimeoutError):
        return RetryableError(f"The model {model} is not able to answer now: {text}", retry_after=_retry_after(error))
    return error if status is None else ClicketError(f"The model {model} refused the request (HTTP {status}): {text}")


def _status(error: Exception) -> int | None:
    given = [field(error, name) for name in ("status_code", "status", "code")]
    given.append(field(field(error, "response"), "status_code"))
    return next((one for one in given if type(one) is int and 400 <= one < 600), None)


def _retry_after(error: Exception) -> float | None:
    given: Any = field(error, "retry_after")
    if given is None:
        given = field(field(field(error, "response"), "headers"), "retry-after")
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        return None
    return seconds if isfinite(seconds) and seconds >= 0 else None
