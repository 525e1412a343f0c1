"""Checks of a request beside its arguments. A violation is a programming mistake, so it raises at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.call import Arguments, CallOptions, ToolCall, seconds_of
from clicket.model.output import plain_output

__all__ = ["check_name", "checked", "request_of", "unknown_keyword"]

_MAX_NAME = 512
_MAX_GOOD = 4_096
_MAX_TIME = 1e11
_good: set[str] = set()


def checked(request: ToolCall) -> ToolCall:
    """The request with clean names, or `UsageError`. An unknown tool's name may be anything; it is made printable."""
    tool, thread = request.tool, request.thread
    if not (type(tool) is str and tool in _good):
        request = _with_name(request, tool)
    if not (type(thread) is str and thread in _good):
        check_name("thread", thread)
        _remember(thread)
    if request.id is not None:
        check_name("id", request.id)
    if request.request_id is not None:
        check_name("request_id", request.request_id)
    if request.timeout is not None:
        _check_seconds("timeout", request.timeout)
    if request.deadline is not None:
        _check_seconds("deadline", request.deadline)
    if request.not_before is not None:
        request = msgspec.structs.replace(request, not_before=_instant(request.not_before))
    if type(request.priority) is not int:
        raise UsageError(f"priority must be a whole number, not {request.priority!r}.")
    if request.metadata is not None:
        if not isinstance(request.metadata, Mapping):
            raise UsageError(f"metadata must be a mapping, not {type(request.metadata).__name__}.")
        request = msgspec.structs.replace(request, metadata=plain_output(dict(request.metadata))[0])
    return request


def request_of(tool: str, arguments: Arguments, options: CallOptions) -> ToolCall:
    """A request of the keywords of a call."""
    try:
        return ToolCall(tool, arguments, **options)
    except TypeError:
        raise unknown_keyword(tool, options) from None


def unknown_keyword(tool: Any, options: Mapping[str, Any]) -> UsageError:
    """Why no request can be made of these keywords."""
    known = CallOptions.__annotations__
    wrong = [name for name in options if name not in known]
    near = did_you_mean(wrong[0], known)
    given = ", ".join(f"{name!r}: …" for name in wrong)
    meant = near or f" Arguments of the tool are one mapping: rt.call({tool!r:.60}, {{{given}}})."
    return UsageError(f"a call has no keyword {wrong[0]!r}.{meant} Known: {', '.join(known)}.")


def _with_name(request: ToolCall, tool: Any) -> ToolCall:
    name = tool if type(tool) is str else getattr(tool, "name", tool)
    text = name if type(name) is str else repr(name)
    clean = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")[:_MAX_NAME]
    if clean is tool or clean == tool:
        _remember(clean)
        return request
    return msgspec.structs.replace(request, tool=clean)


def _remember(name: str) -> None:
    """Remember a checked name: the same names come again and again."""
    if len(_good) >= _MAX_GOOD:
        _good.clear()
    if name:  # a tool may be asked for by any name, also by none; a thread may not
        _good.add(name)


def check_name(what: str, value: Any) -> None:
    """`UsageError` unless it can be the name of a call, a thread or a request."""
    if type(value) is not str or not value or len(value) > _MAX_NAME or "\x00" in value:
        raise UsageError(f"{what} must be text of 1 to {_MAX_NAME} characters without NUL, not {value!r:.100}.")
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} has a lone surrogate and cannot be stored.") from None


def _check_seconds(what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise UsageError(f"{what} must be a number of seconds above 0, not {value!r}.")


def _instant(time: Any) -> float:
    """Seconds since the epoch."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise UsageError(
                f"not_before has no time zone: {time.isoformat()}. Give it one (datetime.now(UTC), ZoneInfo('Europe/Berlin')), or give "
                "seconds since the epoch."
            )
    elif isinstance(time, bool) or not isinstance(time, int | float):
        raise UsageError(
            f"not_before must be a datetime with a time zone, or seconds since the epoch, not {time!r:.100}."
        )
    seconds = seconds_of(time)
    if not isfinite(seconds) or not 0 <= seconds <= _MAX_TIME:
        raise UsageError(f"not_before must be a time after 1970, in seconds since the epoch, not {time!r:.100}.")
    return seconds
