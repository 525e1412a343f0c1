"""Brings an index up to date with a folder: reads the files that changed, and removes those that are gone.

Files are written in batches, one transaction each: a killed process loses the last batch, and the next run continues.
A file that cannot be read is skipped with the reason, and does not stop the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import methodcaller
from typing import Any, Protocol

import msgspec

from clicket import system
from clicket.errors import NotFound, UsageError
from clicket.search.extract.formats import READER, no_reader
from clicket.search.index.file_tables import Draft, FileWriter, StoredFile, drop_root, known_files, open_root, printable
from clicket.search.index.folder_walk import FileStat, FolderListing, walk
from clicket.search.index.source_file import SourceFile, open_source_file
from clicket.search.index.writer import IndexWriter

__all__ = ["FolderProgress", "FolderReport", "add_folder", "remove_folder"]

MAX_CHARACTERS, MAX_DOCUMENTS, MAX_FILES, MAX_SECONDS = 8_000_000, 5_000, 2_000, 5.0
"""Of a batch: a few seconds of work, and little enough to hold in memory."""
CLOCK_TICK = 100_000_000
"""Nanoseconds. Two changes within one tick of the file system's clock have the same time."""


class FolderProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an update, in bytes of the files to read, or in passages that need a vector."""

    stage: str
    """`files` or `vectors`."""
    done: int
    total: int
    path: str = ""


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an update, in files. `skipped` are paths, each with the reason why it is not in the index."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """Files of which only a part is in the index: the path, and what was left out."""


class Transactional(Protocol):
    """The part of the index that is needed here."""

    def transaction(self) -> AbstractContextManager[IndexWriter]: ...


Progress = Callable[[FolderProgress], None]


def add_folder(
    index: Transactional,
    path: str | os.PathLike[str],
    *,
    patterns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> FolderReport:
    """Bring the index up to date with a folder, or with a single file."""
    root = _existing(path)
    listing = walk(root, patterns=patterns, exclude=exclude)
    options = {"patterns": None if patterns is None else list(patterns), "exclude": list(exclude)}
    with index.transaction() as writer:
        key = open_root(writer, root, options)
        stored = known_files(writer.connection, key)
    return _FolderSync(index, root, key, listing, stored, on_progress).run()


def remove_folder(index: Transactional, path: str | os.PathLike[str]) -> int:
    """Remove a folder with all its documents, and return their number. The folder itself need not exist any more."""
    root = os.path.realpath(os.path.expanduser(path))
    with index.transaction() as writer:
        key = writer.connection.execute("SELECT key FROM roots WHERE path = ?", (os.fsencode(root),)).get
        if key is None:
            rows: list[Any] = writer.connection.execute("SELECT path FROM roots ORDER BY path").fetchall()
            indexed = ", ".join(printable(os.fsdecode(one)) for (one,) in rows) or "none"
            raise NotFound(f"{printable(root)} is not among the folders of the index. There are: {indexed}.")
        return drop_root(writer, key)


def _existing(path: str | os.PathLike[str]) -> str:
    root = os.path.realpath(os.path.expanduser(path))
    if os.path.isdir(root):
        return root
    if os.path.isfile(root):
        reason = no_reader(root)
        if reason is not None:
            raise UsageError(f"{printable(root)} cannot be indexed: {reason}.")
        return root
    raise UsageError(f"there is no folder {printable(os.fspath(path))}.")


class _FolderSync:
    """One run over a folder."""

    def __init__(
        self,
        index: Transactional,
        root: str,
        key: int,
        listing: FolderListing,
        stored: dict[str, StoredFile],
        on_progress: Progress | None,
    ) -> None:
        self._index = index
        self._folder = root if os.path.isdir(root) else os.path.dirname(root)
        self._key = key
        self._listing = listing
        self._stored = stored
        self._on_progress = on_progress or (lambda _: None)
        self._changes: list[Callable[[FileWriter], None]] = []
        self._characters = self._documents = 0
        self._flushed_at = system.monotonic()
        self._counts = {"added": 0, "changed": 0, "unchanged": 0, "removed": 0}
        self._skipped = [(printable(path), reason) for path, reason in listing.skipped]
        self._notes: list[tuple[str, str]] = []

    def run(self) -> FolderReport:
        self._remove_missing()
        files = list(self._files_to_open())
        total = sum(file.size for file in files)
        done = 0
        self._on_progress(FolderProgress(stage="files", done=0, total=total))
        for file in files:
            self._read(file, partial(self._report, done, total, file))
            done += file.size
            self._flush(force=False)
        at = system.now()
        self._changes.append(lambda writer: writer.close(at))
        self._flush(force=True)
        self._on_progress(FolderProgress(stage="files", done=total, total=total))
        return FolderReport(**self._counts, skipped=tuple(sorted(self._skipped)), notes=tuple(sorted(self._notes)))

    def _report(self, before: int, total: int, file: FileStat, read: int) -> None:
        done = min(before + read, total)
        self._on_progress(FolderProgress(stage="files", done=done, total=total, path=printable(file.path)))

    def _skip(self, path: str, reason: str) -> None:
        self._skipped.append((printable(path), reason))

    def _remove_missing(self) -> None:
        """Runs first: a file that was moved may get the ids that it had."""
        listed = {file.path for file in self._listing.files}
        for path in sorted(self._stored):
            if path in listed or path.startswith(self._listing.unreadable):
                continue
            self._counts["removed"] += not self._stored.pop(path).reason
            self._changes.append(methodcaller("remove", path))
            self._flush(force=False)

    def _files_to_open(self) -> Iterator[FileStat]:
        for file in self._listing.files:
            reason = no_reader(file.path)
            if reason is not None:
                self._skip(file.path, reason)
                continue
            stored = self._stored.get(file.path)
            if stored is None or stored.reader != READER or not stored.is_unchanged(file):
                yield file
            else:
                self._count_unchanged(file.path, stored)

    def _count_unchanged(self, path: str, stored: StoredFile) -> None:
        if stored.reason:
            self._skip(path, stored.reason)
        else:
            self._counts["unchanged"] += 1

    def _read(self, file: FileStat, on_progress: Callable[[int], None]) -> None:
        stored = self._stored.get(file.path)
        on_progress(0)
        with open_source_file(self._folder, file.path, on_progress) as source:
            if stored is not None and stored.reader == READER and source.hash == stored.hash:
                path = source.path
                stat = _trusted(source.stat)
                self._changes.append(lambda writer: writer.keep(path, stat, stored))
                self._count_unchanged(path, stored)
            else:
                self._index_file(source, stored)

    def _index_file(self, source: SourceFile, stored: StoredFile | None) -> None:
        path = source.path
        ids = set[str]()
        batch: list[Draft] = []
        for draft in source.drafts():
            if self._is_full():
                self._put(path, batch, ids)
                batch = []
                self._flush(force=True)
            batch.append(draft)
            self._characters += len(draft.text)
            self._documents += 1
        outcome = source.outcome
        if outcome.reason:
            self._skip(path, outcome.reason)
        else:
            self._counts["added" if stored is None or stored.size < 0 or stored.reason else "changed"] += 1
        if outcome.note:
            self._notes.append((printable(path), outcome.note))
        if outcome.again:  # its content is unknown now, so what is stored of it stays
            return
        if batch:
            self._put(path, batch, ids)
        stat = _trusted(source.stat)
        hashed = source.hash
        reason = outcome.reason
        self._changes.append(lambda writer: writer.finish(path, stat, hashed, reason=reason, ids=ids))

    def _put(self, path: str, batch: list[Draft], ids: set[str]) -> None:
        self._changes.append(lambda writer: ids.update(writer.put(path, batch)))

    def _is_full(self) -> bool:
        return self._characters >= MAX_CHARACTERS or self._documents >= MAX_DOCUMENTS

    def _flush(self, *, force: bool) -> None:
        """Write the batch, if it is large or old enough."""
        late = system.monotonic() - self._flushed_at > MAX_SECONDS
        if not self._changes or not (force or late or self._is_full() or len(self._changes) >= MAX_FILES):
            return
        with self._index.transaction() as writer:
            files = FileWriter(writer, self._key)
            for change in self._changes:
                change(files)
        self._changes = []
        self._characters = self._documents = 0
        self._flushed_at = system.monotonic()


def _trusted(stat: FileStat) -> FileStat:
    """A file that was changed just now may change again without a new time: the next run compares its content."""
    if system.now() * 1e9 - max(stat.changed, stat.touched) > CLOCK_TICK:
        return stat
    return msgspec.structs.replace(stat, touched=-1)
