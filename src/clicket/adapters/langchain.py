"""LangChain and LangGraph, both ways: clicket's tools as theirs, and theirs as clicket's.

    tools = await as_langchain_tools(rt, thread)       # for bind_tools, ToolNode, create_agent
    rt = Runtime(tools=[from_langchain(search)])

A call that failed becomes a `ToolMessage` with status `error`, never an exception. Inside a LangGraph step a call's id is made
from the step: a step that is taken again after a crash finds its calls instead of repeating them. `invoke` works from any
thread but the loop's own, where it says so; a blocking runtime (`clicket.sync`) serves `invoke` and `ainvoke` alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, overload

from pydantic import PrivateAttr

from clicket.adapters.response_run import Answer, answer
from clicket.adapters.runtime_access import Book, Offer, face, offers
from clicket.adapters.tool_request import Asked, local_key
from clicket.bridge import on_loop, wait_on
from clicket.errors import UsageError
from clicket.model.foreign import clean
from clicket.ports import Caller
from clicket.sync import Runtime as SyncRuntime
from clicket.tools import Tool, ToolContext, Traits, defaults
from clicket.tools.function import name_of
from clicket.tools.options import Options, make_options
from clicket.tools.provider_schema import shown

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langchain_core.utils.pydantic import get_fields
except ImportError as missing:
    raise UsageError("clicket.adapters.langchain needs LangChain: pip install 'clicket[langchain]'.") from missing

__all__ = ["as_langchain_tools", "from_langchain"]


@overload
def as_langchain_tools(rt: SyncRuntime, thread: str | None = ...) -> list[BaseTool]: ...
@overload
def as_langchain_tools(rt: Caller, thread: str | None = ...) -> Coroutine[Any, Any, list[BaseTool]]: ...
def as_langchain_tools(rt: Any, thread: str | None = None) -> Any:
    """The tools that the thread may use now. Without a thread: all tools, each call in the thread of its LangGraph config."""

    async def make(caller: Caller) -> list[BaseTool]:
        loop = asyncio.get_running_loop()
        book = await Book.of(caller)
        return [_tool(caller, book, offer, thread, loop) for offer in await offers(caller, thread, book)]

    return face(rt, make)


def _tool(rt: Caller, book: Book, offer: Offer, thread: str | None, loop: asyncio.AbstractEventLoop) -> BaseTool:
    made = ClicketTool(
        name=offer.wire,
        description=offer.description or offer.name,  # LangChain's converters want some text
        args_schema=shown(offer.input_schema),
        handle_tool_error=True,
        response_format="content_and_artifact",
    )
    made._rt, made._book, made._thread, made._loop = rt, book, thread, loop
    return made


class ClicketTool(BaseTool):
    """One of clicket's tools, as LangChain calls it. The artifact of its message says which call it was."""

    _rt: Any = PrivateAttr()
    _book: Any = PrivateAttr()
    _thread: str | None = PrivateAttr(default=None)
    _loop: Any = PrivateAttr()

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # One value, so that no argument's name can clash with LangChain's own; the runtime judges what is in it.
        return (Asked(id=clean(tool_call_id), name=self.name, arguments=tool_input),), {}

    def _run(self, asked: Asked, *, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        what = f"invoke of the tool {self.name!r}"
        return _told(wait_on(self._loop, lambda: self._answer(asked, config), what))

    async def _arun(self, asked: Asked, *, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        return _told(await on_loop(self._loop, lambda: self._answer(asked, config)))

    async def _answer(self, asked: Asked, config: RunnableConfig | None) -> Answer:
        around: Mapping[str, Any] = (config or {}).get("configurable") or {}
        notes: Mapping[str, Any] = (config or {}).get("metadata") or {}
        thread = self._thread or clean(around.get("thread_id"), 512) or "default"
        step = around.get("checkpoint_ns") or notes.get("langgraph_checkpoint_ns")
        turn = f"{clean(around.get('thread_id'))}/{clean(step)}" if step and asked.id else None
        return await answer(self._rt, self._book, asked, thread=thread, turn=turn, key=local_key(asked, 0))


def _told(made: Answer) -> tuple[str, dict[str, Any]]:
    if made.failed or made.result is None:
        raise ToolException(made.text)
    result = made.result
    about = {"call_id": result.call_id, "state": str(result.state), "truncated": result.truncated}
    return made.text, {**about, "artifact": result.artifact, "cached": result.cached}


def from_langchain(tool: BaseTool, *, name: str | None = None, description: str | None = None, **options: Any) -> Tool:
    """One of LangChain's tools for a clicket runtime; `options` are those of `@tool`.

    One that has async code runs on the loop, any other in a worker thread.
    """
    if not isinstance(tool, BaseTool):
        raise UsageError(
            f"from_langchain takes a LangChain tool, not {tool!r}. Make one with langchain_core.tools.tool."
        )
    return _Wrapped(tool, name, description, options)


class _Wrapped:
    traits = Traits()
    run_sync = None
    output_schema = None
    bind_plain = defaults.never_plain
    data_version = defaults.no_data_version
    is_cacheable = defaults.always_cacheable
    sweep = defaults.no_sessions
    close = defaults.nothing_to_close
    owned_by = defaults.shared_by_owners

    def __init__(self, tool: BaseTool, name: str | None, description: str | None, options: Mapping[str, Any]) -> None:
        where = f"LangChain tool {tool.name!r}"
        self._tool = tool
        self.name: str = name_of(name, tool.name, where)
        self.description: str = tool.description if description is None else description
        self.input_schema: Mapping[str, Any] = _schema(tool, where)
        self.options: Options = make_options(where, options)
        if self.options.isolation == "process":
            raise UsageError(f"{where}: it cannot be found by its name in another process; leave isolation out.")
        self._wants_id = _has_injected_arguments(tool)
        self.is_async: bool = _has_async_code(tool)
        self.run: Callable[[dict[str, Any], ToolContext], Any] = self._run_async if self.is_async else self._run_sync

    def __repr__(self) -> str:
        return f"<tool {self.name} of LangChain>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def _run_async(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        return _value(await self._tool.ainvoke(self._input(bound, ctx), _config(ctx)))

    def _run_sync(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        return _value(self._tool.invoke(self._input(bound, ctx), _config(ctx)))

    def _input(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        # A plain call returns the tool's own value; called as a model does it, a tool has the call's id, if it wants that.
        if not self._wants_id:
            return dict(bound)
        return {"type": "tool_call", "id": ctx.call_id, "name": self._tool.name, "args": dict(bound)}


def _config(ctx: ToolContext) -> RunnableConfig:
    about = {"clicket_call_id": ctx.call_id, "idempotency_key": ctx.idempotency_key, "attempt": ctx.attempt}
    return {"configurable": {"thread_id": ctx.thread}, "metadata": about}


def _value(made: Any) -> Any:
    """What the tool returned, out of the message that LangChain may have put it in."""
    if not isinstance(made, ToolMessage):
        return made
    if made.status == "error":
        raise ToolException(str(made.content))
    return made.content


def _has_async_code(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun and getattr(tool, "coroutine", True) is not None


def _has_injected_arguments(tool: BaseTool) -> bool:
    """Are there parameters that the model does not give? They come with the call, if at all."""
    if isinstance(tool.args_schema, dict):
        return False
    asked: Any = tool.tool_call_schema
    return set(get_fields(tool.get_input_schema())) != set(get_fields(asked))


def _schema(tool: BaseTool, where: str) -> dict[str, Any]:
    schema = tool.tool_call_schema
    try:
        describe: Any = getattr(schema, "model_json_schema", None) or getattr(
            schema, "schema", None
        )  # pydantic 2, or 1
        made: dict[str, Any] = dict(schema) if isinstance(schema, dict) else describe()
    except Exception as error:  # a model may hold what JSON Schema cannot say
        raise UsageError(f"{where}: its arguments cannot be described by a JSON Schema: {error}") from error
    return {"properties": {}, **{key: value for key, value in made.items() if key not in ("title", "description")}}
