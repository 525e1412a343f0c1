"""Errors as RFC 9457 problems. Each has a `code` for programs, and a `detail` that says what to do next."""

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
    "shutting_down": 503,
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
    """One thing that is wrong with the input, and where: a JSON pointer."""

    path: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. `type` names the kind, `code` is its short form; `call_id` is the call that has it on record."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Complaint] = []
    call_id: str | None = None


class Refused(ClicketError):
    """A request that the server itself refuses."""

    def __init__(self, code: str, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers


def detail_of(code: str, message: str) -> str:
    """What a client is told. Where the store is, and as whom we go there, is for the log alone: some ask without a key."""
    if code != "store_unavailable":
        return clean(message)
    logger.warning("the store is not available: %s", message)
    return "the store is not reachable now; the server's log says why. Try again in a moment."


def _reply(
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
    """What was raised, as a problem. A code that is no client's business is an internal error."""
    if isinstance(error, Refused):
        return _reply(error.code, error.message, (), None, *error.headers)
    code = error.code if error.code in STATUS_OF else "internal"
    errors = error.problems if isinstance(error, InvalidInput) else ()
    return _reply(code, error.message, errors)


def problem_of_result(error: ToolError, call_id: str) -> Response:
    """A call that was refused before its tool ran; it is on record as failed."""
    return _reply(error.code, error.message, error.details.get("problems", ()), call_id)
