"""A file is opened once, looked at, and turned into documents. Only regular files are; what they hold may be anything.

The hash is of the bytes that were read, the facts are of the file that was opened: names may be moved meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import IO
from urllib.parse import quote_from_bytes

import msgspec

from clicket.search.extract.extracted_text import Extracted, Unreadable
from clicket.search.extract.formats import MAX_FILE, extract, kind_of
from clicket.search.extract.json_records import InvalidRecord, Record, read_lines, read_list
from clicket.search.index.files import Draft, shown
from clicket.search.index.parting import parts_of
from clicket.search.index.walking import Seen

__all__ = ["Loaded", "Loading", "load"]

_CHUNK = 1024 * 1024
_TOLD_EVERY = 256
_TOO_BIG = f"larger than {MAX_FILE // 2**20} MiB, up to which files are read as a whole"
_STEMS = ("", "text", "table", "json")
"""Kinds of which the ending of the name tells nothing."""


class Loaded(msgspec.Struct, frozen=True):
    """How it ended. `reason`: nothing of it can be used; `note`: not all of it; `again`: it may be otherwise next time."""

    reason: str = ""
    note: str = ""
    again: bool = False


class Loading:
    """One file. `hash` is empty when it could not be read; `drafts` may be asked for once, and `outcome` after it."""

    def __init__(self, folder: str, path: str, progress: Callable[[int], None]) -> None:
        self.path = path
        self.seen = Seen(path, 0, 0, 0)
        self.hash = b""
        self._whole = os.path.join(folder, path)
        self._folder = folder
        self._progress = progress
        self._kind = kind_of(path)
        self._data = b""
        self._file: IO[bytes] | None = None
        self.outcome = Loaded()

    def open(self) -> None:
        try:
            # Not a link, and a pipe that was put in its place does not make us wait.
            opened = os.open(self._whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            records = self._kind == "records"
            self._file = os.fdopen(opened, "rb", buffering=_CHUNK if records else 0)
            self._look(os.fstat(opened))
            if records:
                self._hash_all(self._file)
            else:  # what is written to it meanwhile is seen next time
                self._data = self._file.read(self.seen.size + 1)
                self.hash = blake2b(self._data, digest_size=16).digest()
        except OSError as error:
            self.outcome = Loaded(reason=(error.strerror or str(error)).lower(), again=True)
        except Unreadable as error:
            self.outcome = Loaded(reason=error.reason, again=error.again)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._data = b""

    def drafts(self) -> Iterator[Draft]:
        """The documents. Whatever is wrong ends them, and is told by the outcome."""
        if self.outcome.reason:
            return
        try:
            if self._kind == "records" and self._file is not None:
                packed = self.path.lower().endswith(".gz")
                yield from self._records(read_lines(self._file, self.seen.size, packed=packed))
                return
            listed = read_list(self._data) if self._kind == "json" else None
            if listed is not None:
                yield from self._records(listed)
                return
            yield from self._parts(extract(self._data, self.path))
        except Unreadable as error:
            self.outcome = Loaded(reason=error.reason, again=error.again)
        except OSError as error:
            self.outcome = Loaded(reason=(error.strerror or str(error)).lower(), again=True)

    def _look(self, found: os.stat_result) -> None:
        self.seen = Seen(self.path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("not a regular file", again=True)
        if found.st_size > MAX_FILE and self._kind != "records":
            raise Unreadable(_TOO_BIG)

    def _hash_all(self, file: IO[bytes]) -> None:
        made = blake2b(digest_size=16)
        while chunk := file.read(_CHUNK):
            made.update(chunk)
        file.seek(0)
        self.hash = made.digest()

    def _parts(self, read: Extracted) -> Iterator[Draft]:
        if not read.text.strip():
            self.outcome = Loaded(reason="there is no text in it")
            return
        if read.truncated:
            self.outcome = Loaded(note="it is longer than what was read of it")
        title = read.title or self._name()
        url = _uri(self._whole)
        for part in parts_of(read):
            suffix = "" if part.number == 1 else f"#{part.number}"
            yield Draft(
                names=self._names(suffix),
                title=title,
                text=part.text,
                url=f"{url}#page={part.page}" if self._kind == "pdf" else url,
                source=shown(self._whole),
                headings=part.headings,
            )

    def _records(self, records: Iterator[Record | InvalidRecord]) -> Iterator[Draft]:
        taken, wrong, first, unit = 0, 0, ("", ""), "line" if self._kind == "records" else "item"
        given, url, note = set[str](), _uri(self._whole), ""
        try:
            for one in records:
                reason = (
                    one.reason
                    if isinstance(one, InvalidRecord)
                    else "the id of an earlier one"
                    if one.id in given
                    else ""
                )
                if isinstance(one, InvalidRecord) or reason:
                    wrong += 1
                    first = first if wrong > 1 else (f"{unit} {one.number}", reason)
                    continue
                taken += 1
                if one.id:
                    given.add(one.id)
                if taken % _TOLD_EVERY == 0 and self._file is not None:
                    self._progress(self._file.tell())
                yield Draft(
                    names=(*((one.id,) if one.id else ()), *self._names(f"#{one.id or one.number}")),
                    title=one.title,
                    text=one.text,
                    url=one.url or url,
                    source=shown(self._whole),
                )
        except Unreadable as error:
            note = error.reason
        if not taken:
            self.outcome = Loaded(reason=note or f"no {unit} of it is a document{f' ({first[1]})' * bool(wrong)}")
        elif wrong:
            told = f"{wrong} of {taken + wrong} {unit}s are no documents ({': '.join(first)})"
            self.outcome = Loaded(note=f"{note}; {told}" if note else told)
        else:
            self.outcome = Loaded(note=note)

    def _name(self) -> str:
        """What the file is called, for lack of a title."""
        name = shown(os.path.basename(self.path))
        return name.rpartition(".")[0] or name if self._kind in _STEMS else name

    def _names(self, suffix: str) -> tuple[str, ...]:
        """Ids by its path: under the folder, with the folder's name before it, and the whole one."""
        folder = os.path.basename(self._folder)
        paths = (self.path, f"{folder}/{self.path}", self._whole)
        return tuple(f"{shown(path)}{suffix}" for path in paths)


def _uri(path: str) -> str:
    return f"file://{quote_from_bytes(os.fsencode(path))}"


@contextmanager
def load(folder: str, path: str, progress: Callable[[int], None]) -> Iterator[Loading]:
    """A file of a folder, opened; when that failed its outcome tells why."""
    loading = Loading(folder, path, progress)
    try:
        loading.open()
        yield loading
    finally:
        loading.close()
