"""Models behind Anthropic's messages. Structured output is asked for in its own way, else by a tool that must be used, else in words.

What an address refuses is not sent to it again: older models and some gateways know only the second way, or none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Ended, Usage
from clicket.models.asked import checked, counted, fits, no_answer, trust, with_schema
from clicket.models.failing import Place, names_one, translated

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel"]

_FORMS = ("output_config", "tool", "words")
_BLAMES: dict[str, tuple[str, ...]] = {
    "output_config": ("output_config", "output_format", "output format", "structured", "schema", "extra inputs"),
    "tool": ("tool", "schema", "extra inputs"),
}
_MAX_TOKENS = 4096
"""The protocol wants a limit in every request; this one when nobody gave any."""
_ENDED: dict[Any, Ended] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicModel:
    """One model. `options` go into every request as they are, e.g. `{"temperature": 0}`.

    `client` is an `AsyncAnthropic` of your own, which you close; without it a client is opened for each request, so a model
    can be used from any event loop and leaves nothing open.
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
        client: AsyncAnthropic | None = None,
    ) -> None:
        checked("anthropic", model, timeout, max_tokens)
        self._sdk = _sdk()
        address = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        self._model = model
        self._place = Place(
            "anthropic", model, "ANTHROPIC_API_KEY", api_key or os.environ.get("ANTHROPIC_API_KEY"), address
        )
        # Without a key given here the SDK looks in its usual places, of which the environment is only the first.
        self._made_with: dict[str, Any] = {"base_url": address, "timeout": timeout, "max_retries": 0}
        if api_key is not None:
            self._made_with["api_key"] = api_key
        self._client = client
        self._trust = trust() if client is None else None
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._options = dict(options or {})
        self._form = 0

    @property
    def name(self) -> str:
        return f"anthropic:{self._model}"

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if self._client is not None:
            return await self._asked(self._client.with_options(timeout=self._timeout, max_retries=0), request)
        try:
            http = self._sdk.DefaultAsyncHttpxClient(verify=self._trust)
            client = self._sdk.AsyncAnthropic(**self._made_with, http_client=http)
        except (self._sdk.AnthropicError, ValueError) as raised:
            failed = translated(self._sdk, raised, self._place)
        else:
            async with client:
                return await self._asked(client, request)
        raise failed

    async def _asked(self, client: AsyncAnthropic, request: ChatRequest) -> ChatReply:
        form = self._form if request.schema is not None else len(_FORMS) - 1
        while True:
            failed: ClicketError
            try:
                answer = await client.messages.create(**self._body(request, _FORMS[form]))
            except self._sdk.APIStatusError as raised:
                refused = raised.status_code in (400, 415, 422, 501)
                if refused and form < len(_FORMS) - 1 and names_one(raised, _BLAMES[_FORMS[form]]):
                    form += 1
                    continue
                failed = translated(self._sdk, raised, self._place)
            except (self._sdk.AnthropicError, TypeError, ValueError) as raised:
                failed = translated(self._sdk, raised, self._place)
            else:
                if request.schema is not None:
                    self._form = form
                return self._read(answer)
            # Raised here and not above: the SDK's error holds the request, and with it the key.
            raise failed

    def _body(self, request: ChatRequest, form: str) -> dict[str, Any]:
        system = "\n\n".join(one.content for one in request.messages if one.role == "system")
        messages: list[dict[str, Any]] = [
            {"role": one.role, "content": one.content} for one in request.messages if one.role != "system"
        ]
        most = fits(request.max_tokens, self._max_tokens) or _MAX_TOKENS
        body: dict[str, Any] = {**self._options, "model": self._model, "max_tokens": most}
        if system:
            body["system"] = system
        if form == "output_config":
            body["output_config"] = {
                **(self._options.get("output_config") or {}),
                "format": {"type": "json_schema", "schema": request.schema},
            }
        elif form == "tool":
            about = "Give your answer by using this tool, once."
            body["tools"] = [{"name": request.schema_name, "description": about, "input_schema": request.schema}]
            body["tool_choice"] = {"type": "tool", "name": request.schema_name, "disable_parallel_tool_use": True}
        else:
            messages = with_schema(request, messages)
        return {**body, "messages": messages}

    def _read(self, answer: Any) -> ChatReply:
        blocks = getattr(answer, "content", None)
        if not isinstance(blocks, list):
            raise no_answer(self._place)
        given = [one.input for one in blocks if getattr(one, "type", "") == "tool_use"]
        texts = [one.text for one in blocks if getattr(one, "type", "") == "text"]
        text = (
            json.dumps(given[0], ensure_ascii=False) if given else "".join(one for one in texts if isinstance(one, str))
        )
        used = getattr(answer, "usage", None)
        # What was read from the vendor's cache, or put there, was read by the model all the same.
        read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        usage = Usage(
            input_tokens=sum(counted(getattr(used, one, 0)) for one in read),
            output_tokens=counted(getattr(used, "output_tokens", 0)),
        )
        return ChatReply(text=text, usage=usage, ended=_ENDED.get(getattr(answer, "stop_reason", None), "stop"))


def _sdk() -> Any:
    try:
        import anthropic
    except ImportError:
        raise UsageError(
            "AnthropicModel needs the package 'anthropic'. Install it: pip install 'clicket[anthropic]'."
        ) from None
    return anthropic
