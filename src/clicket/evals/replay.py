"""Recorded results in place of tools: what runs on such tools has no effect outside."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from clicket.errors import ClicketError
from clicket.model.codec import canonical
from clicket.model.evaluation import RecordedCall
from clicket.safety.vault import look
from clicket.tools import Tool
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options

__all__ = ["RecordedTool", "Recordings"]

_NOT_RECORDED = "not_recorded"
_TOOL_ERROR = "tool_error"


class _Failed(ClicketError):
    """A recorded failure, with the code that it had."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Recordings:
    """The results of one case. The n-th call of a tool with equal arguments has the n-th recorded result."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._left: defaultdict[tuple[str, bytes], deque[RecordedCall]] = defaultdict(deque)
        self._tools: set[str] = set()
        for call in calls:
            self._left[call.tool, canonical(call.arguments)].append(call)
            self._tools.add(call.tool)

    def take(self, tool: str, arguments: Mapping[str, Any]) -> RecordedCall:
        left = self._left.get((tool, canonical(arguments)))
        if left:
            return left.popleft()
        if tool not in self._tools:
            why = f"the recorded turn did not call {tool!r}"
        elif left is None:
            why = f"the recorded turn called {tool!r} with other arguments"
        else:
            why = f"the recorded turn called {tool!r} with these arguments less often"
        raise _Failed(_NOT_RECORDED, f"{why}, and a replay runs no tool.")


class RecordedTool(ToolDefaults):
    """Has the name, the schema and the sensitive fields of `given`, and answers from the recordings of the call's thread."""

    is_async = True

    def __init__(self, given: Tool, threads: Mapping[str, Recordings]) -> None:
        self.name: str = given.name
        self.description: str = given.description
        self.input_schema: Mapping[str, Any] = given.input_schema
        had = given.options
        self.options: Options = Options(
            sensitive=had.sensitive,
            tags=had.tags,
            failure_threshold=had.failure_threshold,
            max_result_size=had.max_result_size,
            max_retries=0,
            read_only=True,
        )
        self._threads = threads

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, arguments: dict[str, Any], ctx: Any) -> str:
        found = look(arguments, None, self.options.sensitive, refuse=False) if self.options.sensitive else None
        shown = arguments if found is None else found.arguments
        known = self._threads[ctx.thread].take(self.name, shown)
        if not known.failed:
            return known.content
        raise _failure(known.content)


def _failure(content: str) -> Exception:
    """An error that the model reads as `content`: `CODE: MESSAGE`, or `tool_error: CLASS: MESSAGE`."""
    code, colon, message = content.partition(": ")
    if not colon or not code.isidentifier():
        return _Failed(_TOOL_ERROR, content)
    name, colon, text = message.partition(": ")
    if code != _TOOL_ERROR or not colon or not name.isidentifier():
        return _Failed(code, message)
    failed: type[Exception] = type(name, (Exception,), {})
    return failed(text)
