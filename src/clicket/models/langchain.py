"""A chat model of LangChain as a `ChatModel`: tools are bound for each request, tool calls and their results go both ways.

LangChain is not imported: its models take messages and tools as dictionaries, and its replies are read by their fields. What a vendor's
integration keeps beside text and calls, such as signed thoughts, goes back to it as it was.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, Ended, ToolUse, TypedBy, Usage
from clicket.model.files import lines_of, pieces
from clicket.model.foreign import field
from clicket.model.foreign_errors import translated
from clicket.model.names import wire_names
from clicket.tools.model_arguments import tidy
from clicket.tools.provider_schema import shown

__all__ = ["LangChainModel", "is_langchain_model"]

_VENDOR = "langchain"
_CALLS = ("tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta")
"""Types of content blocks that repeat the message's tool calls."""
_ENDED: dict[str, Ended] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "guardrail_intervened", "refusal"), "refusal"),
    **dict.fromkeys(("safety", "recitation", "prohibited_content", "blocklist", "spii"), "refusal"),
}
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""What integrations call the limit of an answer's tokens."""
_REPEATED = ("tool_calls", "function_call", "reasoning_content", "parsed", "refusal")
"""Of `additional_kwargs`, what the message says elsewhere."""
_TELLS_FORM = ("model_provider", "output_version")
"""Of `response_metadata`, by which the integration knows its own blocks."""


def is_langchain_model(given: Any) -> bool:
    """True for a `BaseChatModel`. The class is asked: chains, and models with options bound to them, pass on the attributes of a model."""
    return all(callable(getattr(type(given), method, None)) for method in ("bind_tools", "ainvoke", "astream"))


class LangChainModel:
    """`model`: a `BaseChatModel`."""

    def __init__(self, model: Any) -> None:
        names = (getattr(model, attribute, None) for attribute in ("model_name", "model", "name"))
        self.name: str = next((name for name in names if isinstance(name, str) and name), type(model).__name__)
        self.typed_by: TypedBy = "tool"
        profile = getattr(model, "profile", None)
        self.sees_images: bool = isinstance(profile, Mapping) and profile.get("image_inputs") is True
        self._model = model

    async def chat(self, request: ChatRequest) -> ChatReply:
        names = _Names(request)
        model = self._offered(request, names)
        try:
            message = await model.ainvoke(_messages(request, names), **self._options(request))
        except Exception as error:
            failed = translated(error, self.name)
        else:
            return _reply(message, names)
        raise failed from None  # the SDK's error holds the request, and with it the key

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        names = _Names(request)
        pieces = list[Any]()
        calls = _Calls(tell)
        model = self._offered(request, names)
        try:
            async for piece in model.astream(_messages(request, names), **self._options(request)):
                pieces.append(piece)
                for kind, part in zip(("thought", "text"), _texts(piece), strict=True):
                    if part:
                        tell(Delta(kind, part))  # type: ignore[arg-type]  # one of the two kinds
                for call in field(piece, "tool_call_chunks") or ():
                    calls.take(call, names)
        except Exception as error:
            failed = translated(error, self.name)
        else:
            if not pieces:
                return ChatReply()
            return _reply(pieces[0] + pieces[1:] if len(pieces) > 1 else pieces[0], names)
        raise failed from None

    def _offered(self, request: ChatRequest, names: _Names) -> Any:
        """The model with the tools of the request. LangChain has no common way to offer tools and forbid their use; some vendors refuse a
        conversation with calls but without tools."""
        forbidden = request.tool_choice == "none" and not any(message.uses for message in request.messages)
        if not request.tools or forbidden:
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

    def _options(self, request: ChatRequest) -> dict[str, Any]:
        if request.max_tokens is None:
            return {}
        name = next((name for name in _LIMITS if hasattr(self._model, name)), _LIMITS[0])
        return {name: request.max_tokens}


class _Names:
    """The tools of one request by the names that vendors accept (`wire`), and back (`own`)."""

    def __init__(self, request: ChatRequest) -> None:
        offered = [offer.name for offer in request.tools]
        self.wire = wire_names({*offered, *(use.name for message in request.messages for use in message.uses)})
        self.own = {self.wire[name]: name for name in offered}


def _messages(request: ChatRequest, names: _Names) -> list[dict[str, Any]]:
    called = {use.id: names.wire[use.name] for message in request.messages for use in message.uses}
    made: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []  # not every model takes images in results, and results must follow their calls
    for message in request.messages:
        if beside and message.role != "tool":
            made.append({"role": "user", "content": beside})
            beside = []
        parts = _image_parts(message, request.files)
        if parts and message.role == "tool":
            beside += parts
        written = _message(message, names, called)
        made.append({**written, "content": parts} if parts and message.role == "user" else written)
    if beside:
        made.append({"role": "user", "content": beside})
    if request.schema is not None:  # integrations have no common way to ask for a schema and for tools
        schema = json.dumps(request.schema, ensure_ascii=False, sort_keys=True)
        text = f"Answer with one JSON object that fits this JSON Schema, and with nothing else: {schema}"
        made.append({"role": "user", "content": text})
    return made


def _image_parts(message: ChatMessage, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The text and the images of a message, those of a result after their lines alone; none if it has no image that is shown."""
    images = [ref for ref in message.files if ref.is_image and ref.artifact in files and ref.line in message.content]
    text = lines_of(images) if message.role == "tool" else message.content
    parts: list[dict[str, Any]] = []
    for part in pieces(text, images, files) if images else ():
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        else:
            data = b64encode(files[part.artifact]).decode()
            parts.append({"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}})
    return parts


def _message(message: ChatMessage, names: _Names, called: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        made |= {"tool_call_id": message.use_id, "status": "error" if message.failed else "success"}
        if message.use_id in called:
            made["name"] = called[message.use_id]  # some vendors know a result by its tool
    if message.role == "assistant":
        made |= _kept(message)
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


def _kept(message: ChatMessage) -> dict[str, Any]:
    """What the integration gave, as fields of the message."""
    kept = (message.vendor or {}).get(_VENDOR)
    names = ("content", "additional_kwargs", "response_metadata")
    return {name: value for name in names if (value := field(kept, name))}


def _to_keep(message: Any) -> dict[str, Any]:
    """What must go back to the vendor as it was: blocks such as a signed thought, and what stands beside the content."""
    content, metadata = field(message, "content"), field(message, "response_metadata") or {}
    blocks = [] if not isinstance(content, list) else [one for one in content if field(one, "type") not in _CALLS]
    is_plain = all(isinstance(one, str) or field(one, "type") == "text" for one in blocks)
    beside = field(message, "additional_kwargs") or {}
    beside = {name: value for name, value in beside.items() if name not in _REPEATED and value is not None}
    made: dict[str, Any] = {} if is_plain else {"content": blocks}
    made |= {"additional_kwargs": beside} if beside else {}
    about = {name: metadata[name] for name in _TELLS_FORM if isinstance(metadata.get(name), str)}
    return {**made, "response_metadata": about} if made and about else made


def _reason(metadata: Any) -> str:
    found = next((metadata[name] for name in _REASONS if metadata.get(name)), None)
    return str(found or field(metadata.get("incomplete_details"), "reason") or "").rpartition(".")[2].lower()


def _reply(message: Any, names: _Names) -> ChatReply:
    thought, text = _texts(message)
    metadata, kept = field(message, "response_metadata") or {}, _to_keep(message)
    calls = [*(field(message, "tool_calls") or ()), *(field(message, "invalid_tool_calls") or ())]
    return ChatReply(
        text=text,
        thought=thought,
        uses=tuple(_use(call, names) for call in calls),
        usage=_usage(field(message, "usage_metadata")),
        ended=_ENDED.get(_reason(metadata), "stop"),
        vendor={_VENDOR: kept} if kept else None,
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
            thoughts += [field(block, kind), *(field(one, "text") for one in field(block, "summary") or ())]
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


class _Calls:
    """Passes on pieces of tool calls. Pieces of one call have one index, and the first of them has the tool's name; whole calls may have
    no index."""

    def __init__(self, tell: Callable[[Delta], None]) -> None:
        self._tell = tell
        self._begun: dict[Any, int] = {}
        self._count = 0

    def take(self, call: Any, names: _Names) -> None:
        name, arguments, index = field(call, "name"), field(call, "args"), field(call, "index")
        if name:
            self._begun[index] = self._count
            self._count += 1
            self._tell(Delta("name", names.own.get(name, name), self._begun[index]))
        if arguments and index in self._begun:
            self._tell(Delta("arguments", arguments, self._begun[index]))


def _usage(given: Any) -> Usage:
    counts = [field(given, name) for name in ("input_tokens", "output_tokens")]
    details = field(given, "input_token_details")
    counts.append(field(details, "cache_read"))
    # Of Anthropic's writes the integration counts each kind, and then none of them in `cache_creation`.
    kinds = [field(details, f"ephemeral_{kind}_input_tokens") or 0 for kind in ("5m", "1h")]
    counts.append(field(details, "cache_creation") or sum(one for one in kinds if type(one) is int))
    counts.append(field(field(given, "output_token_details"), "reasoning"))
    into, out, cached, written, thought = (one if type(one) is int and one >= 0 else 0 for one in counts)
    return Usage(
        input_tokens=into,
        output_tokens=out,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    )
