"""One error tree. Each error carries its code and says what to do next; stages raise, the pipeline turns errors into results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from itertools import islice
from typing import Any, ParamSpec

__all__ = [
    "MAX_PROBLEMS",
    "AgentBusy",
    "AgentChanged",
    "ApprovalDenied",
    "ClicketError",
    "Conflict",
    "CredentialMissing",
    "DepUnavailable",
    "InvalidInput",
    "InvalidTransition",
    "MiddlewareFailed",
    "NotFound",
    "PermissionDenied",
    "ProgramFailed",
    "QueueFull",
    "ResultUnserializable",
    "RetryableError",
    "StoreUnavailable",
    "ToolCallFailed",
    "ToolNotFound",
    "ToolUnavailable",
    "UsageError",
    "did_you_mean",
    "known_keywords",
]

P = ParamSpec("P")

MAX_PROBLEMS = 100
"""An error lists no more complaints about arguments; a last line says that there are more."""
_MAX_PATH = 500
_MAX_NEAR = 100
"""Longer names are not compared with others, nor more names with one: the comparison is slow."""
_MAX_KNOWN = 2_000


class ClicketError(Exception):
    """The root of every error that clicket raises on purpose."""

    code = "clicket_error"
    blames_tool: bool = True
    """Raised by a tool: does it count among the failures for which the tool is taken out of use?"""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details


class InvalidTransition(ClicketError):
    """An edge that is not in the table was asked for; nothing was changed."""

    code = "invalid_transition"


class UsageError(ClicketError, ValueError):
    """The library was called in a way that cannot work: a wrong option, a missing import, a runtime that is not open."""

    code = "usage"


class NotFound(ClicketError, LookupError):
    """No call or artifact has this name."""

    code = "not_found"


class RetryableError(ClicketError):
    """Raised by a tool or a model to say: this failure is transient, try again (after `retry_after` seconds, if given). A model may say its
    `reason`: `unavailable`, `rate_limit`, `timeout` or `stalled`."""

    code = "tool_error"

    def __init__(self, message: str = "", *, retry_after: float | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Conflict(ClicketError):
    """The id is taken by a call with other arguments, or the call is decided or settled already; nothing was changed."""

    code = "conflict"


class AgentBusy(ClicketError):
    """The thread has a turn under way; no second one was begun."""

    code = "agent_busy"


class AgentChanged(ClicketError):
    """An interrupted turn was begun by an agent of this name that could do something else, and this one refuses to continue it."""

    code = "agent_changed"


class MiddlewareFailed(ClicketError):
    """A method of an agent's middleware raised, or returned what it cannot; the turn has ended as an error."""

    code = "middleware_failed"


class QueueFull(ClicketError):
    """The waiting line is full; no call was made."""

    code = "queue_full"


class StoreUnavailable(ClicketError):
    """The store did not take the write or answer the read; nothing half-written is left behind.

    `transient`: the same may succeed soon, as when the server is being restarted. Opening a runtime waits for that. `lasting`: it will
    not until a person has done something, as when the disk is full. Callers are told at once.
    """

    code = "store_unavailable"

    def __init__(self, message: str, *, transient: bool = False, lasting: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.transient = transient
        self.lasting = lasting


class ToolCallFailed(ClicketError):
    """Raised by `ToolResult.unwrap` for a call that did not complete. `code` is that of its error, `result` the whole result."""

    def __init__(self, message: str, *, code: str, result: Any) -> None:
        super().__init__(message)
        self.code = code
        self.result = result


class ToolNotFound(ClicketError):
    code = "tool_not_found"


class ToolUnavailable(ClicketError):
    code = "tool_unavailable"


class DepUnavailable(ClicketError):
    """A tool needs a dep that neither its run nor the runtime gives, or whose factory failed."""

    code = "tool_unavailable"
    blames_tool = False

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class PermissionDenied(ClicketError):
    code = "permission_denied"


class ApprovalDenied(ClicketError):
    code = "approval_denied"


class CredentialMissing(ClicketError):
    """The caller has no credential that works for a provider. The call waits until there is one."""

    code = "credential_missing"
    blames_tool = False

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"the caller's credential for {provider!r} is missing: {reason}", provider=provider)
        self.provider = provider
        self.reason = reason


class ProgramFailed(ClicketError):
    """What the caller gave a tool to run did not end well. The tool itself did what it should."""

    code = "tool_error"
    blames_tool = False


class ResultUnserializable(ClicketError):
    code = "result_unserializable"


class InvalidInput(ClicketError, ValueError):
    """Arguments that the tool will never see. `problems` lists the complaints, each with its JSON path, up to 100 of them;
    `whole` is what the empty path stands for."""

    code = "invalid_input"

    def __init__(
        self, problems: Iterable[Mapping[str, str]] | str, hint: str = "", *, whole: str = "(arguments)"
    ) -> None:
        listed = [{"path": "", "message": problems}] if isinstance(problems, str) else _listed(problems)
        text = "; ".join(f"{p['path'] or whole}: {p['message']}" for p in listed)
        stop = "" if text.endswith((".", "?")) else "."
        super().__init__(f"{text}{stop} {hint}" if hint else text, problems=listed)
        self.problems: list[dict[str, str]] = listed


def _listed(problems: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The first problems, with paths of bounded length."""
    rest = iter(problems)
    listed = [{**problem, "path": _cut_path(problem["path"])} for problem in islice(rest, MAX_PROBLEMS)]
    if next(rest, None) is not None:
        listed.append({"path": "", "message": f"there are more problems; these are the first {MAX_PROBLEMS}"})
    return listed


def _cut_path(path: str) -> str:
    return path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence naming near misses of `name`, or an empty string."""
    if len(name) > _MAX_NEAR:
        return ""
    names = [one for one in islice(known, _MAX_KNOWN) if len(one) <= 2 * _MAX_NEAR]
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    return f" Did you mean {', '.join(repr(n) for n in near)}?" if near else ""


def known_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """For a constructor: an unknown keyword raises `UsageError` that names the near and the known ones, instead of `TypeError`."""
    code = init.__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    kind = init.__qualname__.partition(".")[0]

    @wraps(init)
    def checked(*args: P.args, **keywords: P.kwargs) -> None:
        for name in keywords:
            if name not in known:
                raise UsageError(
                    f"{kind} has no keyword {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
                )
        init(*args, **keywords)

    return checked
