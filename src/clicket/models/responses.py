"""OpenAI's Responses API: request bodies and fallbacks. Structured output is requested as in chat completions, by `text.format`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.model.chat import ChatRequest
from clicket.models.connection import Capabilities, Reader, smaller_limit
from clicket.models.error_translation import Endpoint, blames, blames_tools, is_refusal
from clicket.models.file_blocks import blames_files, without_files
from clicket.models.reply_builder import ReplyBuilder
from clicket.models.responses_reply import ItemReader
from clicket.models.responses_request import function_tool, input_items
from clicket.models.schema_prompt import SCHEMA_WORDS, with_schema
from clicket.models.transcript import Names
from clicket.tools.answer_schema import answer_schema

__all__ = ["Responses"]

_FORMS = ("json_schema", "json_object", "words")
_BLAMES_FORM = ("text.format", "json_schema", "json_object", "structured", "format", *SCHEMA_WORDS)
_ENCRYPTED = "reasoning.encrypted_content"
_BLAMES_REASONING = ("encrypted", "include", "reasoning item", "of type 'reasoning'")


class Responses:
    """`options` may set `store`; without it nothing is stored by the vendor."""

    def __init__(self, model: str, max_tokens: int | None, options: Mapping[str, Any]) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._options = dict(options)

    def body(self, request: ChatRequest, caps: Capabilities, names: Names) -> dict[str, Any]:
        options = self._options
        request = request if caps.files else without_files(request)
        body: dict[str, Any] = {"store": False, **options, "model": self._model}
        if caps.reasoning:
            body["include"] = list(dict.fromkeys([*(options.get("include") or ()), _ENCRYPTED]))
        stored = body["store"] is not False
        form = _FORMS[caps.form] if request.schema is not None else "words"
        messages = request.messages if form == "json_schema" else with_schema(request)
        if form == "json_schema":
            bound = answer_schema(request.schema, "openai") if request.schema is not None and caps.strict else None
            schema = {"name": request.schema_name, "schema": bound or request.schema, "strict": bound is not None}
            body["text"] = {**(options.get("text") or {}), "format": {"type": "json_schema", **schema}}
        elif form == "json_object":
            body["text"] = {**(options.get("text") or {}), "format": {"type": "json_object"}}
        if request.tools:
            body["tools"] = [*(options.get("tools") or ()), *(function_tool(offer, names) for offer in request.tools)]
            if request.tool_choice != "auto" and caps.choice:
                body["tool_choice"] = request.tool_choice
        most = smaller_limit(request.max_tokens, self._max_tokens)
        if most is not None:
            body["max_output_tokens"] = most
        files = request.files
        return {**body, "input": input_items(messages, names, reasoning=caps.reasoning, stored=stored, files=files)}

    async def send(self, client: Any, body: dict[str, Any], caps: Capabilities, *, streamed: bool) -> Any:
        return await (client.responses.create(**body, stream=True) if streamed else client.responses.create(**body))

    def after_refusal(self, request: ChatRequest, caps: Capabilities, error: Any) -> Capabilities | None:
        refused = is_refusal(error)
        if refused and caps.files and blames_files(request, error):
            return msgspec.structs.replace(caps, files=False)
        if refused and error.body and caps.reasoning and blames(error, _BLAMES_REASONING):
            return msgspec.structs.replace(caps, reasoning=False)
        if refused and request.schema is not None and caps.strict and caps.form == 0 and blames(error, ("strict",)):
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
        return ItemReader(answer, endpoint)
