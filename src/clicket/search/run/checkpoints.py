"""What a search keeps so that it can go on after a crash. A record names the search it belongs to; one that does not fit, or
that cannot be read, is as if it were not there. Plain JSON: whoever keeps it must be able to see whether a secret is in it.

Keys: `plan:1`, `search:1:0`, `analysis:1`, `synthesis`: the stage, the round, the number of the query from 0.
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
from clicket.private_files import make_folder, opener
from clicket.search.dossier import Analysis, Synthesis
from clicket.search.engines.tasks import run_in_thread

__all__ = [
    "AnalysisKept",
    "Checkpoints",
    "FileCheckpoints",
    "Kept",
    "MemoryCheckpoints",
    "PlanKept",
    "SearchKept",
    "SynthesisKept",
    "pack",
    "unpack",
]

_LONG = 64 * 1024
"""Bytes that are written off the loop."""
Ranked = tuple[tuple[str, float], ...]


class Checkpoints(Protocol):
    """Keeps bytes by key for one search. What `save` has returned from is there after a crash."""

    def load(self) -> Mapping[str, bytes]: ...

    async def save(self, key: str, data: bytes) -> None: ...


class MemoryCheckpoints:
    """For tests, and for a search that is tried again in the same process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load(self) -> Mapping[str, bytes]:
        return dict(self.kept)

    async def save(self, key: str, data: bytes) -> None:
        self.kept[key] = data


class FileCheckpoints:
    """A folder for one search, a file for each key: written beside it, then put in its place, so it is whole or not there.

    What is kept outlives the process, not a loss of power.
    """

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
        if len(data) <= _LONG:
            self._write(key, data)
        else:
            await run_in_thread(lambda: self._write(key, data))

    def clear(self) -> None:
        """Forget everything. The next search begins from the start."""
        for one in self.path.glob("*.json"):
            one.unlink(missing_ok=True)

    def _write(self, key: str, data: bytes) -> None:
        make_folder(self.path)
        name = quote(key, safe="")
        beside = self.path / f"{name}.{os.getpid()}.part"
        try:
            with open(beside, "wb", opener=opener) as file:
                file.write(data)
            beside.replace(self.path / f"{name}.json")
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What every record says: whose it is, the last message before it, what the stage noted and used."""

    fingerprint: str
    seq: int = 0
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()


class PlanKept(Kept, frozen=True, kw_only=True):
    queries: tuple[str, ...]


class SearchKept(Kept, frozen=True, kw_only=True):
    """Documents in full: the index may have changed when the search goes on. `cut`: the time of all searches was over."""

    query: str
    documents: tuple[Document, ...] = ()
    error: str | None = None
    cut: bool = False


class AnalysisKept(Kept, frozen=True, kw_only=True):
    analysis: Analysis
    ranked: Ranked


class SynthesisKept(Kept, frozen=True, kw_only=True):
    """`rounds`, `stopped` and `note` tell where and why the rounds ended: a budget of time is not spent alike twice."""

    synthesis: Synthesis
    ranked: Ranked
    rounds: int
    stopped: str
    note: str = ""


K = TypeVar("K", bound=Kept)


def pack(record: Kept) -> bytes:
    return msgspec.json.encode(record)


def unpack(data: bytes, type: type[K], fingerprint: str) -> K | str:
    """The record, or why it cannot be used."""
    try:
        record = msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return "it is damaged"
    return record if record.fingerprint == fingerprint else "it belongs to another search"
