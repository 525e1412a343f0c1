"""The power goes out. A program's steps are recorded as its disk saw them, and played back up to a seeded moment; what a disk
may have kept of them by then is opened by a new runtime and held against what the world had been told.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.crash.faults.disk import Disk, Entry, Op, read_log
from tests.crash.faults.host import child
from tests.crash.faults.shim import ROOT, Control, Files, Place, environment
from tests.scenarios.kit import assert_sound, make

from clicket import Record, ToolContext, tool
from clicket.errors import NotFound

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
CUTS = 1_000 if LONG else 60
pytestmark = pytest.mark.timeout(1_800)
STORE = "calls.db"


# What happened -------------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """What a run did to its disk (`log`), and what it told the world (`told`): places in the log, and words."""

    log: list[Entry]
    told: list[tuple[int, list[str]]]

    @property
    def end(self) -> int:
        return self.log[-1].place + 1


def listen(log: list[Entry]) -> Iterator[tuple[int, list[str]]]:
    """The lines of the file `acks`: each was heard the moment it was written, whatever the disk makes of it."""
    inode = next(entry.inode for entry in log if entry.op is Op.CREATE and entry.path.endswith("/acks"))
    for entry in log:
        if entry.op is Op.WRITE and entry.inode == inode:
            yield entry.place, entry.data.decode().split()


def record(
    folder: Path, durability: str, *, store: str = STORE, control: Control | None = None, **settings: Any
) -> Recording:
    """Three times sixty calls, by a runtime that is opened and closed around each sixty."""
    root, log = folder / "disk", folder / "log"
    root.mkdir()
    given = {"store": f"sqlite:///{root / store}", "durability": durability, "close_timeout": 30.0, **settings}
    command = [sys.executable, "-m", "tests.crash.faults.load", json.dumps(given), str(root / "acks"), "3", "60"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(control, root=root, log=log), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    recording = Recording(read_log(log), [])
    recording.told += listen(recording.log)
    return recording


@pytest.fixture(scope="module")
def power(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("power"), "power")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("process"), "process")


# What is there afterwards --------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """Counts over all cuts. `lost`: acknowledged calls or outcomes that are gone; `repeated`: effects made again."""

    cuts: int = 0
    acked: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    unannounced: list[str] = field(default_factory=list)
    """Effects of which the journal knows no attempt."""
    unknown: int = 0
    returned: int = 0
    """Calls that were refused, and are there all the same."""

    @property
    def bad(self) -> list[str]:
        return self.lost + self.repeated + self.unannounced

    def __str__(self) -> str:
        rows = {
            "cuts": self.cuts, "acked": self.acked, "lost": len(self.lost), "repeated": len(self.repeated),
            "unannounced": len(self.unannounced), "unknown": self.unknown, "refused but there": self.returned,
        }  # fmt: skip
        return ", ".join(f"{name} {count}" for name, count in rows.items())


@cache
def tools() -> tuple[list[Any], list[str]]:
    """The tools of the run, and a list of the calls whose bodies were entered since."""
    entered: list[str] = []

    @tool
    async def pay(amount: int, ctx: ToolContext) -> str:
        entered.append(ctx.call_id)
        return f"paid-{ctx.call_id}"

    @tool(read_only=True)
    async def look(amount: int, ctx: ToolContext) -> str:
        return f"seen-{ctx.call_id}"

    @tool(max_result_size=500)
    async def report(amount: int, ctx: ToolContext) -> str:
        entered.append(ctx.call_id)
        return f"report-{ctx.call_id}"

    @tool
    async def talk(amount: int, ctx: ToolContext) -> str:
        entered.append(ctx.call_id)
        return f"said-{ctx.call_id}"

    @tool
    async def idle(amount: int) -> int:
        return amount

    return [pay, look, report, talk, idle], entered


async def settle(path: Path) -> tuple[dict[str, Record], set[str], set[str]]:
    """Open what is left, recover, wait for the end of everything: the calls, the artifacts that are whole, and the effects."""
    mine, entered = tools()
    entered.clear()
    whole = set()
    async with make(mine, f"sqlite:///{path}") as rt:
        while (await rt.history(active=True)).items:
            await asyncio.sleep(0.001)
        records = {record.id: record for record in (await rt.history(limit=1_000)).items}
        for call in records.values():
            assert_sound(call)
            if call.artifact is not None:
                with contextlib.suppress(NotFound):
                    data = await rt.artifact(call.artifact)
                    if f"sha256-{hashlib.sha256(data).hexdigest()}" == call.artifact:
                        whole.add(call.artifact)
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    units = connection.execute("SELECT count(*) FROM events WHERE row >> 20 NOT IN (SELECT key FROM calls)").get
    assert units == 0, "events of a call that is not there"
    connection.close()
    return records, whole, set(entered)


def judge(told: list[list[str]], records: dict[str, Record], whole: set[str], effects: set[str], to: Verdict) -> None:
    """Hold what is there against what was told."""
    ends = {words[1] for words in told if words[0] == "ended"}
    for what, id, *rest in told:
        call = records.get(id)
        if what == "submitted":
            to.acked += 1
            if call is None:
                to.lost.append(id)
            elif not call.success and id not in ends:
                to.unknown += 1
                assert call.error is not None
                assert call.error.code == "outcome_unknown"
        elif what == "ended":
            to.acked += 1
            state, word, *artifact = rest
            same = call is not None and call.state.value == state and call.content.split()[0] == word
            if call is None or not same or call.artifact != (artifact[0] if artifact else None):
                to.lost.append(f"{id}'s outcome")
            elif artifact and artifact[0] not in whole:
                to.lost.append(f"{id}'s artifact")
        elif what == "effect":
            if call is None or not any(event.type == "attempt_started" for event in call.events):
                to.unannounced.append(id)
            elif id in effects:
                to.repeated.append(id)
        elif what == "refused" and call is not None:
            to.returned += 1


async def cut_often(
    recording: Recording, folder: Path, *, seed: int, cuts: int = CUTS, store: str = STORE, stop: bool = True
) -> Verdict:
    """Cut the power at seeded moments, half of them right after somebody was told something. `stop` at the first harm."""
    chance = random.Random(seed)
    words = [place for place, _ in recording.told]
    moments = [chance.choice(words) + 1 for _ in range(cuts // 2)]
    moments += [chance.choice(recording.log).place + 1 for _ in range(cuts - len(moments))]
    disk, verdict = Disk(recording.log, seed=seed), Verdict()
    for number, moment in enumerate(sorted(moments)):
        image = folder / f"{number}"
        disk.play(moment)
        disk.cut(random.Random(f"{seed}/{number}"), image)
        told = [said for _, said in recording.told[: bisect.bisect_left(words, moment)]]
        try:
            judge([said for said in told if len(said) > 1], *await settle(image / store), verdict)
        except BaseException as error:
            error.add_note(f"seed {seed}, cut {number} at {moment}, image {image}")
            raise
        verdict.cuts += 1
        if stop and verdict.bad:
            pytest.fail(f"seed {seed}, cut {number} at {moment}, image {image}: {verdict}, {verdict.bad[:10]}")
        shutil.rmtree(image)
    return verdict


# The tests -----------------------------------------------------------------------------------------------------------


async def test_power_mode_keeps_everything_that_was_acknowledged(
    power: Recording, tmp_path: Path, record_property: Any
) -> None:
    """Accepted calls, outcomes, artifacts; and the start of every attempt whose effect was seen, so none is made twice."""
    verdict = await cut_often(power, tmp_path, seed=1)
    print(f"\npower mode: {verdict}")
    record_property("power mode", str(verdict))
    assert verdict.acked > 20 * CUTS
    assert verdict.bad == []


def test_the_runs_fold_the_log_back_into_the_file_while_they_work(power: Recording, process: Recording) -> None:
    """Or nothing is shown of the moments in which the file itself is written."""
    for recording in (power, process):
        (db,) = {entry.inode for entry in recording.log if entry.op is Op.CREATE and entry.path.endswith("/calls.db")}
        places = {words[0]: place for place, words in recording.told if words[1:] == ["2"]}
        begun, ended = places["open"], places["closing"]
        syncs = [e for e in recording.log if e.op is Op.SYNC and e.inode == db and begun < e.place < ended]
        assert syncs  # how often depends on how fast the machine is


async def test_power_mode_loses_nothing_beside_a_runtime_in_process_mode(tmp_path: Path, record_property: Any) -> None:
    recording = record(tmp_path, "power", beside=True)
    (tmp_path / "images").mkdir()
    verdict = await cut_often(recording, tmp_path / "images", seed=6)
    print(f"\npower mode beside process mode: {verdict}")
    record_property("power mode beside process mode", str(verdict))
    assert verdict.bad == []


async def test_process_mode_may_lose_the_newest_calls_and_stays_sound(
    process: Recording, tmp_path: Path, record_property: Any
) -> None:
    """As documented. That calls are lost here shows that the disk of these tests does lose what was not synced."""
    verdict = await cut_often(process, tmp_path, seed=2, stop=False)
    print(f"\nprocess mode: {verdict}")
    record_property("process mode", str(verdict))
    assert verdict.lost


async def test_what_is_missing_is_missed(power: Recording, tmp_path: Path) -> None:
    """The judge can say no: a disk that stopped keeping things in the middle is held against what was told since."""
    disk, verdict = Disk(power.log), Verdict()
    half = power.told[len(power.told) // 2][0]
    disk.play(half)
    disk.cut(random.Random(3), tmp_path / "image")
    told = [words for _, words in power.told if len(words) > 1]
    judge(told, *await settle(tmp_path / "image" / STORE), verdict)
    assert verdict.lost
    assert verdict.unannounced


async def test_folders_that_are_made_for_the_store_outlive_the_power(tmp_path: Path) -> None:
    """A file is only as durable as its folder's name in the folder above."""
    store = "new/deep/calls.db"
    recording = record(tmp_path, "power", store=store)
    (tmp_path / "images").mkdir()
    verdict = await cut_often(recording, tmp_path / "images", seed=4, cuts=10, store=store)
    assert verdict.bad == []


async def test_syncs_that_fail_now_and_then_lose_nothing_that_was_acknowledged(
    tmp_path: Path, record_property: Any
) -> None:
    """What a failed sync should have covered is gone for good, though the next one succeeds (Linux drops such pages)."""
    control = Control(tmp_path / "control")
    control.fail(Place.SYNC, errno.EIO, files=Files.DB | Files.WAL, skip=12, every=5)
    recording = record(tmp_path, "power", control=control)
    assert control.struck > 10
    assert any(words[0] == "refused" for _, words in recording.told)
    (tmp_path / "images").mkdir()
    verdict = await cut_often(recording, tmp_path / "images", seed=5)
    print(f"\npower mode, failing syncs: {verdict}")
    record_property("power mode, failing syncs", str(verdict))
    assert verdict.bad == []
    assert verdict.returned == 0  # what was refused stays away


def test_no_acknowledgement_comes_before_its_sync(power: Recording) -> None:
    """In the order of the log: the write that holds the news, the end of a sync that covers it, then the word to the world."""
    wal = {entry.inode for entry in power.log if entry.op is Op.CREATE and entry.path.endswith("-wal")}
    writes = [entry for entry in power.log if entry.op is Op.WRITE and entry.inode in wal]
    syncs = [entry for entry in power.log if entry.op is Op.SYNC and entry.inode in wal]
    said = 0
    for place, words in power.told:
        if words[0] not in ("submitted", "effect", "ended"):
            continue
        # The output, or the artifact's name, stands in the outcome alone; the id in everything from the first.
        news = (words[-1] if words[0] == "ended" else words[1]).encode()
        write = next(entry for entry in writes if news in entry.data)
        covering = [
            sync for sync in syncs if sync.inode == write.inode and sync.at > write.place and sync.place < place
        ]
        assert covering, f"{words} was said at {place}, its news were written at {write.place}, and no sync was between"
        said += 1
    assert said > 300


def test_an_artifact_is_on_the_disk_before_the_journal_names_it(power: Recording) -> None:
    """First its bytes are synced, then it gets its name, then the folder is synced, then the outcome is written."""
    checked = 0
    for renamed in [entry for entry in power.log if entry.op is Op.RENAME]:
        name = "sha256-" + "".join(renamed.other.split("/")[-2:])
        before = [entry for entry in power.log if entry.place < renamed.place]
        made = next(entry for entry in reversed(before) if entry.op is Op.CREATE and entry.path == renamed.path)
        last = max(entry.place for entry in before if entry.op is Op.WRITE and entry.inode == made.inode)
        assert any(e.op is Op.SYNC and e.inode == made.inode and e.at > last for e in before)
        folder = next(
            entry.inode for entry in reversed(before)
            if entry.op is Op.MKDIR and entry.path == renamed.path.rpartition("/")[0]
        )  # fmt: skip
        named = next(e.place for e in power.log if e.op is Op.WRITE and e.at and name.encode() in e.data)
        synced = [e.place for e in power.log if e.op is Op.SYNC and e.inode == folder and e.at > renamed.place]
        assert synced, f"the folder of {name} was never synced"
        assert synced[0] < named
        checked += 1
    assert checked > 10


async def test_an_artifact_that_process_mode_left_is_made_safe_when_power_mode_names_it(tmp_path: Path) -> None:
    """The same bytes are kept once; who promises more must not rely on who promised less."""
    root, log = tmp_path / "disk", tmp_path / "log"
    root.mkdir()
    names = []
    for thread, durability in (("one", "process"), ("two", "power")):
        store = f"sqlite:///{root / STORE}"
        async with child(tmp_path, root=root, log=log, store=store, durability=durability) as program:
            result = await program.ask("call", tool="same", arguments={"size": 5_000}, thread=thread)
            names.append(result["artifact"])
            await program.close()
    assert names[0] is not None
    assert names[0] == names[1]
    recording = read_log(log)
    for seed in range(10):
        disk = Disk(recording)
        disk.play(recording[-1].place + 1)
        disk.cut(random.Random(seed), tmp_path / f"{seed}")
        kept = tmp_path / f"{seed}" / f"{STORE}.artifacts" / names[0][7:9] / names[0][9:]
        assert kept.exists(), f"seed {seed}"
        assert hashlib.sha256(kept.read_bytes()).hexdigest() == names[0][7:], f"seed {seed}"
