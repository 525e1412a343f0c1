"""A storm: processes with agents over one store are killed, paused past their leases and closed, while the store hangs or its connections
break, at moments that a seed chooses. Then all faults end, a new runtime brings everything to rest, and the judge looks.

The seed gives the faults and their order; the operating system decides what they meet, so a seed repeats a storm only roughly.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
import tempfile
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from tests.crash.judge import Effect, Finding
from tests.crash.nest import Nest
from tests.crash.settle import Place, everything
from tests.crash.stores import Fresh, Row
from tests.crash.storm_judge import KINDS, World, count, judge
from tests.crash.storm_scene import Ack, Asked, Lengths, Life, live, runtime_at, team_at, threads_of
from tests.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.waiting import PATIENCE, eventually

from clicket import Runtime
from clicket.agents import Agent
from clicket.model.ids import alias_of

__all__ = ["REAL", "STORES", "Shape", "Storm", "StormStats", "at_rest", "run_storm", "run_storms", "storm_table"]

STORES = ("sqlite", "redis", "postgres")
REAL = Lengths(lease=2.0, store_timeout=2.0, busy=2.0, hang=(3.0, 4.0), pause=(1.0, 4.0))
"""Hangs as they were met in use: longer than `store_timeout`, and than a lease."""
_NAMES = ("a", "b", "c")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """`lives`: how often each process is started; it closes after `limit` seconds at the latest. `faults`: those of the store."""

    processes: int = 3
    lives: int = 4
    limit: float = 2.0
    faults: int = 8
    threads: int = 3
    messages: int = 3
    lengths: Lengths = Lengths()


class Storm(msgspec.Struct, kw_only=True):
    """What happened in one storm. Its folder is kept only if something was found."""

    store: str
    seed: int
    kills: int = 0
    pauses: int = 0
    hangs: int = 0
    cuts: int = 0
    turns: int = 0
    accepted: int = 0
    calls: int = 0
    unknown: int = 0
    assumed: int = 0
    """Requests to models that count as spent, though no reply is on record."""
    findings: list[Finding] = []
    folder: str = ""

    def __str__(self) -> str:
        again = f"again: scripts/crash.py --store {self.store} --runs 0 --fleet 0 --storms 1 --seed {self.seed} (see {self.folder})"
        return "\n".join([*(f"{each.kind}: {each.id}: {each.text}" for each in self.findings), again])


class StormStats(msgspec.Struct, kw_only=True):
    """All storms over one store."""

    store: str
    storms: int = 0
    kills: int = 0
    pauses: int = 0
    hangs: int = 0
    cuts: int = 0
    turns: int = 0
    accepted: int = 0
    calls: int = 0
    unknown: int = 0
    assumed: int = 0
    lost: int = 0
    repeated: int = 0
    unequal: int = 0
    wrong: int = 0

    def add(self, storm: Storm) -> None:
        self.storms += 1
        for name in (
            "kills",
            "pauses",
            "hangs",
            "cuts",
            "turns",
            "accepted",
            "calls",
            "unknown",
            "assumed",
        ):
            setattr(self, name, getattr(self, name) + getattr(storm, name))
        for kind in KINDS:
            setattr(self, kind, getattr(self, kind) + count(storm.findings, kind))


def storm_table(stats_list: Iterable[StormStats]) -> str:
    names = [name for name in StormStats.__struct_fields__ if name != "store"]
    lines = [f"{'store':<10}" + "".join(f"{name:>10}" for name in names)]
    lines += [f"{each.store:<10}" + "".join(f"{getattr(each, name):>10,}" for name in names) for each in stats_list]
    return "\n".join(lines)


# Faults of the store.


class _StoreFaults(Protocol):
    async def hang(self, seconds: float) -> None:
        """The store answers nobody for so long."""
        ...

    async def cut(self, chance: random.Random) -> bool:
        """Connections break, or an answer is lost. False: there are no connections."""
        ...


class _LockedFile:
    """SQLite hangs while another connection holds the lock of its file."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def hang(self, seconds: float) -> None:
        with closing(sqlite3.connect(self._path, timeout=0, isolation_level=None)) as connection:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    break
                except sqlite3.OperationalError:  # a process holds it, or has not made the file yet
                    await asyncio.sleep(0.001)
            try:
                await asyncio.sleep(seconds)
            finally:
                connection.execute("ROLLBACK")

    async def cut(self, chance: random.Random) -> bool:
        return False


class _Network:
    def __init__(self, proxy: CuttingProxy) -> None:
        self._proxy = proxy

    async def hang(self, seconds: float) -> None:
        self._proxy.silence()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._proxy.mend()

    async def cut(self, chance: random.Random) -> bool:
        if chance.random() < 0.5:
            await self._proxy.drop_all()
        else:
            left = chance.randint(1, 20)

            def chosen(data: bytes) -> bool:
                nonlocal left
                left -= 1
                return left == 0

            self._proxy.cut = chosen
        return True


@asynccontextmanager
async def _faulty(url: str) -> AsyncIterator[tuple[str, _StoreFaults]]:
    """The address of the store for processes, and the ways to harm it."""
    port = urlsplit(url).port
    if port is None:
        yield url, _LockedFile(url.removeprefix("sqlite:///"))
        return
    async with cutting_proxy(port) as proxy:
        yield url.replace(f":{port}", f":{proxy.port}"), _Network(proxy)


# Faults of processes.


class _Plan(msgspec.Struct, frozen=True):
    """One start of a process, and the signals that it gets, each so many seconds after the one before."""

    life: Life
    signals: list[tuple[float, int]] = []


def _plan(life: Life, chance: random.Random) -> _Plan:
    when, pause = chance.uniform(0.0, 0.6), chance.uniform(*life.lengths.pause)
    stop = [(when, int(signal.SIGSTOP)), (pause, int(signal.SIGCONT))]
    life = msgspec.structs.replace(life, late=chance.random() < 0.3)
    match chance.choice(("kill", "kill", "kill", "pause", "pause", "pause and kill", "close", "nothing")):
        case "kill":
            return _Plan(life, [(when, int(signal.SIGKILL))])
        case "pause":
            return _Plan(life, stop)
        case "pause and kill":
            return _Plan(life, [*stop, (chance.uniform(0.0, 0.2), int(signal.SIGKILL))])
        case "close":
            return _Plan(msgspec.structs.replace(life, limit=2 * when))
        case _:
            return _Plan(life)


async def _lives(nest: Nest, plans: Iterable[_Plan], storm: Storm) -> None:
    for number, plan in enumerate(plans):
        ending = await nest.raise_child(live, msgspec.to_builtins(plan.life), signals=plan.signals, ready=True)
        storm.kills += ending.signal == signal.SIGKILL
        storm.pauses += signal.SIGSTOP in ending.sent
        if ending.hung or ending.code or ending.signal not in (0, signal.SIGKILL):
            text = f"life {number} ended with {ending}"
            storm.findings.append(Finding(kind="wrong", id=f"process {plan.life.name}", text=text))


async def _harm(faults: _StoreFaults, chance: random.Random, shape: Shape, storm: Storm) -> None:
    """Its sleeps wait for nothing: any instant will do."""
    for _ in range(shape.faults):
        await asyncio.sleep(chance.uniform(0.0, 0.8))
        if chance.random() < 0.5 and await faults.cut(chance):
            storm.cuts += 1
        else:
            storm.hangs += 1
            await faults.hang(chance.uniform(*shape.lengths.hang))


async def run_storm(row: Row, fresh: Fresh, base: Path, seed: int, nests: Sequence[Nest], shape: Shape) -> Storm:
    """One storm in a folder under `base`, with a fork server for each process."""
    chance = random.Random(f"{row.name} {seed}")
    folder = Path(tempfile.mkdtemp(prefix=f"storm-{row.name}-{seed}-", dir=base))
    storm = Storm(store=row.name, seed=seed, folder=str(folder), findings=[])
    names = _NAMES[: shape.processes]
    place = Place(store=fresh(folder), folder=str(folder), durability=row.durability, lease=shape.lengths.lease)
    async with _faulty(place.store) as (url, faults):
        far = msgspec.structs.replace(place, store=url)
        plans = [
            [
                _plan(
                    Life(
                        place=far, name=name, names=names, seed=f"{seed} {name} {number}", lengths=shape.lengths,
                        threads=shape.threads, messages=shape.messages, limit=shape.limit,
                    ),
                    chance,
                )
                for number in range(shape.lives)
            ]
            for name in names
        ]  # fmt: skip
        harming = asyncio.ensure_future(_harm(faults, random.Random(f"{seed} store"), shape, storm))
        try:
            lives = [_lives(nest, own, storm) for nest, own in zip(nests, plans, strict=False)]
            await asyncio.gather(*lives)
        finally:
            harming.cancel()
            with suppress(asyncio.CancelledError):
                await harming
    await _settle(place, shape, names, storm)
    if not storm.findings:
        shutil.rmtree(folder, ignore_errors=True)
    return storm


# The end.


async def _settle(place: Place, shape: Shape, names: Sequence[str], storm: Storm) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            world = await at_rest(place, shape, names)
    except Exception:
        text = f"the store does not come to rest: {traceback.format_exc(limit=-6)}"
        storm.findings.append(Finding(kind="lost", id="store", text=text))
        return
    storm.turns = sum(map(len, world.turns.values()))
    storm.accepted = len(world.accepted)
    storm.calls = len(world.records)
    storm.unknown = sum(record.error is not None and record.error.code == "outcome_unknown" for record in world.records)
    storm.assumed = sum(entry.assumed for page in world.pages for entry in page.entries.values())
    storm.findings += judge(world)


async def at_rest(place: Place, shape: Shape, names: Sequence[str]) -> World:
    """Nothing is sent again: what a process left is continued by the runtime alone, with lengths that a slow machine does not reach."""
    place = msgspec.structs.replace(place, lease=60.0)
    rt = runtime_at(place, Lengths(store_timeout=60.0))
    boss, helper = team_at(rt, place)
    async with rt:
        await rt.recover()
        await eventually(lambda: _nothing_runs(rt))
        book = rt.engine.book
        await eventually(lambda: _nothing_is_reserved(rt), what="the sweep ends all reservations")
        records = [await rt.get(record.id, thread=record.thread) for record in await everything(rt)]
        asking = [record for record in records if record.tool == "helper"]
        turns = {
            **await _turns(boss, [thread for name in names for thread in threads_of(name, shape.threads)]),
            **await _turns(helper, [f"{record.thread}/{alias_of(record.id)}" for record in asking]),
        }
        return World(
            acks=place.lines("acks", Ack),
            effects=place.lines("effects", Effect),
            asked=place.lines("asked", Asked),
            records=records,
            turns=turns,
            pages=[page async for page in book.ledger.pages()],
            accounts=[account async for _, account, _ in book.accounts.listed()],
        )


async def _turns(agent: Agent, threads: Iterable[str]) -> dict[tuple[str, str], Any]:
    return {(agent.name, thread): (await agent.history(thread, limit=1_000)).turns for thread in threads}


async def _nothing_runs(rt: Runtime) -> bool:
    return not (await rt.history(active=True)).items


async def _nothing_is_reserved(rt: Runtime) -> bool:
    """Reservations of a dead process end when its lease has."""
    book = rt.engine.book
    await book.sweep(1e9)
    return not any([account.holds async for _, account, _ in book.accounts.listed()])


Heard = Callable[[Storm], None]


async def run_storms(
    row: Row, fresh: Fresh, base: Path, seeds: Iterable[int], nests: Sequence[Nest], heard: Heard, shape: Shape
) -> None:
    """One storm for each seed, one after the other; every tenth one with real lengths."""
    for seed in seeds:
        own = msgspec.structs.replace(shape, lengths=REAL, lives=3, limit=6.0, faults=5) if seed % 10 == 0 else shape
        heard(await run_storm(row, fresh, base, seed, nests, own))
