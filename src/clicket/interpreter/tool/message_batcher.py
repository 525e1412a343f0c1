"""Bounds the messages of a run before they are written to the call's journal, which holds a limited number of them.

Small pieces of text are merged, more of them the longer the run goes on. Beyond a limit, text and displays are only counted. Large
displays are stored as artifacts and named. So there is always room for the run's own messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from clicket import system
from clicket.interpreter.run.messages import Message
from clicket.interpreter.run.result_builder import bytes_of

__all__ = ["MessageBatcher"]

_TEXT = ("stdout", "stderr")
_PIECE = 4 * 1024
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 2.0
_DOUBLE_WAIT_EVERY = 100
"""After this many pieces of text the next ones wait twice as long: a journal takes 1,000 in all."""
_MAX_TEXT = 512 * 1024
"""Characters of text in messages; the result has more of them, and its artifacts all."""
_COUNTED = ("display", "variable_created", "variable_changed")
_MAX_COUNTED = 200
"""Messages of each of these types; the result has all."""
_LARGE = 16 * 1024
_LARGE_DISPLAY = 256 * 1024
_MAX_DISPLAY_TEXT = 1024 * 1024
"""Characters of displays in messages; later and larger ones are only named."""
_LARGE_RESULT = 64 * 1024
_BRIEF = ("status", "reason", "value", "exit_code", "error", "files", "isolation", "duration")


class MessageBatcher:
    """`emit` gets the bounded messages; `put` stores bytes and returns their artifact name."""

    def __init__(
        self, emit: Callable[[Message], None], put: Callable[[bytes | Sequence[bytes]], Awaitable[str]]
    ) -> None:
        self._emit = emit
        self._put = put
        self._held: Message | None = None
        self._parts: list[str] = []
        self._size = 0
        self._pieces = 0
        self._text_left = _MAX_TEXT
        self._display_left = _MAX_DISPLAY_TEXT
        self._left = dict.fromkeys(_COUNTED, _MAX_COUNTED)
        self._omitted: dict[tuple[str, int | None], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, message: Message) -> None:
        kind = message["type"]
        if kind in _TEXT:
            self._hold(message)
            return
        if kind in _COUNTED:
            if self._left[kind] == 0:
                self._omit(message, 1)
                return
            self._left[kind] -= 1
        self.flush(wholly=kind not in _COUNTED)
        if kind == "display":
            size = len(message["data"])
            if size > min(_LARGE_DISPLAY, self._display_left):
                artifact = await self._put(bytes_of(message["mime"], message["data"]))
                message = {**message, "data": "", "artifact": artifact}
            else:
                self._display_left -= size
        elif kind == "final_result" and len(msgspec.json.encode(message)) > _LARGE_RESULT:
            result = {name: message["result"][name] for name in _BRIEF if name in message["result"]}
            message = {**message, "result": result, "cut": True}  # the whole is the call's output
        elif kind == "code_execution_start" and len(message["code"]) > _LARGE:
            message = {**message, "code": message["code"][:_LARGE], "cut": True}
        self._emit(message)

    def flush(self, *, wholly: bool = False) -> None:
        """Emit held text; `wholly`: also how many characters, displays and variables were left out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, None
        if held is not None:
            self._pieces += 1
            self._emit({**held, "content": "".join(self._parts)})
        self._parts, self._size = [], 0
        if wholly:
            omitted, self._omitted = self._omitted, {}
            for (kind, index), count in omitted.items():
                said = {"type": kind, "omitted": count, "block_index": index, "timestamp": system.now()}
                self._emit({**said, "content": ""} if kind in _TEXT else said)

    def _hold(self, message: Message) -> None:
        if self._text_left <= 0:
            self._omit(message, len(message["content"]))
            return
        self._text_left -= len(message["content"])
        held = self._held
        if held is not None and any(held.get(name) != message.get(name) for name in ("type", "block_index")):
            self.flush()
        if self._held is None:
            self._held = message
            loop = asyncio.get_running_loop()
            wait = _FIRST_WAIT * 2 ** (self._pieces // _DOUBLE_WAIT_EVERY)
            self._timer = loop.call_later(min(wait, _LONGEST_WAIT), self.flush)
        self._parts.append(message["content"])
        self._size += len(message["content"])
        if self._size >= _PIECE:
            self.flush()

    def _omit(self, message: Message, count: int) -> None:
        about = (message["type"], message.get("block_index"))
        self._omitted[about] = self._omitted.get(about, 0) + count
