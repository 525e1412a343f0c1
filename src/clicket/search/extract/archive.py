"""Files that are archives of XML, read with bounds: how many parts, how much they unpack to, how many elements.

Document types are refused, so no entity can multiply. Nothing is written to a disk, and nothing is looked up.
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from clicket.search.extract.failing import Unreadable

__all__ = ["Archive", "Full", "related_id"]

MAX_UNPACKED = 200 * 1024 * 1024
MAX_ELEMENTS = 2_000_000
MAX_PARTS = 20_000
_CHUNK = 256 * 1024
_DIRECTORY = b"PK\x01\x02"
_OLE = b"\xd0\xcf\x11\xe0"
_MAX_RATIO, _FREE = 500, 16 * 1024 * 1024
"""How much more than it is a part may unpack to, once it is this long."""

Opened = Callable[[str, Mapping[str, str]], None]


class Full(Exception):
    """Enough was read; the rest is left out."""


class Archive:
    """The parts of one file, by name. `truncated`: some part was longer than what may be read."""

    def __init__(self, data: bytes, needed: str) -> None:
        if data.startswith(_OLE):
            raise Unreadable("encrypted, or of an old kind; save it anew without a password")
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
            raise Unreadable(f"damaged: there is no {needed} in it")

    def read(self, name: str, most: int = 8 * 1024 * 1024) -> bytes:
        """A small part as a whole; nothing when it is not there."""
        made = bytearray()
        self._each(name, made.extend, most)
        return bytes(made)

    def parse(self, name: str, opened: Opened, closed: Callable[[str], None], text: Callable[[str], None]) -> None:
        """Tell the elements and texts of a part, in order. A part that is not there has none."""
        parser = _parser(self._counted(opened), closed, text)
        try:
            self._each(name, lambda chunk: parser.Parse(chunk, False), MAX_UNPACKED)
            if name in self.names:
                parser.Parse(b"", True)
        except Full:
            self.truncated = True
        except expat.ExpatError as error:
            raise Unreadable(f"damaged: {name}: {expat.ErrorString(error.code)}") from None

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """What a part refers to inside the archive: by id, the kind and the name."""
        folder, base = posixpath.split(name)
        found: dict[str, tuple[str, str]] = {}

        def opened(tag: str, given: Mapping[str, str]) -> None:
            if tag == "Relationship" and given.get("TargetMode") != "External":
                target = unquote(given.get("Target", ""))
                whole = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                kind = given.get("Type", "").rpartition("/")[2]
                found[given.get("Id", "")] = (kind, posixpath.normpath(whole))

        self.parse(f"{folder}/_rels/{base}.rels".lstrip("/"), opened, _nothing, _nothing)
        return found

    def title(self) -> str:
        """What the file says that its title is."""
        title: list[str] = []
        inside = False

        def opened(tag: str, _: Mapping[str, str]) -> None:
            nonlocal inside
            inside = tag == "title"

        def text(data: str) -> None:
            if inside:
                title.append(data)

        for name in ("docProps/core.xml", "meta.xml"):
            self.parse(name, opened, lambda _: opened("", {}), text)
        return " ".join("".join(title).split())[:500]

    def _counted(self, opened: Opened) -> Opened:
        def count(tag: str, given: Mapping[str, str]) -> None:
            self._elements += 1
            if self._elements > MAX_ELEMENTS:
                raise Full
            opened(tag, given)

        return count

    def _each(self, name: str, take: Callable[[bytes], object], most: int) -> None:
        if name not in self.names:
            return
        packed, length = self._zip.getinfo(name).compress_size, 0
        try:
            with self._zip.open(name) as part:
                while chunk := part.read(_CHUNK):
                    length += len(chunk)
                    self._unpacked += len(chunk)
                    if length > max(_FREE, packed * _MAX_RATIO) or self._unpacked > MAX_UNPACKED or length > most:
                        raise Unreadable("it unpacks to more than a document of its size could")
                    take(chunk)
        except RuntimeError as error:  # how zipfile says that a password is needed
            raise Unreadable(f"encrypted: {error}") from None
        except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise Unreadable(f"damaged: {name}: {error}") from None


def related_id(given: Mapping[str, str]) -> str:
    """The id of another part among the attributes of an element; the short name before it is the writer's choice."""
    return next((value for name, value in given.items() if name.endswith(":id")), "")


def _local(tag: str) -> str:
    """The name of an element without the short name of its kind, whatever that is."""
    return tag.rpartition(":")[2]


def _nothing(_: str) -> None:
    """For what nobody wants to know."""


def _parser(opened: Opened, closed: Callable[[str], None], text: Callable[[str], None]) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = 65536
    parser.StartElementHandler = lambda tag, given: opened(_local(tag), given)
    parser.EndElementHandler = lambda tag: closed(_local(tag))
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse
    return parser


def _refuse(*_: object) -> None:
    raise Unreadable("it declares a document type, which files of its kind do not")
