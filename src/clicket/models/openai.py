"""Models behind OpenAI's chat completions API, of OpenAI or of any server with the same protocol; or behind its Responses API.

Servers differ in their support of structured output. The strictest form is tried first: a schema, then JSON without a schema,
then an instruction in the prompt. What a server refuses is not sent to it again. The same holds for the two names of the token
limit, for the token usage of a stream, and for tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolOffer, TypedBy
from clicket.models.connection import Capabilities, Connection, Reader, ToolMode, Vendor, smaller_limit
from clicket.models.error_translation import Endpoint, blames, blames_tools, is_refusal
from clicket.models.file_blocks import UNSEEN, blames_files, openai_parts, shows_files, without_files
from clicket.models.found_tools import in_wire_names
from clicket.models.openai_reply import ChatReader
from clicket.models.prices import Prices
from clicket.models.reply_builder import ReplyBuilder
from clicket.models.responses import Responses
from clicket.models.responses_request import failure_text
from clicket.models.schema_prompt import SCHEMA_WORDS, with_schema
from clicket.models.transcript import AssistantStep, Names, as_object_text, in_steps
from clicket.tools.answer_schema import answer_schema
from clicket.tools.provider_schema import shown

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

_OPENAI = Vendor(name="openai", model="OpenAIModel", client="AsyncOpenAI", needs_key=True)
_FORMS = ("json_schema", "json_object", "words")
_BLAMES_FORM = (
    "response_format",
    "json_schema",
    "json_object",
    "structured",
    "grammar",
    "guided",
    "format",
    *SCHEMA_WORDS,
)
_BLAMES_STRICT = ("strict", *SCHEMA_WORDS)
_LIMITS = ("max_completion_tokens", "max_tokens")
_IDS = re.compile(r"[!-~]{1,40}")
_MAX_DESCRIPTION = 1_024
_OF_RESULTS: dict[str, Any] = {"type": "text", "text": "[The images and files that the results above name:]"}


class OpenAIModel:
    """One model. `options` are added to every request unchanged, e.g. `{"temperature": 0, "seed": 7}`.

    `prices` are those of a million tokens, `{"input": 3.0, "output": 15.0, "cached": 0.3}`, for `usage.cost`. `tools="schema"`
    asks for tool calls by structured output, for models without tools; "auto" does so when a server refuses tools, "native"
    never. `typed_by` is how an agent asks for an answer of a type: by "schema" from OpenAI and Azure, by a "tool" from other servers; it
    can be set. `sees_images` may be set to False, for a model that reads only text. `api="responses"` uses the Responses API, which keeps
    a model's reasoning from step to step; the vendor stores nothing unless `options` has `store`. `client` is an `AsyncOpenAI` of your own,
    which you close. Without it connections stay open until `close()` or the end of the event loop, and a model can be used from any loop.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
        prices: Mapping[str, float] | None = None,
        tools: ToolMode = "auto",
        api: Literal["chat", "responses"] = "chat",
        client: AsyncOpenAI | None = None,
    ) -> None:
        if api not in ("chat", "responses"):
            raise UsageError(f"api must be 'chat' or 'responses', not {api!r}: which of OpenAI's APIs is asked.")
        self._connection = Connection(
            _OPENAI,
            model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_tokens=max_tokens,
            prices=prices,
            tools=tools,
            client=client,
        )
        self._connection.prefer(limit=_LIMITS[0] if self._connection.address is None else _LIMITS[1])
        self._api = (Responses if api == "responses" else _Chat)(model, max_tokens, options or {})
        self._model = model
        # Other servers that bind the answer to a schema often do so from its first letter, and then no tool can be called.
        own = getattr(client, "base_url", None) or self._connection.address
        self.sees_images: bool = True
        self.typed_by: TypedBy = "schema" if tools == "schema" or _is_openai(own) else "tool"

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    @property
    def address(self) -> str:
        """Of a server other than the vendor's, without user, password and query; else empty."""
        return self._connection.endpoint.address

    @property
    def prices(self) -> Prices:
        """The prices that it was given."""
        return self._connection.prices

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._connection.ask(self._api, self._seen(request), None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return await self._connection.ask(self._api, self._seen(request), tell)

    def _seen(self, request: ChatRequest) -> ChatRequest:
        return request if self.sees_images else without_files(request, UNSEEN)

    async def close(self) -> None:
        """Close this loop's connections. The model can be used again."""
        await self._connection.close()


class _Chat:
    def __init__(self, model: str, max_tokens: int | None, options: Mapping[str, Any]) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._options = dict(options)

    def body(self, request: ChatRequest, caps: Capabilities, names: Names) -> dict[str, Any]:
        request = request if caps.files else without_files(request)
        form = _FORMS[caps.form] if request.schema is not None else "words"
        body: dict[str, Any] = {**self._options, "model": self._model}
        messages = request.messages
        if form == "json_schema":
            strict = _strict(request, caps)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": request.schema_name,
                    "schema": strict or request.schema,
                    "strict": strict is not None,
                },
            }
        else:
            messages = with_schema(request)
            if form == "json_object":
                body["response_format"] = {"type": "json_object"}
        if request.tools:
            body["tools"] = [_function(offer, names) for offer in request.tools]
            if request.tool_choice != "auto" and caps.choice:
                body["tool_choice"] = request.tool_choice
        most = smaller_limit(request.max_tokens, self._max_tokens)
        if most is not None:
            body[caps.limit] = most
        files = request.files
        return {**body, "messages": [part for one in in_steps(messages, _IDS) for part in _written(one, names, files)]}

    async def send(self, client: Any, body: dict[str, Any], caps: Capabilities, *, streamed: bool) -> Any:
        if not streamed:
            return await client.chat.completions.create(**body)
        if caps.usage:
            body.setdefault("stream_options", {"include_usage": True})
        return await client.chat.completions.create(**body, stream=True)

    def after_refusal(self, request: ChatRequest, caps: Capabilities, error: Any) -> Capabilities | None:
        refused = is_refusal(error)
        if refused and caps.files and blames_files(request, error):
            return msgspec.structs.replace(caps, files=False)
        if refused and error.body and caps.limit_may_differ and blames(error, (caps.limit,)):
            limit = _LIMITS[1] if caps.limit == _LIMITS[0] else _LIMITS[0]
            return msgspec.structs.replace(caps, limit=limit, limit_may_differ=False)
        if refused and error.body and caps.usage and blames(error, ("stream_options", "include_usage")):
            return msgspec.structs.replace(caps, usage=False)
        if refused and error.body and blames(error, _BLAMES_STRICT) and _is_strict(request, caps):
            return msgspec.structs.replace(caps, strict=False)
        if refused and request.schema is not None and caps.form < len(_FORMS) - 1 and blames(error, _BLAMES_FORM):
            return msgspec.structs.replace(caps, form=caps.form + 1)
        if not request.tools:
            return None
        forced = request.tool_choice != "auto" and caps.choice
        if forced and refused and error.body and blames(error, ("tool_choice",)):
            return msgspec.structs.replace(caps, choice=False)
        return msgspec.structs.replace(caps, tools=False) if blames_tools(error) else None

    def reader(
        self, request: ChatRequest, caps: Capabilities, names: Names, answer: ReplyBuilder, endpoint: Endpoint
    ) -> Reader:
        return ChatReader(answer, endpoint)


def _is_openai(address: Any) -> bool:
    host = urlsplit(str(address)).hostname or "" if address is not None else "api.openai.com"
    return host.endswith((".openai.com", ".openai.azure.com"))


def _strict(request: ChatRequest, caps: Capabilities) -> dict[str, Any] | None:
    """The schema to which the model is bound; None: it is only told of it."""
    return answer_schema(request.schema, "openai") if request.schema is not None and caps.strict else None


def _is_strict(request: ChatRequest, caps: Capabilities) -> bool:
    return _FORMS[caps.form] == "json_schema" and _strict(request, caps) is not None


def _function(offer: ToolOffer, names: Names) -> dict[str, Any]:
    text = offer.description
    described = {"description": text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"}
    function = {"name": names.wire(offer.name), **(described if text else {}), "parameters": shown(offer.input_schema)}
    return {"type": "function", "function": function}


def _written(one: ChatMessage | AssistantStep, names: Names, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    if not isinstance(one, AssistantStep):
        shows = one.role == "user" and shows_files(one, files)
        return [{"role": one.role, "content": openai_parts(one, files) if shows else one.content}]
    message = one.message
    if not message.uses:
        return [{"role": "assistant", "content": message.content}]
    calls = [
        {"id": id, "type": "function", "function": {"name": names.wire(use.name), "arguments": as_object_text(use)}}
        for id, use in zip(one.ids, message.uses, strict=True)
    ]
    param: dict[str, Any] = {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    results = (in_wire_names(use, result, names) for use, result in zip(message.uses, one.results, strict=True))
    answered = zip(one.ids, results, strict=True)
    written = [
        param,
        *({"role": "tool", "tool_call_id": id, "content": failure_text(result)} for id, result in answered),
    ]
    shown = [part for result in one.results if shows_files(result, files) for part in _beside(result, files)]
    # Results take only text, and must follow their calls directly.
    beside: list[dict[str, Any]] = [{"role": "user", "content": [_OF_RESULTS, *shown]}] if shown else []
    return [*written, *beside]


def _beside(result: ChatMessage, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The files of a result, each after its line."""
    lines = "\n".join(ref.line for ref in result.files if ref.artifact in files)
    return openai_parts(msgspec.structs.replace(result, content=lines), files)
