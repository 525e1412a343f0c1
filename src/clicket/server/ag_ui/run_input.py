"""What a client sends to run an agent (`RunAgentInput`), checked. Fields that are not known are ignored, as the protocol asks."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clicket.errors import InvalidInput, UsageError
from clicket.model.chat import ToolOffer
from clicket.model.files import File
from clicket.server.ag_ui.wire import CONTEXT
from clicket.server.schemas import Name
from clicket.tools.check import bound_schema

__all__ = [
    "ResumeEntry",
    "RunAgentInput",
    "ToolResultGiven",
    "new_message",
    "offers",
    "tool_results",
]

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WHOLE = "(body)"
_MAX_TOOLS = 128
Id = Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\\x00]*$")]


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="role"):
    id: Annotated[str, Meta(min_length=1, max_length=2_000)]


class TextPart(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


class Source(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`value`: base64, for the type `data`."""

    type: str
    value: str = ""
    mime_type: Annotated[str, Meta(max_length=200)] | None = None


class _MediaPart(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    source: Source
    metadata: Any = None


class ImagePart(_MediaPart, frozen=True, kw_only=True, tag="image"):
    pass


class AudioPart(_MediaPart, frozen=True, kw_only=True, tag="audio"):
    pass


class VideoPart(_MediaPart, frozen=True, kw_only=True, tag="video"):
    pass


class DocumentPart(_MediaPart, frozen=True, kw_only=True, tag="document"):
    pass


Part = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart


class UserMessage(_Message, frozen=True, kw_only=True, tag="user"):
    content: str | list[Part]


class SystemMessage(_Message, frozen=True, kw_only=True, tag="system"):
    content: str


class DeveloperMessage(_Message, frozen=True, kw_only=True, tag="developer"):
    content: str


class AssistantMessage(_Message, frozen=True, kw_only=True, tag="assistant"):
    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ToolMessage(_Message, frozen=True, kw_only=True, tag="tool"):
    content: str | list[Part]
    tool_call_id: str
    error: str | None = None


class ActivityMessage(_Message, frozen=True, kw_only=True, tag="activity"):
    activity_type: str
    content: dict[str, Any]


class ReasoningMessage(_Message, frozen=True, kw_only=True, tag="reasoning"):
    content: str


Message = (
    UserMessage | SystemMessage | DeveloperMessage | AssistantMessage | ToolMessage | ActivityMessage | ReasoningMessage
)


class FrontendToolDefinition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool that the client runs. `parameters`: a JSON Schema of its arguments."""

    name: Id
    description: str = ""
    parameters: dict[str, Any] | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the application tells the agent beside the message."""

    description: str
    value: str


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer to an interrupt. `payload`, for an approval: `{"approved": bool, "editedArgs"?: {…}, "response"?: …, "reason"?: "…"}`."""

    interrupt_id: Annotated[str, Meta(min_length=1, max_length=600)]
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of an agent, as AG-UI 1.0 defines it. The last of `messages`, if a user wrote it, begins a turn. `tools` are run by the
    client. `resume` answers interrupts. `forwardedProps.clicket.stopOnDisconnect`: stop the turn if the client disconnects."""

    thread_id: Name
    run_id: Id
    messages: list[Message]
    tools: Annotated[list[FrontendToolDefinition], Meta(max_length=_MAX_TOOLS)] | None = None
    context: list[Context] | None = None
    state: Any = None
    forwarded_props: Any = None
    resume: Annotated[list[ResumeEntry], Meta(max_length=1_000)] | None = None
    protocol_version: str | None = None
    parent_run_id: str | None = None

    @property
    def stop_on_disconnect(self) -> bool:
        props = self.forwarded_props if isinstance(self.forwarded_props, dict) else {}
        ours = props.get("clicket")
        return isinstance(ours, dict) and ours.get("stopOnDisconnect") is True


class ToolResultGiven(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool that the client ran."""

    use_id: str
    content: str
    error: str = ""


def new_message(given: RunAgentInput) -> tuple[str, list[str | File]] | None:
    """Id, texts and files of the message that begins a turn, with the application's context; None: the last message is not a user's."""
    last = given.messages[-1] if given.messages else None
    if not isinstance(last, UserMessage):
        return None
    path = f"/messages/{len(given.messages) - 1}/content"
    content: list[Any] = [last.content] if isinstance(last.content, str) else last.content
    parts = [_part(part, f"{path}/{place}") for place, part in enumerate(content)]
    if not any(isinstance(part, File) or part.strip() for part in parts):
        raise _wrong(path, "has no text")
    lines = [f"- {each.description}: {each.value}" for each in given.context or ()]
    if lines:
        context = CONTEXT + "\n".join(lines)
        if isinstance(parts[-1], str):
            parts[-1] += context
        else:
            parts.append(context)
    return last.id, parts


def _part(part: Any, path: str) -> str | File:
    if isinstance(part, str):
        return part
    if isinstance(part, TextPart):
        return part.text
    source = part.source
    if source.type != "data":
        raise _wrong(f"{path}/source", "this server fetches no files. Send a source of type data, in base64")
    name = part.metadata.get("filename") if isinstance(part.metadata, dict) else None
    try:
        return File(
            b64decode(source.value, validate=True), source.mime_type, name=name if isinstance(name, str) else None
        )
    except ValueError:
        raise _wrong(f"{path}/source/value", "is not base64") from None
    except UsageError as error:
        raise _wrong(f"{path}/source", error.message) from None


def tool_results(given: RunAgentInput) -> list[ToolResultGiven]:
    """The tool messages after the last message of the agent: results of tools that the client ran."""
    found: list[ToolResultGiven] = []
    for place in range(len(given.messages) - 1, -1, -1):
        message = given.messages[place]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolMessage):
            content = _text(message.content, f"/messages/{place}/content")
            found.append(ToolResultGiven(use_id=message.tool_call_id, content=content, error=message.error or ""))
    return found[::-1]


def offers(given: RunAgentInput) -> list[ToolOffer]:
    """The client's tools as offers for the model."""
    made: dict[str, ToolOffer] = {}
    for place, tool in enumerate(given.tools or ()):
        if not _TOOL_NAME.fullmatch(tool.name):
            raise _wrong(f"/tools/{place}/name", "must have 1 to 64 letters, digits, '_' or '-'")
        if tool.name in made:
            raise _wrong(f"/tools/{place}/name", f"{tool.name!r} is there twice")
        schema = tool.parameters or {"type": "object", "properties": {}}
        try:
            bound_schema(schema, "this schema")
        except UsageError as error:
            raise _wrong(f"/tools/{place}/parameters", str(error)) from None
        made[tool.name] = ToolOffer(name=tool.name, description=tool.description, input_schema=schema)
    return list(made.values())


def _text(content: str | list[Part], path: str) -> str:
    if isinstance(content, str):
        return content
    for place, part in enumerate(content):
        if not isinstance(part, TextPart):
            raise _wrong(f"{path}/{place}", "results of a client's tools are text. Send parts of type text")
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _wrong(path: str, message: str) -> InvalidInput:
    return InvalidInput([{"path": path, "message": message}], whole=_WHOLE)
