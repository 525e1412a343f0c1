"""Checkpoints of a search: after a crash, a search with the same options takes over what was finished.

Keys: `plan:1`, `search:1:0`, `analysis:1`, `synthesis`: the stage, the round from 1, the number of the query from 0. A record is
plain JSON, so that the store can look for secrets in it. It holds the fingerprint of its search; a record with another one, or
one that cannot be decoded, is not used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, unquote

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import Usage
from clicket.model.document import Document
from clicket.search.findings import Analysis, Synthesis
from clicket.system.bridge import run_in_thread
from clicket.system.private_files import make_folder, opener

__all__ = [
    "AnalysisRecord",
    "CheckpointReplay",
    "Checkpoints",
    "FileCheckpoints",
    "MemoryCheckpoints",
    "PlanRecord",
    "QueryRecord",
    "Record",
    "SynthesisRecord",
]

_LARGE = 64 * 1024
"""Bytes; larger records are written in a thread."""
_MAX_RECORD = 32 * 1024 * 1024
_MAX_SIZE = 256 * 1024 * 1024
"""Bytes of one query's record, and of all of them: documents may be whole books. Queries beyond are repeated after a crash."""
Ranked = tuple[tuple[str, float], ...]


class Checkpoints(Protocol):
    """Stores bytes by key, for one search. When `save` has returned, the data survives a crash."""

    def load(self) -> Mapping[str, bytes]: ...

    async def save(self, key: str, data: bytes) -> None: ...


class MemoryCheckpoints:
    """For tests, and for repeating a search in the same process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load(self) -> Mapping[str, bytes]:
        return dict(self.kept)

    async def save(self, key: str, data: bytes) -> None:
        self.kept[key] = data


class FileCheckpoints:
    """A folder for one search, with one file for each key. A file is replaced atomically. It survives the end of the process, not
    a loss of power."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"Checkpoints need a folder of their own; {str(self.path)!r} is a file.")

    def load(self) -> Mapping[str, bytes]:
        if not self.path.is_dir():
            return {}
        files = sorted(self.path.glob("*.json"))
        return {unquote(one.stem): one.read_bytes() for one in files}

    async def save(self, key: str, data: bytes) -> None:
        if len(data) <= _LARGE:
            self._write(key, data)
        else:
            await run_in_thread(lambda: self._write(key, data))

    def clear(self) -> None:
        """Delete all checkpoints. The next search starts from the beginning."""
        for one in self.path.glob("*.json"):
            one.unlink(missing_ok=True)

    def _write(self, key: str, data: bytes) -> None:
        make_folder(self.path)
        name = quote(key, safe="")
        part_file = self.path / f"{name}.{os.getpid()}.part"
        try:
            with open(part_file, "wb", opener=opener) as file:
                file.write(data)
            part_file.replace(self.path / f"{name}.json")
        except BaseException:
            with contextlib.suppress(OSError):
                part_file.unlink(missing_ok=True)
            raise


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every record. `seq` is the number of the last message before it; `notes` and `usage` are those of the stage."""

    fingerprint: str = ""
    seq: int = 0
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()


class PlanRecord(Record, frozen=True, kw_only=True):
    queries: tuple[str, ...]


class QueryRecord(Record, frozen=True, kw_only=True):
    """The outcome of one query. It holds the documents in full, because the index may change until the search resumes. `cut`: the time
    for all queries of the round ran out."""

    query: str
    documents: tuple[Document, ...] = ()
    error: str | None = None
    cut: bool = False


class AnalysisRecord(Record, frozen=True, kw_only=True):
    analysis: Analysis
    ranked: Ranked


class SynthesisRecord(Record, frozen=True, kw_only=True):
    """`rounds`, `stopped` and `note` say where and why the rounds ended: a resumed search has another clock and might go on."""

    synthesis: Synthesis
    ranked: Ranked
    rounds: int
    stopped: str
    note: str = ""


R = TypeVar("R", bound=Record)


class CheckpointReplay:
    """Replays the records of an earlier run of the same search, in order, and saves new ones.

    With the first missing record the search is `live`: from there on all work is done anew, and later records are ignored.
    """

    def __init__(self, checkpoints: Checkpoints | None, fingerprint: str) -> None:
        self.live = False
        self.replayed = 0
        self.records: Mapping[str, bytes] = {}
        self.saves = checkpoints is not None
        self._size = 0
        self._checkpoints = checkpoints
        self._fingerprint = fingerprint

    def load(self) -> None:
        if self._checkpoints is not None:
            self.records = self._checkpoints.load()

    def take(self, key: str, type: type[R]) -> tuple[R | None, str]:
        """The record or None, and a note if there is a record that cannot be used."""
        if self.live or key not in self.records:
            return None, ""
        record = self._decoded(key, type)
        if isinstance(record, str):
            return None, f"The checkpoint {key!r} was not used: {record}"
        self.replayed += 1
        return record, ""

    def peek(self, key: str, type: type[R]) -> R | None:
        """The record, without counting it as replayed."""
        record = None if self.live or key not in self.records else self._decoded(key, type)
        return None if isinstance(record, str) else record

    async def save(self, key: str, record: R, seq: int) -> R:
        if self._checkpoints is not None:
            record = msgspec.structs.replace(record, fingerprint=self._fingerprint, seq=seq)
            data = msgspec.json.encode(record)
            if isinstance(record, QueryRecord):
                if len(data) > _MAX_RECORD or self._size + len(data) > _MAX_SIZE:
                    return record
                self._size += len(data)
            await self._checkpoints.save(key, data)
        return record

    def _decoded(self, key: str, type: type[R]) -> R | str:
        """The record, or why it cannot be used."""
        try:
            record = msgspec.json.decode(self.records[key], type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            return "it is damaged"
        return record if record.fingerprint == self._fingerprint else "it belongs to another search"
