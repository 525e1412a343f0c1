"""A fixed set of seeds is clean, a seed repeats byte by byte, and the judge finds a planted mistake. `make sim` runs thousands."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest
from tests.kit.waiting import PATIENCE
from tests.simulation.loop import NODE, Node, SimulatedLoop, Stuck
from tests.simulation.run import run_seeds, shrunk
from tests.simulation.world import World


@pytest.mark.parametrize("first", range(0, 45, 15))
def test_the_seeds_are_clean(first: int) -> None:
    outcomes = list(run_seeds(range(first, first + 15), jobs=1))
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert len(outcomes) == 15
    assert sum(outcome.calls for outcome in outcomes) > 60
    assert sum(outcome.acks for outcome in outcomes) > 60


def run(*given: str, hash_seed: str = "random") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-m", *given], capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_a_seed_repeats_byte_by_byte() -> None:
    """Also in another process, with other addresses and hashes."""
    first, second = (run("tests.simulation.run", "--seed", "12", "--trace", hash_seed=seed) for seed in ("1", "2"))
    assert first == second
    assert len(first.splitlines()) > 500


def test_a_planted_mistake_is_found() -> None:
    mutant = "after a crash every started call runs again"
    found = run(
        "tests.simulation.planted", mutant, "tests.simulation.run", "--seeds", "1000:1020", "--jobs", "1", "--until-bad"
    )
    assert json.loads(found.splitlines()[-1])["seed"] is not None


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
