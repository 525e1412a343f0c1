"""Results of `find_tools` as vendors get them: with the names under which the tools are declared, or as references to them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from clicket.model.chat import ChatMessage, ChatRequest, ToolUse
from clicket.models.transcript import Names
from clicket.tools.search import FIND_TOOLS, found_names

__all__ = ["found_in", "in_wire_names", "referenced", "without_deferred"]


def found_in(use: ToolUse, result: ChatMessage, known: Collection[str]) -> list[str]:
    """The tools that a call of `find_tools` found and that the request declares; none for other calls."""
    if use.name != FIND_TOOLS or result.failed:
        return []
    return [name for name in found_names(result.content) if name in known]


def referenced(request: ChatRequest) -> frozenset[str]:
    """The declared tools that results of `find_tools` in the conversation name."""
    known = {offer.name for offer in request.tools}
    searches = {use.id for message in request.messages for use in message.uses if use.name == FIND_TOOLS}
    return frozenset(
        name
        for message in request.messages
        if message.role == "tool" and message.use_id in searches and not message.failed
        for name in found_names(message.content)
        if name in known
    )


def in_wire_names(use: ToolUse, result: ChatMessage, names: Names) -> ChatMessage:
    """The result with the names that the model knows; results of other tools are not changed."""
    text = result.content
    for name in found_in(use, result, names.offered):
        wire = names.wire(name)
        if wire != name:
            text = text.replace(f'"{name}"', f'"{wire}"')
    return result if text is result.content else msgspec.structs.replace(result, content=text)


def without_deferred(request: ChatRequest) -> ChatRequest:
    """The request for a server that cannot defer tools."""
    if not any(offer.deferred for offer in request.tools):
        return request
    return msgspec.structs.replace(request, tools=tuple(offer for offer in request.tools if not offer.deferred))
