"""The frames between host and child. The program can write anything to our pipe, so each frame is checked strictly: of a known type
and within limits, or it is a violation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clicket.interpreter.sandbox.frames import MAX_FRAME
from clicket.system.frames import FrameSplitter

__all__ = [
    "MAX_FRAME",
    "MAX_SMALL_FRAME",
    "Answer",
    "CheckedBlock",
    "CheckedFrame",
    "DisplayFrame",
    "DoneFrame",
    "ErrorFrame",
    "Frames",
    "PreloadedFrame",
    "ReadyFrame",
    "RefusedFrame",
    "UseFrame",
    "VariableFrame",
    "Violation",
    "WithdrawFrame",
    "answer",
    "check",
    "decode",
    "execute",
    "preload",
]

MAX_SMALL_FRAME = 4 * 1024 * 1024
"""For every type but `display`: many small values take several times their text in memory, one long text does not."""

_LENGTH = Layout("!I")

_Id = Annotated[int, Meta(ge=1, le=2**53)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Name = Annotated[str, Meta(max_length=2_000)]
_Text = Annotated[str, Meta(max_length=256 * 1024)]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=100_000)]


class Violation(Exception):
    """The data is not a valid frame of a child. The text is for people, and short."""


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    pass


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ErrorFrame(_Part, frozen=True, kw_only=True):
    type: _Name
    message: _Text
    traceback: _Text = ""
    line: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class VariableFrame(_Part, frozen=True, kw_only=True):
    name: _Name
    type: _Name
    value: _Text = ""
    length: _Count | None = None
    shape: Annotated[tuple[_Count, ...], Meta(max_length=64)] | None = None
    change: Literal["created", "changed"] = "created"


class CheckedBlock(_Part, frozen=True, kw_only=True):
    """A block that was compiled and not run: its error, imports, and the names that it reads and binds."""

    error: ErrorFrame | None = None
    imports: _Names = ()
    loads: _Names = ()
    stores: _Names = ()


class ReadyFrame(_Frame, frozen=True, kw_only=True, tag="ready"):
    layers: Annotated[tuple[_Name, ...], Meta(max_length=32)]
    python: _Name


class RefusedFrame(_Frame, frozen=True, kw_only=True, tag="refused"):
    layer: _Name
    message: _Text


class CheckedFrame(_Frame, frozen=True, kw_only=True, tag="checked"):
    id: _Id
    blocks: Annotated[tuple[CheckedBlock, ...], Meta(max_length=10_000)]


class PreloadedFrame(_Frame, frozen=True, kw_only=True, tag="preloaded"):
    id: _Id
    modules: Annotated[tuple[_Name, ...], Meta(max_length=1_000)]


class DisplayFrame(_Frame, frozen=True, kw_only=True, tag="display"):
    id: _Id
    group: _Count
    mime: Annotated[str, Meta(max_length=200)]
    data: str


class DoneFrame(_Frame, frozen=True, kw_only=True, tag="done"):
    id: _Id
    status: Literal["ok", "error", "exit", "interrupted"]
    value: _Text | None = None
    error: ErrorFrame | None = None
    exit_code: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    variables: Annotated[tuple[VariableFrame, ...], Meta(max_length=10_000)] = ()
    threads: _Count = 0
    names: Annotated[tuple[_Name, ...], Meta(max_length=10_000)] = ()


class UseFrame(_Frame, frozen=True, kw_only=True, tag="use"):
    """The program uses a tool. `use` counts all uses of the child, from 1, without gaps."""

    id: _Id
    use: _Id
    tool: _Name
    arguments: msgspec.Raw
    """Judged with the call that the use becomes."""


class WithdrawFrame(_Frame, frozen=True, kw_only=True, tag="withdraw"):
    """The program does not wait for a use any more."""

    id: _Id
    use: _Id


Answer = ReadyFrame | RefusedFrame | CheckedFrame | PreloadedFrame | DisplayFrame | DoneFrame | UseFrame | WithdrawFrame

_ANY: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
_BIG = msgspec.json.Decoder(DisplayFrame)


def decode(body: bytes | bytearray) -> Answer:
    try:
        return _ANY.decode(body) if len(body) <= MAX_SMALL_FRAME else _BIG.decode(body)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, over a limit, nested too deep
        raise Violation(f"a frame of {len(body)} bytes is not valid: {str(error)[:200]}") from None


class Frames:
    """Splits bytes into frames. A length over the limit is refused before any data is stored."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = FrameSplitter(_LENGTH, _checked_size)

    def feed(self, data: bytes) -> Iterator[Answer]:
        for _, pieces in self._frames.feed(data):
            yield decode(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _checked_size(size: int) -> int:
    if size > MAX_FRAME:
        raise Violation(f"a frame of {size} bytes was announced; at most {MAX_FRAME} are allowed")
    return size


def check(id: int, codes: Sequence[str]) -> bytes:
    return _pack({"op": "check", "id": id, "codes": list(codes)})


def execute(id: int, code: str, name: str, *, check: bool = False, **tools: Any) -> bytes:
    """With `check`, the child first answers as to `check`, and runs the code only if it compiles. `tools`: the listing of the
    program's tools, None for none; left out, they are those of the block before."""
    command = {"op": "exec", "id": id, "code": code, "name": name, **tools}
    return _pack({**command, "check": True} if check else command)


def answer(use: int, body: bytes) -> bytes:
    """The answer to a use. `body`: `"value":…` or `"error":…` as JSON, the fields of an object without its braces."""
    frame = b'{"op":"answer","use":%d,%b}' % (use, body)
    return _LENGTH.pack(len(frame)) + frame


def preload(id: int, modules: Sequence[str]) -> bytes:
    return _pack({"op": "preload", "id": id, "modules": list(modules)})


def _pack(value: dict[str, Any]) -> bytes:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:  # lone surrogates: escaped they arrive, and the child's compiler reports them
        body = json.dumps(value).encode()
    return _LENGTH.pack(len(body)) + body
