"""Damaged files: flipped bits, truncation, garbage in the log. The error for a damaged file names it; what comes
before the damage stays readable and complete, and no record is invented.

Files of other programs and of newer versions are in tests/scenarios/test_store_faults.py.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from tests.crash.faults.host import child
from tests.kit.tools import add
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import ClicketError, StoreUnavailable


def assert_intact(path: Path) -> None:
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def made(folder: Path, calls: int = 60) -> Path:
    """A database with calls in it, fully checkpointed."""
    folder.mkdir(exist_ok=True)
    async with make([add], sqlite_url(folder)) as rt:
        await rt.call_many([("add", {"a": i, "b": 1}) for i in range(calls)])
    return folder / "calls.db"


async def crashed(folder: Path, calls: int = 60) -> Path:
    """What a killed process leaves: a database, and a log with calls that only the log has."""
    disk = folder / "disk"
    disk.mkdir()
    async with child(folder, store=sqlite_url(disk)) as program:
        for n in range(calls):
            await program.ask("call", tool="echo", arguments={"text": f"text {n}"}, id=f"{n}")
        await program.kill()
    assert (disk / "calls.db-wal").stat().st_size > 100_000
    return disk / "calls.db"


async def use(folder: Path) -> int:
    """Everything that a runtime does with a file; returns how many calls it saw. Only errors of clicket may be
    raised."""
    async with make([add], sqlite_url(folder)) as rt:
        seen = (await rt.history(limit=1_000)).items
        for item in seen:
            await rt.get(item.id)
        await rt.history(thread="default", tool="add", state="completed")
        await rt.recover()
        assert (await rt.call("add", {"a": 1, "b": 1})).output == 2
        return len(seen)


async def refusal(folder: Path, *, open_only: bool = False) -> ClicketError | None:
    try:
        if open_only:
            async with make([add], sqlite_url(folder)):
                pass
        else:
            await use(folder)
    except ClicketError as error:
        return error
    return None


def flip(data: bytearray, chance: random.Random, bits: int, start: int = 0, end: int | None = None) -> None:
    for _ in range(bits):
        data[chance.randrange(start, len(data) if end is None else end)] ^= 1 << chance.randrange(8)


@pytest.mark.parametrize("seed", range(24))
async def test_flipped_bits_are_found_out_or_harm_only_what_they_hit(tmp_path: Path, seed: int) -> None:
    """Every error is one of clicket, with the file's name in it; a file that fails to open is not changed."""
    path = await made(tmp_path / "store")
    data = bytearray(path.read_bytes())
    flip(data, random.Random(seed), bits=(1, 3, 30, 300)[seed % 4])
    path.write_bytes(data)
    refused = await refusal(path.parent, open_only=True)
    if refused is not None:
        assert "calls.db" in refused.message
        assert path.read_bytes() == data
        return
    refused = await refusal(path.parent)
    assert refused is None or "call" in refused.message  # the file, or the call


@pytest.mark.parametrize("where", ["magic", "page size", "schema"])
async def test_a_damaged_head_is_refused_by_name_and_left_alone(tmp_path: Path, where: str) -> None:
    path = await made(tmp_path / "store")
    data = bytearray(path.read_bytes())
    start, end = {"magic": (0, 16), "page size": (16, 18), "schema": (100, 108)}[where]
    data[start:end] = bytes(byte ^ 0xFF for byte in data[start:end])
    path.write_bytes(data)
    with pytest.raises(StoreUnavailable, match=r"calls\.db"):
        await use(path.parent)
    assert path.read_bytes() == data


@pytest.mark.parametrize("version", [-1, 0, 2**31 - 1])
async def test_a_version_that_cannot_be_is_refused_and_left_alone(tmp_path: Path, version: int) -> None:
    path = await made(tmp_path / "store")
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", version)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"calls\.db"):
        await use(path.parent)
    assert path.read_bytes() == before


@pytest.mark.parametrize("pages", [1, 2, 5, 9])
async def test_a_file_that_lost_its_end_is_refused_by_name(tmp_path: Path, pages: int) -> None:
    path = await made(tmp_path / "store")
    data = path.read_bytes()
    path.write_bytes(data[: -4096 * pages])
    with pytest.raises(StoreUnavailable, match=r"calls\.db"):
        await use(path.parent)


def garbage(wal: Path, chance: random.Random) -> None:
    wal.write_bytes(chance.randbytes(wal.stat().st_size))


def zeros(wal: Path, chance: random.Random) -> None:
    wal.write_bytes(bytes(wal.stat().st_size))


def truncated(wal: Path, chance: random.Random) -> None:
    data = wal.read_bytes()
    wal.write_bytes(data[: chance.randrange(len(data))])


def flipped(wal: Path, chance: random.Random) -> None:
    data = bytearray(wal.read_bytes())
    flip(data, chance, bits=3)
    wal.write_bytes(data)


def headless(wal: Path, chance: random.Random) -> None:
    data = wal.read_bytes()
    wal.write_bytes(chance.randbytes(32) + data[32:])


def gone(wal: Path, chance: random.Random) -> None:
    wal.unlink()


def index_gone(wal: Path, chance: random.Random) -> None:
    wal.with_name("calls.db-shm").unlink(missing_ok=True)


def index_garbage(wal: Path, chance: random.Random) -> None:
    wal.with_name("calls.db-shm").write_bytes(chance.randbytes(32_768))


def index_of_another(wal: Path, chance: random.Random) -> None:
    wal.with_name("calls.db-shm").write_bytes(bytes(65_536))


@pytest.mark.parametrize(
    "fault", [garbage, zeros, truncated, flipped, headless, gone, index_gone, index_garbage, index_of_another]
)
async def test_a_damaged_log_costs_the_newest_calls_and_never_a_half_one(
    tmp_path: Path, fault: Callable[[Path, random.Random], None]
) -> None:
    """The log has a checksum for each frame: calls before the damage are complete, and the index is rebuilt."""
    await crashed(tmp_path)
    for seed in range(6):
        copy = tmp_path / f"{seed}"
        shutil.copytree(tmp_path / "disk", copy)
        fault(copy / "calls.db-wal", random.Random(seed))
        async with make([add], sqlite_url(copy)) as rt:
            items = (await rt.history(limit=1_000)).items
            for item in items:
                assert_sound(item)
                assert item.output == f"text {item.id}" or not item.state.is_terminal
            assert {item.id for item in items} == {f"{n}" for n in range(len(items))}  # the oldest calls, without a gap
            assert len(items) == 60 or not fault.__name__.startswith("index")
            assert (await rt.call("add", {"a": 1, "b": 1})).output == 2
        assert_intact(copy / "calls.db")


async def test_damage_in_one_call_leaves_the_others_readable(tmp_path: Path) -> None:
    path = await made(tmp_path / "store", calls=10)
    async with make([add], sqlite_url(path.parent)) as rt:
        ids = [item.id for item in (await rt.history()).items]
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE calls SET first_unit = x'ff00' WHERE key = (SELECT min(key) FROM calls)")
    connection.close()
    async with make([add], sqlite_url(path.parent)) as rt:
        readable = []
        for id in ids:
            with contextlib.suppress(ClicketError):
                readable.append((await rt.get(id)).id)
        assert len(readable) == 9
        assert {item.id for item in (await rt.history()).items} >= set(readable)
