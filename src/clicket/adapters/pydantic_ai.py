"""pydantic-ai over clicket: a toolset whose tools are those that a thread may use now, asked anew at every step.

    agent = Agent(model, toolsets=[ClicketToolset(rt, thread)])

A call that failed is told to the model (`ToolFailed`) and the run goes on; nothing of it counts as a retry of the agent's,
because the runtime has retried already what was worth it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from clicket.adapters.response_run import answer
from clicket.adapters.runtime_access import Book, Offer, offers
from clicket.adapters.tool_request import Asked, local_key
from clicket.bridge import on_loop
from clicket.errors import UsageError
from clicket.sync import Runtime as SyncRuntime
from clicket.tools.provider_schema import shown

try:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ImportError as missing:
    raise UsageError("clicket.adapters.pydantic_ai needs pydantic-ai: pip install 'clicket[pydantic-ai]'.") from missing

__all__ = ["ClicketToolset"]


class _Text(dict[str, Any]):
    """Arguments as the model wrote them, carried through pydantic-ai to the runtime, which judges them."""

    text: str | bytes | None = None


class _Unjudged:
    """In place of a validator: bad arguments are the runtime's to refuse, on record, and no retry of the agent's."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> Any:
        carried = _Text()
        carried.text = input if isinstance(input, str) else bytes(input)
        return carried

    def validate_python(self, input: Any, **_: Any) -> Any:
        return input


class ClicketToolset(AbstractToolset[Any]):
    """The tools of a runtime, or of a client of one, for the agents of one thread."""

    def __init__(self, rt: Any, thread: str, *, id: str | None = None) -> None:
        self._caller = rt._runtime if isinstance(rt, SyncRuntime) else rt
        self._sync = rt if isinstance(rt, SyncRuntime) else None
        self._thread = thread
        self._id = id
        self._book = Book([])

    @property
    def id(self) -> str | None:
        return self._id

    def _loop(self) -> asyncio.AbstractEventLoop:
        """A blocking runtime lives on a loop of its own."""
        if self._sync is None:
            return asyncio.get_running_loop()
        if self._sync._thread is None:
            raise UsageError("the runtime is not open; use it inside `with clicket.sync.Runtime(...) as rt:`.")
        return self._sync._thread.loop

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        async def look() -> tuple[Book, list[Offer]]:
            book = await Book.of(self._caller)
            return book, await offers(self._caller, self._thread, book)

        self._book, listed = await on_loop(self._loop(), look)
        return {
            offer.wire: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=offer.wire,
                    description=offer.description or None,
                    parameters_json_schema=shown(offer.input_schema),
                ),
                max_retries=0,
                args_validator=_Unjudged(),
            )
            for offer in listed
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        given = tool_args.text if isinstance(tool_args, _Text) else tool_args
        asked = Asked(id=ctx.tool_call_id or "", name=name, arguments=given)
        # A model's ids may come again; a run's steps do not.
        turn = f"{ctx.run_id}/{ctx.run_step}" if ctx.run_id and asked.id else None

        book, key = self._book, local_key(asked, 0)
        made = await on_loop(
            self._loop(), lambda: answer(self._caller, book, asked, thread=self._thread, turn=turn, key=key)
        )
        if made.failed:
            raise ToolFailed(made.text)
        return made.text
