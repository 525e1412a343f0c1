"""The inner tools behind `@tool(undo=…)` and `@tool(reconcile=…)`: calls of `undo:NAME` undo calls of the tool, and calls of
`reconcile:NAME` ask its check about a call that has ended. `Runtime.undo` alone makes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from clicket.errors import InvalidInput, UsageError
from clicket.model import Record
from clicket.model.undo import UNDO_PART, arguments_of_undo, reconcile_tool, undo_tool
from clicket.tools.context import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options
from clicket.tools.protocol import Tool, Traits
from clicket.tools.reconcile import (
    Answer,
    CallInDoubt,
    Continues,
    DidNotHappen,
    Happened,
    Reconcile,
    Unknown,
    is_answer,
)
from clicket.tools.undo import Undo

__all__ = ["ReconcileTool", "UndoTool", "undo_tools"]

_NO_BREAKER = 1_000_000_000
"""Failures in a row: a person may always try again."""


def _schema(**more: Any) -> Mapping[str, Any]:
    call = {"type": "string", "minLength": 1, "description": "The id of a call of this caller and thread."}
    properties = {"call": call, **more}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@runtime_checkable
class _ReadsCalls(Protocol):
    """The sink of a call that may read another one of its caller and thread, with its arguments as the tool got them. Where the body may
    block, it blocks."""

    def read_call(self, id: str) -> Any: ...


class _AboutCall(ToolDefaults):
    """A tool of which each call is about another call, that its function gets."""

    traits = Traits(listed=False, part_of=UNDO_PART)

    def __init__(self, function: Callable[..., Any]) -> None:
        kind: Any = type(function)
        self.is_async: bool = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(kind.__call__)
        self._function = function
        self.run: Callable[[Any, Any], Any] = self._run_async if self.is_async else self._run

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def _run_async(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        call = await _reader(ctx).read_call(bound["call"])
        return self.output_of(await self._function(self.subject_of(call, bound, ctx), ctx))

    def _run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        call = _reader(ctx).read_call(bound["call"])
        return self.output_of(self._function(self.subject_of(call, bound, ctx), ctx))

    def subject_of(self, call: tuple[Record, Record], bound: dict[str, Any], ctx: ToolContext) -> Any:
        """What the function gets, of the call as it is on record and of the same with its real arguments."""
        return call[1]

    def output_of(self, returned: Any) -> Any:
        return returned

    def __repr__(self) -> str:
        return f"<tool {self.name}>"  # type: ignore[attr-defined]  # each kind has one


class UndoTool(_AboutCall):
    """Undoes calls of `tool`. It has the permissions, tags, labels and credentials of the tool."""

    input_schema = _schema(arguments={"description": "Those of that call; secrets are hidden."})

    def __init__(self, tool: Tool, undo: Undo) -> None:
        super().__init__(undo.function)
        own = {"timeout": undo.timeout, "max_retries": undo.max_retries}
        self.name: str = undo_tool(tool.name)
        self.description: str = f"Undoes a call of {tool.name!r}."
        self.options: Options = _options(
            tool,
            reconcile=undo.reconcile,
            idempotent=undo.idempotent,
            **{name: value for name, value in own.items() if value is not None},
        )

    def subject_of(self, call: tuple[Record, Record], bound: dict[str, Any], ctx: ToolContext) -> Record:
        shown, real = call
        if bound != arguments_of_undo(shown):
            raise InvalidInput(
                "the arguments of an undo say what is undone, and cannot be changed", "Approve it as it is, or deny it."
            )
        return real


class ReconcileTool(_AboutCall):
    """Asks the check of `tool`. Its output is a `Finding`."""

    input_schema = _schema()

    def __init__(self, tool: Tool, check: Reconcile) -> None:
        super().__init__(check)
        self.name: str = reconcile_tool(tool.name)
        self.description: str = f"Asks whether a call of {tool.name!r} had its effect."
        self.options: Options = _options(tool, read_only=True)

    def subject_of(self, call: tuple[Record, Record], bound: dict[str, Any], ctx: ToolContext) -> CallInDoubt:
        record = call[1]
        ctx.idempotency_key = record.idempotency_key  # checks may read it there
        last = record.attempts[-1] if record.attempts else None
        return CallInDoubt(
            id=record.id,
            tool=record.tool,
            arguments=record.arguments,
            idempotency_key=record.idempotency_key,
            attempt=0 if last is None else last.number,
            started_at=record.created_at if last is None else last.started_at,
            thread=record.thread,
            caller=record.caller,
            cause="ended",
            cancel_requested=record.cancel_requested,
        )

    def output_of(self, returned: Any) -> dict[str, Any]:
        if not is_answer(returned):
            kind = type(returned).__name__
            returned = Unknown(f"its check returned {kind}, not Happened, DidNotHappen or Unknown")
        return {"happened": _HAPPENED[type(returned)], **_said(returned)}


_HAPPENED: Mapping[type[Any], bool | None] = {Happened: True, DidNotHappen: False, Continues: None, Unknown: None}


def _said(answer: Answer) -> dict[str, Any]:
    match answer:
        case Happened(output):
            return {"output": output}
        case Unknown():
            return {"reason": answer.shown}
        case Continues():
            return {"reason": "the work goes on in the outside system"}
    return {}


def _options(tool: Tool, **own: Any) -> Options:
    """Those of the tool, but for what is about its own work alone."""
    given = tool.options
    kept = (
        "version",
        "timeout",
        "max_retries",
        "retry_delay",
        "retry_on",
        "permissions",
        "credentials",
        "labels",
        "tags",
    )
    return Options(
        **{name: getattr(given, name) for name in kept} | {"failure_threshold": _NO_BREAKER, "recovery": "auto"} | own
    )


def _reader(ctx: ToolContext) -> _ReadsCalls:
    sink = ctx.sink
    if not isinstance(sink, _ReadsCalls):
        raise UsageError("an undo runs in a thread or on the event loop of a runtime.")
    return sink


def undo_tools(tool: Tool) -> Iterator[Tool]:
    """The inner tools of a tool."""
    if tool.options.undo is not None:
        undo = UndoTool(tool, tool.options.undo)
        yield undo
        if undo.options.reconcile is not None:
            yield ReconcileTool(undo, undo.options.reconcile)
    if tool.options.reconcile is not None and tool.options.undo is not None:
        yield ReconcileTool(tool, tool.options.reconcile)
