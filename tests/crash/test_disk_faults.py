"""The disk under a runtime fails: full, broken, read-only, locked, damaged, gone. New calls get an error that helps, what was
acknowledged stays, running calls are stored when the fault is over, and the event loop never blocks.

What needs no process of its own is in tests/scenarios/test_store_faults.py, files that are damaged in test_disk_damage.py.
"""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.crash.faults.host import PATIENCE, Child, Refused, child
from tests.crash.faults.shim import Control, Files, Place
from tests.kit.waiting import eventually
from tests.scenarios.kit import assert_sound

from clicket import Record

STORED = Files.DB | Files.WAL

FAULTS = {
    "full": (Place.WRITE, errno.ENOSPC, "full"),
    "over quota": (Place.WRITE, errno.EDQUOT, ""),
    "broken": (Place.WRITE, errno.EIO, ""),
    "read-only": (Place.WRITE, errno.EROFS, ""),
    "sync fails": (Place.SYNC, errno.EIO, ""),
    "sync finds it full": (Place.SYNC, errno.ENOSPC, ""),
}
MORE = {("over quota", "process"), ("over quota", "power"), ("read-only", "power"), ("sync finds it full", "power")}
CASES = [
    pytest.param(name, durability, marks=[pytest.mark.slow] if (name, durability) in MORE else [])
    for name in FAULTS for durability in ("process", "power")
    if durability == "power" or not name.startswith("sync")
]  # fmt: skip


@asynccontextmanager
async def over(folder: Path, *, control: Control | None = None, **settings: Any) -> AsyncIterator[Child]:
    """A child with a runtime over `folder/disk/calls.db`; `control` sets the errors of its disk."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    async with child(folder, control=control, root=disk, store=f"sqlite:///{disk / 'calls.db'}", **settings) as started:
        yield started


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control")


def helps(refused: Refused, word: str = "") -> bool:
    """Does the text name the problem, the file, and what to do?"""
    sentences = [part for part in re.split(r"[.:] ", refused.message) if part]
    return (
        refused.code == "store_unavailable"
        and refused.type == "StoreUnavailable"
        and "calls.db" in refused.message
        and word in refused.message
        and len(sentences) >= 2
        and " at 0x" not in refused.message
    )


def record(given: dict[str, Any]) -> Record:
    return msgspec.convert(given, Record)


async def saved(program: Child) -> bool:
    return await program.ask("unsaved") == 0


def assert_intact(path: Path) -> None:
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


# The disk fails under a runtime that is open -------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "durability"), CASES)
async def test_a_failing_disk_refuses_new_calls_and_loses_nothing(
    tmp_path: Path, control: Control, fault: str, durability: str
) -> None:
    place, error, part = FAULTS[fault]
    async with over(tmp_path, control=control, durability=durability) as program:
        kept = [(await program.ask("call", tool="echo", arguments={"text": str(n)}))["call_id"] for n in range(5)]
        await program.ask("submit", tool="held", id="under way")
        await program.ask("submit", tool="talking", id="chatter")
        control.fail(place, error, files=STORED)

        with pytest.raises(Refused) as refused:
            await program.ask("submit", tool="echo", arguments={"text": "no"}, id="refused")
        assert helps(refused.value, part), refused.value.message
        if place is Place.SYNC:  # written but not synced: the store cannot guarantee that the call is gone
            assert "may be found there" in refused.value.message
        await program.ask("release", id="under way")
        await eventually(lambda: program.ask("unsaved"))
        for id in kept:  # reads still work
            assert record(await program.ask("get", id=id)).success
        assert {item["id"] for item in await program.ask("history")} == {*kept, "under way", "chatter"}
        assert await program.ask("state", id="under way") == "running"  # no state is visible before it is stored

        control.mend()
        if fault == "full":  # until a retry has stored the outcome, callers are told so and do not wait
            await eventually(lambda: saved(program))
        assert (await program.ask("result", id="under way"))["output"] == "x" * 10
        again = await program.ask("call", tool="echo", arguments={"text": "yes"}, id="refused")
        assert again["output"] == "yes"  # the id is still free
        await program.ask("release", id="chatter")
        assert (await program.ask("result", id="chatter"))["output"] == "done"
        assert await program.ask("unsaved") == 0
        await program.close()
    assert_intact(tmp_path / "disk" / "calls.db")
    async with over(tmp_path) as program:
        items = [record(item) for item in await program.ask("history")]
        assert {item.id for item in items} == {*kept, "under way", "chatter", "refused"}
        for item in items:
            assert_sound(item)
            assert item.success
        await program.close()


@pytest.mark.parametrize(
    ("fault", "durability"), [("full", "process"), pytest.param("sync fails", "power", marks=pytest.mark.slow)]
)
async def test_a_runtime_on_a_dead_disk_can_be_closed_and_is_honest_afterwards(
    tmp_path: Path, control: Control, fault: str, durability: str
) -> None:
    place, error, _ = FAULTS[fault]
    async with over(tmp_path, control=control, durability=durability, close_timeout=0.5) as program:
        kept = await program.ask("call", tool="echo", arguments={"text": "kept"}, id="kept")
        for name in ("held", "again"):
            await program.ask("submit", tool=name, id=name)
        control.fail(place, error, files=STORED)
        for name in ("held", "again"):
            await program.ask("release", id=name)
        await eventually(lambda: program.ask("unsaved"))
        await program.close()  # in bounded time
    control.mend()
    async with over(tmp_path, control=control) as program:
        assert record(await program.ask("get", id="kept")).output == kept["output"]
        lost = record(await program.ask("get", id="held"))
        assert lost.error is not None
        assert lost.error.code == "outcome_unknown"  # its effect may have happened
        await program.ask("release", id="again")
        assert (await program.ask("result", id="again"))["state"] == "completed"
        await program.close()


async def test_a_disk_that_takes_its_time_is_not_waited_for_on_the_loop(tmp_path: Path, control: Control) -> None:
    async with over(tmp_path, control=control, durability="power") as program:
        await program.ask("call", tool="echo", arguments={"text": "kept"}, id="kept")
        control.syncs_take(PATIENCE)
        slow = program.begin("call", tool="echo", arguments={"text": "slow"}, id="slow")
        for _ in range(20):
            assert record(await program.ask("get", id="kept")).success
            with pytest.raises(Refused, match="slow"):  # no reader sees a call before it is durable
                await program.ask("get", id="slow")
        assert not slow.done()
        control.syncs_take(0.0)
        assert (await asyncio.wait_for(slow, PATIENCE))["output"] == "slow"
        await program.close()


async def test_a_process_that_dies_on_a_failing_disk_leaves_what_was_acknowledged(
    tmp_path: Path, control: Control
) -> None:
    async with over(tmp_path, control=control, durability="power") as program:
        for n in range(5):
            await program.ask("call", tool="echo", arguments={"text": str(n)}, id=f"kept {n}")
        await program.ask("submit", tool="held", id="held")
        control.fail(Place.SYNC, errno.EIO, files=STORED)
        await program.ask("release", id="held")
        await eventually(lambda: program.ask("unsaved"))
        await program.kill()
    control.mend()
    async with over(tmp_path, control=control) as program:
        for n in range(5):
            assert record(await program.ask("get", id=f"kept {n}")).output == str(n)
        held = record(await program.ask("get", id="held"))
        assert_sound(held)
        assert held.state.is_terminal  # either stored or outcome_unknown
        await program.close()


async def test_waiters_get_an_answer_in_time_and_the_outcome_is_stored_later(tmp_path: Path, control: Control) -> None:
    async with over(tmp_path, control=control, durability="power", patience=0.3) as program:
        await program.ask("submit", tool="held", id="held")
        control.fail(Place.SYNC, errno.EIO, files=STORED)
        waiting = program.begin("result", id="held")
        await program.ask("release", id="held")
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(waiting, PATIENCE)
        assert helps(refused.value), refused.value.message
        control.mend()
        assert (await program.ask("result", id="held"))["state"] == "completed"
        await program.close()


@pytest.mark.parametrize(
    ("place", "error", "files", "durability"),
    [
        (Place.WRITE, errno.ENOSPC, Files.OTHER, "process"),
        (Place.WRITE, errno.EIO, Files.OTHER, "process"),
        (Place.OPEN, errno.EACCES, Files.OTHER, "process"),
        (Place.NAME, errno.EIO, Files.OTHER, "process"),
        (Place.SYNC, errno.EIO, Files.OTHER, "power"),
        (Place.SYNC, errno.EIO, Files.FOLDER, "power"),
    ],
    ids=lambda value: getattr(value, "name", str(value)).lower(),
)
async def test_an_artifact_that_cannot_be_kept_fails_its_call_alone(
    tmp_path: Path, control: Control, place: Place, error: int, files: Files, durability: str
) -> None:
    async with over(tmp_path, control=control, durability=durability) as program:
        first = await program.ask("call", tool="big", arguments={"size": 5_000}, id="first")
        control.fail(place, error, files=files)
        result = await program.ask("call", tool="big", arguments={"size": 5_000}, id="unlucky")
        assert result["state"] == "failed"
        assert result["error"]["code"] == "store_unavailable"
        assert "artifact" in result["error"]["message"]
        assert (await program.ask("call", tool="echo", arguments={"text": "small"}))["output"] == "small"
        control.mend()
        second = await program.ask("call", tool="big", arguments={"size": 5_000}, id="second")
        for each in (first, second):
            facts = await program.ask("artifact", name=each["artifact"])
            assert f"sha256-{facts['sha256']}" == each["artifact"]
        assert record(await program.ask("get", id="unlucky")).error is not None
        await program.close()
    left = [path for path in (tmp_path / "disk" / "calls.db.artifacts").rglob("*") if path.is_file()]
    whole = {f"sha256-{path.parent.name}{path.name}" for path in left if not path.name.startswith(".")}
    assert [path for path in left if path.name.startswith(".")] == []  # no partial file
    assert whole >= {first["artifact"], second["artifact"]}


async def test_a_disk_that_cannot_be_read_is_said_to_be_and_read_again_later(tmp_path: Path, control: Control) -> None:
    async with over(tmp_path, control=control) as program:
        for n in range(20):
            await program.ask("call", tool="echo", arguments={"text": str(n) * 5_000}, id=f"{n}")
        await program.close()
    async with over(tmp_path, control=control) as program:
        control.fail(Place.READ, errno.EIO, files=STORED)
        answers = await asyncio.gather(*(program.ask("get", id=f"{n}") for n in range(20)), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert refused  # not all records can be in memory
        assert all(helps(each) for each in refused), refused[0].message
        with pytest.raises(Refused) as other:
            await program.ask("open_another", store=f"sqlite:///{tmp_path / 'disk' / 'calls.db'}")
        assert helps(other.value), other.value.message
        control.mend()
        for n in range(20):
            assert record(await program.ask("get", id=f"{n}")).output == str(n) * 5_000
        await program.close()


# A file that others hold, or that is not to be written --------------------------------------------------------------

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def held_by_another_process(path: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"held\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()
        await process.stdout.read()


async def test_a_file_that_another_process_holds_for_long_refuses_new_calls_and_keeps_the_old(tmp_path: Path) -> None:
    """For longer than the lock timeout."""
    async with over(tmp_path, durability="power") as program:
        await program.ask("call", tool="echo", arguments={"text": "kept"}, id="kept")
        await program.ask("submit", tool="held", id="under way")
        await program.ask("lag")
        async with held_by_another_process(tmp_path / "disk" / "calls.db"):
            submit = program.begin("submit", tool="echo", arguments={"text": "no"}, id="refused")
            await program.ask("release", id="under way")
            with pytest.raises(Refused) as refused:
                await asyncio.wait_for(submit, PATIENCE)
            assert helps(refused.value, "locked"), refused.value.message
            assert record(await program.ask("get", id="kept")).success
            assert await program.ask("state", id="under way") == "running"
            assert await program.ask("lag") < 2.5  # the store waited for the lock twice
        assert (await program.ask("result", id="under way"))["state"] == "completed"
        assert (await program.ask("call", tool="echo", arguments={"text": "yes"}, id="refused"))["output"] == "yes"
        for item in await program.ask("history"):
            assert_sound(record(item))
        await program.close()


@pytest.mark.parametrize(
    ("files", "error"),
    [(Files.DB, errno.EACCES), (Files.DB, errno.EROFS), (Files.WAL, errno.EACCES), (Files.ALL, errno.EROFS)],
    ids=["file", "file system", "log", "everything"],
)
async def test_a_store_that_may_not_be_written_is_refused_by_name_and_left_alone(
    tmp_path: Path, control: Control, files: Files, error: int
) -> None:
    async with over(tmp_path) as program:
        await program.ask("call", tool="echo", arguments={"text": "kept"}, id="kept")
        await program.close()
    path = tmp_path / "disk" / "calls.db"
    before = path.read_bytes()
    control.fail(Place.OPEN, error, files=files)
    with pytest.raises(Refused) as refused:
        async with over(tmp_path, control=control):
            pass
    assert helps(refused.value), refused.value.message
    assert re.search(r"permission|written|opened", refused.value.message)
    assert path.read_bytes() == before
    control.mend()
    async with over(tmp_path, control=control) as program:
        assert record(await program.ask("get", id="kept")).success
        await program.close()


async def test_a_folder_in_which_nothing_can_be_made_is_refused_by_name(tmp_path: Path, control: Control) -> None:
    control.fail(Place.OPEN, errno.EACCES)
    with pytest.raises(Refused) as refused:
        async with over(tmp_path, control=control):
            pass
    assert helps(refused.value), refused.value.message
    assert list((tmp_path / "disk").iterdir()) == []


async def test_a_process_without_file_descriptors_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async with over(tmp_path) as program:
        first = await program.ask("call", tool="big", arguments={"size": 5_000})
        assert await program.ask("spend_descriptors") > 10
        assert (await program.ask("call", tool="echo", arguments={"text": "small"}))["output"] == "small"
        unlucky = await program.ask("call", tool="big", arguments={"size": 5_000})
        assert unlucky["error"]["code"] == "store_unavailable"
        with pytest.raises(Refused) as artifact:
            await program.ask("artifact", name=first["artifact"])
        assert artifact.value.code == "store_unavailable"
        with pytest.raises(Refused) as refused:
            await program.ask("open_another", store=f"sqlite:///{tmp_path / 'disk' / 'calls.db'}")
        assert helps(refused.value), refused.value.message
        await program.ask("return_descriptors")
        assert (await program.ask("call", tool="big", arguments={"size": 5_000}))["state"] == "completed"
        assert (await program.ask("artifact", name=first["artifact"]))["size"] > 1_000
        assert await program.ask("open_another", store=f"sqlite:///{tmp_path / 'disk' / 'calls.db'}") == 4
        await program.close()


def everything(disk: Path) -> None:
    for path in disk.glob("calls.db*"):
        if path.is_file():
            path.unlink()


def the_file(disk: Path) -> None:
    (disk / "calls.db").unlink()


def the_log(disk: Path) -> None:
    (disk / "calls.db-wal").unlink()


def the_index(disk: Path) -> None:
    (disk / "calls.db-shm").unlink()


def put_another_there(disk: Path) -> None:
    shutil.copy(disk / "calls.db", disk / "copy")
    (disk / "copy").replace(disk / "calls.db")


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("remove", [everything, the_file, the_log, the_index, put_another_there])
async def test_a_file_that_was_removed_under_a_runtime_is_missed(
    tmp_path: Path, remove: Callable[[Path], None], durability: str
) -> None:
    """Data written to an unlinked file is lost with the process, so the runtime must soon stop acknowledging calls."""
    async with over(tmp_path, durability=durability, lease=1.0) as program:
        await program.ask("call", tool="echo", arguments={"text": "kept"})
        remove(tmp_path / "disk")

        async def is_refused() -> bool:
            try:
                await program.ask("submit", tool="echo", arguments={"text": "lost"})
            except Refused as refused:
                return helps(refused)
            return False

        await eventually(is_refused)
        await program.close()  # in bounded time, and without an error
