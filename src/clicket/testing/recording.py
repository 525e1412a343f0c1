"""Records replies of a real model in a file, and replays them. A request that was not recorded is an error.

Each line of the file is one request with its reply, as JSON. Keys and tokens are masked before they are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, TypedBy
from clicket.model.codec import canonical, decode, encode
from clicket.model.ports.services import ChatModel, StreamingModel
from clicket.safety.vault import hide
from clicket.testing.scripted_model import stream_whole

__all__ = ["RecordingModel", "ReplayModel"]

_WHOLE = 1 << 30
"""Characters of one delta: a recorded reply is not split."""


class RecordingModel:
    """Asks `model`, and appends each request with its reply to the file at `path`. Errors are not recorded."""

    def __init__(self, model: ChatModel, path: str | os.PathLike[str]) -> None:
        self.name: str = model.name
        self.typed_by: TypedBy = getattr(model, "typed_by", "text")
        self.sees_images: bool = bool(getattr(model, "sees_images", False))
        self._model = model
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)

    async def chat(self, request: ChatRequest) -> ChatReply:
        return self._kept(request, await self._model.chat(request))

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        if isinstance(self._model, StreamingModel):
            return self._kept(request, await self._model.stream(request, tell))
        return stream_whole(await self.chat(request), tell, _WHOLE)

    def _kept(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        shown = _shown(request)
        line = {"digest": _digest(shown), "request": shown, "reply": hide(_plain(reply))}
        with self._path.open("ab") as file:
            file.write(encode(line) + b"\n")
        return reply


class ReplayModel:
    """Replies from a file of `RecordingModel`. A request that was recorded several times gets its replies in that order. `typed_by`
    and `sees_images`: those of the recorded model."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str = "replay",
        typed_by: TypedBy = "text",
        sees_images: bool = False,
    ) -> None:
        self.name: str = name
        self.typed_by: TypedBy = typed_by
        self.sees_images = sees_images
        self._path = Path(path)
        self._answers: dict[str, list[ChatReply]] = {}
        self._asked: dict[str, Any] = {}
        self._used: dict[str, int] = {}
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(
                f"There is no recording at {self._path}: {error.strerror}. Make it with RecordingModel."
            ) from None
        for number, line in enumerate(lines, 1):
            try:
                one = decode(line)
                reply = msgspec.convert(one["reply"], ChatReply)
                # The digest is computed again, because a newer version may have added fields with defaults.
                shown = _shown(msgspec.convert(one["request"], ChatRequest))
                self._answers.setdefault(_digest(shown), []).append(reply)
                self._asked[_digest(shown)] = shown
            except (ValueError, TypeError, KeyError):
                raise UsageError(f"Line {number} of {self._path} is not a recorded answer. Record it again.") from None

    async def chat(self, request: ChatRequest) -> ChatReply:
        shown = _shown(request)
        digest = _digest(shown)
        answers = self._answers.get(digest, [])
        number = self._used.get(digest, 0)
        if number >= len(answers):
            raise UsageError(self._missing(shown, len(answers)))
        self._used[digest] = number + 1
        return answers[number]

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        return stream_whole(await self.chat(request), tell, _WHOLE)

    def _missing(self, asked: Any, recorded: int) -> str:
        if recorded:
            return f"{self._path} has {recorded} replies to this request, and another was requested. Record it again."
        if not self._asked:
            return f"{self._path} has no answers. Record some with RecordingModel."
        # Only the beginning is compared: long conversations would take too long.
        text = canonical(asked).decode("utf-8")[:20_000]
        nearest = max(self._asked.values(), key=lambda one: _likeness(canonical(one).decode("utf-8")[:20_000], text))
        return (
            f"{self._path} has no reply to this request. The most similar recorded one differs "
            f"{_difference(nearest, asked)}. Record it again, or send the recorded request."
        )


def _plain(value: ChatRequest | ChatReply) -> Any:
    return decode(encode(value))


def _shown(request: ChatRequest) -> Any:
    """Masked before it is digested, so that requests that differ only in a key are equal."""
    return hide(_plain(msgspec.structs.replace(request, files={})))


def _digest(shown: Any) -> str:
    return sha256(canonical(shown)).hexdigest()


def _likeness(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=True)
    return matcher.quick_ratio()


def _difference(recorded: Any, asked: Any, path: str = "") -> str:
    """The first difference of two requests."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in (*recorded, *(key for key in asked if key not in recorded)):
            if recorded.get(key) != asked.get(key):
                return _difference(recorded.get(key), asked.get(key), f"{path}/{key}")
    if isinstance(recorded, list) and isinstance(asked, list):
        for place, (one, other) in enumerate(zip(recorded, asked, strict=False)):
            if one != other:
                return _difference(one, other, f"{path}/{place}")
        return f"at {path or '/'}: {len(recorded)} there, {len(asked)} here"
    return f"at {path or '/'}: {_short(recorded, asked)} there, {_short(asked, recorded)} here"


def _short(value: Any, other: Any) -> str:
    text, against = repr(value), repr(other)
    same = next((at for at, (one, two) in enumerate(zip(text, against, strict=False)) if one != two), 0)
    start = max(0, same - 20)
    return f"{'…' if start else ''}{text[start : start + 60]}{'…' if len(text) > start + 60 else ''}"
