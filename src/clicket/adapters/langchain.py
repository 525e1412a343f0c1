"""LangChain and LangGraph, both ways: clicket's tools as theirs, and theirs as clicket's.

    tools = await as_langchain_tools(rt, thread)       # for bind_tools, ToolNode, create_agent
    rt = Runtime(tools=[from_langchain(search)])

A call that failed becomes a `ToolMessage` with status `error`, never an exception. In a LangGraph step a call's id is derived from
the step, so a step that runs again after a crash gets the results of its calls, and none runs twice. `invoke` works from any thread
except the loop's own, where it raises. With a blocking runtime (`clicket.sync`) both `invoke` and `ainvoke` work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, overload

from pydantic import PrivateAttr

from clicket.adapters.response_run import Answer, answer
from clicket.adapters.runtime_access import Offer, ToolCatalog, offers, sync_or_async
from clicket.adapters.tool_request import ToolRequest, local_key
from clicket.errors import UsageError
from clicket.model.foreign import clean
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime
from clicket.system.bridge import on_loop, wait_on
from clicket.tools import Tool, ToolContext
from clicket.tools.defaults import ToolDefaults
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

_Message = tuple[str | list[dict[str, Any]], dict[str, Any]]
"""The content and the artifact of a `ToolMessage`."""


@overload
def as_langchain_tools(rt: BlockingRuntime[Any], thread: str | None = ...) -> list[BaseTool]: ...
@overload
def as_langchain_tools(rt: Caller, thread: str | None = ...) -> Coroutine[Any, Any, list[BaseTool]]: ...
def as_langchain_tools(rt: Any, thread: str | None = None) -> Any:
    """The tools that the thread may use now. Without a thread: all tools, and each call runs in the thread of its LangGraph config."""

    async def make(caller: Caller) -> list[BaseTool]:
        loop = asyncio.get_running_loop()
        catalog = await ToolCatalog.of(caller)
        return [_tool(caller, catalog, offer, thread, loop) for offer in await offers(caller, thread, catalog)]

    return sync_or_async(rt, make)


def _tool(
    rt: Caller, catalog: ToolCatalog, offer: Offer, thread: str | None, loop: asyncio.AbstractEventLoop
) -> BaseTool:
    made = ClicketTool(
        name=offer.wire,
        description=offer.description or offer.name,  # LangChain's converters want some text
        args_schema=shown(offer.input_schema),
        handle_tool_error=True,
        response_format="content_and_artifact",
    )
    made._rt = rt
    made._catalog = catalog
    made._thread = thread
    made._loop = loop
    return made


class ClicketTool(BaseTool):
    """A tool of clicket for LangChain. The artifact of its message identifies the call."""

    _rt: Any = PrivateAttr()
    _catalog: Any = PrivateAttr()
    _thread: str | None = PrivateAttr(default=None)
    _loop: Any = PrivateAttr()

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # One value, so that no argument's name can clash with LangChain's own; the runtime validates it.
        return (ToolRequest(id=clean(tool_call_id), name=self.name, arguments=tool_input),), {}

    def _run(self, request: ToolRequest, *, config: RunnableConfig) -> _Message:
        what = f"invoke of the tool {self.name!r}"
        return _content_and_artifact(wait_on(self._loop, lambda: self._answer(request, config), what))

    async def _arun(self, request: ToolRequest, *, config: RunnableConfig) -> _Message:
        return _content_and_artifact(await on_loop(self._loop, lambda: self._answer(request, config)))

    async def _answer(self, request: ToolRequest, config: RunnableConfig | None) -> Answer:
        around: Mapping[str, Any] = (config or {}).get("configurable") or {}
        notes: Mapping[str, Any] = (config or {}).get("metadata") or {}
        thread = self._thread or clean(around.get("thread_id"), 512) or "default"
        step = around.get("checkpoint_ns") or notes.get("langgraph_checkpoint_ns")
        response_id = f"{clean(around.get('thread_id'))}/{clean(step)}" if step and request.id else None
        return await answer(
            self._rt, self._catalog, request, thread=thread, response_id=response_id, key=local_key(request, 0)
        )


def _content_and_artifact(made: Answer) -> _Message:
    if made.failed or made.result is None:
        raise ToolException(made.text)
    result = made.result
    about = {"call_id": result.call_id, "state": str(result.state), "truncated": result.truncated}
    about = {**about, "artifact": result.artifact, "cached": result.cached}
    if not made.pictures:
        return made.text, about
    shown = [{"type": "image", "base64": each.base64, "mime_type": each.media_type} for each in made.pictures]
    return [{"type": "text", "text": made.text}, *shown], about


def from_langchain(tool: BaseTool, *, name: str | None = None, description: str | None = None, **options: Any) -> Tool:
    """A LangChain tool for a clicket runtime; `options` are those of `@tool`.

    A tool with async code runs on the loop, any other in a worker thread.
    """
    if not isinstance(tool, BaseTool):
        raise UsageError(
            f"from_langchain takes a LangChain tool, not {tool!r}. Make one with langchain_core.tools.tool."
        )
    return _Wrapped(tool, name, description, options)


class _Wrapped(ToolDefaults):
    def __init__(self, tool: BaseTool, name: str | None, description: str | None, options: Mapping[str, Any]) -> None:
        where = f"LangChain tool {tool.name!r}"
        self._tool = tool
        self.name: str = name_of(name, tool.name, where)
        self.description: str = tool.description if description is None else description
        self.input_schema: Mapping[str, Any] = _schema(tool, where)
        self.options: Options = make_options(where, options)
        if self.options.isolation in ("process", "ray"):
            raise UsageError(f"{where}: another process cannot import it by name; leave isolation out.")
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
        # A plain input returns the tool's own value. The input in the form of a model's call also passes the call's id.
        if not self._wants_id:
            return dict(bound)
        return {"type": "tool_call", "id": ctx.call_id, "name": self._tool.name, "args": dict(bound)}


def _config(ctx: ToolContext) -> RunnableConfig:
    about = {"clicket_call_id": ctx.call_id, "idempotency_key": ctx.idempotency_key, "attempt": ctx.attempt}
    return {"configurable": {"thread_id": ctx.thread}, "metadata": about}


def _value(made: Any) -> Any:
    """What the tool returned, without the message that LangChain may have wrapped it in."""
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
    """Does the tool have parameters that the model does not see?"""
    if isinstance(tool.args_schema, dict):
        return False
    visible: Any = tool.tool_call_schema
    return set(get_fields(tool.get_input_schema())) != set(get_fields(visible))


def _schema(tool: BaseTool, where: str) -> dict[str, Any]:
    schema = tool.tool_call_schema
    try:
        describe: Any = getattr(schema, "model_json_schema", None) or getattr(
            schema, "schema", None
        )  # pydantic 2, or 1
        made: dict[str, Any] = dict(schema) if isinstance(schema, dict) else describe()
    except Exception as error:  # a pydantic model may have fields that JSON Schema cannot describe
        raise UsageError(f"{where}: its arguments cannot be described by a JSON Schema: {error}") from error
    return {"properties": {}, **{key: value for key, value in made.items() if key not in ("title", "description")}}
