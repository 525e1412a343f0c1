"""Agents that spend in several processes, which are killed, stopped past their leases and cut off from ledger and accounts, at moments
that a seed chooses. At the end: account = ledger + open reservations, and nothing that was asked or paid is missing."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.settle import Place, everything, read_lines
from tests.crash.spend_scene import ASKED, COST, SCENE, agent_at, pay, storm, thread_of
from tests.crash.stores import Fresh, Row

from clicket import Runtime, State

LEASE = 0.3
NAMES = ("a", "b")
TURNS = 3


def _signals(chance: random.Random) -> list[tuple[float, int]]:
    """What happens to one process: it is killed, or stopped for longer than its lease, or left alone."""
    when = chance.uniform(0.0, 0.4)
    match chance.choice(["kill", "kill", "stop", "stop and kill", "nothing"]):
        case "kill":
            return [(when, signal.SIGKILL)]
        case "stop":
            return [(when, signal.SIGSTOP), (2 * LEASE, signal.SIGCONT)]
        case "stop and kill":
            return [(when, signal.SIGSTOP), (2 * LEASE, signal.SIGCONT), (0.05, signal.SIGKILL)]
        case _:
            return []


async def _storm(place: Place, nests: list[Nest], seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    for number in range(rounds):
        children = [
            nest.raise_child(
                storm,
                {"place": msgspec.to_builtins(place), "name": name, "seed": f"{seed} {number} {name}", "turns": TURNS},
                signals=_signals(chance),
                ready=True,
            )
            for name, nest in zip(NAMES, nests, strict=False)
        ]
        for ending in await asyncio.gather(*children):
            assert not ending.hung, f"seed {seed}, round {number}"
            assert not ending.code, f"seed {seed}, round {number}"
    await _judge(place, f"seed {seed}")


async def _judge(place: Place, where: str) -> None:
    rt = Runtime([pay], settings=place.settings(budgets=SCENE))
    agent = agent_at(rt, Path(place.folder))  # before it opens: it continues the turns
    async with rt, asyncio.timeout(60):
        await rt.recover()
        for name in NAMES:
            for turn in range(TURNS):
                await agent.wait(thread_of(name, turn))
        book = rt.engine.book
        await book.sweep(1e9)
        total = (await rt.spend.report()).total.tokens
        accounts = [account async for _, account, _ in book.accounts.listed()]
        paid = sum(r.tool == "pay" and r.state is State.COMPLETED for r in await everything(rt))
    whole = [account.tokens for account in accounts if account.scope == "all"]
    threads = [account.tokens for account in accounts if account.scope != "all"]
    assert whole == [total], where
    assert sum(threads) == total, where
    assert not any(account.holds for account in accounts), where
    assert total >= ASKED * len(read_lines(Path(place.folder, "asked"), int)) + COST * paid, where


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_a_short_storm(place: Place, nests: list[Nest]) -> None:
    await _storm(msgspec.structs.replace(place, lease=LEASE), nests, seed=7, rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_a_long_storm(served: tuple[Row, Fresh], tmp_path: Path, nests: list[Nest], seed: int) -> None:
    row, fresh = served
    place = Place(store=fresh(tmp_path), folder=str(tmp_path), durability=row.durability, lease=LEASE)
    await _storm(place, nests, seed, rounds=8)
