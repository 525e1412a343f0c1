"""A model of pydantic-ai as a `ChatModel`: tools, streaming, thoughts, usage and structured answers of every vendor that it knows.

What pydantic-ai keeps of a reply beside text and tool calls, such as signed thoughts, goes back to the vendor as it was. The library is
imported when a model is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, Ended, ToolUse, Usage
from clicket.model.files import FileRef, lines_of, pieces, shown_in
from clicket.model.foreign import clean, field
from clicket.model.foreign_errors import translated
from clicket.model.names import wire_names
from clicket.tools.model_arguments import tidy
from clicket.tools.provider_schema import shown

__all__ = ["PydanticAIModel", "is_pydantic_ai_model"]

_VENDOR = "pydantic_ai"
_ENDED: dict[str, Ended] = {"length": "length", "content_filter": "refusal"}
_PLAIN: dict[str, Literal["text", "thought"]] = {"text": "text", "thinking": "thought"}
_ABOUT = ("model_name", "provider_name", "provider_url", "provider_details", "provider_response_id", "canonical_system")
"""Fields of a response by which its own vendor knows that it can read the parts."""


def is_pydantic_ai_model(given: Any) -> bool:
    """True for a `pydantic_ai.models.Model`."""
    methods = ("request", "request_stream", "prepare_request")
    return all(callable(getattr(type(given), method, None)) for method in methods)


class PydanticAIModel:
    """`model`: a `Model` of pydantic-ai, or its name, such as `"groq:llama-3.3-70b-versatile"`. `settings`: its `ModelSettings`.

    `sees_images` is False: set it to True for a model that can see; pydantic-ai does not say which.

    Prices are those of `[[prices]]`, by the name `VENDOR:MODEL`.
    """

    def __init__(self, model: Any, *, settings: Mapping[str, Any] | None = None) -> None:
        try:
            from pydantic_ai import direct, messages, models
        except ImportError:
            raise UsageError(
                "a model of pydantic-ai needs the package: pip install 'clicket[pydantic-ai]', and the vendor's SDK."
            ) from None
        self._direct, self._messages, self._models = direct, messages, models
        try:
            self._model: Any = models.infer_model(model)
        except Exception as error:  # an unknown name, a missing key, or an SDK that is not installed
            raise UsageError(f"pydantic-ai cannot make the model {model!r}: {error}") from error
        self._settings = dict(settings or {})
        self.sees_images: bool = False
        self.name: str = f"{self._model.system}:{self._model.model_name}"

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.name!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        names = _Names(request)
        try:
            response = await self._direct.model_request(self._model, **self._asked(request, names))
        except Exception as error:
            failed = translated(error, self.name)
        else:
            return self._reply(response, names)
        raise failed from None  # the SDK's error holds the request, and with it the key

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        names = _Names(request)
        pieces = _Pieces(tell, names)
        try:
            async with self._direct.model_request_stream(self._model, **self._asked(request, names)) as stream:
                async for event in stream:
                    pieces.take(event)
                response = stream.get()
        except Exception as error:
            failed = translated(error, self.name)
        else:
            reply = self._reply(response, names)
            pieces.end(reply)
            return reply
        raise failed from None

    def _asked(self, request: ChatRequest, names: _Names) -> dict[str, Any]:
        settings = dict(self._settings)
        if request.max_tokens is not None:
            settings["max_tokens"] = min(request.max_tokens, settings.get("max_tokens", request.max_tokens))
        if request.tools and request.tool_choice != "auto":
            settings["tool_choice"] = request.tool_choice
        return {
            "messages": self._conversation(request, names),
            "model_settings": settings or None,
            "model_request_parameters": self._parameters(request, names),
        }

    def _parameters(self, request: ChatRequest, names: _Names) -> Any:
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.tools import ToolDefinition

        tools = [
            ToolDefinition(
                name=names.wire[offer.name],
                description=offer.description or None,
                parameters_json_schema=shown(offer.input_schema),
            )
            for offer in request.tools
        ]
        if request.schema is None:
            return self._models.ModelRequestParameters(function_tools=tools)
        native = field(self._model.profile, "supports_json_schema_output")
        form = OutputObjectDefinition(json_schema=dict(request.schema), name=request.schema_name)
        return self._models.ModelRequestParameters(
            function_tools=tools, output_mode="native" if native else "prompted", output_object=form
        )

    # The conversation.

    def _conversation(self, request: ChatRequest, names: _Names) -> list[Any]:
        kinds, made, parts = self._messages, list[Any](), list[Any]()
        called: dict[str, str] = {}
        beside: list[
            Any
        ] = []  # files of results: not every vendor takes them in results, which must follow their calls
        for message in request.messages:
            if message.role != "tool":
                parts += beside
                beside = []
            if message.role == "assistant":
                if parts:
                    made.append(kinds.ModelRequest(parts=parts))
                    parts = []
                called |= {use.id: names.wire[use.name] for use in message.uses}
                made.append(self._response(message, names))
            elif message.role == "tool":
                parts.append(
                    kinds.ToolReturnPart(
                        tool_name=called.get(message.use_id, "tool"),
                        content=message.content,
                        tool_call_id=message.use_id,
                        outcome="failed" if message.failed else "success",
                    )
                )
                shown = self._with_files(lines_of(message.files), message, request.files)
                if not isinstance(shown, str):
                    beside.append(kinds.UserPromptPart(content=shown))
            elif message.role == "system":
                parts.append(kinds.SystemPromptPart(content=message.content))
            else:
                shown = self._with_files(message.content, message, request.files)
                parts.append(kinds.UserPromptPart(content=shown))
        parts += beside
        if parts:
            made.append(kinds.ModelRequest(parts=parts))
        return made

    def _with_files(self, text: str, message: ChatMessage, files: Mapping[str, bytes]) -> str | list[Any]:
        """The text with the files that are shown, each after its line."""
        shown = [ref for ref in shown_in(message.content, message.files) if ref.artifact in files]
        if not shown:
            return text
        return [
            part if isinstance(part, str) else self._part(part, files[part.artifact])
            for part in pieces(text, shown, files)
        ]

    def _part(self, ref: FileRef, data: bytes) -> Any:
        if ref.is_text:
            return clean(data.decode("utf-8", "replace"))
        return self._messages.BinaryContent(data, media_type=ref.media_type)

    def _response(self, message: ChatMessage, names: _Names) -> Any:
        """The response with the parts that only its vendor can read, in their order; without them if the message was changed since."""
        text = [{"part_kind": "text", "content": message.content}] if message.content else []
        calls = [_call(use, names) for use in message.uses]
        kept = field(message.vendor, _VENDOR)
        about, parts = {}, [*text, *calls]
        if isinstance(kept, Mapping) and isinstance(kept.get("parts"), list):
            ordered = _in_order(kept["parts"], message.content, calls)
            if ordered is not None:
                about, parts = {name: kept[name] for name in _ABOUT if kept.get(name) is not None}, ordered
        plain = {"kind": "response", "parts": parts, **about}
        [response] = self._messages.ModelMessagesTypeAdapter.validate_python([plain])
        return response

    # The reply.

    def _reply(self, response: Any, names: _Names) -> ChatReply:
        texts, thoughts, uses = list[str](), list[str](), list[ToolUse]()
        for part in response.parts:
            kind = field(part, "part_kind")
            if kind == "text":
                texts.append(part.content)
            elif kind == "thinking":
                thoughts.append(part.content or "")
            elif kind == "tool-call":
                uses.append(
                    ToolUse(id=clean(part.tool_call_id), name=names.of(part.tool_name), arguments=_written(part.args))
                )
        return ChatReply(
            text="".join(texts),
            thought="".join(thoughts),
            uses=tuple(uses),
            usage=_usage(response.usage),
            ended=_ENDED.get(str(response.finish_reason), "stop"),
            vendor=self._kept(response),
            id=response.provider_response_id or "",
            model=response.model_name or "",
        )

    def _kept(self, response: Any) -> Mapping[str, Any] | None:
        """What goes back to the vendor: the parts without the text and the arguments, which the message has."""
        [plain] = self._messages.ModelMessagesTypeAdapter.dump_python([response], mode="json")
        parts = [_bare(part) for part in plain["parts"] if part["part_kind"] != "file"]
        if all(part.keys() <= {"part_kind", "length"} for part in parts):
            return None
        return {_VENDOR: {"parts": parts, **{name: plain[name] for name in _ABOUT if plain.get(name) is not None}}}


class _Names:
    """The tools of one request by the names that vendors accept (`wire`), and back (`of`)."""

    def __init__(self, request: ChatRequest) -> None:
        offered = [offer.name for offer in request.tools]
        self.wire = wire_names({*offered, *(use.name for message in request.messages for use in message.uses)})
        self._own = {self.wire[name]: name for name in offered}

    def of(self, wire: str) -> str:
        return self._own.get(wire, wire)


class _Pieces:
    """Passes on the pieces of a stream; at the end what of the calls did not come in pieces."""

    def __init__(self, tell: Callable[[Delta], None], names: _Names) -> None:
        self._tell = tell
        self._names = names
        self._uses: dict[int, _OpenUse] = {}

    def take(self, event: Any) -> None:
        kind = field(event, "event_kind")
        if kind == "part_start":
            part = event.part
            if part.part_kind == "tool-call":
                open_use = self._uses.setdefault(event.index, _OpenUse(len(self._uses), part.tool_name))
                self._add(open_use, part.args)
            elif part.part_kind in _PLAIN:
                self._add_text(part.part_kind, part.content)
        elif kind == "part_delta":
            delta = event.delta
            if delta.part_delta_kind in _PLAIN:
                self._add_text(delta.part_delta_kind, delta.content_delta)
            elif event.index in self._uses:
                open_use = self._uses[event.index]
                open_use.name += field(delta, "tool_name_delta") or ""
                self._add(open_use, field(delta, "args_delta"))

    def end(self, reply: ChatReply) -> None:
        for open_use, use in zip(self._uses.values(), reply.uses, strict=False):
            self._add(open_use, use.arguments.removeprefix(open_use.told))

    def _add_text(self, kind: str, text: Any) -> None:
        if isinstance(text, str) and text:
            self._tell(Delta(_PLAIN[kind], text))

    def _add(self, open_use: _OpenUse, arguments: Any) -> None:
        if not isinstance(arguments, str) or not arguments:  # what is not a text comes at the end
            return
        if not open_use.told:
            self._tell(Delta("name", self._names.of(open_use.name), open_use.number))
        open_use.told += arguments
        self._tell(Delta("arguments", arguments, open_use.number))


class _OpenUse:
    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.told = ""
        """Its arguments, as far as they were passed on."""


def _call(use: ToolUse, names: _Names) -> dict[str, Any]:
    return {"part_kind": "tool-call", "tool_name": names.wire[use.name], "args": _given(use), "tool_call_id": use.id}


def _given(use: ToolUse) -> dict[str, Any]:
    """The arguments; if they are not an object, an object that quotes them: the model reads in the result why they were refused."""
    value = tidy(use.arguments, None)
    return value if isinstance(value, dict) else {"invalid_arguments": use.arguments[:2_000]}


def _written(args: Any) -> str:
    if isinstance(args, str):
        return args if args.strip() else "{}"
    return json.dumps({} if args is None else args, ensure_ascii=False)


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    """A part as it is kept: of a text its length, of a call what only the vendor needs."""
    kind = part["part_kind"]
    left_out = {"text": ("content",), "tool-call": ("tool_name", "args", "tool_call_id")}.get(kind, ())
    bare = {name: value for name, value in part.items() if value is not None and name not in left_out}
    return {**bare, "length": len(part["content"])} if kind == "text" else bare


def _in_order(kept: list[Any], text: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The kept parts with texts and calls in their places; None if they do not fit."""
    made, at, left = list[dict[str, Any]](), 0, list(calls)
    for part in kept:
        kind = field(part, "part_kind")
        if kind == "text":
            length = field(part, "length", 0)
            bare = {name: value for name, value in part.items() if name != "length"}
            made.append({**bare, "content": text[at : at + length]})
            at += length
        elif kind == "tool-call":
            if not left:
                return None
            made.append({**part, **left.pop(0)})
        elif isinstance(part, Mapping):
            made.append(dict(part))
    return made if at == len(text) and not left else None


def _usage(given: Any) -> Usage:
    names = ("input", "output", "cache_read", "cache_write", "output_reasoning")
    counts = (field(given, f"{name}_tokens") for name in names)
    into, out, cached, written, thought = (one if type(one) is int and one >= 0 else 0 for one in counts)
    return Usage(
        input_tokens=into,
        output_tokens=out,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    )
