"""Tool calls for models without tools, by structured output: a reply is one JSON object, either a tool with arguments or the answer.

Earlier tool calls are written into the conversation in the same form. A reply that is not such an object is taken as text, so a
malformed reply ends the turn without a tool call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, TypedBy
from clicket.model.files import FileRef
from clicket.model.ports.services import ChatModel, StreamingModel
from clicket.models.transcript import AssistantStep, as_object, in_steps, uses_tools
from clicket.tools.provider_schema import shown

__all__ = ["SchemaTools"]

_FENCE = "```"
_ANY = re.compile(r".*", re.DOTALL)
_RULES = (
    'To use a tool, answer with {"tool": its name, "arguments": {…}} and nothing else; its result comes with the next '
    'message. When you know the answer, or no tool helps, answer with {"answer": "…"} and nothing else.'
)


class SchemaTools:
    """Wraps any `ChatModel`, preferably one that supports `schema` in a request."""

    def __init__(self, model: ChatModel) -> None:
        self.name: str = model.name
        self.sees_images: bool = bool(getattr(model, "sees_images", False))
        self.typed_by: TypedBy = "schema" if getattr(model, "typed_by", "text") == "schema" else "text"
        self._model = model

    async def chat(self, request: ChatRequest) -> ChatReply:
        return _read(request, await self._model.chat(_plain(request)))

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        """Thoughts are streamed; the rest comes at the end, because only the whole reply shows whether it is a tool call."""

        def tell_thoughts(delta: Delta) -> None:
            is_shown = delta.kind == "thought" or not uses_tools(request)
            tell(delta if is_shown else Delta(delta.kind, ""))  # an empty piece: the model works

        if isinstance(self._model, StreamingModel):
            reply = _read(request, await self._model.stream(_plain(request), tell_thoughts))
            text_follows = uses_tools(request)
        else:
            reply = await self.chat(request)
            text_follows = True
            if reply.thought:
                tell(Delta("thought", reply.thought))
        if reply.text and text_follows:
            tell(Delta("text", reply.text))
        for number, use in enumerate(reply.uses):
            tell(Delta("name", use.name, number))
            tell(Delta("arguments", use.arguments, number))
        return reply


def _plain(request: ChatRequest) -> ChatRequest:
    """The request with its tools moved into the prompt and the schema."""
    if not uses_tools(request):
        return request
    messages = _plain_messages(request.messages)
    if not request.tools or request.tool_choice == "none":
        return msgspec.structs.replace(request, messages=tuple(messages), tools=(), tool_choice="auto")
    messages = [ChatMessage(role="system", content=_offered(request)), *messages]
    if len(messages) > 1 and messages[1].role == "system":
        messages[:2] = [ChatMessage(role="system", content=f"{messages[1].content}\n\n{messages[0].content}")]
    return ChatRequest(
        messages=tuple(messages), schema=_schema(request), schema_name="step", max_tokens=request.max_tokens,
        files=request.files,
    )  # fmt: skip


def _offered(request: ChatRequest) -> str:
    lines = ["You have these tools, each with the JSON Schema of its arguments:"]
    for offer in request.tools:
        schema = json.dumps(shown(offer.input_schema), ensure_ascii=False)
        lines.append(f"- {offer.name}: {' '.join(offer.description.split())} {schema}")
    return "\n".join((*lines, _RULES))


def _plain_messages(messages: tuple[ChatMessage, ...]) -> list[ChatMessage]:
    """The conversation without tool messages: user and assistant alternate."""
    plain: list[ChatMessage] = []

    def add(role: Any, text: str, files: tuple[FileRef, ...] = ()) -> None:
        if plain and plain[-1].role == role and role != "system":
            last = plain[-1]
            plain[-1] = ChatMessage(role=role, content=f"{last.content}\n\n{text}", files=(*last.files, *files))
        else:
            plain.append(ChatMessage(role=role, content=text, files=files))

    for one in in_steps(messages, _ANY):
        if not isinstance(one, AssistantStep):
            add(one.role, one.content, one.files)
            continue
        calls = [{"tool": use.name, "arguments": as_object(use)} for use in one.message.uses]
        written: list[Any] = calls or [{"answer": one.message.content}]
        add("assistant", "\n".join(json.dumps(part, ensure_ascii=False) for part in written))
        for use, result in zip(one.message.uses, one.results, strict=True):
            add("user", f"{'Error' if result.failed else 'Result'} of {use.name}:\n{result.content}", result.files)
    return plain


def _schema(request: ChatRequest) -> dict[str, Any]:
    branches: list[dict[str, Any]] = []
    shared: dict[str, Any] = {}
    for number, offer in enumerate(request.tools):
        arguments = _moved(shown(offer.input_schema), f"tool{number}_", shared)
        branches.append(_object(tool={"const": offer.name}, arguments=arguments))
    if request.tool_choice != "required":
        answer = request.schema if request.schema is not None else {"type": "string"}
        branches.append(_object(answer=_moved(dict(answer), "answer_", shared)))
    return {"anyOf": branches, **({"$defs": shared} if shared else {})}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _moved(schema: Mapping[str, Any], mark: str, shared: dict[str, Any]) -> Any:
    """The schema with its `$defs` moved into `shared`, because references are resolved from the root."""
    here = "#/$defs/"

    def walk(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {
                key: f"{here}{mark}{value.removeprefix(here)}"
                if key == "$ref" and isinstance(value, str) and value.startswith(here)
                else walk(value)
                for key, value in part.items()
            }
        return [walk(one) for one in part] if isinstance(part, list) else part

    shared |= {f"{mark}{name}": walk(one) for name, one in schema.get("$defs", {}).items()}
    return walk({key: value for key, value in schema.items() if key != "$defs"})


def _unfenced(text: str) -> str:
    """The content of a code fence, if the text is one fence and nothing else."""
    whole = text.strip()
    if not whole.startswith(_FENCE) or not whole.endswith(_FENCE):
        return text
    language, _, rest = whole[len(_FENCE) :].partition("\n")
    inside, _, last = rest.removesuffix(_FENCE).rpartition("\n")
    return text if language.strip().lower() not in ("", "json") or last.strip() else inside


def _read(request: ChatRequest, reply: ChatReply) -> ChatReply:
    if not request.tools or request.tool_choice == "none" or reply.uses or reply.ended == "refusal":
        return reply
    try:
        value = json.loads(_unfenced(reply.text))
    except (ValueError, RecursionError):
        return reply
    if not isinstance(value, dict):
        return reply
    name, arguments = value.get("tool"), value.get("arguments", {})
    if isinstance(name, str) and set(value) <= {"tool", "arguments"}:
        number = sum(len(message.uses) for message in request.messages)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return msgspec.structs.replace(reply, text="", uses=(ToolUse(id=f"call_{number}", name=name, arguments=text),))
    if set(value) == {"answer"}:
        answer = value["answer"]
        plain = isinstance(answer, str) and request.schema is None
        return msgspec.structs.replace(reply, text=answer if plain else json.dumps(answer, ensure_ascii=False))
    return reply
