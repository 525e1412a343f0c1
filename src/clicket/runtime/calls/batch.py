"""`call_many`: several calls at once, with results in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.kernel import State
from clicket.model import CallOptions, ToolCall, ToolError, ToolResult
from clicket.model.request import unknown_keyword

__all__ = ["as_request", "in_order"]


def as_request(given: ToolCall | tuple[str, Any] | Mapping[str, Any]) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    known = ("tool", "arguments", *CallOptions.__annotations__)
    if isinstance(given, Mapping) and "tool" in given and not set(given) <= set(known):
        raise unknown_keyword(given["tool"], {name: given[name] for name in given if name not in known})
    try:
        return ToolCall(**given) if isinstance(given, Mapping) else ToolCall(*given)
    except TypeError as error:
        raise UsageError(f"{given!r} is not a call: {error}. Use ToolCall(tool, arguments, ...).") from None


async def in_order(
    requests: Sequence[ToolCall], run: Callable[[ToolCall], Awaitable[ToolResult]], max_concurrency: int
) -> list[ToolResult]:
    """Run calls concurrently, at most `max_concurrency` at once; results in the order of the calls, also of refused ones."""
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise UsageError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
    results: list[ToolResult | None] = [None] * len(requests)
    numbers = iter(range(len(requests)))

    async def work() -> None:
        for number in numbers:
            request = requests[number]
            try:
                results[number] = await run(request)
            except ClicketError as error:
                refused = ToolError(code=error.code, message=error.message, type=type(error).__name__)
                results[number] = ToolResult(
                    call_id=request.id or "",
                    tool=str(request.tool),
                    state=State.FAILED,
                    error=refused,
                    content=str(refused),
                )

    async with asyncio.TaskGroup() as group:
        for _ in range(min(max_concurrency, len(requests))):
            group.create_task(work())
    return [result for result in results if result is not None]
