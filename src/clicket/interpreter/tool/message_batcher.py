"""Messages of a run on their way into a journal, which holds a bounded number of them. Text that comes in small pieces is merged,
the longer a run goes on the more of it; of very much, be it text or things shown, the rest is counted; what is large is kept as
an artifact and named. So there is always room for what the run says itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from clicket.interpreter.run.messages import Message
from clicket.interpreter.run.result_builder import bytes_of

__all__ = ["MessageBatcher"]

_TEXT = ("stdout", "stderr")
_PIECE = 4 * 1024
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 2.0
_PATIENT_AFTER = 100
"""Pieces of text after which the next ones wait twice as long: a journal takes 1,000 in all."""
_ROOM = 512 * 1024
"""Characters of text that are shown live; the result has more of them, and its artifacts all."""
_COUNTED = ("display", "variable_created", "variable_changed")
_MOST = 200
"""Messages of each of these kinds; the result has them all."""
_LARGE = 16 * 1024
_LARGE_DISPLAY = 256 * 1024
_ALBUM = 1024 * 1024
"""Characters of displays that travel with their messages; those that come later, or are larger, are only named."""
_LARGE_RESULT = 64 * 1024
_BRIEF = ("status", "reason", "value", "exit_code", "error", "files", "isolation", "duration")


class MessageBatcher:
    """`emit` gets the messages that go on; `put` keeps bytes and gives their name."""

    def __init__(
        self, emit: Callable[[Message], None], put: Callable[[bytes | Sequence[bytes]], Awaitable[str]]
    ) -> None:
        self._emit = emit
        self._put = put
        self._held: Message | None = None
        self._parts: list[str] = []
        self._size = 0
        self._pieces = 0
        self._room = _ROOM
        self._album = _ALBUM
        self._left = dict.fromkeys(_COUNTED, _MOST)
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
            if size > min(_LARGE_DISPLAY, self._album):
                artifact = await self._put(bytes_of(message["mime"], message["data"]))
                message = {**message, "data": "", "artifact": artifact}
            else:
                self._album -= size
        elif kind == "final_result" and len(msgspec.json.encode(message)) > _LARGE_RESULT:
            result = {name: message["result"][name] for name in _BRIEF if name in message["result"]}
            message = {**message, "result": result, "cut": True}  # the whole is the call's output
        elif kind == "code_execution_start" and len(message["code"]) > _LARGE:
            message = {**message, "code": message["code"][:_LARGE], "cut": True}
        self._emit(message)

    def flush(self, *, wholly: bool = False) -> None:
        """Say what is held back; `wholly`: and how many characters, or things, were left out."""
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
                said = {"type": kind, "omitted": count, "block_index": index, "timestamp": time.time()}
                self._emit({**said, "content": ""} if kind in _TEXT else said)

    def _hold(self, message: Message) -> None:
        if self._room <= 0:
            self._omit(message, len(message["content"]))
            return
        self._room -= len(message["content"])
        held = self._held
        if held is not None and any(held.get(name) != message.get(name) for name in ("type", "block_index")):
            self.flush()
        if self._held is None:
            self._held = message
            loop, wait = asyncio.get_running_loop(), _FIRST_WAIT * 2 ** (self._pieces // _PATIENT_AFTER)
            self._timer = loop.call_later(min(wait, _LONGEST_WAIT), self.flush)
        self._parts.append(message["content"])
        self._size += len(message["content"])
        if self._size >= _PIECE:
            self.flush()

    def _omit(self, message: Message, count: int) -> None:
        about = (message["type"], message.get("block_index"))
        self._omitted[about] = self._omitted.get(about, 0) + count
