"""However a process dies: nothing that a model was asked for is missing in the ledger, no reservation is lost or held forever, and no
budget is passed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.spend_scene import ASKED, COST, ROOM, SCENE, books, crowd, finish, pay, run_until_killed, sleeper
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import eventually

from clicket import Runtime

_LAST = 40
"""More than twice as many as a run makes commits."""


async def killed_at(nest: Nest, place: Place, number: int, *, after: bool) -> bool:
    """False: the run had ended before it came to this commit."""
    Path(place.folder).mkdir()
    given = {"place": msgspec.to_builtins(place), "number": number, "after": after}
    ending = await nest.raise_child(run_until_killed, given)
    asked = len(read_lines(Path(place.folder, "asked"), int))
    tokens, assumed, accounts = await finish(place)
    asked_now = len(read_lines(Path(place.folder, "asked"), int))
    where = f"commit {number}, {'after' if after else 'before'}: asked {asked}, then {asked_now}"
    assert tokens >= ASKED * asked_now + 2 * COST, where
    assert tokens - assumed <= ASKED * asked_now + 2 * COST, where
    assert accounts, where
    for used, reserved in accounts:
        assert (used, reserved) == (tokens, 0), where
    return ending.signal == signal.SIGKILL


def _places(served: tuple[Row, Fresh], folder: Path, numbers: list[int]) -> list[tuple[int, Place]]:
    row, fresh = served
    made = []
    for number in numbers:
        own = folder / str(number)
        made.append((number, Place(store=fresh(own), folder=str(own), durability=row.durability)))
    return made


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_a_kill_at_every_commit(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    kills = 0
    for number, place in _places(served, tmp_path, list(range(1, _LAST))):
        if not await killed_at(nest, place, (number + 1) // 2, after=number % 2 == 0):
            break
        kills = number
    assert 15 < kills < _LAST - 1  # before and after each commit


@pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)
async def test_a_kill_at_some_commits_of_other_stores(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    for number, place in _places(served, tmp_path, [2, 3, 6, 7]):
        assert await killed_at(nest, place, number, after=number % 2 == 0)


async def test_a_hundred_runs_in_three_processes_one_of_which_is_killed(place: Place, nests: list[Nest]) -> None:
    given = msgspec.to_builtins(place)
    endings = await asyncio.gather(
        *(
            nest.raise_child(
                crowd,
                {"place": given, "name": f"p{number}", "runs": 34},
                signals=[(0.02, signal.SIGKILL)] if number == 0 else (),
                ready=True,
            )
            for number, nest in enumerate(nests[:3])
        )
    )
    assert not any(ending.code for ending in endings)
    asked = sum(read_lines(Path(place.folder, "asked"), int))
    assert 0 < asked <= ROOM
    ended = [each for line in read_lines(Path(place.folder, "ended"), list[str]) for each in line]
    assert len(ended) >= 68
    assert set(ended) <= {"finished", "budget"}
    budgets = [{"scope": "all", "period": "total", "limit_tokens": ROOM}]
    async with Runtime([], settings=place.settings(budgets=budgets)) as rt:
        await rt.engine.book.sweep(1e9)
        (status,) = await rt.spend.budgets()
        total = (await rt.spend.report()).total
        assert asked <= total.tokens <= ROOM
        assert status.spent_tokens + status.reserved_tokens <= ROOM
        assert status.reserved_tokens == 0


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_a_process_that_was_stopped_past_its_lease_counts_no_cost_again(place: Place, nest: Nest) -> None:
    place, calls = msgspec.structs.replace(place, lease=0.3), 3
    folder = Path(place.folder)
    given = {"place": msgspec.to_builtins(place), "calls": calls}
    child = asyncio.create_task(nest.raise_child(sleeper, given, signals=[(0.0, signal.SIGSTOP)], ready=True))
    await eventually((folder / "pid").exists, timeout=60)
    async with Runtime([pay], settings=place.settings(budgets=SCENE)) as rt:
        for number in range(calls):  # taken over once the lease has run out
            result = await (await rt.submit("pay", thread="t", id=f"c{number}")).result()
            assert result.output == "paid"
    assert await books(place) == (calls * COST, [(calls * COST, 0)] * 2)
    (folder / "go").touch()
    os.kill(int((folder / "pid").read_text()), signal.SIGCONT)
    assert (await child).code == 0
    assert (folder / "woke").exists()
    assert await books(place) == (calls * COST, [(calls * COST, 0)] * 2)
