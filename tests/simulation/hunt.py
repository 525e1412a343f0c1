"""`python -m tests.simulation.hunt --seeds 2000`: plant each mutant, and look how many seeds it takes until the judge finds it.

A mutant runs only in the seeds that reach its place (`reached.py`), in their order: in any other one it changes nothing. The seeds that
are left out count as tried. `--only WORD` limits the hunt to mutants or areas with that word in their name, `--slice 0:50` to the first
50 seeds that reach the place. `--record` writes what was found into `hunted.jsonl`, of which docs/reliability.md is made: how many seeds it
took and the predicate that found it. `--left` leaves out what was found before; `--again` runs nothing but the seeds that found it, and
says which do not find it any more.

`--aimed` runs only those of the seeds that turn to the rare combinations that the mutant names as its aim (`focus.py`). What it finds
says that so many seeds are enough; an earlier one may find the mutant, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.simulation.focus import FOCUSES, focus_of
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.reached import kept

__all__ = ["HUNTED", "hunt", "hunted", "seeds_that_reach"]

HUNTED = Path(__file__).with_name("hunted.jsonl")


def hunted() -> dict[str, dict[str, Any]]:
    """By the mutant's name. `first`, `first_of`: the seeds it took the first judge, before it was tuned, of how many (None: not found);
    `seeds`, `of`, `rule`: the same for the judge as it is, and the predicate; `aimed`: the hunt was; `reach`: how many of those seeds reach
    the place; `store`: of every seed, if it was given; `why`: why it cannot be seen, if it cannot."""
    lines = HUNTED.read_text("utf-8").splitlines() if HUNTED.exists() else []
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def record(found: dict[str, Any], store: str) -> None:
    entries = hunted()
    entry = entries.setdefault(found["name"], {"name": found["name"]})
    rule = found["problems"][0].partition(":")[0] if found["problems"] else None
    entry |= {"seeds": found["tried"] if found["seed"] is not None else None, "of": found["of"], "rule": rule}
    entry |= {"store": store or None, "aimed": found["reach"] is None}
    entry.pop("reach", None)
    if found["reach"] is not None:
        entry["reach"] = found["reach"]
    names = [mutant.name for mutant in MUTANTS]
    HUNTED.write_text("".join(json.dumps(entries[name]) + "\n" for name in names if name in entries), "utf-8")


def seeds_that_reach(seeds: range, jobs: int, store: str) -> dict[str, list[int]]:
    """By the name of a mutant."""
    known = kept(store)
    if any(seed not in known for seed in seeds):
        given = ["--seeds", f"{seeds.start}:{seeds.stop}", "--jobs", str(jobs), "--store", store]
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.reached", *given], stdout=subprocess.DEVNULL, check=True
        )
        known = kept(store)
    return {mutant.name: [seed for seed in seeds if mutant.name in known[seed]] for mutant in MUTANTS}


def aimed_at(mutant: Mutant, seeds: range) -> list[int]:
    """The seeds that turn to what the mutant names as its aim."""
    aims = mutant.aim.split("; ")
    unknown = set(aims) - {focus.name for focus in FOCUSES}
    if unknown:
        raise ValueError(f"{mutant.name}: no rare combination has the name {unknown}")
    return [seed for seed in seeds if (focus := focus_of(seed)) is not None and focus.name in aims]


def hunt(mutant: Mutant, seeds: Sequence[int], store: str = "") -> dict[str, Any]:
    """In a process of its own, which stops at the first seed that finds the mutant."""
    began = time.monotonic()
    found: dict[str, Any] = {"seed": None, "problems": []}
    if seeds:
        run = [
            sys.executable,
            "-m",
            "tests.simulation.planted",
            mutant.name,
            "tests.simulation.run",
            "--jobs",
            "1",
            "--until-bad",
        ]
        run += ["--seeds", ",".join(map(str, seeds)), *(["--store", store] if store else [])]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        try:
            found = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise RuntimeError(f"{mutant.name}: {done.returncode}: {done.stderr[-2_000:]}") from None
    return {"name": mutant.name, "seconds": round(time.monotonic() - began, 1), **found}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--slice", default="0:", help="FIRST:END, of the seeds that reach the place")
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--last-first", action="store_true", help="those first that most seeds reach")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--aimed", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--store", default="", help="of every seed, as of `run`")
    options = parser.parse_args(given)
    before = {name: entry["seeds"] for name, entry in hunted().items() if entry.get("seeds") is not None}
    chosen = [
        mutant
        for mutant in MUTANTS
        if options.only in f"{mutant.area} {mutant.name}"
        and not (options.left and mutant.name in before)
        and not (options.again and mutant.name not in before)
        and not (options.aimed and not mutant.aim)
    ]
    every = range(options.first, options.first + options.seeds)
    reach = {} if options.again or options.aimed else seeds_that_reach(every, options.jobs, options.store)
    begin, _, end = options.slice.partition(":")
    found = 0

    def one(mutant: Mutant) -> dict[str, Any]:
        if options.again:
            return {**hunt(mutant, [options.first + before[mutant.name] - 1], options.store)}
        reaching = aimed_at(mutant, every) if options.aimed else reach[mutant.name]
        rest = reaching[int(end) :] if end else []
        entry = hunt(mutant, reaching[int(begin) : int(end) if end else None], options.store)
        of = (rest[0] if rest else every.stop) - every.start
        tried = of if entry["seed"] is None else entry["seed"] - every.start + 1
        return {
            **entry,
            "of": options.seeds if entry["seed"] is not None else of,
            "tried": tried,
            "reach": None if options.aimed else len(reaching),
        }

    chosen.sort(key=lambda mutant: len(reach.get(mutant.name, ())), reverse=options.last_first)
    with ThreadPoolExecutor(options.jobs) as pool:
        for work in as_completed([pool.submit(one, mutant) for mutant in chosen]):
            entry = work.result()
            found += entry["seed"] is not None
            print(
                f"{entry['seed']!s:>6} {entry.get('tried', ''):>5} {entry.get('reach', '')!s:>5} {entry['seconds']:>6} s {entry['name']}",
                *entry["problems"][:1],
                sep="   ",
                flush=True,
            )
            if options.record and not options.again and (entry["seed"] is not None or not options.aimed):
                record(entry, options.store)
    print(f"{found} of {len(chosen)} found")


if __name__ == "__main__":
    main()
