"""Errors of the vendors' SDKs in our words: what is worth trying again, and what somebody must do first. No key is in any."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlsplit

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.tools.response import retry_after

__all__ = [
    "Place",
    "ToolsRefused",
    "blames_tools",
    "broken_off",
    "midway",
    "names_one",
    "no_answer",
    "refuses",
    "translated",
]

_MAX_SAID = 300
_KEYS = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_ABOUT_KEYS = ("api_key", "api key", "auth", "credential", "profile")
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
"""Answered with 429 too, and no waiting helps."""
_TOOLS = re.compile(r"\b(tools?|functions?)\b|\btool[-_ ](choice|use|call)", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"support|unknown|unrecogni|unexpected|extra|not (?:permitted|allowed|available|implemented|enabled)|unavailable"
    r"|requires?\b|disabled",
    re.IGNORECASE,
)
_FINAL = ("invalid_request", "context_length", "insufficient_quota", "content_filter", "not_found", "billing")


class ToolsRefused(ClicketError):
    """The address does not know tools: the request is worth asking in another way."""


class Place:
    """Which model, where, and where its key comes from: what a message needs to say what to do next."""

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
    """Without what may be secret in an address: user, password and query."""
    if url is None:
        return ""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}".rstrip("/")
    except ValueError:
        return ""


def said(error: Any) -> str:
    """The server's own words."""
    body = getattr(error, "body", None)
    for part in (body, body.get("error") if isinstance(body, dict) else None):
        if isinstance(part, dict) and isinstance(part.get("message"), str):
            return str(part["message"])
        if isinstance(part, str) and part:
            return part
    return str(getattr(error, "message", "") or error)


def names_one(error: Any, words: tuple[str, ...]) -> bool:
    """Does a refusal blame one of these parameters? One without any words may mean any of them."""
    body = getattr(error, "body", None)
    if not body:
        return True
    text = f"{said(error)} {getattr(error, 'param', '')}".lower()
    return any(word in text for word in words)


def refuses(error: Any) -> bool:
    """Is it the request that was not liked? Some servers say so with 500 or 501."""
    return error.status_code in (400, 415, 422, 501) or (error.status_code == 500 and bool(error.body))


def blames_tools(error: Any) -> bool:
    """Does the refusal say that the server or its model takes no tools at all? A fault in one of them is another matter."""
    if error.status_code == 404:
        return bool(error.body) and "tool use" in said(error).lower()  # as routers say that none of their models can
    if not refuses(error):
        return False
    if not getattr(error, "body", None) or getattr(error, "param", None) in ("tools", "tool_choice", "functions"):
        return True
    words = said(error)
    return bool(_TOOLS.search(words) and _UNKNOWN.search(words))


def no_answer(place: Place) -> ClicketError:
    return ClicketError(f"The {place} answered with something else than its protocol says. Is base_url right?")


def broken_off(place: Place) -> RetryableError:
    return RetryableError(f"The {place} stopped in the middle of its answer.")


def midway(error: Any, place: Place) -> ClicketError:
    """An error that came where an answer was to come, after the server had said that all is well."""
    body = error if isinstance(error, dict) else getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    kind = " ".join(str(inner.get(key) or "") for key in ("type", "code")) if isinstance(inner, dict) else ""
    words = inner.get("message") if isinstance(inner, dict) else inner
    text = place.masked(str(words or said(error)))
    if "authentication" in kind or "permission" in kind:
        return UsageError(f"The {place} refused the key. Set {place.key_env}, or give api_key=.")
    if any(word in kind for word in _FINAL):
        return ClicketError(f"The {place} broke off its answer: {text}")
    return RetryableError(f"The {place} broke off its answer: {text}")


def translated(sdk: Any, error: Exception, place: Place, *, begun: bool = False) -> ClicketError:
    """`sdk` is the vendor's package: both have the same family of errors. `begun`: the answer had begun to come."""
    if isinstance(error, ClicketError):
        return error
    if isinstance(error, sdk.APITimeoutError):
        return RetryableError(f"The {place} did not answer in time.")
    if isinstance(error, sdk.APIConnectionError):
        return RetryableError(f"The {place} cannot be reached: {place.masked(str(error.__cause__ or error))}")
    if isinstance(error, sdk.APIStatusError) and error.status_code >= 400:
        return _status(error, place)
    if begun:
        if isinstance(error, sdk.APIError):
            return midway(error, place)
        if "Timeout" in type(error).__name__:
            return RetryableError(f"The {place} fell silent in the middle of its answer.")
        # A connection that broke, or events that cannot be read.
        return RetryableError(f"The {place} broke off its answer: {place.masked(f'{type(error).__name__}: {error}')}")
    if any(word in str(error).lower() for word in _ABOUT_KEYS):
        return UsageError(f"The {place} needs a key. Set {place.key_env}, or give api_key=.")
    if isinstance(error, TypeError | ValueError):
        return UsageError(f"The {place} cannot be asked: {place.masked(str(error))}. Look at options= and base_url=.")
    return ClicketError(f"The {place} gave no answer: {place.masked(str(error))}")


def _status(error: Any, place: Place) -> ClicketError:
    status = int(error.status_code)
    words = place.masked(said(error))
    if status in (401, 403):  # their words may repeat the key
        return UsageError(
            f"The {place} refused the key (HTTP {status}). Set {place.key_env}, or give api_key=, and see whether the key "
            "may use this model."
        )
    if status == 404:
        return UsageError(f"There is no {place} (HTTP 404): {words} Look at the model's name and at base_url.")
    code = str(getattr(error, "code", "") or "")
    if status == 429 and code in _SPENT:
        return ClicketError(f"The account of the {place} is spent (HTTP 429): {words}")
    if status in (408, 409, 425, 429) or (status >= 500 and status != 501):
        headers = error.response.headers
        wait = _milliseconds(headers.get("retry-after-ms"))
        if wait is None:
            wait = retry_after(headers.get("retry-after"), time.time())
        return RetryableError(f"The {place} is not able to answer now (HTTP {status}): {words}", retry_after=wait)
    if status == 413 or "context_length" in code or "prompt is too long" in words.lower():
        return ClicketError(f"The prompt is too long for the {place} (HTTP {status}): {words}")
    return ClicketError(f"The {place} refused the request (HTTP {status}): {words}")


def _milliseconds(value: str | None) -> float | None:
    text = (value or "").strip()
    return int(text) / 1000 if text.isascii() and text.isdigit() and len(text) <= 9 else None
