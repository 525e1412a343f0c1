"""A program's memory and disk usage is counted without following links."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE, eventually

from clicket.interpreter.sandbox import Limits, usage_monitor
from clicket.interpreter.sandbox.disk import FreeSpaceTracker
from clicket.interpreter.sandbox.usage_monitor import UsageMonitor, cpu_time_of, memory_of, usage
from clicket.system.bridge import ThreadPool

SO_MEMINFO = 55
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
    assert usage(folder, size=1 << 40, entries=10) == usage_monitor.Usage(
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


def test_what_cannot_be_counted_is_reported(tmp_path: Path, folder: int) -> None:
    path = tmp_path / "gone"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(1 << 20))
    path.unlink()
    ours = [os.getpid()]

    def uncounted() -> bool:
        return usage(folder, **PLENTY, unlinked_of=ours).uncounted

    assert not uncounted(), "the file is open"
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with left, right:
        assert usage(folder, **PLENTY, unlinked_of=ours).sockets >= 2
        assert not uncounted()
        socket.send_fds(left, [b"x"], [fd])
        assert uncounted(), "the file is in transit through a socket"
        _, received, _, _ = socket.recv_fds(right, 1, 1)
        assert not uncounted()
        os.close(received[0])
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    assert not uncounted(), "the file is open as well"
    os.close(fd)
    assert uncounted(), "only a memory mapping of it is left"
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(4096))
    assert not uncounted()
    with mmap.mmap(-1, 1 << 20) as shared:
        shared[0] = 1
        assert not uncounted(), "shared memory is not a file"
    assert not usage(folder, **PLENTY, unlinked_of=[2**22 + 1]).uncounted, "a dead process holds nothing"


class Disk:
    """A file system with this much free space."""

    f_frsize = 1

    def __init__(self) -> None:
        self.f_bfree, self.f_ffree = 1000, 100


def seen(size: int, entries: int, *, uncounted: bool) -> usage_monitor.Usage:
    return usage_monitor.Usage(size=size, entries=entries, over=False, uncounted=uncounted)


def test_what_a_disk_lacks_is_attributed_to_the_program(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr("os.fstatvfs", lambda _: disk)
    room = FreeSpaceTracker(folder)

    def lacks(found: usage_monitor.Usage, size: int = 100, entries: int = 10) -> bool:
        return [room.is_over(folder, found, size=size, entries=entries) for _ in range(3)][-1]

    disk.f_bfree, disk.f_ffree = 500, 50  # its own files and others', all visible
    assert not lacks(seen(100, 10, uncounted=False))
    disk.f_bfree, disk.f_ffree = 300, 40
    found = seen(150, 13, uncounted=True)  # 150 bytes and 7 entries have no visible owner
    assert not room.is_over(folder, found, size=149, entries=10), "one measurement is not enough"
    assert lacks(found, size=149)
    assert not lacks(found, size=150)
    assert lacks(found, size=150, entries=6)
    room.begin(folder)  # uncounted usage stays uncounted
    assert lacks(found, size=149)
    assert not lacks(seen(150, 13, uncounted=False))
    disk.f_bfree, disk.f_ffree = 0, 0
    room.begin(folder)  # others' usage, while the program was frozen
    assert not lacks(found, size=0, entries=0)
    room.close()


def test_what_another_program_holds_is_not_missing(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr("os.fstatvfs", lambda _: disk)
    room, other = FreeSpaceTracker(folder), FreeSpaceTracker(folder)
    disk.f_bfree, disk.f_ffree = 400, 50
    other.is_over(folder, seen(600, 50, uncounted=False), size=1000, entries=1000)
    assert not any(room.is_over(folder, seen(0, 0, uncounted=True), size=0, entries=0) for _ in range(5))
    disk.f_bfree, disk.f_ffree = 1000, 100
    other.close()
    assert not any(room.is_over(folder, seen(0, 0, uncounted=True), size=0, entries=0) for _ in range(5))
    room.close()


def test_cpu_time_of_processes_is_added_and_the_dead_use_none() -> None:
    spent = time.process_time()
    while time.process_time() < spent + 0.1:
        pass
    used = cpu_time_of([os.getpid()])
    assert used >= 0.1
    assert cpu_time_of([os.getpid(), os.getpid(), 2**22 + 1]) >= 2 * used


def test_memory_of_processes_is_added_and_the_dead_hold_none() -> None:
    assert memory_of([os.getpid()]) > 5 << 20
    assert memory_of([2**22 + 1]) == 0


async def test_a_monitor_pauses_on_request_and_reports_what_it_finds(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_monitor, "PERIOD", 0.005)
    breaches: asyncio.Queue[str] = asyncio.Queue()
    thread_pool = ThreadPool(1, "test-watch")
    looks = 0

    def pids() -> list[int]:
        nonlocal looks
        looks += 1
        return []

    watch = UsageMonitor(
        folders=(folder,),
        limits=Limits(files=300),
        pids=pids,
        memory=True,
        thread_pool=thread_pool,
        on_breach=breaches.put_nowait,
    )
    watch.start()
    await eventually(lambda: looks >= 3)
    assert breaches.empty()
    watch.pause()
    await eventually(lambda: watch._timer is None)  # the last one fires and is not renewed
    before = looks
    for number in range(301):
        (tmp_path / str(number)).touch()
    assert looks == before
    watch.start()
    async with asyncio.timeout(PATIENCE):
        assert await breaches.get() == "disk"
    watch.stop()
    thread_pool.close()


@pytest.mark.parametrize("memory", [True, False])
async def test_too_much_memory_is_reported_where_no_kernel_limits_it(
    memory: bool, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_monitor, "PERIOD", 0.005)
    breaches: asyncio.Queue[str] = asyncio.Queue()
    thread_pool = ThreadPool(1, "test-watch")
    looks = 0

    def pids() -> list[int]:
        nonlocal looks
        looks += 1
        return [os.getpid()] * 4  # each alone is over the limit; to sum up a large process takes milliseconds

    limits = Limits(memory=64 << 20)
    watch = UsageMonitor(
        folders=(folder,),
        limits=limits,
        pids=pids,
        memory=memory,
        thread_pool=thread_pool,
        on_breach=breaches.put_nowait,
    )
    watch.start()
    await eventually(lambda: looks >= 3)
    if memory:
        async with asyncio.timeout(PATIENCE):
            assert await breaches.get() == "memory"
    assert memory or breaches.empty()
    watch.stop()
    thread_pool.close()


def test_sockets_count_also_on_their_way_through_others(folder: int) -> None:
    before = usage(folder, **PLENTY, unlinked_of=[os.getpid()])
    left, right = socket.socketpair()
    inner = socket.socketpair()
    socket.send_fds(left, [b"x"], [one.fileno() for one in inner])
    for one in inner:
        one.close()
    found = usage(folder, **PLENTY, unlinked_of=[os.getpid()])
    assert (found.sockets - before.sockets, found.in_flight - before.in_flight) == (2, 2)
    assert found.uncounted
    left.close()
    right.close()


def test_a_full_socket_is_within_what_is_counted_for_it() -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        for size in (1, 2_000, 65_536, 150_000, 200_000):
            left, right = socket.socketpair(socket.AF_UNIX, kind)
            left.setblocking(False)
            with contextlib.suppress(OSError):
                while True:
                    left.send(bytes(size))
            held = struct.unpack("9I", left.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[2]
            assert 0 < held <= usage_monitor.socket_memory(), (kind, size)
            left.close()
            right.close()
