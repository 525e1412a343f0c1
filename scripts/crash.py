"""The long form of the crash suite: kills thousands of children over every durable store, and judges the calls.

`python scripts/crash.py [--store sqlite|sqlite-power|redis|postgres|all] [--runs N] [--fleet N] [--storms N] [--seed S] [--jobs J]
[--json]`

`--fleet` runs submit calls from two processes to workers over a store and a bus. Each run has four faults of
`tests.crash.fleet_scene.FAULTS`: workers, submitters, the bus and the store's server are killed, workers are paused, connections broken,
and the network between workers and the store or the bus is cut. The bus drops, doubles, delays and reorders messages. In runs with an even
seed the store carries the messages itself.

`--storms`: agents that call tools and other agents under budgets, in three processes on one store (`tests.crash.storm_driver`). Processes
are killed, paused past their leases and closed, while the store hangs or its connections break; every tenth storm has hangs of three to
four seconds. Their table counts, beside the faults: turns, accepted messages, calls, calls of unknown outcome, requests to models that are
assumed to be spent, and what was found: turns that are lost, turns or effects that are repeated, accounts and ledgers that are unequal.

Prints a table: runs, kills, calls, acknowledged calls, and of those lost, repeated, of unknown outcome (as they must be when
no record tells), wrong. Each finding is printed with the seed that repeats it. Exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.crash.driver import WIDTH, Outcome, OutcomeStats, run_all, table
from tests.crash.fleet_scene import BOUND, Judged, fleet_run
from tests.crash.nest import Nest
from tests.crash.stores import STORES
from tests.crash.storm_driver import STORES as STORM_STORES
from tests.crash.storm_driver import Shape, Storm, StormStats, run_storms, storm_table
from tests.nats_server import nats_server
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server

_EVERY = 10


class Progress:
    """A line on stderr now and then; on a terminal always the same line."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.live = sys.stderr.isatty()

    def show(self, stats: OutcomeStats, found: int) -> None:
        text = f"{stats.store}: {stats.runs} of {self.runs} runs, {stats.kills} kills, {found} runs with findings"
        if self.live:
            end = "\n" if stats.runs == self.runs else ""
            print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)
        elif stats.runs % _EVERY == 0 or stats.runs == self.runs:
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        print(("\r\x1b[K" if self.live else "") + text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Seeded kills over every durable store.")
    parser.add_argument("--store", choices=[*STORES, "all"], default="all")
    parser.add_argument("--runs", type=int, default=50, help="for each store; a run is about seven kills (default: 50)")
    parser.add_argument(
        "--fleet", type=int, default=10, help="runs of a fleet with a bus, on Redis and PostgreSQL (default: 10)"
    )
    parser.add_argument(
        "--storms",
        type=int,
        default=10,
        help="storms over agents and budgets, on SQLite, Redis and PostgreSQL (default: 10)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others count on from it")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on stdout")
    options = parser.parse_args()
    logging.getLogger("clicket").setLevel(logging.ERROR)
    base = Path(tempfile.mkdtemp(prefix="clicket-crash-"))
    progress = Progress(options.runs)
    stats_list: list[OutcomeStats] = []
    bad: list[Outcome] = []
    points: Counter[str] = Counter()
    for name in () if not options.runs else STORES if options.store == "all" else [options.store]:
        stats = OutcomeStats(store=name)
        stats_list.append(stats)

        def heard(outcome: Outcome, stats: OutcomeStats = stats) -> None:
            stats.add(outcome)
            points.update(outcome.points)
            if outcome.verdict.findings:
                bad.append(outcome)
                progress.say(f"{outcome.store}, seed {outcome.seed}:\n{outcome}")
            progress.show(stats, sum(each.store == outcome.store for each in bad))

        row = STORES[name]
        seeds = range(options.seed, options.seed + options.runs)
        with row.serve() as fresh, ExitStack() as stack:
            nests = [stack.enter_context(Nest()) for _ in range(options.jobs * WIDTH)]
            asyncio.run(run_all(row, fresh, base, seeds, nests, heard))
    fleets = [
        asyncio.run(_fleet(name, seed, base))
        for name in ("redis", "postgres")
        if options.store in (name, "all")
        for seed in range(options.seed, options.seed + options.fleet)
    ]
    dirty = [judged for judged in fleets if not judged.is_clean]
    storms, found = _storms(options, base)
    if not (bad or dirty or found):
        shutil.rmtree(base, ignore_errors=True)
    if options.json:
        print(
            json.dumps(
                {
                    **_figures(stats_list, bad, points),
                    "fleets": msgspec.to_builtins(fleets),
                    "storms": msgspec.to_builtins(storms),
                }
            )
        )
    else:
        if options.runs:
            print(table([*stats_list, total(stats_list)] if len(stats_list) > 1 else stats_list))
            print(f"killed at {len(points)} places: {', '.join(f'{place} {n}' for place, n in points.most_common())}")
        if fleets:
            print(_fleet_figures(fleets))
        if storms:
            print(storm_table(storms))
    return 1 if bad or dirty or found else 0


def _storms(options: argparse.Namespace, base: Path) -> tuple[list[StormStats], list[Storm]]:
    """The figures of each store, and the storms with findings, which are printed at once."""
    stats_list: list[StormStats] = []
    bad: list[Storm] = []
    seeds = range(options.seed, options.seed + options.storms)
    for name in STORM_STORES:
        if not seeds or options.store not in (name, "all"):
            continue
        stats = StormStats(store=name)
        stats_list.append(stats)

        def heard(storm: Storm, stats: StormStats = stats) -> None:
            stats.add(storm)
            if storm.findings:
                bad.append(storm)
            text = (
                f"\n{storm}"
                if storm.findings
                else f"clean ({storm.kills} kills, {storm.pauses} pauses, {storm.hangs} hangs)"
            )
            print(f"storm on {storm.store}, seed {storm.seed}: {text}", file=sys.stderr, flush=True)

        shape = Shape()
        with STORES[name].serve() as fresh, ExitStack() as stack:
            nests = [stack.enter_context(Nest()) for _ in range(shape.processes)]
            asyncio.run(run_storms(STORES[name], fresh, base, seeds, nests, heard, shape))
    return stats_list, bad


async def _fleet(store: str, seed: int, base: Path) -> Judged:
    """One run of a fleet over fresh servers. Prints findings at once."""
    folder = base / f"fleet-{store}-{seed}"
    folder.mkdir(parents=True)
    with nats_server() as bus:
        if store == "redis":
            with redis_server(folder / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
                judged = await fleet_run(seed, server.url, server, bus, folder)
        else:
            with postgres_server() as database:
                judged = await fleet_run(seed, database.url(), database, bus, folder)
    print(
        f"fleet on {store}, seed {seed}: {'clean' if judged.is_clean else judged} ({', '.join(judged.faults)})",
        file=sys.stderr,
        flush=True,
    )
    return judged


def _fleet_figures(fleets: list[Judged]) -> str:
    """The sums of all fleet runs, and how often each fault happened."""
    sums = {name: sum(getattr(judged, name) for judged in fleets) for name in ("calls", "unknown", "refused")}
    found = {
        name: sum(len(getattr(judged, name)) for judged in fleets) for name in ("lost", "repeated", "doubled", "late")
    }
    faults = Counter(fault for judged in fleets for fault in judged.faults)
    return (
        f"fleets: {len(fleets)} runs, {faults.total()} faults ({', '.join(f'{fault} {n}' for fault, n in sorted(faults.items()))})\n"
        f"{sums['calls']} acknowledged calls, of these {sums['unknown']} of unknown outcome; {sums['refused']} submissions without an "
        f"answer; {', '.join(f'{name} {n}' for name, n in found.items())}\n"
        f"last end after the last fault: {max(judged.slowest for judged in fleets):.1f} s (bound: {BOUND:g} s, more on a busy machine)"
    )


def total(stats_list: list[OutcomeStats]) -> OutcomeStats:
    fields = [name for name in OutcomeStats.__struct_fields__ if name != "store"]
    return OutcomeStats(store="all", **{name: sum(getattr(stats, name) for stats in stats_list) for name in fields})


def _figures(stats_list: list[OutcomeStats], bad: list[Outcome], points: Counter[str]) -> dict[str, Any]:
    return {
        "stores": msgspec.to_builtins(stats_list),
        "total": msgspec.to_builtins(total(stats_list)),
        "points": dict(points),
        "findings": [
            {"store": o.store, "seed": o.seed, "folder": o.folder, "findings": [str(f) for f in o.verdict.findings]}
            for o in bad
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
