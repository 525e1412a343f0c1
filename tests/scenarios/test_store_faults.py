"""The file under a runtime: refused by name when it is not clicket's, waited for when it is locked, full or slow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.kit.tools import add, echo
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_loop_is_free, assert_sound, make, measured_lag, sqlite_url

from clicket import State, StoreUnavailable, ToolContext, tool

ROOT = Path(__file__).resolve().parents[2]


@tool
async def big(size: int, ctx: ToolContext) -> str:
    return os.urandom(size // 2).hex()


def made(folder: Path, calls: int = 20) -> Path:
    """A clicket file with some calls in it."""

    async def fill() -> None:
        async with make([add], sqlite_url(folder)) as rt:
            await rt.call_many([("add", {"a": i, "b": 1}) for i in range(calls)])

    asyncio.run(fill())
    connection = apsw.Connection(str(folder / "calls.db"))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return folder / "calls.db"


# Files that clicket may not write ------------------------------------------------------------------------------------


def garbage(folder: Path) -> Path:
    path = folder / "calls.db"
    path.write_bytes(b"These are somebody's notes, not a database.\n" * 200)
    return path


def truncated(folder: Path) -> Path:
    path = made(folder)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 - 100])
    return path


def header_only(folder: Path) -> Path:
    path = made(folder)
    path.write_bytes(path.read_bytes()[:100])
    return path


def overwritten(folder: Path) -> Path:
    path = made(folder)
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 3] = b"\xde\xad" * 4096
    path.write_bytes(data)
    return path


def foreign(folder: Path) -> Path:
    path = folder / "calls.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')")
    connection.close()
    return path


def foreign_application(folder: Path) -> Path:
    path = folder / "calls.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 42")
    connection.close()
    return path


def newer(folder: Path) -> Path:
    path = made(folder)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 999)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path


@pytest.mark.parametrize("fault", [garbage, truncated, header_only, overwritten, foreign, foreign_application, newer])
def test_a_file_that_is_corrupt_newer_or_foreign_is_refused_by_name_and_left_alone(tmp_path: Path, fault: Any) -> None:
    path = fault(tmp_path)
    before = path.read_bytes()

    async def use() -> None:
        async with make([add], sqlite_url(tmp_path)) as rt:
            await rt.history(limit=1_000)
            await rt.call("add", {"a": 1, "b": 1})

    with pytest.raises(StoreUnavailable, match=r"calls\.db") as refused:
        asyncio.run(use())
    assert refused.value.code == "store_unavailable"
    assert "at 0x" not in refused.value.message
    if fault is not overwritten and fault is not truncated:  # only reading the damaged part finds those
        assert path.read_bytes() == before
    assert path.stat().st_size == len(before)


@pytest.mark.parametrize("where", ["file as folder", "folder as file", "under a device"])
async def test_a_path_that_cannot_be_a_store_is_refused_by_name(tmp_path: Path, where: str) -> None:
    if where == "file as folder":
        (tmp_path / "notes.txt").write_text("mine")
        path = tmp_path / "notes.txt" / "calls.db"
    elif where == "folder as file":
        path = tmp_path / "calls.db"
        path.mkdir()
    else:
        path = Path("/dev/null/calls.db")
    with pytest.raises(StoreUnavailable, match=r"calls\.db"):
        await make([add], f"sqlite:///{path}").open()


async def test_folders_that_are_missing_are_made(tmp_path: Path) -> None:
    async with make([add], sqlite_url(tmp_path / "a" / "b")) as rt:
        assert (await rt.call("add", {"a": 1, "b": 1})).output == 2
    assert (tmp_path / "a" / "b" / "calls.db").stat().st_mode & 0o077 == 0  # not readable by other users


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_both_durabilities_keep_what_they_promise_to_a_second_reader(tmp_path: Path, durability: str) -> None:
    url = sqlite_url(tmp_path)
    async with make([add], url, durability=durability) as rt:
        results = await rt.call_many([("add", {"a": i, "b": 0}) for i in range(50)], max_concurrency=10)
        async with make([], url) as other:
            for result in results:
                assert (await other.get(result.call_id)).output == result.output


# A locked file -------------------------------------------------------------------------------------------------------


class Lock:
    """Another program's transaction on the same file."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def test_a_locked_file_refuses_new_calls_in_bounded_time_and_recovers(tmp_path: Path) -> None:
    async with make([add], sqlite_url(tmp_path)) as rt:
        assert (await rt.call("add", {"a": 1, "b": 1})).success
        lock = Lock(tmp_path / "calls.db")
        started = time.monotonic()
        async with measured_lag() as lag:
            with pytest.raises(StoreUnavailable, match=r"calls\.db") as refused:
                await rt.submit("add", {"a": 2, "b": 2}, id="locked out")
        took = time.monotonic() - started
        assert refused.value.code == "store_unavailable"
        assert "locked" in refused.value.message
        assert 1 < took < PATIENCE
        assert lag.worst < took / 2  # it waits, but not on the event loop
        assert [r.arguments for r in (await rt.history()).items] == [{"a": 1, "b": 1}]  # reads still work
        lock.release()
        assert (await rt.call("add", {"a": 2, "b": 2}, id="locked out")).output == 4  # the id is still free
        assert len((await rt.history()).items) == 2
        assert not any(rt.engine.limiter.used.values())


async def test_a_call_under_way_waits_for_the_lock_and_loses_nothing(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with make([wait, add], sqlite_url(tmp_path)) as rt:
        handle = await rt.submit("wait")
        lock = Lock(tmp_path / "calls.db")
        gate.set()
        with pytest.raises(TimeoutError):  # no state is visible before it is stored
            await asyncio.wait_for(handle.result(), 0.3)
        assert await rt.state(handle.id) is not State.COMPLETED
        lock.release()
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == "done"
        assert_sound(await rt.get(handle.id))


async def test_two_submits_of_one_id_on_a_locked_file_both_get_an_answer(tmp_path: Path) -> None:
    async with make([add], sqlite_url(tmp_path)) as rt:
        rt.store._writer._busy_timeout = 200  # milliseconds; the test above covers the default limit
        lock = Lock(tmp_path / "calls.db")
        asks = [asyncio.create_task(rt.call("add", {"a": 1, "b": 1}, id="x")) for _ in range(3)]
        await asyncio.sleep(0)
        answers = await asyncio.wait_for(asyncio.gather(*asks, return_exceptions=True), PATIENCE)
        lock.release()
        assert {type(a) for a in answers} == {StoreUnavailable}
        assert (await rt.call("add", {"a": 1, "b": 1}, id="x")).output == 2


async def test_opening_a_locked_new_file_is_refused_in_bounded_time(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "calls.db"))
    connection.execute("BEGIN EXCLUSIVE")
    try:
        async with measured_lag() as lag:
            with pytest.raises(StoreUnavailable, match=r"calls\.db"):
                await asyncio.wait_for(make([add], sqlite_url(tmp_path), open_timeout=0.5).open(), PATIENCE)
        assert lag.worst < 0.4, "the loop goes on while the store waits for the lock"
    finally:
        connection.execute("ROLLBACK")
        connection.close()


# A full disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("mounting a small disk needs root; the limit on file sizes below needs nothing")
    if subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the rest of the disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    return ballast


async def fail_to_submit(rt: Any) -> None:
    """The last pages may still have room for a small call or two; soon there is none."""
    for i in range(200):
        try:
            await rt.call("add", {"a": i, "b": 1}, metadata={"padding": "x" * 3_000})
        except StoreUnavailable:
            return
    raise AssertionError("200 calls fit on a full disk")


async def test_a_full_disk_refuses_calls_keeps_what_it_has_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    async with make([add], sqlite_url(small_disk)) as rt:
        kept = [(await rt.call("add", {"a": i, "b": 1})).call_id for i in range(10)]
        ballast = fill(small_disk)
        async with measured_lag() as lag:
            await fail_to_submit(rt)
            with pytest.raises(StoreUnavailable, match="full"):
                await rt.submit("add", {"a": 1, "b": 1}, id="refused", metadata={"padding": "x" * 50_000})
        assert lag.worst < 0.4, "the loop goes on while the store waits for the lock"
        for id in kept:  # reads still work
            assert_sound(await rt.get(id))
        ballast.unlink()
        assert (await asyncio.wait_for(rt.call("add", {"a": 1, "b": 1}, id="refused"), PATIENCE)).output == 2
        for record in (await rt.history(limit=1_000)).items:
            assert_sound(record)
            assert record.state is State.COMPLETED
        assert not any(rt.engine.limiter.used.values())
    connection = apsw.Connection(str(small_disk / "calls.db"))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def test_an_artifact_that_does_not_fit_is_store_unavailable_and_leaves_no_piece(small_disk: Path) -> None:
    async with make([add, big], sqlite_url(small_disk)) as rt:
        result = await rt.call("big", {"size": 4_000_000})
        assert result.state is State.FAILED
        assert result.error is not None
        assert result.error.code == "store_unavailable"
        assert [p for p in small_disk.rglob("*") if p.is_file() and "artifacts" in str(p)] == []
        assert (await rt.call("add", {"a": 1, "b": 1})).output == 2
        assert_sound(await rt.get(result.call_id))


async def test_an_outcome_that_could_not_be_written_for_long_is_returned_and_still_stored(small_disk: Path) -> None:
    """The caller gets an answer at once; the outcome is written when there is room; the slot is freed."""
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "x" * 200_000

    async with make([add, wait], sqlite_url(small_disk), max_concurrency=1) as rt:
        handle = await rt.submit("wait")
        ballast = fill(small_disk)
        gate.set()
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(handle.result(), PATIENCE)
        assert await rt.state(handle.id) is State.RUNNING
        ballast.unlink()
        # Until a retry has stored it, callers are told that the disk is full.
        await eventually(lambda: not rt.activity().unsaved)
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        assert result == await asyncio.wait_for((await rt.handle(handle.id)).result(), PATIENCE)
        assert result.output == "x" * 200_000
        assert (await asyncio.wait_for(rt.call("add", {"a": 1, "b": 1}), PATIENCE)).output == 2
        assert_sound(await rt.get(handle.id))


def test_a_limit_on_file_sizes_is_store_unavailable_too(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes every write beyond it fail. In a child process, where the limit can be reset."""
    script = textwrap.dedent(
        """
        import asyncio, resource, sys
        from clicket import Runtime, StoreUnavailable, tool

        @tool
        async def echo(text: str) -> str:
            return text

        async def main(url):
            async with Runtime([echo], store=url) as rt:
                good = [(await rt.call("echo", {"text": str(i)})).call_id for i in range(5)]
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
                refused = 0
                for i in range(20):
                    try:
                        await rt.call("echo", {"text": "x" * 50_000})
                    except StoreUnavailable as error:
                        assert error.code == "store_unavailable"
                        refused += 1
                        break
                assert refused, "nothing was refused"
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                assert (await rt.call("echo", {"text": "again"}, id="again")).output == "again"
                assert all([(await rt.get(id)).success for id in good])
            async with Runtime([echo], store=url) as rt:
                assert (await rt.get("again")).output == "again"
                assert all([r.state.is_terminal for r in (await rt.history(limit=1000)).items])
            print("good")

        asyncio.run(main(sys.argv[1]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, sqlite_url(tmp_path)],
        capture_output=True, check=False, text=True, timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "good"
    connection = apsw.Connection(str(tmp_path / "calls.db"))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def test_a_file_that_vanishes_while_in_use_is_not_recreated_in_silence(tmp_path: Path) -> None:
    """Writes to a deleted file are lost; the next process that opens the path gets a new, empty file."""
    url = sqlite_url(tmp_path)
    async with make([add], url) as rt:
        await rt.call("add", {"a": 1, "b": 1})
        for path in tmp_path.glob("calls.db*"):
            if path.is_file():
                path.unlink()
        with contextlib.suppress(StoreUnavailable):
            await rt.call("add", {"a": 1, "b": 1})
    async with make([add], url) as rt:
        assert (await rt.history()).items == []


async def test_the_store_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """Two thousand durable calls with payloads: the store never blocks an iteration of the loop for 50 ms."""

    async with make([echo], sqlite_url(tmp_path), max_concurrency=50) as rt:

        async def many() -> None:
            calls = [("echo", {"text": "x" * 2_000})] * 1_000
            assert all(r.success for r in await rt.call_many(calls, max_concurrency=50))

        await assert_loop_is_free(many)
