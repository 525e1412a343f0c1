"""Images and files: what a tool returns or a message brings, and the reference that stands for it on record.

The law: bytes are kept as artifacts and are never on record. A reference is shown to a model if its line is in the text beside it: who
cuts, masks or replaces the text takes the file away with the line.
"""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.codec import as_text, clean, encode

__all__ = [
    "HEAD",
    "PICTURES",
    "File",
    "FileRef",
    "Image",
    "WithFiles",
    "artifact_in",
    "files_in",
    "files_text",
    "lines_of",
    "name_of_bytes",
    "pieces",
    "ref_of",
    "shown_in",
    "type_in",
]

HEAD = 256 * 1024
"""Bytes at the beginning of a file from which its type, and the size of an image, are read."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models can be shown."""
_ARTIFACT = re.compile(r"sha256-[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,95}")
_UNKNOWN = "application/octet-stream"
_IN_NAME = re.compile(r"[\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MAX_NAME = 120
_MAX_IMAGE_TOKENS = 1_600
"""Vendors make larger pictures smaller."""
_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml", "application/x-ndjson")
_CHECKED = (*PICTURES, "application/pdf")
"""Their first bytes are known."""
_EXTENSIONS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
}


class File:
    """A file in a message to an agent, or in what a tool returns. `source`: bytes, a path, or the name of an artifact, `sha256-…`.

    `media_type`: what it is; found in its first bytes or by its name if left out. `name`: for people and models.
    """

    __slots__ = ("media_type", "name", "source")

    def __init__(
        self, source: bytes | str | os.PathLike[str], media_type: str | None = None, *, name: str | None = None
    ) -> None:
        if isinstance(source, bytearray | memoryview):
            source = bytes(source)
        if not isinstance(source, bytes | str | os.PathLike) or source == "":
            raise UsageError(
                f"{type(self).__name__}(…) takes bytes, a path or the name of an artifact, and not {source!r:.60}."
            )
        if media_type is not None and (
            not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type.lower())
        ):
            raise UsageError(f"{media_type!r:.100} is not a media type; write it like image/png.")
        self.source: bytes | str | os.PathLike[str] = source
        self.media_type: str | None = None if media_type is None else media_type.lower()
        if name is None and not isinstance(source, bytes) and artifact_in(source) is None:
            name = PurePath(source).name
        self.name: str = "" if name is None else plain_name(name)

    def __repr__(self) -> str:
        size = f"{len(self.source):,} bytes" if isinstance(self.source, bytes) else repr(os.fspath(self.source))
        return f"{type(self).__name__}({size}{f', {self.media_type!r}' if self.media_type else ''})"


class Image(File):
    """A picture: PNG, JPEG, GIF or WebP can be shown to models. See `File`."""

    __slots__ = ()


class WithFiles:
    """An output beside which files are shown. The output is stored as it is. `text`: what a model reads in its place."""

    __slots__ = ("files", "output", "text")

    def __init__(self, output: Any, files: Sequence[File], text: str | None = None) -> None:
        self.output = output
        self.files = list(files)
        self.text = text


class FileRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A file that is kept as an artifact. `width` and `height`: of an image, in pixels, if they are known."""

    artifact: str
    media_type: str = msgspec.field(default_factory=lambda: _UNKNOWN)  # so given, it is in the JSON in any case
    size: int = msgspec.field(default_factory=int)
    name: str = ""
    width: int = 0
    height: int = 0

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")

    @property
    def is_text(self) -> bool:
        kind = self.media_type
        return kind.startswith("text/") or kind in _TEXTS or (kind.endswith(("+json", "+xml")) and not self.is_image)

    @property
    def tokens(self) -> int:
        """About what a model counts for it."""
        if self.is_image:
            return min(self.width * self.height // 750 + 85, _MAX_IMAGE_TOKENS) if self.width else _MAX_IMAGE_TOKENS
        return self.size // 4 if self.is_text else max(self.size // 20, _MAX_IMAGE_TOKENS)

    @property
    def line(self) -> str:
        """What stands in the text at the place of the file; a model that does not see it reads this."""
        return self._line("")

    def _line(self, more: str) -> str:
        facts = [f"{'image' if self.is_image else 'file'}{f' {self.name}' if self.name else ''}", self.media_type]
        facts += [f"{self.width}x{self.height}"] if self.width else []
        return f"[{', '.join(facts)}, {self.size:,} bytes: artifact {self.artifact}{more}]"

    def unseen(self, why: str) -> str:
        """The line in a request that does not show the file."""
        return self._line(f"; not shown: {why}")

    @property
    def file_name(self) -> str:
        """Its name; one made of its type if it has none."""
        return self.name or f"{'image' if self.is_image else 'file'}{_EXTENSIONS.get(self.media_type, '')}"


def artifact_in(source: Any) -> str | None:
    """The name of the artifact, if it is one."""
    return source if isinstance(source, str) and _ARTIFACT.fullmatch(source) else None


def files_in(value: Any) -> tuple[FileRef, ...]:
    """The references in plain JSON; none if it holds something else."""
    try:
        return msgspec.convert(value or (), tuple[FileRef, ...])
    except msgspec.ValidationError:  # another program wrote it
        return ()


def plain_name(name: str) -> str:
    """A name that cannot break the line that it stands in."""
    return " ".join(_IN_NAME.sub(" ", clean(name)).split())[:_MAX_NAME]


def name_of_bytes(data: bytes) -> str:
    """The name of the artifact with these bytes."""
    return f"sha256-{sha256(data).hexdigest()}"


def ref_of(file: File, artifact: str, head: bytes, size: int) -> FileRef:
    """The reference of a file that is kept. `head`: its first bytes. `UsageError`: an image whose type is not known."""
    found = type_in(head)
    # Vendors check the bytes: a file that only poses as a picture must not make them refuse the whole conversation.
    kind = found or file.media_type or (mimetypes.guess_type(file.name)[0] if file.name else None) or _UNKNOWN
    if found is None and kind in _CHECKED:
        kind = _UNKNOWN
    if isinstance(file, Image) and not kind.startswith("image/"):
        raise UsageError(
            f"{file!r} is not an image that is known (PNG, JPEG, GIF, WebP; it looks like {kind}). Use File(…), or say "
            "media_type='image/…'."
        )
    width, height = _size_in(head, kind)
    return FileRef(artifact=artifact, media_type=kind, size=size, name=file.name, width=width, height=height)


def lines_of(files: Iterable[FileRef]) -> str:
    return "\n".join(ref.line for ref in files)


def shown_in(text: str, files: Sequence[FileRef]) -> tuple[FileRef, ...]:
    """The files whose lines are in the text."""
    return tuple(ref for ref in files if ref.line in text)


def files_text(output: Any, files: Sequence[FileRef]) -> str:
    """What a model reads of an output with these files: texts and lines in their order, or JSON and the lines after it."""
    known = {encode(ref): ref.line for ref in files}
    items = output if isinstance(output, list) else [output]
    parts: list[str] = []
    for item in items:
        part = (
            as_text(item) if isinstance(item, str) else known.get(encode(item)) if isinstance(item, Mapping) else None
        )
        if part is None:
            return f"{as_text(output)}\n{lines_of(files)}"
        parts.append(part)
    text = "\n".join(parts)
    return "\n".join([text, *(ref.line for ref in files if ref.line not in text)])


def pieces(text: str, files: Sequence[FileRef], shown: Container[str]) -> list[str | FileRef]:
    """The text with the files whose artifacts are `shown`, each after its line. No text is blank."""
    places = [(text.find(ref.line), ref) for ref in files if ref.artifact in shown]
    found: list[str | FileRef] = []
    at = 0
    for place, ref in sorted(((place, ref) for place, ref in places if place >= 0), key=lambda each: each[0]):
        end = place + len(ref.line)
        found += [text[at:end], ref]
        at = end
    return [part for part in (*found, text[at:]) if isinstance(part, FileRef) or part.strip()]


# What the first bytes say. Every read is bounded by `head`.


def type_in(head: bytes) -> str | None:
    """The type of a picture or a PDF; None for all others."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return "application/pdf" if head.startswith(b"%PDF-") else None


def _size_in(head: bytes, kind: str) -> tuple[int, int]:
    """Width and height of an image; zeros if they are not found."""

    def big(at: int, length: int) -> int:
        return int.from_bytes(head[at : at + length], "big")

    def little(at: int, length: int) -> int:
        return int.from_bytes(head[at : at + length], "little")

    match kind:
        case "image/png" if head[12:16] == b"IHDR" and len(head) >= 24:
            return big(16, 4), big(20, 4)
        case "image/gif" if len(head) >= 10:
            return little(6, 2), little(8, 2)
        case "image/webp" if head[12:16] == b"VP8X" and len(head) >= 30:
            return little(24, 3) + 1, little(27, 3) + 1
        case "image/webp" if head[12:16] == b"VP8L" and len(head) >= 25:
            bits = little(21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case "image/webp" if head[12:16] == b"VP8 " and len(head) >= 30:
            return little(26, 2) & 0x3FFF, little(28, 2) & 0x3FFF
        case "image/jpeg":
            return _jpeg_size(head)
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """From the first frame header. Each segment names its length, so the way to it is short."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big")
        else:
            at += 2 + max(int.from_bytes(head[at + 2 : at + 4], "big"), 2)
    return 0, 0
