"""Errors as RFC 9457 problems. `code` is for programs; `detail` says what is wrong and what to do."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from clicket.errors import ClicketError, InvalidInput
from clicket.model import ToolError
from clicket.model.codec import clean, encode
from clicket.server.responses import Response

__all__ = [
    "PROBLEM_JSON",
    "STATUS_OF",
    "Complaint",
    "Problem",
    "Refused",
    "detail_of",
    "problem_of_error",
    "problem_of_result",
]

logger = logging.getLogger("clicket.server")

PROBLEM_JSON = b"application/problem+json"

STATUS_OF: dict[str, int] = {
    "usage": 400,
    "invalid_json": 400,
    "invalid_query": 400,
    "unauthorized": 401,
    "permission_denied": 403,
    "missing_scope": 403,
    "foreign_host": 403,
    "foreign_origin": 403,
    "not_found": 404,
    "tool_not_found": 404,
    "no_agent": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "conflict": 409,
    "agent_busy": 409,
    "not_waiting": 409,
    "not_ended": 409,
    "invalid_transition": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
    "invalid_input": 422,
    "queue_full": 429,
    "internal": 500,
    "store_unavailable": 503,
    "issuer_unavailable": 503,
    "shutting_down": 503,
    "not_started": 503,
    "closed": 503,
}
"""Every code that a problem of this server can carry."""

_TITLES = {
    400: "Bad request",
    401: "No valid key",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    422: "Invalid input",
    429: "Too many calls",
    500: "Internal error",
    503: "Not available",
}
_RETRY_AFTER = {429: b"1", 503: b"2"}


class Complaint(msgspec.Struct, frozen=True):
    """One error in the input. `path` is a JSON pointer."""

    path: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. `type` is a URN with the `code`; `call_id` is the call that records the error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Complaint] = []
    call_id: str | None = None


class Refused(ClicketError):
    """A request that the server itself refuses.

    `challenge`: the error of RFC 6750, for requests with an access token. `needed`: scopes, of which the request needs one.
    """

    def __init__(
        self, code: str, message: str, *headers: tuple[bytes, bytes], challenge: str = "", needed: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers
        self.challenge = challenge
        self.needed = needed


def detail_of(code: str, message: str) -> str:
    """The text for a client. Errors of the store are only logged in full: they may contain its address and user."""
    if code != "store_unavailable":
        return clean(message)
    logger.warning("the store is not available: %s", message)
    return "the store is not reachable now; the server's log says why. Try again in a moment."


def _problem(
    code: str, detail: str, errors: Any = (), call_id: str | None = None, *headers: tuple[bytes, bytes]
) -> Response:
    status = STATUS_OF.get(code, 500)
    listed = [Complaint(clean(each.get("path", "")), clean(each.get("message", ""))) for each in errors]
    problem = Problem(
        type=f"urn:clicket:problem:{code}",
        title=_TITLES[status],
        status=status,
        detail=detail_of(code, detail),
        code=code,
        errors=listed,
        call_id=call_id,
    )
    if status in _RETRY_AFTER:
        headers = (*headers, (b"retry-after", _RETRY_AFTER[status]))
    return Response(status, encode(problem), PROBLEM_JSON, *headers)


def problem_of_error(error: ClicketError) -> Response:
    """The problem of an error. Codes that are not in `STATUS_OF` become an internal error."""
    if isinstance(error, Refused):
        return _problem(error.code, error.message, (), None, *error.headers)
    code = error.code if error.code in STATUS_OF else "internal"
    errors = error.problems if isinstance(error, InvalidInput) else ()
    return _problem(code, error.message, errors)


def problem_of_result(error: ToolError, call_id: str) -> Response:
    """The problem of a call that was refused before its tool ran. The call is recorded as failed."""
    return _problem(error.code, error.message, error.details.get("problems", ()), call_id)
