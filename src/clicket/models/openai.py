"""Models behind OpenAI's chat completions, its own or any server's that speaks them.

Servers differ in what they know of structured output. The strictest form is tried first; what a server refuses is not sent
to it again: a schema, then JSON without one, then words alone. The same holds for the two names of the token limit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Ended, Usage
from clicket.models.asked import checked, counted, fits, no_answer, trust, with_schema
from clicket.models.failing import Place, names_one, translated

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

_FORMS = ("json_schema", "json_object", "words")
_BLAMES_FORM = ("response_format", "json_schema", "json_object", "structured", "schema", "grammar", "guided", "format")
_LIMITS = ("max_completion_tokens", "max_tokens")
_ENDED: dict[Any, Ended] = {"length": "length", "content_filter": "refusal"}


class OpenAIModel:
    """One model. `options` go into every request as they are, e.g. `{"temperature": 0, "seed": 7}`.

    `client` is an `AsyncOpenAI` of your own, which you close; without it a client is opened for each request, so a model can
    be used from any event loop and leaves nothing open.
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
        client: AsyncOpenAI | None = None,
    ) -> None:
        checked("openai", model, timeout, max_tokens)
        self._sdk = _sdk()
        address = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or None
        if key is None and client is None:
            if address is None:
                raise UsageError("OpenAI's models need a key: set OPENAI_API_KEY, or give api_key=.")
            key = "none"  # servers of one's own often want none, the SDK always does
        self._model = model
        self._place = Place("openai", model, "OPENAI_API_KEY", key, address)
        self._made_with: dict[str, Any] = {"base_url": address, "api_key": key, "timeout": timeout, "max_retries": 0}
        self._client = client
        self._trust = trust() if client is None else None
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._options = dict(options or {})
        self._form = 0
        self._limit = _LIMITS[0] if address is None else _LIMITS[1]

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if self._client is not None:
            return await self._asked(self._client.with_options(timeout=self._timeout, max_retries=0), request)
        try:
            http = self._sdk.DefaultAsyncHttpxClient(verify=self._trust)
            client = self._sdk.AsyncOpenAI(**self._made_with, http_client=http)
        except self._sdk.OpenAIError as raised:
            failed = translated(self._sdk, raised, self._place)
        else:
            async with client:
                return await self._asked(client, request)
        raise failed

    async def _asked(self, client: AsyncOpenAI, request: ChatRequest) -> ChatReply:
        form, limit = self._form if request.schema is not None else len(_FORMS) - 1, self._limit
        tried_limits = {limit}
        while True:
            failed: ClicketError
            try:
                answer = await client.chat.completions.create(**self._body(request, _FORMS[form], limit))
            except self._sdk.APIStatusError as raised:
                other = _LIMITS[1] if limit == _LIMITS[0] else _LIMITS[0]
                if _refuses(raised) and names_one(raised, (limit,)) and raised.body and other not in tried_limits:
                    limit = other
                    tried_limits.add(other)
                    continue
                if _refuses(raised) and form < len(_FORMS) - 1 and names_one(raised, _BLAMES_FORM):
                    form += 1
                    continue
                failed = translated(self._sdk, raised, self._place)
            except (self._sdk.OpenAIError, TypeError, ValueError) as raised:
                failed = translated(self._sdk, raised, self._place)
            else:
                self._limit = limit
                if request.schema is not None:
                    self._form = form
                return self._read(answer)
            # Raised here and not above: the SDK's error holds the request, and with it the key.
            raise failed

    def _body(self, request: ChatRequest, form: str, limit: str) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": one.role, "content": one.content} for one in request.messages]
        body: dict[str, Any] = {**self._options, "model": self._model}
        if form == "json_schema":
            schema = {"name": request.schema_name, "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            messages = with_schema(request, messages)
            if form == "json_object":
                body["response_format"] = {"type": "json_object"}
        most = fits(request.max_tokens, self._max_tokens)
        if most is not None:
            body[limit] = most
        return {**body, "messages": messages}

    def _read(self, answer: Any) -> ChatReply:
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
            raise no_answer(self._place)
        message = choices[0].message
        refusal = getattr(message, "refusal", None)
        ended = "refusal" if refusal else _ENDED.get(getattr(choices[0], "finish_reason", None), "stop")
        used = getattr(answer, "usage", None)
        usage = Usage(
            input_tokens=counted(getattr(used, "prompt_tokens", 0)),
            output_tokens=counted(getattr(used, "completion_tokens", 0)),
        )
        return ChatReply(text=str(refusal) if refusal else _text(message.content), usage=usage, ended=ended)


def _sdk() -> Any:
    try:
        import openai
    except ImportError:
        raise UsageError("OpenAIModel needs the package 'openai'. Install it: pip install 'clicket[openai]'.") from None
    return openai


def _refuses(error: Any) -> bool:
    """Is it the request that was not liked? Some servers say so with 500 or 501."""
    return error.status_code in (400, 415, 422, 501) or (error.status_code == 500 and bool(error.body))


def _text(content: Any) -> str:
    """Some servers answer with parts, as OpenAI's other protocol does."""
    if isinstance(content, list):
        parts = [one.get("text", "") if isinstance(one, dict) else getattr(one, "text", "") for one in content]
        return "".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""
