"""The tool `read_result`: the model reads the beginning of a long result, and calls this tool to read on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clicket.agents.middleware import Middleware
from clicket.agents.turn import REFERENCE, Turn
from clicket.errors import InvalidInput, NotFound
from clicket.model.chat import ChatMessage, ChatRequest, ToolOffer
from clicket.model.codec import CUT_NOTE
from clicket.tools import ToolContext
from clicket.tools.function import function_tool

__all__ = ["READ_RESULT", "ReadResult", "as_referred", "note_of", "read_result", "referred"]

READ_RESULT = "read_result"
_MAX_PIECE = 16_384
_NOTE = f"\n{CUT_NOTE}"
_NO_ARTIFACT = f"sha256-{'0' * 64}"


async def _read_result(artifact: str, ctx: ToolContext, start: int = 0, length: int = 4096) -> str:
    """Read on in a result that was cut: `length` bytes (at most 16,384) of the artifact from `start` on."""
    if start < 0 or not 1 <= length <= _MAX_PIECE:
        raise InvalidInput(f"start must be at least 0 and length from 1 to {_MAX_PIECE:,}")
    try:
        piece = await ctx.artifact(artifact.strip(), start, start + length)
    except NotFound:
        raise InvalidInput(
            f"there is no artifact {artifact[:100]!r}. Copy its name from the note under the result"
        ) from None
    text = piece.decode("utf-8", "replace")
    return text or f"[nothing: the result ends before byte {start:,}]"


# Not listed: it is offered only to a model that has read a cut result.
read_result = function_tool(_read_result, name=READ_RESULT, options={"read_only": True, "max_retries": 0}, listed=False)
_OFFER = ToolOffer(name=READ_RESULT, description=read_result.description, input_schema=read_result.input_schema)


class ReadResult(Middleware):
    """Offers `read_result` to a model that has read a cut result, or the line of a file of text."""

    is_derived = True

    def before_model(self, turn: Turn, request: ChatRequest) -> ChatRequest | None:
        if not turn.has_references and not _names_text(request.messages):
            return None
        if any(offer.name == READ_RESULT for offer in request.tools):  # names must be unique
            return None
        return msgspec.structs.replace(request, tools=(*request.tools, _OFFER))


def _names_text(messages: Sequence[ChatMessage]) -> bool:
    for message in messages:  # noqa: SIM110  # for each request of a long thread: a generator takes twice as long
        if message.files and any(ref.is_text for ref in message.files):
            return True
    return False


def note_of(size: str, artifact: str) -> str:
    """The note under a result that was cut."""
    return f"\n{CUT_NOTE}the whole result has {size}. {REFERENCE}{artifact}]"


async def referred(turn: Turn, message: ChatMessage, length: int) -> ChatMessage:
    """A tool's result shortened to `length` characters, with a note that names the artifact of the whole."""
    artifact = "" if _is_cut(message) else await turn.host.keep(message.content.encode())
    turn.has_references = True
    return as_referred(message, length, artifact)


def as_referred(message: ChatMessage, length: int, artifact: str = _NO_ARTIFACT) -> ChatMessage:
    """The result as `referred` shortens it, with the name of an artifact that there is, or one of the same length."""
    if _is_cut(message):
        text, note, rest = message.content.rpartition(_NOTE)
        content = f"{text[:length]}{note}{rest}"
    else:
        content = message.content[:length] + note_of(f"{len(message.content):,} characters", artifact)
    return ChatMessage(role="tool", content=content, use_id=message.use_id, failed=message.failed)


def _is_cut(message: ChatMessage) -> bool:
    """Does it have our note? A tool's own text cannot contain it."""
    _, note, rest = message.content.rpartition(_NOTE)
    return bool(note) and REFERENCE in rest
