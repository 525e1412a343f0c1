"""ZIP files of XML parts, read with bounds on the number of parts, the unpacked size and the number of elements.

Document type declarations are refused, so no XML entity can expand. Nothing is written to disk, and nothing is fetched.
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from clicket.search.extract.extracted_text import TextLimitReached, Unreadable

__all__ = ["Archive", "related_id"]

MAX_UNPACKED = 200 * 1024 * 1024
MAX_ELEMENTS = 2_000_000
MAX_PARTS = 20_000
_CHUNK = 256 * 1024
_DIRECTORY = b"PK\x01\x02"
_OLE = b"\xd0\xcf\x11\xe0"
_MAX_RATIO, _RATIO_FROM = 500, 16 * 1024 * 1024
"""The compression ratio that a part may have once it has unpacked to `_RATIO_FROM` bytes."""

OnOpen = Callable[[str, Mapping[str, str]], None]
OnClose = Callable[[str], None]
OnText = Callable[[str], None]


def _ignore(_: str) -> None:
    """The reader has no use for this event."""


class Archive:
    """The parts of one file, by name. `truncated`: some part had more elements or text than may be read."""

    def __init__(self, data: bytes, needed: str) -> None:
        if data.startswith(_OLE):
            raise Unreadable("encrypted, or in an old Office format; save it again without a password")
        if data.count(_DIRECTORY) > MAX_PARTS:
            raise Unreadable(f"it has more than {MAX_PARTS:,} parts")
        try:
            self._zip = ZipFile(BytesIO(data))
        except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise Unreadable(f"damaged: {error}") from None
        self.names = frozenset(self._zip.namelist())
        self.truncated = False
        self._unpacked = self._elements = 0
        if needed not in self.names:
            raise Unreadable(f"damaged: it has no {needed}")

    def read(self, name: str, max_size: int = 8 * 1024 * 1024) -> bytes:
        """A small part as a whole; empty when there is no such part."""
        data = bytearray()
        self._each_chunk(name, data.extend, max_size)
        return bytes(data)

    def parse(self, name: str, on_open: OnOpen, on_close: OnClose = _ignore, on_text: OnText = _ignore) -> None:
        """Call back for each element and text of a part, in order. A missing part has none. Names come without a prefix."""
        parser = _parser(self._counted(on_open), on_close, on_text)
        try:
            self._each_chunk(name, lambda chunk: parser.Parse(chunk, False), MAX_UNPACKED)
            if name in self.names:
                parser.Parse(b"", True)
        except TextLimitReached:
            self.truncated = True
        except expat.ExpatError as error:
            raise Unreadable(f"damaged: {name}: {expat.ErrorString(error.code)}") from None

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """The parts of the archive that a part refers to: by relation id, the kind and the name of the part."""
        folder, base = posixpath.split(name)
        found: dict[str, tuple[str, str]] = {}

        def on_open(tag: str, attributes: Mapping[str, str]) -> None:
            if tag == "Relationship" and attributes.get("TargetMode") != "External":
                target = unquote(attributes.get("Target", ""))
                path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                kind = attributes.get("Type", "").rpartition("/")[2]
                found[attributes.get("Id", "")] = (kind, posixpath.normpath(path))

        self.parse(f"{folder}/_rels/{base}.rels".lstrip("/"), on_open)
        return found

    def title(self) -> str:
        """The title in the file's properties."""
        title: list[str] = []
        inside = False

        def on_open(tag: str, _: Mapping[str, str]) -> None:
            nonlocal inside
            inside = tag == "title"

        def on_text(data: str) -> None:
            if inside:
                title.append(data)

        for name in ("docProps/core.xml", "meta.xml"):
            self.parse(name, on_open, lambda _: on_open("", {}), on_text)
        return " ".join("".join(title).split())[:500]

    def _counted(self, on_open: OnOpen) -> OnOpen:
        def count(tag: str, attributes: Mapping[str, str]) -> None:
            self._elements += 1
            if self._elements > MAX_ELEMENTS:
                raise TextLimitReached
            on_open(tag, attributes)

        return count

    def _each_chunk(self, name: str, take: Callable[[bytes], object], max_size: int) -> None:
        if name not in self.names:
            return
        packed, length = self._zip.getinfo(name).compress_size, 0
        try:
            with self._zip.open(name) as part:
                while chunk := part.read(_CHUNK):
                    length += len(chunk)
                    self._unpacked += len(chunk)
                    allowed = min(max(_RATIO_FROM, packed * _MAX_RATIO), max_size)
                    if length > allowed or self._unpacked > MAX_UNPACKED:
                        raise Unreadable("it unpacks to more than a document of its size could")
                    take(chunk)
        except RuntimeError as error:  # zipfile raises it when a password is needed
            raise Unreadable(f"encrypted: {error}") from None
        except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise Unreadable(f"damaged: {name}: {error}") from None


def related_id(attributes: Mapping[str, str]) -> str:
    """The relation id among an element's attributes. The namespace prefix differs between writers."""
    return next((value for name, value in attributes.items() if name.endswith(":id")), "")


def _local(tag: str) -> str:
    return tag.rpartition(":")[2]


def _parser(on_open: OnOpen, on_close: OnClose, on_text: OnText) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = 65536
    parser.StartElementHandler = lambda tag, attributes: on_open(_local(tag), attributes)
    parser.EndElementHandler = lambda tag: on_close(_local(tag))
    parser.CharacterDataHandler = on_text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


def _refuse_doctype(*_: object) -> None:
    raise Unreadable("it declares a document type, which files of its format do not")
