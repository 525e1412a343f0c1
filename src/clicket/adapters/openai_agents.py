"""The OpenAI Agents SDK over clicket: tools for its agents, whose calls are calls of the runtime.

    agent = Agent(name="Clerk", tools=await as_agents_tools(rt, thread))

At every step the agent is offered those that the thread may use then. A failed call is a text that begins with `Error: `, and the run
continues. Images of a result are passed on beside its text. With a vendor's ids of calls a call runs once: a run that is resumed from its
state gets the result that is on record.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, overload

from clicket.adapters.response_run import answer
from clicket.adapters.runtime_access import Offer, ToolCatalog, loop_of, offers, sync_or_async
from clicket.adapters.tool_request import ToolRequest, local_key, response_id_of
from clicket.errors import UsageError
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime
from clicket.system.bridge import on_loop
from clicket.tools.provider_schema import shown

try:
    from agents import FunctionTool
except ImportError as missing:
    raise UsageError(
        "clicket.adapters.openai_agents needs the OpenAI Agents SDK: pip install openai-agents."
    ) from missing

__all__ = ["as_agents_tools"]


@overload
def as_agents_tools(rt: BlockingRuntime[Any], thread: str) -> list[FunctionTool]: ...
@overload
def as_agents_tools(rt: Caller, thread: str) -> Coroutine[Any, Any, list[FunctionTool]]: ...
def as_agents_tools(rt: Any, thread: str) -> Any:
    """All tools of the runtime; each is offered while the thread may use it."""

    async def make(caller: Caller) -> list[FunctionTool]:
        loop, catalog = loop_of(rt), await ToolCatalog.of(caller)
        return [_tool(caller, catalog, offer, thread, loop) for offer in await offers(caller, None, catalog)]

    return sync_or_async(rt, make)


def _tool(caller: Caller, catalog: ToolCatalog, offer: Offer, thread: str, loop: Any) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str | list[dict[str, str]]:
        request = ToolRequest(id=context.tool_call_id or "", name=offer.wire, arguments=arguments)

        response_id, key = response_id_of(request), local_key(request, 0)
        made = await on_loop(
            loop, lambda: answer(caller, catalog, request, thread=thread, response_id=response_id, key=key)
        )
        text = f"Error: {made.text}" if made.failed else made.text
        if not made.pictures:
            return text
        return [
            {"type": "text", "text": text},
            *({"type": "image", "image_url": picture.url} for picture in made.pictures),
        ]

    async def is_enabled(_context: Any, _agent: Any) -> bool:
        usable = await on_loop(loop, lambda: offers(caller, thread, catalog))
        return any(one.name == offer.name for one in usable)

    return FunctionTool(
        name=offer.wire,
        description=offer.description,
        params_json_schema=shown(offer.input_schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,
        is_enabled=is_enabled,
    )
