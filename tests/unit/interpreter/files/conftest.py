"""A program's work folder, threads and a store for artifacts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from clicket.interpreter.files.artifacts import TemporaryArtifacts
from clicket.interpreter.files.inputs import Inputs, write_inputs
from clicket.interpreter.files.outputs import CollectedFiles, OutputLimits, collect
from clicket.system.bridge import ThreadPool

SECRET = b"the host's secret"


class Place:
    """The work folder of a program."""

    def __init__(self, path: Path, uid: int | None = None) -> None:
        self.path = path
        self.uid = uid
        self.work_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "work").mkdir()
    made = Place(tmp_path / "work")
    yield made
    os.close(made.work_fd)


@pytest.fixture
def thread_pool() -> Iterator[ThreadPool]:
    made = ThreadPool(1, "test-files")
    yield made
    made.close()


@pytest.fixture
async def artifacts(thread_pool: ThreadPool, tmp_path: Path) -> AsyncIterator[TemporaryArtifacts]:
    (tmp_path / "kept").mkdir()
    made = TemporaryArtifacts(thread_pool, temp=tmp_path / "kept")
    yield made
    made.close()
    assert list((tmp_path / "kept").iterdir()) == []


async def taken(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, before: object = None, **caps: int
) -> CollectedFiles:
    return await collect(place.work_fd, before or {}, artifacts, thread_pool, OutputLimits(**caps))  # type: ignore[arg-type]


async def put(
    place: Place,
    artifacts: TemporaryArtifacts,
    thread_pool: ThreadPool,
    *names: str,
    folder: Path | None = None,
    **files: object,
) -> dict[str, object]:
    inputs = Inputs(file_names=names, files=files)  # type: ignore[arg-type]
    return await write_inputs(  # type: ignore[return-value]
        place, inputs, folder=folder, store=artifacts, thread_pool=thread_pool, each=1_000_000, whole=2_000_000
    )
