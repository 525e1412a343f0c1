"""Models behind Anthropic's messages. Structured output is asked for in its own way, else by a tool that must be used, else in words.

What an address refuses is not sent to it again: older models and some gateways know only the second way, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.models.anthropic_reply import BlockReader
from clicket.models.anthropic_request import conversation, offered
from clicket.models.asked import SCHEMA_WORDS, fits, with_schema
from clicket.models.failing import Place, blames_tools, names_one, refuses
from clicket.models.line import Line, Reader, ToolMode, Vendor, Ways
from clicket.models.pieces import Answer
from clicket.models.transcript import Names

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel"]

_ANTHROPIC = Vendor(name="anthropic", model="AnthropicModel", client="AsyncAnthropic", needs_key=False)
_FORMS = ("output_config", "tool", "words")
_BLAMES: dict[str, tuple[str, ...]] = {
    "output_config": ("output_config", "output_format", "output format", "structured", "extra inputs", *SCHEMA_WORDS),
    "tool": ("tool", "extra inputs", *SCHEMA_WORDS),
}
_MAX_TOKENS = 4096
"""The protocol wants a limit in every request; this one when nobody gave any."""
_CHOICES = {"none": {"type": "none"}, "required": {"type": "any"}}


class AnthropicModel:
    """One model. `options` go into every request as they are, e.g. `{"thinking": {"type": "adaptive"}}`.

    `prices`, `tools`, `client` (an `AsyncAnthropic`) and the rest are as in `OpenAIModel`.
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
        client: AsyncAnthropic | None = None,
    ) -> None:
        self._line = Line(
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
        self._wire = _Messages(model, max_tokens, options or {})
        self._model = model

    @property
    def name(self) -> str:
        return f"anthropic:{self._model}"

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._line.serve(self._wire, request, None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return await self._line.serve(self._wire, request, tell)

    async def close(self) -> None:
        """Close this loop's connections. The model can be used again."""
        await self._line.close()


class _Messages:
    def __init__(self, model: str, max_tokens: int | None, options: Mapping[str, Any]) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._options = dict(options)

    def body(self, request: ChatRequest, ways: Ways, names: Names) -> dict[str, Any]:
        form = _form(request, ways)
        system, messages = conversation(with_schema(request) if form == "words" else request.messages, names)
        most = fits(request.max_tokens, self._max_tokens) or _MAX_TOKENS
        body: dict[str, Any] = {**self._options, "model": self._model, "max_tokens": most}
        if system:
            body["system"] = system
        tools, choice = offered(request.tools, names), _CHOICES.get(request.tool_choice) if request.tools else None
        if tools and not request.tools:
            choice = _CHOICES["none"]
        if form == "output_config":
            body["output_config"] = {
                **(self._options.get("output_config") or {}),
                "format": {"type": "json_schema", "schema": request.schema},
            }
        elif form == "tool":
            name = names.free(request.schema_name)
            about = "Give your answer by using this tool, once."
            tools.append({"name": name, "description": about, "input_schema": request.schema})
            alone: dict[str, Any] = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
            choice = {"type": "any"} if request.tools and request.tool_choice != "none" else alone
        if tools:
            body["tools"] = tools
            if choice is not None and (ways.choice or form == "tool"):
                body["tool_choice"] = choice
        return {**body, "messages": messages}

    async def send(self, client: Any, body: dict[str, Any], ways: Ways, *, streamed: bool) -> Any:
        return await (client.messages.create(**body, stream=True) if streamed else client.messages.create(**body))

    def other(self, request: ChatRequest, ways: Ways, error: Any) -> Ways | None:
        form = _form(request, ways)
        refused = error.status_code in (400, 415, 422, 501)
        if refused and form != "words" and names_one(error, _BLAMES[form]):
            return msgspec.structs.replace(ways, form=ways.form + 1)
        if not request.tools:
            return None
        forced = request.tool_choice != "auto" and ways.choice
        if forced and refuses(error) and error.body and names_one(error, ("tool_choice",)):
            return msgspec.structs.replace(ways, choice=False)
        return msgspec.structs.replace(ways, tools=False) if blames_tools(error) else None

    def reader(self, request: ChatRequest, ways: Ways, names: Names, answer: Answer, place: Place) -> Reader:
        return BlockReader(answer, place, names.free(request.schema_name) if _form(request, ways) == "tool" else "")


def _form(request: ChatRequest, ways: Ways) -> str:
    return _FORMS[ways.form] if request.schema is not None else "words"
