"""Shared by the tests of `calls`."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from clicket import ToolContext, tool

__all__ = [
    "STAGES",
    "TOOLS",
    "Both",
    "Klass",
    "OnlySync",
    "Order",
    "Point",
    "add",
    "fails",
    "greet",
    "letters",
    "numbers",
    "shapes",
]

STAGES = ["find", "authorize", "validate", "execute", "process", "persist"]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    item: str = Field(min_length=1)
    count: int = Field(default=1, ge=1)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def greet(name: str, greeting: Literal["hello", "bye"] = "hello", times: int | None = None) -> str:
    return " ".join([f"{greeting} {name}"] * (times or 1))


@tool
async def letters(word: str) -> AsyncIterator[str]:
    for letter in word:
        yield letter


@tool
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


@tool
def shapes(order: Order, at: Point, note: Annotated[str, "What to write on it"] = "") -> dict[str, Any]:
    return {
        "order": type(order).__name__,
        "count": order.count,
        "at": type(at).__name__,
        "sum": at.x + at.y,
        "note": note,
    }


class Both:
    """Reports which of its two bodies ran."""

    name = "both"

    async def run(self, word: str) -> list[str]:
        return ["run", word, threading.current_thread().name]

    def run_sync(self, word: str) -> list[str]:
        return ["run_sync", word, threading.current_thread().name]


class OnlySync:
    def run_sync(self, x: int) -> int:
        return x * 2


@tool(name="klass", timeout=5)
class Klass:
    """A class with one body."""

    async def run(self, x: int, ctx: ToolContext) -> list[Any]:
        return [x, ctx.tool]


@tool
async def fails(word: str) -> None:
    raise LookupError(f"no {word} here")


TOOLS = [add, greet, letters, numbers, shapes, Both, OnlySync, Klass, fails]
