"""A tool's own check of an attempt whose outcome is unknown: `@tool(reconcile=check)`.

`check(call, ctx)` asks the outside system, by the idempotency key, whether the effect happened. It changes nothing there.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.tools.context import ToolContext

__all__ = [
    "Answer",
    "CallInDoubt",
    "Continues",
    "DidNotHappen",
    "Happened",
    "Reconcile",
    "Unknown",
    "check_reconcile",
    "is_answer",
]

_MAX_REASON = 2_000


class Happened(msgspec.Struct, frozen=True):
    """The effect happened, and this is its output. The call completes with it."""

    output: Any = None


class DidNotHappen(msgspec.Struct, frozen=True):
    """The effect did not happen, and will not any more. The call is run again."""


class Continues(msgspec.Struct, frozen=True):
    """The work goes on in the outside system. The body is run again, and takes it up there from its checkpoints."""


class Unknown(msgspec.Struct, frozen=True):
    """The check cannot tell. The call fails as `outcome_unknown`, with this reason."""

    reason: str = ""

    @property
    def shown(self) -> str:
        return str(self.reason)[:_MAX_REASON]


Answer = Happened | DidNotHappen | Continues | Unknown


class CallInDoubt(msgspec.Struct, frozen=True, kw_only=True):
    """The call that a check is about. `arguments` are those that the tool got, and `attempt` is the number of the last attempt."""

    id: str
    tool: str
    arguments: dict[str, Any]
    idempotency_key: str
    """The tool's body had the same one: `ctx.idempotency_key`."""
    attempt: int
    started_at: float
    """When that attempt started, in seconds since the epoch."""
    thread: str
    caller: str = ""
    cause: str = ""
    """Why the outcome is not known: `stopped` (out of time), `lost` (the body could not tell), or empty: its process died or was closed."""
    cancel_requested: bool = False


Reconcile = Callable[[CallInDoubt, ToolContext], Answer | Awaitable[Answer]]
"""Sync checks run in a worker thread."""


def check_reconcile(where: str, value: Any) -> Any:
    """Raise `UsageError` unless `value` can be called with a call and a context."""
    if value is None:
        return None
    if not callable(value):
        raise UsageError(f"{where}: reconcile takes a function `check(call, ctx)`, not {value!r}.")
    try:
        inspect.signature(value).bind(None, None)
    except TypeError:
        raise UsageError(
            f"{where}: reconcile is called as `check(call, ctx)`, and {value!r} does not take these."
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    return value


def is_answer(value: Any) -> bool:
    return isinstance(value, Happened | DidNotHappen | Continues | Unknown)
