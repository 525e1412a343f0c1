"""The output that an HTTP response makes. The response is read within limits, whatever length the server announces."""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
from collections.abc import Callable
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError

if TYPE_CHECKING:
    import httpx2

__all__ = ["OutcomeUnknown", "RestError", "decode", "excerpt", "read_body", "read_some", "retry_after"]

_EXCERPT_CHARS = 500
_ERROR_BODY_BYTES = 64 * 1024
_BAD_INPUT = frozenset({400, 404, 409, 410, 413, 414, 422})
"""The service works, and refuses what it was asked for."""
_MAX_CONTENT_TYPE = 1_000
_CHARSETS = tuple(
    "ascii utf-8 utf-16 utf-32 iso8859 iso2022 cp koi8 gb big5 euc shift_jis mac- tis-620 johab hz kz1048 ptcp154 hp-roman8".split()
)
"""Codecs by the beginnings of their names. Python has others, which take time that grows with the square of the text."""
_HALF = re.compile("[\ud800-\udfff]")


class RestError(ClicketError):
    """The service answered, but not with a result. `status` is its HTTP status, `details` the start of its answer."""

    code = "tool_error"

    def __init__(self, message: str, *, status: int | None = None, **details: Any) -> None:
        super().__init__(message, **({} if status is None else {"status": status}), **details)
        self.status = status
        self.blames_tool = status not in _BAD_INPUT


class OutcomeUnknown(RestError):
    """The request left and its result did not come back: the service may have acted on it, so it is not sent again."""

    code = "outcome_unknown"
    retryable = False  # whatever the status says: the request itself has been taken


async def read_body(response: httpx2.Response, max_size: int, alive: Callable[[], None]) -> bytes:
    """The whole body, unpacked; `RestError` as soon as it grows over `max_size`, whatever length it claimed."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > max_size:
            raise RestError(
                f"The response is larger than {max_size} bytes. Ask for less, or raise max_response_size.",
                status=response.status_code,
            )
        parts.append(part)
        alive()
    return b"".join(parts)


async def read_some(response: httpx2.Response) -> bytes:
    """The start of an error's body. A short one is read to its end, so that the connection can be used again."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size >= _ERROR_BODY_BYTES:
            break
    return b"".join(parts)


def excerpt(body: bytes) -> str:
    text = body[: _EXCERPT_CHARS * 4].decode("utf-8", "replace").strip()
    return text if len(text) <= _EXCERPT_CHARS else text[:_EXCERPT_CHARS] + "…"


def decode(content_type: str, body: bytes) -> Any:
    """JSON as its value, text as text, anything else as base64 with its type; nothing as None."""
    if not body:
        return None
    header = Message()
    header["content-type"] = content_type[:_MAX_CONTENT_TYPE] or "application/octet-stream"
    kind = header.get_content_type() if content_type else "application/octet-stream"
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    if kind.startswith("text/"):
        return _decoded(body, str(header.get_content_charset("utf-8")))
    return {"content_type": kind, "base64": base64.b64encode(body).decode("ascii"), "size": len(body)}


def _decoded(body: bytes, charset: str) -> str:
    """A charset that is unknown, or none that services write text in, is read as UTF-8."""
    try:
        codec = codecs.lookup(charset).name
    except (LookupError, ValueError):
        codec = "utf-8"
    return body.decode(codec if codec.startswith(_CHARSETS) else "utf-8", "replace")


def _json(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_finite)
        return _whole(value) if b"\\u" in body else value
    except (ValueError, RecursionError) as error:
        raise RestError(
            f"The service says that it answers with JSON, but this is none: {error}", body=excerpt(body)
        ) from None


def _whole(value: Any) -> Any:
    """Replace lone surrogates such as "\\ud83d": JSON text may escape them, but UTF-8 cannot encode them."""
    text = json.dumps(value, ensure_ascii=False)
    mended = _HALF.sub("\N{REPLACEMENT CHARACTER}", text)
    return value if mended == text else json.loads(mended)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait, from either form of Retry-After; None when it is absent or nonsense."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= 9 else None
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    # An HTTP date is always GMT, also when the zone was left out.
    stamp = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return max(0.0, stamp.timestamp() - now)
