"""One file of a folder: opened once, hashed, and turned into documents. Only regular files are read.

The hash is of the bytes that were read, and size and times are those of the open file: its name may be moved meanwhile.
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
from clicket.search.index.file_tables import Draft, printable
from clicket.search.index.folder_walk import FileStat
from clicket.search.index.splitter import parts_of

__all__ = ["ReadOutcome", "SourceFile", "open_source_file"]

_CHUNK = 1024 * 1024
_PROGRESS_EVERY = 256
_TOO_BIG = f"larger than {MAX_FILE // 2**20} MiB, up to which files are read as a whole"
_PLAIN_KINDS = ("", "text", "table", "json")
"""Kinds whose file extension is left out of the title."""


class ReadOutcome(msgspec.Struct, frozen=True):
    """How reading ended. `reason`: nothing could be read; `note`: not all was read; `again`: a later run may differ."""

    reason: str = ""
    note: str = ""
    again: bool = False


class SourceFile:
    """An open file. `hash` is empty when it could not be read. `drafts` may be called once; `outcome` is valid after it."""

    def __init__(self, folder: str, path: str, on_progress: Callable[[int], None]) -> None:
        self.path = path
        self.stat = FileStat(path, 0, 0, 0)
        self.hash = b""
        self.outcome = ReadOutcome()
        self._full_path = os.path.join(folder, path)
        self._folder = folder
        self._on_progress = on_progress
        self._kind = kind_of(path)
        self._data = b""
        self._file: IO[bytes] | None = None

    def open(self) -> None:
        with self._failures_recorded():
            # No link is followed, and opening a pipe does not block.
            opened = os.open(self._full_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            records = self._kind == "records"
            self._file = os.fdopen(opened, "rb", buffering=_CHUNK if records else 0)
            self._check(os.fstat(opened))
            if records:
                self._hash_all(self._file)
            else:  # bytes that are appended from now on are found by the next run
                self._data = self._file.read(self.stat.size + 1)
                self.hash = blake2b(self._data, digest_size=16).digest()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._data = b""

    def drafts(self) -> Iterator[Draft]:
        """The documents of the file. An error ends them, and is recorded in `outcome`."""
        if self.outcome.reason:
            return
        with self._failures_recorded():
            if self._kind == "records" and self._file is not None:
                packed = self.path.lower().endswith(".gz")
                yield from self._record_drafts(read_lines(self._file, self.stat.size, packed=packed))
                return
            listed = read_list(self._data) if self._kind == "json" else None
            if listed is not None:
                yield from self._record_drafts(listed)
                return
            yield from self._part_drafts(extract(self._data, self.path))

    @contextmanager
    def _failures_recorded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.outcome = ReadOutcome(reason=(error.strerror or str(error)).lower(), again=True)
        except Unreadable as error:
            self.outcome = ReadOutcome(reason=error.reason, again=error.again)

    def _check(self, found: os.stat_result) -> None:
        self.stat = FileStat(self.path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("not a regular file", again=True)
        if found.st_size > MAX_FILE and self._kind != "records":
            raise Unreadable(_TOO_BIG)

    def _hash_all(self, file: IO[bytes]) -> None:
        digest = blake2b(digest_size=16)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        file.seek(0)
        self.hash = digest.digest()

    def _part_drafts(self, extracted: Extracted) -> Iterator[Draft]:
        if not extracted.text.strip():
            self.outcome = ReadOutcome(reason="there is no text in it")
            return
        if extracted.truncated:
            self.outcome = ReadOutcome(note="it is longer than what was read of it")
        title = extracted.title or self._default_title()
        url = _uri(self._full_path)
        for part in parts_of(extracted):
            yield Draft(
                ids=self._path_ids("" if part.number == 1 else f"#{part.number}"),
                title=title,
                text=part.text,
                url=f"{url}#page={part.page}" if self._kind == "pdf" else url,
                source=printable(self._full_path),
                headings=part.headings,
            )

    def _record_drafts(self, records: Iterator[Record | InvalidRecord]) -> Iterator[Draft]:
        valid = 0
        invalid = 0
        first = ("", "")
        unit = "line" if self._kind == "records" else "item"
        seen = set[str]()
        url = _uri(self._full_path)
        note = ""
        try:
            for record in records:
                if isinstance(record, InvalidRecord) or record.id in seen:
                    reason = record.reason if isinstance(record, InvalidRecord) else "the id of an earlier one"
                    invalid += 1
                    first = first if invalid > 1 else (f"{unit} {record.number}", reason)
                    continue
                valid += 1
                if record.id:
                    seen.add(record.id)
                if valid % _PROGRESS_EVERY == 0 and self._file is not None:
                    self._on_progress(self._file.tell())
                yield Draft(
                    ids=(*((record.id,) if record.id else ()), *self._path_ids(f"#{record.id or record.number}")),
                    title=record.title,
                    text=record.text,
                    url=record.url or url,
                    source=printable(self._full_path),
                )
        except Unreadable as error:
            note = error.reason
        if not valid:
            reason = note or f"no {unit} of it is a document{f' ({first[1]})' * bool(invalid)}"
            self.outcome = ReadOutcome(reason=reason)
            return
        if invalid:
            counts = f"{invalid} of {valid + invalid} {unit}s are no documents ({': '.join(first)})"
            note = f"{note}; {counts}" if note else counts
        self.outcome = ReadOutcome(note=note)

    def _default_title(self) -> str:
        """The file's name, for a file without a title."""
        name = printable(os.path.basename(self.path))
        return name.rpartition(".")[0] or name if self._kind in _PLAIN_KINDS else name

    def _path_ids(self, suffix: str) -> tuple[str, ...]:
        """Ids from the path: under the folder, behind the folder's name, and absolute."""
        folder = os.path.basename(self._folder)
        paths = (self.path, f"{folder}/{self.path}", self._full_path)
        return tuple(f"{printable(path)}{suffix}" for path in paths)


def _uri(path: str) -> str:
    return f"file://{quote_from_bytes(os.fsencode(path))}"


@contextmanager
def open_source_file(folder: str, path: str, on_progress: Callable[[int], None]) -> Iterator[SourceFile]:
    """Open a file of a folder. When that fails, `outcome` says why."""
    file = SourceFile(folder, path, on_progress)
    try:
        file.open()
        yield file
    finally:
        file.close()
