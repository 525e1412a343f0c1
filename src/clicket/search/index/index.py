"""The public index: your own documents in one SQLite file, searched without a key, a network or a model.

A change is one transaction. A search that runs meanwhile sees the state before it or the state after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from threading import RLock
from typing import TYPE_CHECKING, Self, TypeVar

import apsw

from clicket import system
from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.model.ports.services import Embedder
from clicket.search.index import vectors
from clicket.search.index.reader import IndexReader
from clicket.search.index.schema import MEMORY, connect, prepare, store_error
from clicket.search.index.writer import Added, IndexWriter
from clicket.system.bridge import ThreadPool

if TYPE_CHECKING:
    from clicket.search.index.file_tables import Contents, Folder
    from clicket.search.index.folder_sync import FolderProgress, FolderReport

__all__ = ["Added", "Index"]

T = TypeVar("T")
MAX_INLINE = 20_000
"""Passages. A search of a larger index runs in a thread."""


class Index:
    """A search engine and a `Collection`. Use it with `with`, or `close` it."""

    name = "index"

    def __init__(self, path: str, *, embedder: Embedder | None = None) -> None:
        """Use `Index.open`."""
        self.path = path
        self.embedder = embedder
        self._closed = False
        self._changes = 0
        self._write_connection = connect(path)
        try:
            prepare(path, self._write_connection)
            self._read_connection = self._write_connection if path == MEMORY else connect(path)
        except BaseException:
            self._write_connection.close()
            raise
        self._id = system.random_hex(16)
        self._write_lock = RLock()
        self._read_lock = self._write_lock if path == MEMORY else RLock()
        self._reader = IndexReader(self._read_connection, embedder)
        self._thread_pool = ThreadPool(1, "clicket-index")

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = MEMORY,
        *,
        embedder: Embedder | None = None,
        on_progress: vectors.Progress | None = None,
    ) -> Index:
        """Open an index, or create one. With an embedder, passages without a vector get one now."""
        index = cls(fspath(path), embedder=embedder)
        try:
            index._embed(on_progress)
        except BaseException:
            index.close()
            raise
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._thread_pool.close()
        with self._write_lock:
            self._write_connection.close()
        if self._read_connection is not self._write_connection:
            with self._read_lock:
                self._read_connection.close()

    def add(self, documents: Iterable[object], *, on_progress: vectors.Progress | None = None) -> Added:
        """Add documents, or replace those of the same id: mappings {id, title, text, url, source}, or Documents.

        All of them are added or, when one of them is wrong, none. `headings` are pairs of an offset and the headings that
        hold from there: passages below them are found by them.
        """
        with self.transaction() as writer:
            counts = writer.add(documents)
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
        """Bring the index up to date with the files of a folder: read those that changed, and remove those that are gone.

        `patterns` select files and `exclude` excludes some, both as in `.gitignore`. Hidden files, and folders such as
        `node_modules`, are always excluded. A file that cannot be read is skipped, with the reason.
        """
        from clicket.search.index.folder_sync import FolderProgress, add_folder

        report = add_folder(self, path, patterns=patterns, exclude=exclude, on_progress=on_progress)
        self._embed(
            None
            if on_progress is None
            else lambda done, total: on_progress(FolderProgress(stage="vectors", done=done, total=total))
        )
        return report

    def remove_folder(self, path: str | PathLike[str]) -> int:
        """Remove a folder with all its documents, and return their number."""
        from clicket.search.index.folder_sync import remove_folder

        return remove_folder(self, path)

    def folders(self) -> Sequence[Folder]:
        """The folders that were added, by path."""
        from clicket.search.index.file_tables import folders

        return self._read(lambda: folders(self._read_connection))

    def contents(self) -> Contents:
        """Counts of documents, passages and vectors, and the size of the file."""
        from clicket.search.index.file_tables import contents

        return self._read(lambda: contents(self._read_connection))

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents, and return the number of those that were there."""
        if isinstance(ids, str):
            raise UsageError(f"remove takes a list of ids: remove([{ids!r}]).")
        with self.transaction() as writer:
            return writer.remove(ids)

    @contextmanager
    def transaction(self) -> Iterator[IndexWriter]:
        """Several changes as one: committed when the block ends, rolled back when it raises."""
        connection = self._write_connection
        with self._write_lock:
            self._check_open()
            if connection.in_transaction:
                raise UsageError("the rows given to the index change the index themselves. Make a list of them first.")
            try:
                connection.execute("BEGIN IMMEDIATE")
                writer = IndexWriter(connection)
                yield writer
                writer.close()
                connection.execute("COMMIT")
                self._changes += 1
            except apsw.Error as error:
                raise store_error(error, self.path) from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._reader.invalidate()

    @property
    def revision(self) -> str | None:
        """Differs after every change. Only of an index in memory: the others have a file with a time."""
        return f"{self._id}-{self._changes}" if self.path == MEMORY else None

    @property
    def count(self) -> int:
        """Documents in all."""
        return self._read(lambda: int(self._read_connection.execute("SELECT documents FROM totals").get))

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        """The best `k` documents, equal ones by id. `spans` are the parts of a long text that were found, the best first."""
        self._check_open()
        if self.embedder is None and self._read_lock.acquire(blocking=False):
            try:
                if 0 <= self._reader.size <= MAX_INLINE or self.size() <= MAX_INLINE:
                    return self.find(query, k=k)
            finally:
                self._read_lock.release()
        async with asyncio.timeout(deadline):
            return await self._thread_pool.run(lambda: self.find(query, k=k))

    def find(self, query: str, *, k: int = 10) -> list[Document]:
        """`search` for programs without an event loop."""
        return self._read(lambda: self._reader.find(query, k))

    def size(self) -> int:
        """Passages in all."""
        return self._read(self._reader.passages)

    def frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        return self._read(lambda: self._reader.frequencies(terms))

    def similar_terms(self, term: str, min_count: int) -> Sequence[tuple[str, int]]:
        """Terms of about the same length that begin with the same letter, each with the number of passages that contain it."""
        return self._read(lambda: self._reader.similar_terms(term, min_count))

    def named(self, names: Sequence[str]) -> Sequence[Sequence[str]]:
        return self._read(lambda: self._reader.named(names))

    def fetch(self, ids: Sequence[str]) -> Sequence[Document]:
        return self._read(lambda: self._reader.fetch(ids))

    def similarities(self, text: str, ids: Sequence[str]) -> Sequence[float] | None:
        if self.embedder is None:
            return None
        return self._read(lambda: self._reader.similarities(text, ids))

    def _read(self, function: Callable[[], T]) -> T:
        with self._read_lock:
            self._check_open()
            if self._read_connection.in_transaction:
                raise UsageError(
                    "the rows given to an index in memory search the index themselves. Make a list of them first."
                )
            try:
                return function()
            except apsw.Error as error:
                raise store_error(error, self.path) from error

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the index {self.path} is closed.")

    def _embed(self, on_progress: vectors.Progress | None) -> None:
        """Give every passage its vector. The embedder runs outside of any transaction."""
        embedder = self.embedder
        after = 0
        done = 0
        if embedder is None:
            return
        with self.transaction() as writer:
            total = vectors.check_embedder(writer.connection, self.path, embedder)
        while True:
            rows = self._read(partial(vectors.passages_without_vector, self._read_connection, after))
            if not rows:
                break
            made = vectors.embed_passages(rows, embedder)
            with self.transaction() as writer:
                vectors.store_vectors(writer.connection, made)
            after, done = made[-1][0], done + len(made)
            if on_progress is not None:
                on_progress(done, max(total, done))
