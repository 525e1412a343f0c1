"""Translates errors of the vendors' SDKs: `RetryableError` if a retry can help, else an error that says what to do. API keys are masked.

An HTTP status is judged in `_status`: 408, 409, 425, 429 and 5xx can be retried, except 501 and a 429 for a spent quota.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from clicket import system
from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.models.failure_reasons import of_status
from clicket.tools.response import retry_after

__all__ = [
    "Endpoint",
    "ToolsRefused",
    "blames",
    "blames_tools",
    "interrupted_reply",
    "is_refusal",
    "malformed_reply",
    "stream_error",
    "translate",
]

_MAX_SAID = 300
_KEYS = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_ABOUT_KEYS = ("api_key", "api key", "auth", "credential", "profile")
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
"""Codes of a 429 that no retry can help."""
_TOOLS = re.compile(r"\b(tools?|functions?)\b|\btool[-_ ](choice|use|call)", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"support|unknown|unrecogni|unexpected|extra|not (?:permitted|allowed|available|implemented|enabled)|unavailable"
    r"|requires?\b|disabled",
    re.IGNORECASE,
)
_FINAL = (
    "invalid_request",
    "invalid_prompt",
    "policy",
    "context_length",
    "insufficient_quota",
    "content_filter",
    "not_found",
    "billing",
)


class ToolsRefused(ClicketError):
    """The server does not support tools: the caller asks again with tools described in a schema."""


class Endpoint:
    """Names the model, its address and the source of its key in error messages."""

    def __init__(self, vendor: str, model: str, key_env: str, key: str | None, base_url: str | None) -> None:
        self.vendor = vendor
        self.model = model
        self.key_env = key_env
        self._key = key
        self.address = _bare(base_url)

    def __str__(self) -> str:
        return f"model {self.model!r} of {self.vendor}{f' at {self.address}' if self.address else ''}"

    def masked(self, text: str) -> str:
        if self._key and len(self._key) > 4:
            text = text.replace(self._key, "***")
        return _KEYS.sub("***", " ".join(text.split()))[:_MAX_SAID]


def _bare(url: str | None) -> str:
    """The address without user, password and query, which may be secret."""
    if url is None:
        return ""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}".rstrip("/")
    except ValueError:
        return ""


def server_message(error: Any) -> str:
    """The message in the server's error."""
    body = getattr(error, "body", None)
    for part in (body, body.get("error") if isinstance(body, dict) else None):
        if isinstance(part, dict) and isinstance(part.get("message"), str):
            return str(part["message"])
        if isinstance(part, str) and part:
            return part
    return str(getattr(error, "message", "") or error)


def blames(error: Any, words: tuple[str, ...]) -> bool:
    """Does the error name one of these parameters? An error without a body may mean any of them."""
    body = getattr(error, "body", None)
    if not body:
        return True
    text = f"{server_message(error)} {getattr(error, 'param', '')}".lower()
    return any(word in text for word in words)


def is_refusal(error: Any) -> bool:
    """Did the server reject the request? Some servers do so with 500 or 501."""
    return error.status_code in (400, 415, 422, 501) or (error.status_code == 500 and bool(error.body))


def blames_tools(error: Any) -> bool:
    """Does the error say that the server or its model does not support tools? A fault in one tool does not count."""
    if error.status_code == 404:
        return bool(error.body) and "tool use" in server_message(error).lower()  # a router without such a model
    if not is_refusal(error):
        return False
    if not getattr(error, "body", None) or getattr(error, "param", None) in ("tools", "tool_choice", "functions"):
        return True
    text = server_message(error)
    return bool(_TOOLS.search(text) and _UNKNOWN.search(text))


def malformed_reply(endpoint: Endpoint) -> ClicketError:
    return ClicketError(f"The {endpoint} sent a reply that does not follow its protocol. Is base_url right?")


def interrupted_reply(endpoint: Endpoint) -> RetryableError:
    return RetryableError(f"The {endpoint} stopped in the middle of its answer.", reason="unavailable")


def stream_error(error: Any, endpoint: Endpoint) -> ClicketError:
    """An error that the server sent in place of a reply, after status 200."""
    body = error if isinstance(error, dict) else getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    kind = " ".join(str(inner.get(key) or "") for key in ("type", "code")) if isinstance(inner, dict) else ""
    words = inner.get("message") if isinstance(inner, dict) else inner
    text = endpoint.masked(str(words or server_message(error)))
    if "authentication" in kind or "permission" in kind:
        return UsageError(f"The {endpoint} refused the key. Set {endpoint.key_env}, or give api_key=.")
    if any(word in kind for word in _FINAL):
        return ClicketError(f"The {endpoint} broke off its answer: {text}")
    reason = "rate_limit" if "rate_limit" in kind else "timeout" if "timeout" in kind else "unavailable"
    return RetryableError(f"The {endpoint} broke off its answer: {text}", reason=reason)


def translate(sdk: Any, error: Exception, endpoint: Endpoint, *, begun: bool = False) -> ClicketError:
    """`sdk`: the vendor's package; both SDKs have the same error classes. `begun`: the stream of the reply had begun."""
    if isinstance(error, ClicketError):
        return error
    if isinstance(error, sdk.APITimeoutError):
        return RetryableError(f"The {endpoint} did not answer in time.", reason="timeout")
    if isinstance(error, sdk.APIConnectionError):
        why = endpoint.masked(str(error.__cause__ or error))
        return RetryableError(f"The {endpoint} cannot be reached: {why}", reason="unavailable")
    if isinstance(error, sdk.APIStatusError) and error.status_code >= 400:
        return _status(error, endpoint)
    if begun:
        if isinstance(error, sdk.APIError):
            return stream_error(error, endpoint)
        if "Timeout" in type(error).__name__:
            return RetryableError(f"The {endpoint} fell silent in the middle of its answer.", reason="stalled")
        # The connection broke, or an event cannot be parsed.
        return RetryableError(
            f"The {endpoint} broke off its answer: {endpoint.masked(f'{type(error).__name__}: {error}')}",
            reason="unavailable",
        )
    if any(word in str(error).lower() for word in _ABOUT_KEYS):
        return UsageError(f"The {endpoint} needs a key. Set {endpoint.key_env}, or give api_key=.")
    if isinstance(error, TypeError | ValueError):
        return UsageError(
            f"The {endpoint} cannot be asked: {endpoint.masked(str(error))}. Look at options= and base_url=."
        )
    return ClicketError(f"The {endpoint} gave no answer: {endpoint.masked(str(error))}")


def _status(error: Any, endpoint: Endpoint) -> ClicketError:
    status = int(error.status_code)
    message = endpoint.masked(server_message(error))
    if status in (401, 403):  # the server's message may repeat the key
        return UsageError(
            f"The {endpoint} refused the key (HTTP {status}). Set {endpoint.key_env}, or give api_key=, and see whether the key "
            "may use this model."
        )
    if status == 404:
        return UsageError(f"There is no {endpoint} (HTTP 404): {message} Look at the model's name and at base_url.")
    code = str(getattr(error, "code", "") or "")
    if status == 429 and code in _SPENT:
        return ClicketError(f"The account of the {endpoint} is spent (HTTP 429): {message}", reason="rate_limit")
    if status in (408, 409, 425, 429) or (status >= 500 and status != 501):
        headers = error.response.headers
        wait = _milliseconds(headers.get("retry-after-ms"))
        if wait is None:
            wait = retry_after(headers.get("retry-after"), system.now())
        reason = of_status(status) or "unavailable"
        return RetryableError(
            f"The {endpoint} is not able to answer now (HTTP {status}): {message}", retry_after=wait, reason=reason
        )
    if status == 413 or "context_length" in code or "prompt is too long" in message.lower():
        return ClicketError(f"The prompt is too long for the {endpoint} (HTTP {status}): {message}")
    return ClicketError(f"The {endpoint} refused the request (HTTP {status}): {message}")


def _milliseconds(value: str | None) -> float | None:
    text = (value or "").strip()
    return int(text) / 1000 if text.isascii() and text.isdigit() and len(text) <= 9 else None
