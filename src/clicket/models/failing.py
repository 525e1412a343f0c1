"""Errors of the vendors' SDKs in our words: what is worth trying again, and what somebody must do first. No key is in any."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlsplit

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.tools.response import retry_after

__all__ = ["Place", "names_one", "translated"]

_MAX_SAID = 300
_KEYS = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_ABOUT_KEYS = ("api_key", "api key", "auth", "credential", "profile")
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
"""Answered with 429 too, and no waiting helps."""


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


def translated(sdk: Any, error: Exception, place: Place) -> ClicketError:
    """`sdk` is the vendor's package: both have the same family of errors."""
    if isinstance(error, sdk.APITimeoutError):
        return RetryableError(f"The {place} did not answer in time.")
    if isinstance(error, sdk.APIConnectionError):
        return RetryableError(f"The {place} cannot be reached: {place.masked(str(error.__cause__ or error))}")
    if isinstance(error, sdk.APIStatusError):
        return _status(error, place)
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
