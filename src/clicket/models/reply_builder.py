"""Builds a `ChatReply` from the pieces of a stream. The deltas that are passed on add up to the reply, and the size is bounded.

Arguments that are cut end with a note that is not JSON, so that the runtime refuses the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from clicket.model.chat import ChatReply, Delta, Ended, ToolUse, Usage
from clicket.model.foreign import clean
from clicket.models.transcript import Names

__all__ = ["MAX_ARGUMENTS", "MAX_USES", "OnDelta", "ReplyBuilder", "ToolUseBuilder", "ignore_delta"]

OnDelta = Callable[[Delta], None]

MAX_ARGUMENTS = 1024 * 1024
_MAX_NAME = 200
MAX_USES = 1_000
_MAX_ANSWER = 16 * 1024 * 1024
"""Characters of one reply, all parts together; the rest is not read."""
_MAX_LOOKED_AT = 16 * MAX_ARGUMENTS
"""Characters that `is_whole` parses for one call in all; after that it returns False."""
_MAX_NAME = 512
_TOO_LONG = f"\n[cut: the arguments are longer than {MAX_ARGUMENTS} characters]"
_UNWRITTEN = "[cut: the answer ended before the arguments were written. Make the call again, with shorter ones.]"
_HIGH = ("\ud800", "\udbff")


def ignore_delta(_delta: Delta) -> None:
    """For a reply without a listener."""


class _Text:
    """Joins pieces of one text. A high surrogate at the end of a piece waits for the low one."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._half = ""
        self.parts: list[str] = []

    def add(self, piece: str) -> None:
        if self._half:
            piece, self._half = _joined(self._half + piece), ""
        if piece and _HIGH[0] <= piece[-1] <= _HIGH[1]:
            piece, self._half = piece[:-1], piece[-1]
        self._take(clean(_joined(piece)))

    def end(self) -> str:
        self._take(clean(self._half))
        self._half = ""
        return "".join(self.parts)

    def _take(self, piece: str) -> None:
        if piece:
            self.parts.append(piece)
            self._on_text(piece)


def _joined(text: str) -> str:
    """Joins adjacent surrogates into one character."""
    if not any(_HIGH[0] <= char <= _HIGH[1] for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class ToolUseBuilder:
    """Collects one tool call. Its name is passed on once, when it is complete: only then can it be mapped to the tool's own name."""

    def __init__(self, names: Names, tell: OnDelta, number: int, id: Any) -> None:
        self.id = clean(id, _MAX_NAME) if isinstance(id, str) else ""
        self.written = ""
        """The name as the model wrote it."""
        self._names = names
        self._tell = tell
        self._number = number
        self._size = 0
        self._named = False
        self._cut = False
        self._looked_at = 0
        self._arguments = _Text(self._tell_arguments)
        self._held: list[str] = []

    def name(self, piece: Any) -> None:
        """Add a piece of the name. Some servers repeat the whole name in every piece. Once arguments arrive, the name is fixed."""
        if isinstance(piece, str) and not self._named and piece != self.written:
            self.written = (self.written + piece)[:_MAX_NAME]

    def arguments(self, piece: Any) -> None:
        """Add a piece of the arguments. A value that is not text, as some servers send, is encoded as JSON."""
        if piece is None or piece == "" or self._cut:
            return
        text = piece if isinstance(piece, str) else _written(piece)
        self._size += len(text)
        if self._size > MAX_ARGUMENTS:
            self._cut = True
            text = text[: len(text) - (self._size - MAX_ARGUMENTS)] + _TOO_LONG
        if self.written or self._named:
            self._flush()
            self._arguments.add(text)
        else:
            self._held.append(text)

    def is_whole(self) -> bool:
        """Are the arguments so far one JSON object? Then another name belongs to another call."""
        parts = self._held or self._arguments.parts
        if (
            not parts
            or not (parts[-1].rstrip().endswith("}") or parts[-1].isspace())
            or self._looked_at > _MAX_LOOKED_AT
        ):
            return False
        text = "".join((*self._arguments.parts, *self._held))
        self._looked_at += len(text)
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    def end(self, *, cut: bool) -> tuple[str, str]:
        """Name and arguments. `cut`: the reply reached its token limit in this call."""
        self._flush()
        if not "".join(self._arguments.parts).strip():
            self._arguments.add(_UNWRITTEN if cut else "{}")
        return self._own_name, self._arguments.end()

    @property
    def _own_name(self) -> str:
        return self._names.own(clean(self.written))

    def _flush(self) -> None:
        if not self._named:
            self._named = True
            self._tell(Delta("name", self._own_name, self._number))
        held, self._held = self._held, []
        for text in held:
            self._arguments.add(text)

    def _tell_arguments(self, piece: str) -> None:
        self._tell(Delta("arguments", piece, self._number))


class ReplyBuilder:
    """Takes the pieces of one reply; `reply` returns the whole."""

    def __init__(self, names: Names, tell: OnDelta = ignore_delta) -> None:
        self.uses: list[ToolUseBuilder] = []
        self._names = names
        self._watcher = tell
        self._size = 0
        self._text = _Text(lambda piece: self._tell(Delta("text", piece)))
        self._thought = _Text(lambda piece: self._tell(Delta("thought", piece)))
        self._left_out = False
        self._id = self._model = ""

    def known_as(self, id: Any, model: Any) -> None:
        """The vendor's names of the reply and of the model that gave it, where it tells them."""
        if isinstance(id, str) and id:
            self._id = clean(id)[:_MAX_NAME]
        if isinstance(model, str) and model:
            self._model = clean(model)[:_MAX_NAME]

    @property
    def full(self) -> bool:
        """The reply is longer than the bound: stop reading."""
        return self._size > _MAX_ANSWER

    def text(self, piece: Any) -> None:
        if isinstance(piece, str):
            self._text.add(piece)

    def thought(self, piece: Any) -> None:
        if isinstance(piece, str):
            self._thought.add(piece)

    def begin(self, id: Any = None) -> ToolUseBuilder:
        if len(self.uses) >= MAX_USES:  # its pieces are collected and dropped
            self._left_out = True
            return ToolUseBuilder(self._names, ignore_delta, MAX_USES, id)
        self.uses.append(ToolUseBuilder(self._names, self._tell, len(self.uses), id))
        return self.uses[-1]

    def _tell(self, delta: Delta) -> None:
        self._size += len(delta.text)
        self._watcher(delta)

    def reply(self, *, ended: Ended, usage: Usage, vendor: Mapping[str, Any] | None = None) -> ChatReply:
        if ended == "stop" and (self._left_out or self.full):
            ended = "length"
        uses: list[ToolUse] = []
        taken: set[str] = set()
        for number, use in enumerate(self.uses):
            name, arguments = use.end(cut=ended == "length" and number == len(self.uses) - 1)
            uses.append(ToolUse(id=_unique(use.id, number, taken), name=name, arguments=arguments))
        return ChatReply(
            text=self._text.end(),
            thought=self._thought.end(),
            uses=tuple(uses),
            usage=usage,
            ended=ended,
            vendor=vendor,
            id=self._id,
            model=self._model,
        )


def _unique(id: str, number: int, taken: set[str]) -> str:
    """The given id, unless it is empty or another call of the reply has it."""
    made = id or f"call_{number}"
    again = 0
    while made in taken:
        again += 1
        made = f"{id or 'call'}_{number}_{again}"
    taken.add(made)
    return made


def _written(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # e.g. an object of the SDK's in place of plain JSON
        dump = getattr(value, "model_dump_json", None)
        return dump() if callable(dump) else "[cut: the arguments cannot be read]"
