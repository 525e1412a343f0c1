"""A chat model of LangChain as a `ChatModel`: tools are bound for each request, tool calls and their results go both ways.

LangChain is not imported: its models take messages and tools as dictionaries, and its replies are read by their fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, Ended, ToolUse, TypedBy, Usage
from clicket.model.foreign import field
from clicket.model.names import wire_names
from clicket.tools.model_arguments import tidy
from clicket.tools.provider_schema import shown

__all__ = ["LangChainModel", "is_langchain_model"]

_VENDOR = "langchain"
_CALLS = ("tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta")
"""Types of content blocks that repeat the message's tool calls."""
_ENDED: dict[str, Ended] = {
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "SAFETY": "refusal",
}


def is_langchain_model(given: Any) -> bool:
    """True for a `BaseChatModel`. The class is asked: chains, and models with options bound to them, pass on the attributes of a model."""
    return all(callable(getattr(type(given), method, None)) for method in ("bind_tools", "ainvoke", "astream"))


class LangChainModel:
    """`model`: a `BaseChatModel`."""

    def __init__(self, model: Any) -> None:
        names = (getattr(model, attribute, None) for attribute in ("model_name", "model", "name"))
        self.name: str = next((name for name in names if isinstance(name, str) and name), type(model).__name__)
        self.typed_by: TypedBy = "tool"
        self._model = model

    async def chat(self, request: ChatRequest) -> ChatReply:
        names = _Names(request)
        return _reply(
            await self._offered(request, names).ainvoke(_messages(request, names), **_options(request)), names
        )

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        names = _Names(request)
        pieces = list[Any]()
        begun = dict[Any, int]()
        async for piece in self._offered(request, names).astream(_messages(request, names), **_options(request)):
            pieces.append(piece)
            for kind, part in zip(("thought", "text"), _texts(piece), strict=True):
                if part:
                    tell(Delta(kind, part))  # type: ignore[arg-type]  # one of the two kinds
            for call in field(piece, "tool_call_chunks") or ():
                _tell_call(call, begun, names, tell)
        if not pieces:
            return ChatReply()
        return _reply(pieces[0] + pieces[1:] if len(pieces) > 1 else pieces[0], names)

    def _offered(self, request: ChatRequest, names: _Names) -> Any:
        """The model with the tools of the request. LangChain has no common way to offer tools and forbid their use."""
        if not request.tools or request.tool_choice == "none":
            return self._model
        tools = [
            {
                "type": "function",
                "function": {
                    "name": names.wire[offer.name],
                    "description": offer.description,
                    "parameters": shown(offer.input_schema),
                },
            }
            for offer in request.tools
        ]
        choice = {"tool_choice": "any"} if request.tool_choice == "required" else {}
        try:
            return self._model.bind_tools(tools, **choice)
        except NotImplementedError:
            raise UsageError(
                f"the model {self.name} of LangChain cannot be offered tools: its class {type(self._model).__name__} does not implement "
                "bind_tools. Describe them in the prompt: SchemaTools(as_model(model)), of clicket.models; or use another model."
            ) from None


class _Names:
    """The tools of one request by the names that vendors accept (`wire`), and back (`own`)."""

    def __init__(self, request: ChatRequest) -> None:
        offered = [offer.name for offer in request.tools]
        self.wire = wire_names({*offered, *(use.name for message in request.messages for use in message.uses)})
        self.own = {self.wire[name]: name for name in offered}


def _options(request: ChatRequest) -> dict[str, Any]:
    return {} if request.max_tokens is None else {"max_tokens": request.max_tokens}


def _messages(request: ChatRequest, names: _Names) -> list[dict[str, Any]]:
    return [_message(message, names) for message in request.messages]


def _message(message: ChatMessage, names: _Names) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        made |= {"tool_call_id": message.use_id, "status": "error" if message.failed else "success"}
    if message.role == "assistant":
        if message.vendor is not None and _VENDOR in message.vendor:
            made["content"] = message.vendor[_VENDOR]
        if message.uses:
            made["tool_calls"] = [
                {"type": "tool_call", "id": use.id, "name": names.wire[use.name], "args": _arguments(use)}
                for use in message.uses
            ]
    return made


def _arguments(use: ToolUse) -> dict[str, Any]:
    """The arguments; if they are not an object, an object that quotes them: the model reads in the result why they were refused."""
    value = tidy(use.arguments, None)
    return value if isinstance(value, dict) else {"invalid_arguments": use.arguments[:2_000]}


def _reply(message: Any, names: _Names) -> ChatReply:
    thought, text = _texts(message)
    content = field(message, "content")
    metadata = field(message, "response_metadata") or {}
    reason = metadata.get("finish_reason") or metadata.get("stop_reason")
    # Blocks such as a signed thought must come back to the vendor as they were.
    blocks = [] if not isinstance(content, list) else [one for one in content if field(one, "type") not in _CALLS]
    is_plain = all(isinstance(one, str) or field(one, "type") == "text" for one in blocks)
    calls = [*(field(message, "tool_calls") or ()), *(field(message, "invalid_tool_calls") or ())]
    return ChatReply(
        text=text,
        thought=thought,
        uses=tuple(_use(call, names) for call in calls),
        usage=_usage(field(message, "usage_metadata")),
        ended=_ENDED.get(str(reason), "stop"),
        vendor=None if is_plain else {_VENDOR: blocks},
        id=str(field(message, "id") or ""),
        model=str(metadata.get("model_name") or metadata.get("model") or ""),
    )


def _texts(message: Any) -> tuple[str, str]:
    """The thought and the text of a message, or of a piece of one."""
    content = field(message, "content")
    extra = field(field(message, "additional_kwargs"), "reasoning_content")
    thoughts = [extra if isinstance(extra, str) else ""]
    texts = []
    for block in content if isinstance(content, list) else [content]:
        kind = field(block, "type")
        if isinstance(block, str):
            texts.append(block)
        elif kind in ("thinking", "reasoning"):
            thoughts.append(field(block, kind))
        elif kind not in _CALLS:
            texts.append(field(block, "text"))
    whole = ["".join(one for one in parts if isinstance(one, str)) for parts in (thoughts, texts)]
    return whole[0], whole[1]


def _use(call: Any, names: _Names) -> ToolUse:
    """`args` is a dictionary; or the text that the model wrote, if it is not one in JSON."""
    given = field(call, "args")
    name = str(field(call, "name") or "")
    text = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    return ToolUse(id=str(field(call, "id") or ""), name=names.own.get(name, name), arguments=text)


def _tell_call(call: Any, begun: dict[Any, int], names: _Names, tell: Callable[[Delta], None]) -> None:
    """Pass on a piece of a tool call. Pieces of one call have one index, and the first of them has the tool's name."""
    name, arguments, index = field(call, "name"), field(call, "args"), field(call, "index")
    if name:
        begun[index] = len(begun)
        tell(Delta("name", names.own.get(name, name), begun[index]))
    if arguments and index in begun:
        tell(Delta("arguments", arguments, begun[index]))


def _usage(given: Any) -> Usage:
    counts = [field(given, name) for name in ("input_tokens", "output_tokens")]
    details = field(given, "input_token_details")
    counts += [field(details, "cache_read"), field(details, "cache_creation")]
    into, out, cached, written = (one if type(one) is int and one >= 0 else 0 for one in counts)
    return Usage(input_tokens=into, output_tokens=out, cached_tokens=cached, cache_write_tokens=written)
