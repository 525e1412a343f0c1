"""The tools `background_calls` and `cancel_background_call`: the model sees which background calls of its thread go on, those of agents
among them, and can end one. They are offered while there are such calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.agents.middleware import Middleware
from clicket.agents.turn import Turn
from clicket.errors import InvalidInput
from clicket.model import Record
from clicket.model.chat import ChatRequest, ToolOffer
from clicket.model.ports import AgentHost
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["BACKGROUND_TOOLS", "BackgroundCalls", "background_tools"]

_LIST, _CANCEL = BACKGROUND_TOOLS = ("background_calls", "cancel_background_call")
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_CALL = {
    "type": "object",
    "properties": {
        "call": {"type": "string", "description": "The id of the call."},
        "reason": {"type": "string"},
    },
    "required": ["call"],
    "additionalProperties": False,
}
_OFFERS = (
    ToolOffer(name=_LIST, description="Lists your calls in the background that have not ended.", input_schema=_NO_ARGUMENTS),
    ToolOffer(
        name=_CANCEL,
        description="Ends a call in the background. What it has done stays done. A later message says how it ended.",
        input_schema=_CALL,
    ),
)  # fmt: skip


class _BackgroundTool(ToolDefaults):
    """`host`: any host of the runtime; calls are those of the caller in the thread of the call."""

    traits = Traits(listed=False, holds_slot=False)
    is_async = True

    def __init__(self, host: AgentHost, offer: ToolOffer) -> None:
        self.name: str = offer.name
        self.description: str = offer.description
        self.input_schema: Mapping[str, Any] = offer.input_schema
        self.options: Options = Options(timeout=30, max_retries=0, idempotent=True, read_only=offer.name == _LIST)
        self._host = host

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        host = self._host.acting_for(ctx.caller, frozenset())
        found = {each.id: each for each in reversed(await host.open_calls(ctx.thread)) if host.is_background(each.tool)}
        if self.name == _LIST:
            return [_shown(each, host.clock.now()) for each in found.values()]
        call = bound["call"]
        if call not in found:
            known = await host.record(call, ctx.thread)
            if known is not None and host.is_background(known.tool):
                return f"{known.tool} has ended. A later message says how, if none has yet."
            listed = ", ".join(found) or "none"
            raise InvalidInput(f"no call {call[:100]!r} goes on in the background. Going on: {listed}")
        await host.cancel(call, ctx.thread, bound.get("reason") or "the model cancelled it")
        return f"{found[call].tool} is being cancelled. A later message says how it ended."

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def _shown(record: Record, now: float) -> dict[str, Any]:
    return {
        "call": record.id,
        "tool": record.tool,
        "arguments": record.arguments,
        "seconds": round(now - record.created_at),
        **({"waiting_for": record.waiting_for} if record.waiting_for else {}),
        **({"progress": record.progress} if record.progress else {}),
    }


def background_tools(host: AgentHost) -> list[_BackgroundTool]:
    return [_BackgroundTool(host, offer) for offer in _OFFERS]


class BackgroundCalls(Middleware):
    """Offers the tools to a model that has started such calls."""

    name = "background"
    is_derived = True

    def before_model(self, turn: Turn, request: ChatRequest) -> ChatRequest | None:
        if turn.branch or not turn.open_calls.among(turn.messages):
            return None
        return msgspec.structs.replace(request, tools=(*request.tools, *_OFFERS))
