"""Answers of a real model, kept in a file and given again: what was not asked before is not guessed.

Each line is one question with its answer, as JSON. What looks like a key or a token is masked before it is written.
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
from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.codec import canonical, decode, encode
from clicket.ports.services import ChatModel, StreamingModel
from clicket.vault import hide

__all__ = ["RecordingModel", "ReplayModel"]


class RecordingModel:
    """Asks `model`, and adds what was asked and answered to the file at `path`. Failures are not kept."""

    def __init__(self, model: ChatModel, path: str | os.PathLike[str]) -> None:
        self.name: str = model.name
        self._model = model
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)

    async def chat(self, request: ChatRequest) -> ChatReply:
        return self._kept(request, await self._model.chat(request))

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        if isinstance(self._model, StreamingModel):
            return self._kept(request, await self._model.stream(request, tell))
        reply = await self.chat(request)
        _retell(reply, tell)
        return reply

    def _kept(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        shown = _shown(request)
        line = {"digest": _digest(shown), "request": shown, "reply": hide(_plain(reply))}
        with self._path.open("ab") as file:
            file.write(encode(line) + b"\n")
        return reply


class ReplayModel:
    """Answers from a file of `RecordingModel`. A question that was recorded several times has its answers in that order."""

    def __init__(self, path: str | os.PathLike[str], *, name: str = "replay") -> None:
        self.name: str = name
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
                # Digested anew: a request of today may have a field that one of then had not, at its default.
                shown = _shown(msgspec.convert(one["request"], ChatRequest))
                self._answers.setdefault(_digest(shown), []).append(reply)
                self._asked[_digest(shown)] = shown
            except (ValueError, TypeError, KeyError):
                raise UsageError(f"Line {number} of {self._path} is no recorded answer. Record it again.") from None

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
        reply = await self.chat(request)
        _retell(reply, tell)
        return reply

    def _missing(self, asked: Any, recorded: int) -> str:
        if recorded:
            return f"{self._path} has {recorded} answers to this request, and it was asked once more. Record it again."
        if not self._asked:
            return f"{self._path} has no answers. Record some with RecordingModel."
        # The beginning of a conversation is the most telling part, and enough: long ones would take long to compare.
        text = canonical(asked).decode("utf-8")[:20_000]
        nearest = max(self._asked.values(), key=lambda one: _likeness(canonical(one).decode("utf-8")[:20_000], text))
        return (
            f"{self._path} has no answer to this request. The nearest one that was recorded differs "
            f"{_difference(nearest, asked)}. Record it again, or ask what was recorded."
        )


def _plain(value: ChatRequest | ChatReply) -> Any:
    return decode(encode(value))


def _shown(request: ChatRequest) -> Any:
    """Masked before it is digested, so that a request with another key in it is the same one."""
    return hide(_plain(request))


def _digest(shown: Any) -> str:
    return sha256(canonical(shown)).hexdigest()


def _likeness(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=True)
    return matcher.quick_ratio()


def _difference(recorded: Any, asked: Any, path: str = "") -> str:
    """Where two requests differ first, and how."""
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


def _retell(reply: ChatReply, tell: Callable[[Delta], None]) -> None:
    if reply.thought:
        tell(Delta("thought", reply.thought))
    if reply.text:
        tell(Delta("text", reply.text))
    for number, use in enumerate(reply.uses):
        tell(Delta("name", use.name, number))
        tell(Delta("arguments", use.arguments, number))
