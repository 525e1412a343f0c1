"""The library that intercepts a child's disk and clock calls, and the shared page through which a test controls it."""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

import clicket

__all__ = ["Control", "Files", "Place", "environment"]

ROOT = Path(__file__).resolve().parents[3]


class Place(IntEnum):
    """The operation that fails."""

    WRITE = 0
    SYNC = 1
    TRUNCATE = 2
    OPEN = 3
    """Opening for writing, and creating."""
    NAME = 4
    """Renaming, removing, making a folder."""
    READ = 5


class Files(IntFlag):
    """The files whose operations fail."""

    ALL = 0
    DB = 1
    WAL = 2
    SHM = 4
    FOLDER = 8
    OTHER = 16


class _Page(ctypes.Structure):
    _fields_ = [
        ("error", ctypes.c_int32 * len(Place)),
        ("skip", ctypes.c_int32 * len(Place)),
        ("every", ctypes.c_int32 * len(Place)),
        ("passed", ctypes.c_int32 * len(Place)),
        ("files", ctypes.c_int32),
        ("sync_us", ctypes.c_int32),
        ("clock_ns", ctypes.c_int64),
        ("struck", ctypes.c_int64),
    ]


class Control:
    """Errors and the date, changed while the child runs; each change applies to its next operation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"\0" * 4096)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 4096)
        self._page = _Page.from_buffer(self._memory)

    def fail(self, place: Place, error: int, *, files: Files = Files.ALL, skip: int = 0, every: int = 0) -> None:
        """From now on (after `skip` more successes) the disk returns this error: always, or each `every`-th time."""
        assert error in errno.errorcode
        self._page.files = files
        self._page.skip[place] = skip
        self._page.every[place] = every
        self._page.error[place] = error

    def mend(self) -> None:
        """Remove all errors."""
        for place in Place:
            self._page.error[place] = self._page.skip[place] = 0
        self._page.files = 0

    @property
    def struck(self) -> int:
        """How many errors the shim has injected."""
        return int(self._page.struck)

    @property
    def clock(self) -> float:
        """By how many seconds the date is wrong."""
        return float(self._page.clock_ns / 1e9)

    @clock.setter
    def clock(self, seconds: float) -> None:
        self._page.clock_ns = int(seconds * 1e9)

    def syncs_take(self, seconds: float) -> None:
        self._page.sync_us = int(seconds * 1e6)


def environment(control: Control | None, *, root: Path | None = None, log: Path | None = None) -> dict[str, str]:
    """The environment of a child whose disk (under `root`) and date the library controls."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CLICKET_", "COV_", "COVERAGE_"))}
    source = Path(clicket.__file__).parents[1]
    env = {**clean, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]), "LD_PRELOAD": str(_library())}
    given = {"SHIM_CONTROL": control and control.path, "SHIM_ROOT": root, "SHIM_LOG": log}
    return env | {name: str(value) for name, value in given.items() if value is not None}


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="clicket-shim-")
    atexit.register(folder.cleanup)  # before the one that tempfile does itself, which warns
    return folder


@functools.cache
def _library() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux"):
        pytest.skip("standing between a program and its disk works on Linux alone")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler. Debian: apt-get install gcc libc6-dev")
    target = Path(_folder().name) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        [
            compiler,
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            target,
            source,
            "-ldl",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return target
