"""What a program holds of memory and disk is counted without following it anywhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clicket.bridge import Workers
from clicket.sandbox import Limits
from clicket.sandbox import watch as watches
from clicket.sandbox.watch import Watch, memory_of, usage

PLENTY = {"size": 1 << 40, "entries": 1 << 20}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_entries_and_blocks_are_counted_at_every_depth(tmp_path: Path, folder: int) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(100_000))
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    found = usage(folder, **PLENTY)
    assert found.entries == 4
    assert 100_000 <= found.size < 1 << 20
    assert not found.over


def test_links_lead_nowhere(tmp_path: Path, folder: int) -> None:
    for name, target in (("root", "/"), ("self", "."), ("loop", "loop")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "fifo")
    assert usage(folder, **PLENTY).entries == 4


def test_a_walk_ends_at_the_first_bound_that_is_passed(tmp_path: Path, folder: int) -> None:
    for number in range(50):
        (tmp_path / str(number)).write_bytes(bytes(10_000))
    assert usage(folder, size=1 << 40, entries=10) == watches.Usage(
        size=usage(folder, size=1 << 40, entries=10).size, entries=11, over=True
    )
    assert usage(folder, size=100_000, entries=1000).entries < 50
    assert usage(folder, size=100_000, entries=1000).over


def test_what_is_nested_too_deep_to_follow_is_too_much(tmp_path: Path, folder: int) -> None:
    path = tmp_path
    for _ in range(100):
        path /= "d"
        path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    assert usage(folder, **PLENTY).over
    assert len(os.listdir("/proc/self/fd")) == before


def test_removed_files_count_while_they_are_open_and_only_once(tmp_path: Path, folder: int) -> None:
    with (tmp_path / "gone").open("wb", 0) as file, (tmp_path / "gone").open("rb"):
        file.write(bytes(1 << 20))
        (tmp_path / "gone").unlink()
        assert usage(folder, **PLENTY).size == 0
        found = usage(folder, **PLENTY, unlinked_of=[os.getpid()]).size
        assert 1 << 20 <= found < 2 << 20
        assert usage(folder, size=1 << 19, entries=10, unlinked_of=[os.getpid()]).over


def test_memory_of_processes_is_added_and_the_dead_hold_none() -> None:
    assert memory_of([os.getpid()]) > 5 << 20
    assert memory_of([2**22 + 1]) == 0


async def test_a_watch_rests_when_told_and_tells_what_it_finds(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "PERIOD", 0.005)
    told: asyncio.Queue[str] = asyncio.Queue()
    workers = Workers(1, "test-watch")
    looks = 0

    def pids() -> list[int]:
        nonlocal looks
        looks += 1
        return []

    watch = Watch(
        folders=(folder,), limits=Limits(files=300), pids=pids, memory=True, workers=workers, tell=told.put_nowait
    )
    watch.start()
    while looks < 3:
        await asyncio.sleep(0.001)
    assert told.empty()
    watch.rest()
    while watch._timer is not None:  # the last one runs out and is not renewed
        await asyncio.sleep(0.001)
    before = looks
    for number in range(301):
        (tmp_path / str(number)).touch()
    assert looks == before
    watch.start()
    async with asyncio.timeout(60):
        assert await told.get() == "disk"
    watch.stop()
    workers.close()


@pytest.mark.parametrize("memory", [True, False])
async def test_too_much_memory_is_told_where_no_kernel_bounds_it(
    memory: bool, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "PERIOD", 0.005)
    told: asyncio.Queue[str] = asyncio.Queue()
    workers = Workers(1, "test-watch")
    looks = 0

    def pids() -> list[int]:
        nonlocal looks
        looks += 1
        return [os.getpid()] * 100

    limits = Limits(memory=64 << 20)
    watch = Watch(folders=(folder,), limits=limits, pids=pids, memory=memory, workers=workers, tell=told.put_nowait)
    watch.start()
    while looks < 3:
        await asyncio.sleep(0.001)
    if memory:
        async with asyncio.timeout(60):
            assert await told.get() == "memory"
    assert memory or told.empty()
    watch.stop()
    workers.close()
