"""How adapters use a runtime: the async one, the blocking one, or a client of a server; any `ports.Caller`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from clicket.errors import UsageError
from clicket.model.names import wire_names
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime

__all__ = ["ListedTool", "Offer", "ToolCatalog", "caller_of", "loop_of", "offers", "sync_or_async"]

T = TypeVar("T")


class ListedTool(Protocol):
    """A tool as a runtime lists it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...


class Offer:
    """A tool, and `wire`, the name that providers accept for it."""

    __slots__ = ("description", "input_schema", "name", "wire")

    def __init__(self, tool: ListedTool, wire: str) -> None:
        self.name = tool.name
        self.description = tool.description
        self.input_schema = tool.input_schema
        self.wire = wire


class ToolCatalog:
    """The registered tools, by their own names and by the names that providers accept."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = list(offers)
        self._found = {offer.name: offer for offer in self.offers} | {offer.wire: offer for offer in self.offers}

        unfit = sorted((offer.name for offer in self.offers if offer.wire != offer.name), key=len, reverse=True)
        names = "|".join(map(re.escape, unfit))
        self._unfit = re.compile(rf"(?<![\w.-])({names})(?![\w-]|\.\w)") if unfit else None

    @classmethod
    async def of(cls, rt: Caller) -> ToolCatalog:
        """An empty catalog if the caller cannot list its tools: they are then called by their own names."""
        tools = getattr(rt, "tools", None)
        listed: Sequence[ListedTool] = [] if tools is None else await tools()
        wires = wire_names(tool.name for tool in listed)
        return cls([Offer(tool, wires[tool.name]) for tool in listed])

    def find(self, name: str) -> tuple[str, Mapping[str, Any] | None]:
        """The tool's own name and its schema. An unknown name is returned unchanged; the runtime refuses it."""
        offer = self._found.get(name)
        return (name, None) if offer is None else (offer.name, offer.input_schema)

    def in_wire_names(self, text: str) -> str:
        """A message of the runtime with the names that the model knows."""
        return text if self._unfit is None else self._unfit.sub(lambda found: self._found[found[1]].wire, text)


async def offers(rt: Caller, thread: str | None, catalog: ToolCatalog | None = None) -> list[Offer]:
    """The tools that the thread may use now; without a thread, all."""
    if not hasattr(rt, "tools"):
        raise UsageError(f"{type(rt).__name__} cannot list its tools. Use a Runtime, or a client of one.")
    found = (catalog or await ToolCatalog.of(rt)).offers
    hub = getattr(rt, "hub", None)
    if hub is None or thread is None:
        return found
    available = set(await hub(thread).available())
    return [offer for offer in found if offer.name in available]


def caller_of(rt: Any) -> Any:
    """The async runtime of a blocking one; anything else as it is."""
    return rt._async if isinstance(rt, BlockingRuntime) else rt


def loop_of(rt: Any) -> asyncio.AbstractEventLoop:
    """The loop that the runtime's calls run on: this one, or the blocking runtime's own."""
    if not isinstance(rt, BlockingRuntime):
        return asyncio.get_running_loop()
    if rt._thread is None:
        raise UsageError("the runtime is not open; use it inside `with clicket.sync.Runtime(...) as rt:`.")
    return rt._thread.loop


def sync_or_async(rt: Any, work: Callable[[Caller], Coroutine[Any, Any, T]]) -> Any:
    """With an async runtime the coroutine of the work, with a blocking one its value."""
    if isinstance(rt, BlockingRuntime):
        return rt._loop.call(work(rt._async))
    return work(rt)
