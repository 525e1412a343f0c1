"""Fills a store with ended calls, quickly: some failed, some of a request, in groups of one commit."""

from __future__ import annotations

from typing import Any

from clicket.kernel import State
from clicket.model.unit import rows_of
from clicket.ports import Append, Store
from clicket.testing.store_kit import an_event, append, creation

__all__ = ["STEP", "fill"]

STEP = 250
_TOOLS = 5


async def fill(store: Store, first: int, count: int, *, failed: int = 10, seconds: float = 1.0, **given: Any) -> None:
    """Calls `c{n}`, made `seconds` after one another; of tools 0 to 4 in turn; every tenth one failed."""
    for start in range(first, first + count, STEP):
        numbers = range(start, min(start + STEP, first + count))
        made = [_creation(n, 1_000.0 + n * seconds, **given) for n in numbers]
        assert await append(store, *made) == [None] * len(made)
        ends = [_end(change, n % failed == 0) for n, change in zip(numbers, made, strict=True)]
        assert await append(store, *ends) == [None] * len(ends)


def _creation(n: int, at: float, **given: Any) -> Append:
    change = creation(f"c{n}", **{"thread": f"t{n % 7}", "tool": f"tool{n % _TOOLS}", "at": at, **given})
    call = change.call
    metadata = {"user": f"u{n}", "n": n}
    data = {
        "tool": call.tool,
        "thread": call.thread,
        "caller": call.caller,
        "request_id": f"r{n}",
        "metadata": metadata,
    }
    event = an_event(change.id, 1, "created", State.PENDING, data)
    change.unit = rows_of([event])
    return change


def _end(change: Append, failed: bool) -> Append:
    state = State.FAILED if failed else State.COMPLETED
    data = {"error": {"code": "tool_error", "message": "no", "type": "X"}} if failed else {"output": None}
    event = an_event(change.id, 2, "state_changed", state, data)
    at = change.call.created_at + 0.5
    return Append(change.call, 1, change.fence, rows_of([event]), state, ended_at=at, key=change.key)
