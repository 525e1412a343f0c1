"""ZIP files of XML parts, read with bounds on the number of parts, the unpacked size and the number of elements.

Document type declarations are refused, so no XML entity can expand. Nothing is written to disk, and nothing is fetched.
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Collection, Iterator, Mapping
from io import BytesIO
from itertools import chain
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from clicket.search.extract.extracted_text import Unreadable

__all__ = ["Archive", "related_id"]

MAX_UNPACKED = 200 * 1024 * 1024
MAX_ELEMENTS = 2_000_000
MAX_PARTS = 20_000
_CHUNK = 256 * 1024
_DIRECTORY = b"PK\x01\x02"
_OLE = b"\xd0\xcf\x11\xe0"
_MAX_RATIO, _RATIO_FROM = 500, 16 * 1024 * 1024
"""The compression ratio that a part may have once it has unpacked to `_RATIO_FROM` bytes."""

Event = tuple[str, str, Mapping[str, str]]
"""`open` with a tag and its attributes, `close` with a tag, or `text` with the text. Tags have no prefix."""
_DEPTHS = {"open": 1, "close": -1, "text": 0}
_NO_ATTRIBUTES: Mapping[str, str] = {}


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
        return b"".join(self._chunks(name, max_size))

    def events(self, name: str, *, without: Collection[str] = ()) -> Iterator[Event]:
        """The elements and texts of a part, in order, but for elements with these tags and all in them. A missing part has none."""
        if name not in self.names:
            return
        found: list[Event] = []
        parser = _parser(found)
        skipped = 0
        try:
            for chunk in chain(self._chunks(name, MAX_UNPACKED), (b"",)):
                parser.Parse(chunk, not chunk)
                for event in found:
                    self._elements += event[0] == "open"
                    if self._elements > MAX_ELEMENTS:
                        self.truncated = True
                        return
                    if skipped or (event[0] == "open" and event[1] in without):
                        skipped += _DEPTHS[event[0]]
                    else:
                        yield event
                found.clear()
        except expat.ExpatError as error:
            raise Unreadable(f"damaged: {name}: {expat.ErrorString(error.code)}") from None

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """The parts of the archive that a part refers to: by relation id, the kind and the name of the part."""
        folder, base = posixpath.split(name)
        found: dict[str, tuple[str, str]] = {}
        for kind, tag, attributes in self.events(f"{folder}/_rels/{base}.rels".lstrip("/")):
            if kind == "open" and tag == "Relationship" and attributes.get("TargetMode") != "External":
                target = unquote(attributes.get("Target", ""))
                path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                what = attributes.get("Type", "").rpartition("/")[2]
                found[attributes.get("Id", "")] = (what, posixpath.normpath(path))
        return found

    def title(self, *parts: str) -> str:
        """The first title in the file's properties, or in these parts."""
        title: list[str] = []
        inside = False
        for name in parts or ("docProps/core.xml", "meta.xml"):
            for kind, tag, _ in self.events(name):
                if kind == "text" and inside:
                    title.append(tag)
                elif kind != "text":
                    inside = kind == "open" and tag == "title" and not title
        return " ".join("".join(title).split())[:500]

    def _chunks(self, name: str, max_size: int) -> Iterator[bytes]:
        if name not in self.names:
            return
        packed = self._zip.getinfo(name).compress_size
        length = 0
        try:
            with self._zip.open(name) as part:
                while chunk := part.read(_CHUNK):
                    length += len(chunk)
                    self._unpacked += len(chunk)
                    allowed = min(max(_RATIO_FROM, packed * _MAX_RATIO), max_size)
                    if length > allowed or self._unpacked > MAX_UNPACKED:
                        raise Unreadable("it unpacks to more than a document of its size could")
                    yield chunk
        except RuntimeError as error:  # zipfile raises it when a password is needed
            raise Unreadable(f"encrypted: {error}") from None
        except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise Unreadable(f"damaged: {name}: {error}") from None


def related_id(attributes: Mapping[str, str]) -> str:
    """The relation id among an element's attributes. The namespace prefix differs between writers."""
    return next((value for name, value in attributes.items() if name.endswith(":id")), "")


def _local(tag: str) -> str:
    return tag.rpartition(":")[2]


def _parser(found: list[Event]) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = 65536
    parser.StartElementHandler = lambda tag, attributes: found.append(("open", _local(tag), attributes))
    parser.EndElementHandler = lambda tag: found.append(("close", _local(tag), _NO_ATTRIBUTES))
    parser.CharacterDataHandler = lambda text: found.append(("text", text, _NO_ATTRIBUTES))
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


def _refuse_doctype(*_: object) -> None:
    raise Unreadable("it declares a document type, which files of its format do not")
