"""Models behind Anthropic's Messages API. Structured output is requested by `output_config`, else by a forced tool, else in the prompt.

What a server refuses is not sent to it again: older models and some gateways know only the forced tool, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, TypedBy
from clicket.models.anthropic_cache import is_repeated, marked
from clicket.models.anthropic_reply import BlockReader
from clicket.models.anthropic_request import conversation, goes_on_without_thought, offered
from clicket.models.connection import Capabilities, Connection, Reader, ToolMode, Vendor, smaller_limit
from clicket.models.error_translation import Endpoint, blames, blames_tools, is_refusal
from clicket.models.file_blocks import UNSEEN, blames_files, without_files
from clicket.models.found_tools import referenced, without_deferred
from clicket.models.prices import Prices
from clicket.models.reply_builder import ReplyBuilder
from clicket.models.schema_prompt import SCHEMA_WORDS, with_schema
from clicket.models.transcript import Names
from clicket.tools.answer_schema import answer_schema

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel"]

_ANTHROPIC = Vendor(name="anthropic", model="AnthropicModel", client="AsyncAnthropic", needs_key=False)
_FORMS = ("output_config", "tool", "words")
_BLAMES: dict[str, tuple[str, ...]] = {
    "output_config": ("output_config", "output_format", "output format", "structured", "extra inputs", *SCHEMA_WORDS),
    "tool": ("tool", "extra inputs", *SCHEMA_WORDS),
}
_CACHING = ("cache_control", "cache control", "prompt caching", "prompt_caching")
_DEFERRING = ("defer_loading", "defer loading", "tool_reference", "tool reference", "extra inputs")
_MAX_TOKENS = 4096
"""The API requires a limit in every request; this is the default."""
_CHOICES = {"none": {"type": "none"}, "required": {"type": "any"}}


class AnthropicModel:
    """One model. `options` are added to every request unchanged, e.g. `{"thinking": {"type": "adaptive"}}`.

    `defer_tools`: of an agent with `tool_search`, send all tools with `defer_loading`, and what `find_tools` found as references. The
    prompt's cache stays valid when tools are found. A server that refuses this gets the found tools alone, as every other model does.

    `cache`: "auto" marks the prompt of an agent's request, so that the next one reads it from the vendor's cache; "off" or None does not.
    A server that refuses the marks gets requests without them. With `cache_control` in `options` the request has that alone.

    `prices`, `tools`, `sees_images`, `client` (an `AsyncAnthropic`) and the rest are as in `OpenAIModel`.
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
        defer_tools: bool = False,
        cache: Literal["auto", "off"] | None = "auto",
        client: AsyncAnthropic | None = None,
    ) -> None:
        if cache not in ("auto", "off", None):
            raise UsageError(
                f"cache must be 'auto' or 'off', not {cache!r}: whether requests are marked for the prompt cache."
            )
        self._defer_tools = defer_tools
        self._connection = Connection(
            _ANTHROPIC,
            model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_tokens=max_tokens,
            prices=prices,
            tools=tools,
            client=client,
        )
        own = options or {}
        self._api = _Messages(model, max_tokens, own, marks=cache == "auto" and "cache_control" not in own)
        self._model = model
        self.sees_images: bool = True
        self.typed_by: TypedBy = "schema"

    @property
    def name(self) -> str:
        return f"anthropic:{self._model}"

    @property
    def defers_tools(self) -> bool:
        """May a request have deferred tools?"""
        return self._defer_tools

    @property
    def address(self) -> str:
        """Of a server other than the vendor's, without user, password and query; else empty."""
        return self._connection.endpoint.address

    @property
    def prices(self) -> Prices:
        """The prices that it was given."""
        return self._connection.prices

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._connection.ask(self._api, self._seen(request), None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return await self._connection.ask(self._api, self._seen(request), tell)

    def _seen(self, request: ChatRequest) -> ChatRequest:
        return request if self.sees_images else without_files(request, UNSEEN)

    async def close(self) -> None:
        """Close this loop's connections. The model can be used again."""
        await self._connection.close()


class _Messages:
    def __init__(self, model: str, max_tokens: int | None, options: Mapping[str, Any], *, marks: bool = True) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._options = dict(options)
        self._marks = marks

    def body(self, request: ChatRequest, caps: Capabilities, names: Names) -> dict[str, Any]:
        request = request if caps.defer else without_deferred(request)
        request = request if caps.files else without_files(request)
        form, schema = _form(request, caps)
        references = referenced(request) if any(offer.deferred for offer in request.tools) else frozenset()
        shown = with_schema(request) if form == "words" else request.messages
        system, messages = conversation(shown, names, references, request.files)
        most = smaller_limit(request.max_tokens, self._max_tokens) or _MAX_TOKENS
        body: dict[str, Any] = {**self._options, "model": self._model, "max_tokens": most}
        if _thinks(self._options) and goes_on_without_thought(messages):
            del body["thinking"]
        if system:
            body["system"] = system
        tools = offered(request.tools, names, references)
        choice = _CHOICES.get(request.tool_choice) if request.tools else None
        if tools and not request.tools:
            choice = _CHOICES["none"]
        if form == "output_config":
            body["output_config"] = {
                **(self._options.get("output_config") or {}),
                "format": {"type": "json_schema", "schema": schema},
            }
        elif form == "tool":
            name = names.free(request.schema_name)
            about = "Give your answer by using this tool, once."
            tools.append({"name": name, "description": about, "input_schema": schema})
            alone: dict[str, Any] = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
            choice = {"type": "any"} if request.tools and request.tool_choice != "none" else alone
            if (self._options.get("thinking") or {}).get("type", "disabled") != "disabled":
                choice = None  # a model that thinks cannot be forced to use a tool
        if tools:
            body["tools"] = tools
            if choice is not None and (caps.choice or form == "tool"):
                body["tool_choice"] = choice
        body["messages"] = messages
        return marked(body) if self._marks and caps.cache and is_repeated(request) else body

    async def send(self, client: Any, body: dict[str, Any], caps: Capabilities, *, streamed: bool) -> Any:
        return await (client.messages.create(**body, stream=True) if streamed else client.messages.create(**body))

    def after_refusal(self, request: ChatRequest, caps: Capabilities, error: Any) -> Capabilities | None:
        form, _ = _form(request, caps)
        refused = error.status_code in (400, 415, 422, 501)
        if refused and caps.files and blames_files(request, error):
            return msgspec.structs.replace(caps, files=False)
        if refused and self._marks and caps.cache and is_repeated(request) and blames(error, _CACHING):
            return msgspec.structs.replace(caps, cache=False)
        if refused and form != "words" and blames(error, _BLAMES[form]):
            return msgspec.structs.replace(caps, form=_FORMS.index(form) + 1)
        if not request.tools:
            return None
        if refused and caps.defer and any(offer.deferred for offer in request.tools) and blames(error, _DEFERRING):
            return msgspec.structs.replace(caps, defer=False)
        forced = request.tool_choice != "auto" and caps.choice
        if forced and is_refusal(error) and error.body and blames(error, ("tool_choice",)):
            return msgspec.structs.replace(caps, choice=False)
        return msgspec.structs.replace(caps, tools=False) if blames_tools(error) else None

    def reader(
        self, request: ChatRequest, caps: Capabilities, names: Names, answer: ReplyBuilder, endpoint: Endpoint
    ) -> Reader:
        return BlockReader(
            answer, endpoint, names.free(request.schema_name) if _form(request, caps)[0] == "tool" else ""
        )


def _thinks(options: Mapping[str, Any]) -> bool:
    """With a budget for thinking: the API then wants each step of tool calls to begin with a signed thought of its own."""
    thinking = options.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _form(request: ChatRequest, caps: Capabilities) -> tuple[str, Mapping[str, Any] | None]:
    """How an answer of a schema is asked for, and that schema. One to which the API cannot bind the model becomes that of a tool."""
    form = _FORMS[caps.form] if request.schema is not None else "words"
    if form != "output_config" or request.schema is None:
        return form, request.schema
    schema = answer_schema(request.schema, "anthropic")
    return (form, schema) if schema is not None else ("tool", request.schema)
