"""An output with images or files on its way from a child process: their bytes go beside the output, at whose places are tokens.

A token is drawn after the tool has returned, so no data of the tool can pose as one.
"""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from clicket.errors import ResultUnserializable
from clicket.model.codec import decode, decode_big, encode
from clicket.model.files import File, Image, WithFiles, artifact_in
from clicket.model.output import without_files

__all__ = ["FilesOutput", "dump_files", "output_in"]

_KEY = "clicket.file"


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    is_image: bool
    name: str
    media_type: str | None
    artifact: str | None = None
    data: bytes = b""


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    output: msgspec.Raw
    sent: list[_Sent]
    beside: int
    """How many of them, at the end, are shown beside the output."""
    wrapped: bool
    text: str | None


def dump_files(output: Any) -> bytes:
    """In the child. A path is read here: it is one of the child's."""
    token, sent = token_hex(16), list[_Sent]()

    def take(file: File) -> dict[str, Any]:
        sent.append(_sent(file))
        return {_KEY: [token, len(sent) - 1]}

    inner, beside, text = output, list[File](), None
    if isinstance(output, WithFiles):
        inner, beside, text = output.output, output.files, output.text
    plain = without_files(inner, take)
    sent += map(_sent, beside)
    wrapped = isinstance(output, WithFiles)
    return encode(
        _Frame(
            token=token, output=msgspec.Raw(encode(plain)), sent=sent, beside=len(beside), wrapped=wrapped, text=text
        )
    )


def _sent(file: File) -> _Sent:
    source = file.source
    artifact = artifact_in(source)
    data = b""
    if isinstance(source, bytes):
        data = source
    elif artifact is None:
        try:
            data = Path(os.fspath(source)).read_bytes()
        except OSError as error:
            raise ResultUnserializable(
                f"the tool ran, but its result cannot be kept: {os.fspath(source)}: cannot be read: {error.strerror}."
            ) from error
    return _Sent(
        is_image=isinstance(file, Image), name=file.name, media_type=file.media_type, artifact=artifact, data=data
    )


_frames = msgspec.json.Decoder(_Frame)


class FilesOutput:
    """In the runtime's process: the frame as the tool's output, with the files in their places."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def output(self) -> Any:
        frame = _frames.decode(self._frame)
        files = [
            (Image if one.is_image else File)(one.artifact or one.data, one.media_type, name=one.name or None)
            for one in frame.sent
        ]
        plain = _with_files(decode_big(frame.output), frame.token, files)
        if not frame.wrapped:
            return plain
        return WithFiles(plain, files[len(files) - frame.beside :], frame.text)


def output_in(reply: bytes | FilesOutput) -> Any:
    """What a body has returned."""
    return decode(reply) if isinstance(reply, bytes) else reply.output()


def _with_files(value: Any, token: str, files: list[File]) -> Any:
    if type(value) is list:
        return [_with_files(item, token, files) for item in value]
    if type(value) is not dict:
        return value
    place = value.get(_KEY)
    if type(place) is list and len(value) == 1 and place[:1] == [token]:
        return files[place[1]]
    return {name: _with_files(item, token, files) for name, item in value.items()}
