"""A model that replays answers from a file: for demonstrations, and to try an agent or a server without an API key.

Tests use `clicket.testing.ScriptedModel`, whose answers are Python values and which keeps the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse, Usage

__all__ = ["ScriptModel"]

_FORM = (
    'It is JSON: a list of answers, each a text or a list of [tool, arguments]; or {"answers": [...], "repeat": true}, which '
    "begins anew after the last one."
)
_PIECE = 12
"""Characters of one delta."""


class _Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answers: list[Any]
    repeat: bool = False


class ScriptModel:
    """`path` is a JSON file of answers: a text is a final answer, a list of `[tool, arguments]` is a step of tool calls.

    The number of assistant messages in the conversation selects the next answer, so a turn continues at the right place after a
    crash. A token is counted as four characters, and the cost is 0.
    """

    def __init__(self, path: str) -> None:
        if not isinstance(path, str) or not path.strip():
            raise UsageError('a script is named by its file: model = "script:answers.json".')
        self.name: str = f"script:{path}"
        script = _read(Path(path))
        self._answers = [_reply(path, number, answer) for number, answer in enumerate(script.answers, start=1)]
        self._repeat = script.repeat

    async def chat(self, request: ChatRequest) -> ChatReply:
        place = sum(message.role == "assistant" for message in request.messages)
        if self._repeat:
            place %= len(self._answers)
        elif place >= len(self._answers):
            raise UsageError(
                f"{self.name} has {len(self._answers)} answers, and this conversation has had them all. Begin another thread, "
                'add answers, or write {"answers": [...], "repeat": true}.'
            )
        reply = self._answers[place]
        read = sum(len(message.content) for message in request.messages)
        written = len(reply.text) + sum(len(use.name) + len(use.arguments) for use in reply.uses)
        usage = Usage(input_tokens=-(-read // 4), output_tokens=-(-written // 4))
        return msgspec.structs.replace(reply, usage=usage)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        reply = await self.chat(request)
        for at in range(0, len(reply.text), _PIECE):
            tell(Delta("text", reply.text[at : at + _PIECE]))
        for number, use in enumerate(reply.uses):
            tell(Delta("name", use.name, number))
            tell(Delta("arguments", use.arguments, number))
        return reply


def _read(path: Path) -> _Script:
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"the script {str(path)!r} cannot be read: {error.strerror}. {_FORM}") from None
    except msgspec.MsgspecError as error:
        raise UsageError(f"the script {str(path)!r} is not valid JSON: {error}. {_FORM}") from None
    try:
        script = msgspec.convert({"answers": content} if isinstance(content, list) else content, _Script)
    except msgspec.ValidationError as error:
        raise UsageError(f"the script {str(path)!r}: {error}. {_FORM}") from None
    if not script.answers:
        raise UsageError(f"the script {str(path)!r} has no answers. {_FORM}")
    return script


def _reply(path: str, number: int, answer: Any) -> ChatReply:
    if isinstance(answer, str):
        return ChatReply(text=answer)
    if isinstance(answer, list) and answer and all(_is_call(each) for each in answer):
        uses = tuple(
            ToolUse(id=f"call_{number}_{place}", name=tool, arguments=msgspec.json.encode(arguments).decode())
            for place, (tool, arguments) in enumerate(answer, start=1)
        )
        return ChatReply(uses=uses)
    raise UsageError(f"the script {path!r}: answer {number} is neither a text nor a list of [tool, arguments]. {_FORM}")


def _is_call(each: Any) -> bool:
    return isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and isinstance(each[1], dict)
