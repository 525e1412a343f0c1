"""A fixed set of seeds is clean, a seed repeats byte by byte, and the judge finds a planted mistake. `make sim` runs thousands."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest
from tests.kit.waiting import PATIENCE
from tests.simulation import places
from tests.simulation.disk import Armed, Operation, SimulatedDisk
from tests.simulation.loop import NODE, Node, SimulatedLoop, Stuck
from tests.simulation.run import run_seeds, shrunk
from tests.simulation.world import World


@pytest.mark.parametrize("first", range(0, 45, 15))
def test_the_seeds_are_clean(first: int) -> None:
    seeds = [seed for seed in range(first, first + 16) if seed != 40][:15]  # 40 is a limit in record.toml
    outcomes = list(run_seeds(seeds, jobs=1))
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert len(outcomes) == 15
    assert sum(outcome.calls for outcome in outcomes) > 60
    assert sum(outcome.acks for outcome in outcomes) > 60


def test_seeds_on_a_disk_that_fails_are_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "only", ["disk"])
    outcomes = list(run_seeds([9, 13, 21, 22, 25, 26], jobs=1))
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert sum(outcome.faults.get("power loss", 0) for outcome in outcomes) > 3


def run(*given: str, hash_seed: str = "random") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-m", *given], capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("seed", [("12",), ("9", "--store", "disk")], ids=["as drawn", "disk that fails"])
def test_a_seed_repeats_byte_by_byte(seed: tuple[str, ...]) -> None:
    """Also in another process, with other addresses and hashes."""
    first, second = (
        run("tests.simulation.run", "--seed", *seed, "--trace", hash_seed=hash_seed) for hash_seed in ("1", "2")
    )
    assert first == second
    assert len(first.splitlines()) > 500


def test_a_seed_is_the_same_alone_and_after_others() -> None:
    shown = run("tests.simulation.run", "--seed", "12")
    among = list(run_seeds(range(9, 13), jobs=1))[-1]
    assert (among.seed, f"{among.steps} steps") == (12, shown.splitlines()[0].rpartition(", ")[2])


def test_a_planted_mistake_is_found() -> None:
    mutant = "after a crash every started call runs again"
    found = run(
        "tests.simulation.planted", mutant, "tests.simulation.run", "--seeds", "1000:1020", "--jobs", "1", "--until-bad"
    )
    assert json.loads(found.splitlines()[-1])["seed"] is not None


# The disk.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SimulatedDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "old").write_bytes(b"a" * 4096)
    disk = SimulatedDisk(folder, random.Random(1), lambda: 5.0)
    yield disk
    disk.close()


def opened(disk: SimulatedDisk) -> apsw.Connection:
    connection = apsw.Connection(str(disk.folder / "calls.db"))
    connection.pragma("journal_mode", "wal")
    connection.execute("PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text)")
    return connection


def test_a_power_loss_tears_what_was_not_synced(disk: SimulatedDisk) -> None:
    path = disk.folder / "old"
    left = set()
    for _ in range(40):
        disk.written("old", 0, b"b" * 4096)
        disk.cut()
        content = path.read_bytes()
        sectors = [content[at : at + 512] for at in range(0, 4096, 512)]
        assert {bytes(set(sector)) for sector in sectors} <= {b"a", b"b"}
        left.add(len({*sectors}) if len({*sectors}) > 1 else sectors[0][:1])
        disk.written("old", 0, b"a" * 4096)
        disk.synced("old", with_names=False)
        disk.cut()
        assert path.read_bytes() == b"a" * 4096
    assert left == {b"a", b"b", 2}


def test_what_sqlite_synced_survives_and_the_newest_commits_may_be_lost(disk: SimulatedDisk) -> None:
    left = set()
    for first in range(0, 300, 10):
        connection = opened(disk)
        connection.execute("DELETE FROM rows WHERE number >= ?", (first,))
        for number in range(first, first + 10):
            if number == first + 5:
                connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, "x" * 3000))
        disk.cut()
        with pytest.raises(apsw.IOError):  # its process is dead
            connection.execute("DELETE FROM rows")
        after = opened(disk)
        numbers = [number for (number,) in after.execute("SELECT number FROM rows ORDER BY number")]
        assert after.pragma("integrity_check") == "ok"
        assert numbers == list(range(len(numbers)))
        assert first + 5 <= len(numbers) <= first + 10
        left.add(len(numbers) - first)
        after.executemany("INSERT OR IGNORE INTO rows VALUES (?, '')", [(first + each,) for each in range(10)])
        after.close()
    assert {5, 10} < left


@pytest.mark.parametrize(
    ("operation", "code", "error"),
    [
        ("sync", apsw.SQLITE_IOERR_FSYNC, apsw.IOError),
        ("write", apsw.SQLITE_IOERR_WRITE, apsw.IOError),
        ("write", apsw.SQLITE_FULL, apsw.FullError),
    ],
)
def test_an_armed_fault_strikes_as_often_as_it_is_to(
    disk: SimulatedDisk, operation: Operation, code: int, error: type[Exception]
) -> None:
    connection = opened(disk)
    disk.armed = [Armed(operation, code, until=4.0, times=9), Armed(operation, code, until=6.0, times=1, files="-wal")]
    with pytest.raises(error):
        connection.execute("INSERT INTO rows VALUES (1, '')")
    connection.execute("INSERT INTO rows VALUES (2, '')")
    assert connection.execute("SELECT number FROM rows").get == 2
    assert disk.struck == 1


def test_the_power_goes_off_in_the_middle_of_a_commit(disk: SimulatedDisk) -> None:
    connection = opened(disk)
    for after in range(6):
        disk.lose_power, disk.power_ends_at = disk.cut, disk.operations + after
        with pytest.raises(apsw.IOError):
            for number in range(10):
                connection.execute("INSERT INTO rows VALUES (?, '')", (after * 10 + number,))
        connection = opened(disk)
        assert connection.pragma("integrity_check") == "ok"


# The loop.


def test_callbacks_of_one_object_keep_their_order_and_others_do_not() -> None:
    orders = set()
    for seed in range(30):
        loop = SimulatedLoop(random.Random(seed), "uniform")
        said: list[str] = []
        one, two = Says(said, "a"), Says(said, "b")

        async def main(one: Says = one, two: Says = two, loop: SimulatedLoop = loop) -> None:
            for number in range(3):
                loop.call_soon(one.say, number)
                loop.call_soon(two.say, number)
            await asyncio.sleep(1)

        loop.run_until_complete(main())
        loop.close()
        for name in "ab":
            assert [each for each in said if each[0] == name] == [f"{name}0", f"{name}1", f"{name}2"]
        orders.add(tuple(said))
    assert len(orders) > 5


class Says:
    def __init__(self, said: list[str], name: str) -> None:
        self._said, self._name = said, name

    def say(self, number: int) -> None:
        self._said.append(f"{self._name}{number}")


def test_a_crashed_node_runs_nothing_and_a_paused_one_later() -> None:
    world = World(1, order="first")
    ticks: list[tuple[str, int]] = []

    async def tick(node: Node) -> None:
        for number in range(6):
            ticks.append((node.name, number))
            assert NODE.get() is node
            await asyncio.sleep(1)

    async def main() -> None:
        crashed, paused = world.add_node("crashed"), world.add_node("paused")
        world.spawn(crashed, tick(crashed))
        world.spawn(paused, tick(paused))
        await asyncio.sleep(2.5)
        crashed.is_alive = False
        paused.paused_until = world.now + 10
        await asyncio.sleep(9)
        assert ticks[-1] == ("paused.2", 2)
        await asyncio.sleep(10)

    world.run(main())
    assert [number for name, number in ticks if name == "crashed.1"] == [0, 1, 2]
    assert [number for name, number in ticks if name == "paused.2"] == [0, 1, 2, 3, 4, 5]


def test_threads_and_sockets_are_refused_and_a_deadlock_is_found() -> None:
    async def in_thread() -> None:
        await asyncio.to_thread(print)

    async def connects() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    for work, error in ((in_thread, AssertionError), (connects, AssertionError), (waits, Stuck)):
        world = World(0)
        with pytest.raises(error):
            world.run(work())


def test_a_failing_seed_is_shrunk_to_what_the_finding_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept_outcome(seed: int, keep: Sequence[int] | None) -> tuple[int, set[str]]:
        happens = set(range(40) if keep is None else keep)
        return 40, ({"lost"} if {3, 17} <= happens else set()) | (
            {"wrong"} if 5 in happens and 3 not in happens else set()
        )

    monkeypatch.setattr("tests.simulation.run.kept_outcome", kept_outcome)
    assert shrunk(0) == [3, 17]


def test_the_timeline_of_a_seed_is_told_in_order() -> None:
    shown = run("tests.simulation.run", "--seed", "12", "--keep", ",".join(map(str, range(25))))
    times = [float(line.split()[0]) for line in shown.splitlines()[1:] if line[:10].strip().replace(".", "").isdigit()]
    assert times == sorted(times)
    assert "a client calls" in shown
    assert "nothing is wrong" in shown
