"""Seeded runs: over an empty store, children work and are killed, in sequence or concurrently; then the judge checks
the store.

A run is given by its store and its seed: they determine the calls, the failpoints and the times of the kills. The
operating system's scheduler is not seeded, so a seed reproduces kills at failpoints closely and timed kills only
roughly.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from tests.crash.child import Life, acknowledge, live, own_id
from tests.crash.failpoints import points_of
from tests.crash.judge import Ack, Finding, Verdict
from tests.crash.nest import Nest
from tests.crash.settle import Place, settle
from tests.crash.stores import Fresh, Row
from tests.crash.tools import RULES, append_line, tools

__all__ = ["WIDTH", "Outcome", "OutcomeStats", "run_all", "table"]

WIDTH = 3
"""Children that live at once at most."""
_SHORT = 0.3
"""A lease in seconds. In some runs with several children, a child is stopped for longer than this."""


class Outcome(msgspec.Struct, kw_only=True):
    """One run. Its folder is kept only if something was found."""

    store: str
    seed: int
    kills: int
    verdict: Verdict
    points: dict[str, int]
    folder: str | None = None

    def __str__(self) -> str:
        """The findings, and how to reproduce them."""
        again = (
            f"again: scripts/crash.py --store {self.store} --seed {self.seed} --runs 1 (this one is in {self.folder})"
        )
        return "\n".join([*map(str, self.verdict.findings), again])


class OutcomeStats(msgspec.Struct, kw_only=True):
    """All runs over one store."""

    store: str
    runs: int = 0
    kills: int = 0
    calls: int = 0
    acked: int = 0
    lost: int = 0
    repeated: int = 0
    unknown: int = 0
    wrong: int = 0

    def add(self, outcome: Outcome) -> None:
        verdict = outcome.verdict
        self.runs += 1
        self.kills += outcome.kills
        self.calls += verdict.calls
        self.acked += verdict.acked
        self.unknown += verdict.unknown
        self.lost += verdict.count("lost")
        self.repeated += verdict.count("repeated")
        self.wrong += verdict.count("wrong")


def table(stats_list: Iterable[OutcomeStats]) -> str:
    names = ("runs", "kills", "calls", "acked", "lost", "repeated", "unknown", "wrong")
    lines = [f"{'store':<14}" + "".join(f"{name:>10}" for name in names)]
    lines += [f"{t.store:<14}" + "".join(f"{getattr(t, name):>10,}" for name in names) for t in stats_list]
    return "\n".join(lines)


async def run_all(
    row: Row,
    fresh: Fresh,
    base: Path,
    seeds: Sequence[int],
    nests: Sequence[Nest],
    heard: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """One run for each seed, each in a folder under `base`, concurrently as far as nests allow; calls `heard` after
    each run."""
    waiting = iter(seeds)
    outcomes: list[Outcome] = []

    async def lane(nests: Sequence[Nest]) -> None:
        for seed in waiting:
            outcome = await _run(row, fresh, base, seed, nests)
            outcomes.append(outcome)
            heard(outcome)

    async with asyncio.TaskGroup() as group:
        for first in range(0, len(nests) - WIDTH + 1, WIDTH):
            group.create_task(lane(nests[first : first + WIDTH]))
    return outcomes


async def _run(row: Row, fresh: Fresh, base: Path, seed: int, nests: Sequence[Nest]) -> Outcome:
    chance = random.Random(f"{row.name} {seed}")
    width = chance.choice((1, 1, 1, 2, 2, 3))
    lives = chance.randint(5, 9) if width == 1 else chance.randint(2, 5)
    folder = Path(tempfile.mkdtemp(prefix=f"{row.name}-{seed}-", dir=base))
    lease = _SHORT if width > 1 and chance.random() < 0.4 else 10.0
    place = Place(store=fresh(folder), folder=str(folder), durability=row.durability, lease=lease)
    run = Life(seed=str(seed), name="", place=place, apart=chance.random() < 0.15)
    drawn: list[Plan] = []
    submits_only = width > 1 and chance.random() < 0.4
    for slot in range(width):
        run = msgspec.structs.replace(run, engine="workers" if submits_only and slot == 0 else "local")
        drawn += [_draw(row, run, f"{slot}.{number}", chance, drawn) for number in range(lives)]
    kills = await asyncio.gather(*(_live(nests[slot], drawn[slot * lives :][:lives]) for slot in range(width)))
    try:
        verdict = await settle(place, tools(apart=run.apart), RULES, seed=run.seed)
    except Exception:  # the store cannot be opened or read any more: as bad as any finding
        text = f"the store cannot be judged: {traceback.format_exc(limit=-6)}"
        verdict = Verdict(findings=[Finding(kind="wrong", id="", text=text)])
    points = dict(Counter(place.lines("kills", str)))
    outcome = Outcome(store=row.name, seed=seed, kills=sum(kills), verdict=verdict, points=points)
    if verdict.findings:
        outcome.folder = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)  # a worker process of the last killed child may still be exiting
    return outcome


class Plan(msgspec.Struct, frozen=True):
    """A child, and the signals that its parent sends, each so many seconds after the one before."""

    life: Life
    signals: list[tuple[float, int]]
    ready: bool = False
    """Time the first signal from when the child has opened its store, so that on slow machines, too, it hits work."""


def _draw(row: Row, run: Life, name: str, chance: random.Random, drawn: Sequence[Plan]) -> Plan:
    earlier = tuple(own_id(plan.life, number) for plan in drawn[-4:] for number in range(4))
    life = msgspec.structs.replace(
        run, name=name, calls=chance.randint(4, 14), limit=3.0 if run.apart else 1.0,
        span=chance.choice((0.02, 0.1, 0.2)), earlier=earlier,
    )  # fmt: skip
    soon = chance.choice((0.05, 0.15, life.limit))  # so that some children close while their calls run
    closing = msgspec.structs.replace(life, ending="close", limit=soon)
    dice = chance.random()
    if dice < 0.65:
        point = chance.choice(points_of(row.scheme, apart=run.apart))
        life = closing if point.name.startswith(("close", "store.close", "hand back")) else life
        nth = chance.randint(1, point.often)
        return Plan(msgspec.structs.replace(life, point=point, nth=nth, calls=max(life.calls, 8)), [])
    if dice < 0.95:
        kill = (chance.uniform(0.0, 1.5 if run.apart else 0.4), int(signal.SIGKILL))
        if run.place.lease == _SHORT and chance.random() < 0.7:  # another process claims its calls, then it wakes up
            stop = (chance.uniform(0.0, 0.2), int(signal.SIGSTOP))
            return Plan(life, [stop, (3 * _SHORT, int(signal.SIGCONT)), kill], ready=True)
        return Plan(life, [kill], ready=chance.random() < 0.5)
    return Plan(closing, [])


async def _live(nest: Nest, plans: Iterable[Plan]) -> int:
    """Runs children one after the other; returns how many were killed."""
    kills = 0
    for plan in plans:
        life, folder = plan.life, Path(plan.life.place.folder)
        ending = await nest.raise_child(live, msgspec.to_builtins(life), signals=plan.signals, ready=plan.ready)
        kills += ending.signal == signal.SIGKILL
        if ending.by_parent:
            append_line(folder / "kills", "any instant" if len(plan.signals) == 1 else "stopped past its lease")
        if ending.hung or ending.code or ending.signal not in (0, signal.SIGKILL):
            acknowledge(folder, Ack(did="trouble", text=f"child {life.name} ended with {ending}"))
    return kills
