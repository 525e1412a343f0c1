"""The response of a `fetch`, as the program sees it."""

from __future__ import annotations

import binascii

from clicket.interpreter.inside.safe_builtins import BUILTINS
from clicket.interpreter.sandbox.frames import decode

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Response"]

globals()["__builtins__"] = BUILTINS

_bytes_of = binascii.a2b_base64


class Response:
    """`status`, `ok`, `headers` (lowercase names), `url`, `text`, `content` (bytes), `json()`."""

    __slots__ = ("_given", "headers", "status", "url")

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self.status: int = given["status"]
        self.headers: dict[str, str] = given["headers"]
        self.url: str = given["url"]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content(self) -> bytes:
        coded = self._given.get("base64")
        return self._given["text"].encode() if coded is None else _bytes_of(coded)

    @property
    def text(self) -> str:
        text = self._given.get("text")
        return self.content.decode("utf-8", "replace") if text is None else text

    def json(self) -> Any:
        return decode(self.content)

    def __repr__(self) -> str:
        return f"<response {self.status} of {self.url}>"
