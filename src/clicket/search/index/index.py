"""Documents of your own, searched without a key, a network or a model. One SQLite file holds all of it.

A change is made whole or not at all, and whoever searches meanwhile sees the state before it or the one after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import uuid4

import apsw

from clicket.bridge import Workers
from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.ports.services import Embedder
from clicket.search.index import vectors
from clicket.search.index.reading import Reading
from clicket.search.index.schema import MEMORY, connect, explained, prepare
from clicket.search.index.writing import Added, Writing

if TYPE_CHECKING:
    from clicket.search.index.files import Contents, Folder
    from clicket.search.index.folder import FolderProgress, FolderReport

__all__ = ["Added", "Index"]

T = TypeVar("T")
_INLINE = 20_000
"""Passages up to which a search is shorter than the way to a thread and back is worth."""


class Index:
    """A search engine, and a collection that knows its documents as a whole. Use it with `with`, or `close` it."""

    name = "index"

    def __init__(self, path: str, *, embedder: Embedder | None = None) -> None:
        """Use `Index.open`."""
        self.path = path
        self.embedder = embedder
        self._closed = False
        self._changes = 0
        self._writer = connect(path)
        try:
            prepare(path, self._writer)
            self._reader = self._writer if path == MEMORY else connect(path)
        except BaseException:
            self._writer.close()
            raise
        self._own = uuid4().hex
        self._writing = RLock()
        self._reading = self._writing if path == MEMORY else RLock()
        self._view = Reading(self._reader, embedder)
        self._workers = Workers(1, "clicket-index")

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = MEMORY,
        *,
        embedder: Embedder | None = None,
        on_progress: vectors.Progress | None = None,
    ) -> Index:
        """Open an index, or make one. With an embedder, passages that have no vector are given one now."""
        index = cls(fspath(path), embedder=embedder)
        try:
            index._embed(on_progress)
        except BaseException:
            index.close()
            raise
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._workers.close()
        with self._writing:
            self._writer.close()
        if self._reader is not self._writer:
            with self._reading:
                self._reader.close()

    def add(self, documents: Iterable[object], *, on_progress: vectors.Progress | None = None) -> Added:
        """Add documents, or replace those of the same id: mappings {id, title, text, url, source}, or Documents.

        All of them or, when one of them is wrong, none. `headings`, pairs of an offset and the headings above it, make
        passages of a long text findable by them.
        """
        with self.changing() as writing:
            counts = writing.add(documents)
        if counts.added or counts.changed:
            self._embed(on_progress)
        return counts

    def add_folder(
        self,
        path: str | PathLike[str],
        *,
        patterns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        on_progress: Callable[[FolderProgress], None] | None = None,
    ) -> FolderReport:
        """Bring the index up to date with the files of a folder: only what changed is read, what is gone is removed.

        `patterns` are the files that are wanted, `exclude` those that are not, both as in `.gitignore`. Hidden ones, and
        folders such as `node_modules`, never are. A file that cannot be read is skipped, with the reason.
        """
        from clicket.search.index.folder import FolderProgress, add_folder

        report = add_folder(self, path, patterns=patterns, exclude=exclude, on_progress=on_progress)
        self._embed(
            None
            if on_progress is None
            else lambda done, total: on_progress(FolderProgress(stage="vectors", done=done, total=total))
        )
        return report

    def remove_folder(self, path: str | PathLike[str]) -> int:
        """Remove a folder with all its documents; how many there were."""
        from clicket.search.index.folder import remove_folder

        return remove_folder(self, path)

    def folders(self) -> Sequence[Folder]:
        """The folders that were added, by path."""
        from clicket.search.index.files import folders

        return self._read(lambda: folders(self._reader))

    def contents(self) -> Contents:
        """How much is in it."""
        from clicket.search.index.files import contents

        return self._read(lambda: contents(self._reader))

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents; how many of them were there."""
        if isinstance(ids, str):
            raise UsageError(f"remove takes a list of ids: remove([{ids!r}]).")
        with self.changing() as writing:
            return writing.remove(ids)

    @contextmanager
    def changing(self) -> Iterator[Writing]:
        """Several changes as one: all of them when the block ends, none when it raises."""
        with self._writing:
            self._refuse_closed()
            if self._writer.in_transaction:
                raise UsageError("the index is being changed by what gives it its rows. Make a list of them first.")
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                writing = Writing(self._writer)
                yield writing
                writing.close()
                self._writer.execute("COMMIT")
                self._changes += 1
            except apsw.Error as error:
                raise explained(error, self.path) from error
            finally:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                self._view.forget()

    @property
    def revision(self) -> str | None:
        """Of an index in memory, which is in no file that tells when it was changed: another one after every change."""
        return f"{self._own}-{self._changes}" if self.path == MEMORY else None

    @property
    def count(self) -> int:
        """Documents in all."""
        return self._read(lambda: int(self._reader.execute("SELECT documents FROM totals").get))

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        """The best `k` documents, equal ones by id. `spans` say which parts of a long text were found, the best first."""
        self._refuse_closed()
        if self.embedder is None and self._reading.acquire(blocking=False):
            try:
                if 0 <= self._view.size <= _INLINE or self.size() <= _INLINE:
                    return self.find(query, k=k)
            finally:
                self._reading.release()
        async with asyncio.timeout(deadline):
            return await self._workers.run(lambda: self.find(query, k=k))

    def find(self, query: str, *, k: int = 10) -> list[Document]:
        """`search` for programs without a loop."""
        return self._read(lambda: self._view.find(query, k))

    def size(self) -> int:
        """Passages in all."""
        return self._read(lambda: int(self._reader.execute("SELECT passages FROM totals").get))

    def frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        return self._read(lambda: self._view.frequencies(terms))

    def named(self, names: Sequence[str]) -> Sequence[Sequence[str]]:
        return self._read(lambda: self._view.named(names))

    def names(self, ids: Sequence[str]) -> Sequence[Sequence[str]]:
        """For each document, the names it bears (normalised), the surest first."""
        return self._read(lambda: self._view.names(ids))

    def fetch(self, ids: Sequence[str]) -> Sequence[Document]:
        return self._read(lambda: self._view.fetch(ids))

    def similarities(self, text: str, ids: Sequence[str]) -> Sequence[float] | None:
        if self.embedder is None:
            return None
        return self._read(lambda: self._view.similarities(text, ids))

    def _read(self, function: Callable[[], T]) -> T:
        with self._reading:
            self._refuse_closed()
            if self._reader.in_transaction:
                raise UsageError(
                    "an index in memory cannot be searched by what gives it its rows. Make a list of them first."
                )
            try:
                return function()
            except apsw.Error as error:
                raise explained(error, self.path) from error

    def _refuse_closed(self) -> None:
        if self._closed:
            raise UsageError(f"the index {self.path} is closed.")

    def _embed(self, on_progress: vectors.Progress | None) -> None:
        """Give every passage its vector. The embedder works outside of any transaction."""
        embedder, after, done = self.embedder, 0, 0
        if embedder is None:
            return
        with self.changing() as writing:
            total = vectors.settle(writing.connection, self.path, embedder)
        while True:
            rows = self._read(partial(vectors.missing, self._reader, after))
            if not rows:
                break
            made = vectors.embedded(rows, embedder)
            with self.changing() as writing:
                vectors.store(writing.connection, made)
            after, done = made[-1][0], done + len(made)
            if on_progress is not None:
                on_progress(done, max(total, done))
