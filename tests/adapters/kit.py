"""Tools that record their runs, and checks of results against the SDKs' own types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from tests.kit.pictures import png

from clicket import Image, Runtime, Settings, tool

RUNS: list[tuple[str, Any]] = []


@cache
def anthropic_results() -> TypeAdapter[Any]:
    from anthropic.types import ToolResultBlockParam

    return TypeAdapter(list[ToolResultBlockParam])


@cache
def chat_results() -> TypeAdapter[Any]:
    from openai.types.chat import ChatCompletionToolMessageParam

    return TypeAdapter(list[ChatCompletionToolMessageParam])


@cache
def responses_results() -> TypeAdapter[Any]:
    from openai.types.responses.response_custom_tool_call_output_param import ResponseCustomToolCallOutputParam
    from openai.types.responses.response_input_item_param import FunctionCallOutput

    return TypeAdapter(list[FunctionCallOutput | ResponseCustomToolCallOutputParam])


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    RUNS.append(("add", (a, b)))
    return a + b


@tool(name="files.read")
def read(path: str) -> str:
    """Read a file."""
    RUNS.append(("files.read", path))
    return f"Größe von {path}: 3 €"


@tool
async def nothing() -> None:
    """Takes nothing."""
    RUNS.append(("nothing", None))


@tool
async def fail() -> str:
    """Always fails."""
    raise ValueError("out of paper")


PNG = png()


@tool
async def draw(broken: bool = False) -> list[Any]:
    """Draws a picture."""
    if broken:
        raise ValueError("no ink")
    return ["a square", Image(PNG)]


@tool(timeout=0.05)
async def slow() -> str:
    """Never ends in time."""
    await asyncio.Event().wait()
    return ""


@tool(max_result_size=200)
def big() -> str:
    """More than a model may read."""
    return "é" * 10_000


@tool
async def echo(input: str) -> str:
    """Takes free text."""
    return input.upper()


TOOLS = [add, read, nothing, fail, slow, big, echo]


@asynccontextmanager
async def runtime(store: str = "memory://", tools: Any = TOOLS, **settings: Any) -> AsyncIterator[Runtime]:
    RUNS.clear()
    async with Runtime(tools, settings=Settings(store=store, close_timeout=5.0, **settings)) as rt:
        yield rt


def wire_name(params: list[Any], start: str) -> str:
    """The provider's name of the tool whose name starts so."""
    names = [param.get("name") or param["function"]["name"] for param in params]
    found = [name for name in names if name.startswith(start)]
    assert len(found) == 1, names
    return str(found[0])


def refused(text: str, code: str) -> bool:
    return text.removeprefix("Error: ").startswith(f"{code}: ")
