"""Tools that the caller's own program runs. A turn offers them to its model; each call waits for a result from that program.

All of them are calls of one inner tool, which waits like any external call. Its result comes from the caller whose turn it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clicket.errors import InvalidInput
from clicket.model.chat import ToolOffer
from clicket.model.names import FRONTEND
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["FrontendTool", "frontend_arguments", "offers_in", "offers_on_record"]

_SCHEMA = {
    "type": "object",
    "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["tool", "arguments"],
    "additionalProperties": False,
}


class FrontendTool(ToolDefaults):
    """Its body returns at once: the call then waits, without a slot, until its caller sends the result or the turn is stopped."""

    name = FRONTEND
    traits = Traits(internal=True, holds_slot=False)
    is_async = True
    description = "A tool that the caller's own program runs."
    input_schema: Mapping[str, Any] = _SCHEMA
    options = Options(timeout=None, max_retries=0, external=True)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        return ctx.pending("the caller's program")


def frontend_arguments(tool: str, text: str) -> dict[str, Any]:
    """The arguments of the inner call for a model's tool call with the arguments `text`."""
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise InvalidInput("the arguments must be a JSON object")
    return {"tool": tool, "arguments": arguments}


def offers_on_record(offers: Iterable[ToolOffer]) -> list[dict[str, Any]]:
    """Offers as a part of a turn's arguments: they are offered again after a crash."""
    return [{"name": each.name, "description": each.description, "parameters": each.input_schema} for each in offers]


def offers_in(recorded: Iterable[Mapping[str, Any]]) -> tuple[ToolOffer, ...]:
    """The inverse of `offers_on_record`."""
    return tuple(
        ToolOffer(name=each["name"], description=each["description"], input_schema=each["parameters"])
        for each in recorded
    )
