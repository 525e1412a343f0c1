"""Folders of files in an index. Only what changed is read, and what is gone is removed.

Files are written in batches, each whole or not at all: whoever is killed loses the last one, and the next run goes on.
A file that cannot be read is passed over with the reason, and stops nobody else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import methodcaller
from typing import Any, Protocol

import msgspec

from clicket.errors import NotFound, UsageError
from clicket.search.extract.formats import READER, no_reader
from clicket.search.index.files import Draft, Filing, Known, drop_root, known_files, open_root, shown
from clicket.search.index.loading import Loading, load
from clicket.search.index.walking import Seen, Walked, walk
from clicket.search.index.writing import Writing

__all__ = ["FolderProgress", "FolderReport", "add_folder", "remove_folder"]

_MAX_CHARACTERS, _MAX_DOCUMENTS, _MAX_FILES, _MAX_SECONDS = 8_000_000, 5_000, 2_000, 5.0
"""Of a batch: a few seconds of work, and little enough to hold."""
_SETTLED = 100_000_000
"""Nanoseconds. What was changed so shortly before it was read may change again within one tick of the file system's clock."""


class FolderProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is: bytes of files that are to be read, or passages that are to get a vector."""

    stage: str
    """`files` or `vectors`."""
    done: int
    total: int
    path: str = ""


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a folder, in files. `skipped` are paths with the reason why they are not in the index."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """Files that are in, but not all of them: a path, and what was left out."""


class Changeable(Protocol):
    """The index, as far as it is needed here."""

    def changing(self) -> AbstractContextManager[Writing]: ...


Progress = Callable[[FolderProgress], None]


def add_folder(
    index: Changeable,
    path: str | os.PathLike[str],
    *,
    patterns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> FolderReport:
    """Bring the index up to date with a folder, or with a single file."""
    root = _existing(path)
    walked = walk(root, patterns=patterns, exclude=exclude)
    options = {"patterns": None if patterns is None else list(patterns), "exclude": list(exclude)}
    with index.changing() as writing:
        key = open_root(writing, root, options)
        known = known_files(writing.connection, key)
    run = _Run(index, root, key, walked, known, on_progress)
    return run.perform()


def remove_folder(index: Changeable, path: str | os.PathLike[str]) -> int:
    """Remove a folder with all its documents; how many there were. The folder itself need not exist any more."""
    root = os.path.realpath(os.path.expanduser(path))
    with index.changing() as writing:
        key = writing.connection.execute("SELECT key FROM roots WHERE path = ?", (os.fsencode(root),)).get
        if key is None:
            rows: list[Any] = writing.connection.execute("SELECT path FROM roots ORDER BY path").fetchall()
            there = ", ".join(shown(os.fsdecode(one)) for (one,) in rows) or "none"
            raise NotFound(f"{shown(root)} is not among the folders of the index. There are: {there}.")
        return drop_root(writing, key)


def _existing(path: str | os.PathLike[str]) -> str:
    root = os.path.realpath(os.path.expanduser(path))
    if os.path.isdir(root):
        return root
    if os.path.isfile(root):
        reason = no_reader(root)
        if reason is not None:
            raise UsageError(f"{shown(root)} cannot be indexed: {reason}.")
        return root
    raise UsageError(f"there is no folder {shown(os.fspath(path))}.")


class _Run:
    """One look through a folder."""

    def __init__(
        self,
        index: Changeable,
        root: str,
        key: int,
        walked: Walked,
        known: dict[str, Known],
        on_progress: Progress | None,
    ) -> None:
        self._index = index
        self._folder = root if os.path.isdir(root) else os.path.dirname(root)
        self._key = key
        self._walked = walked
        self._known = known
        self._tell = on_progress or (lambda _: None)
        self._steps: list[Callable[[Filing], None]] = []
        self._characters = self._documents = 0
        self._since = time.monotonic()
        self._counts = {"added": 0, "changed": 0, "unchanged": 0, "removed": 0}
        self._skipped = [(shown(path), reason) for path, reason in walked.skipped]
        self._notes: list[tuple[str, str]] = []

    def perform(self) -> FolderReport:
        self._remove_gone()
        wanted = list(self._wanted())
        total, done = sum(one.size for one in wanted), 0
        self._tell(FolderProgress(stage="files", done=0, total=total))
        for seen in wanted:
            self._read(seen, partial(self._progress, done, total, seen))
            done += seen.size
            self._flush(full=False)
        at = time.time()
        self._steps.append(lambda filing: filing.close(at))
        self._flush(full=True)
        self._tell(FolderProgress(stage="files", done=total, total=total))
        return FolderReport(**self._counts, skipped=tuple(sorted(self._skipped)), notes=tuple(sorted(self._notes)))

    def _progress(self, before: int, total: int, seen: Seen, more: int) -> None:
        self._tell(FolderProgress(stage="files", done=min(before + more, total), total=total, path=shown(seen.path)))

    def _remove_gone(self) -> None:
        """First of all: a file that was moved may have the ids that it had."""
        there = {one.path for one in self._walked.files}
        for path in sorted(self._known):
            if path in there or path.startswith(self._walked.closed):
                continue
            known = self._known.pop(path)
            self._counts["removed"] += not known.reason
            self._steps.append(methodcaller("forget", path))
            self._flush(full=False)

    def _wanted(self) -> Iterator[Seen]:
        """The files that must be opened."""
        for seen in self._walked.files:
            reason = no_reader(seen.path)
            if reason is not None:
                self._skipped.append((shown(seen.path), reason))
                continue
            known = self._known.get(seen.path)
            if known is None or known.reader != READER or not known.is_like(seen):
                yield seen
            elif known.reason:
                self._skipped.append((shown(seen.path), known.reason))
            else:
                self._counts["unchanged"] += 1

    def _read(self, seen: Seen, progress: Callable[[int], None]) -> None:
        known = self._known.get(seen.path)
        progress(0)
        with load(self._folder, seen.path, progress) as loading:
            if known is not None and known.reader == READER and loading.hash == known.hash:
                self._same(loading, known)
                return
            self._take(loading, known)

    def _same(self, loading: Loading, known: Known) -> None:
        path, seen = loading.path, _settled(loading.seen)
        self._steps.append(lambda filing: filing.same(path, seen, known))
        if known.reason:
            self._skipped.append((shown(path), known.reason))
        else:
            self._counts["unchanged"] += 1

    def _take(self, loading: Loading, known: Known | None) -> None:
        path, ids = loading.path, set[str]()
        batch: list[Draft] = []
        for draft in loading.drafts():
            if self._is_full():
                self._put(path, batch, ids)
                batch = []
                self._flush(full=True)
            batch.append(draft)
            self._characters += len(draft.text)
            self._documents += 1
        outcome = loading.outcome
        if outcome.reason:
            self._skipped.append((shown(path), outcome.reason))
        elif known is None or known.size < 0 or known.reason:
            self._counts["added"] += 1
        else:
            self._counts["changed"] += 1
        if outcome.note:
            self._notes.append((shown(path), outcome.note))
        if outcome.again:  # it is not known what is in it now: what was known stays
            return
        if batch:
            self._put(path, batch, ids)
        seen, hashed, reason = _settled(loading.seen), loading.hash, outcome.reason
        self._steps.append(lambda filing: filing.finish(path, seen, hashed, reason=reason, ids=ids))

    def _put(self, path: str, batch: list[Draft], ids: set[str]) -> None:
        self._steps.append(lambda filing: ids.update(filing.put(path, batch)))

    def _is_full(self) -> bool:
        return self._characters >= _MAX_CHARACTERS or self._documents >= _MAX_DOCUMENTS

    def _flush(self, *, full: bool) -> None:
        """Write what has come together, when it is enough."""
        late = time.monotonic() - self._since > _MAX_SECONDS
        if not self._steps or not (full or late or self._is_full() or len(self._steps) >= _MAX_FILES):
            return
        with self._index.changing() as writing:
            filing = Filing(writing, self._key)
            for step in self._steps:
                step(filing)
        self._steps = []
        self._characters = self._documents = 0
        self._since = time.monotonic()


def _settled(seen: Seen) -> Seen:
    """Was it changed only just now, its time is not believed: next time the content is compared."""
    if time.time_ns() - max(seen.changed, seen.touched) > _SETTLED:
        return seen
    return msgspec.structs.replace(seen, touched=-1)
