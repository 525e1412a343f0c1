"""How the effect of a tool's calls is undone: `@tool(undo=fn)`, with `fn(call, ctx)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model import Record
from clicket.tools.context import ToolContext
from clicket.tools.reconcile import Reconcile, check_reconcile

__all__ = ["Undo", "UndoFunction", "check_undo"]

UndoFunction = Callable[[Record, ToolContext], Any]
"""Gets the record of the call, with its arguments as the tool got them. Sync functions run in a worker thread."""


class Undo(msgspec.Struct, frozen=True):
    """`@tool(undo=Undo(refund, reconcile=find_refund))`: a function that undoes a call, with options of its own. Those that are left out
    are as for the tool."""

    function: UndoFunction
    reconcile: Reconcile | None = None
    """Asks the outside system whether an undo had its effect, when its outcome is unknown."""
    idempotent: bool = False
    """It may be run again with the same `ctx.idempotency_key`."""
    timeout: float | None = None
    max_retries: int | None = None


def check_undo(where: str, value: Any, *, read_only: bool = False) -> Undo | None:
    """Raise `UsageError` unless `value` is a function of a call and a context, or an `Undo` with one."""
    if value is None:
        return None
    if read_only:
        raise UsageError(f"{where}: a tool that only reads has nothing to undo. Leave out undo, or read_only.")
    undo = value if isinstance(value, Undo) else Undo(value)
    if not callable(undo.function):
        raise UsageError(f"{where}: undo takes a function `undo(call, ctx)`, or an Undo, not {value!r}.")
    try:
        inspect.signature(undo.function).bind(None, None)
    except TypeError:
        raise UsageError(
            f"{where}: undo is called as `undo(call, ctx)`, and {undo.function!r} does not take these."
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    check_reconcile(f"{where}: undo", undo.reconcile)
    return undo
