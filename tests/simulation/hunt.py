"""`python -m tests.simulation.hunt --seeds 2000`: plant each mutant, and look how many seeds it takes until the judge finds it.

`--only WORD` limits it to mutants or areas with that word in their name. `--record` writes what was found into `hunted.jsonl`, of which
docs/reliability.md is made: how many seeds it took and the predicate that found it. `--left` leaves out what was found before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.simulation.mutants import MUTANTS, Mutant

__all__ = ["HUNTED", "hunt", "hunted"]

HUNTED = Path(__file__).with_name("hunted.jsonl")


def hunted() -> dict[str, dict[str, Any]]:
    """By the mutant's name. `first`, `first_of`: the seeds it took the first judge, before it was tuned, of how many (None: not found);
    `seeds`, `of`, `rule`: the same for the judge as it is, and the predicate; `store`: of every seed, if it was given."""
    lines = HUNTED.read_text("utf-8").splitlines() if HUNTED.exists() else []
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def record(found: dict[str, Any], store: str | None) -> None:
    entries = hunted()
    entry = entries.setdefault(found["name"], {"name": found["name"]})
    rule = found["problems"][0].partition(":")[0] if found["problems"] else None
    entry |= {"seeds": found["tried"] if found["seed"] is not None else None, "of": found["of"], "rule": rule}
    entry["store"] = store
    names = [mutant.name for mutant in MUTANTS]
    HUNTED.write_text("".join(json.dumps(entries[name]) + "\n" for name in names if name in entries), "utf-8")


def hunt(mutant: Mutant, first: int, count: int, more: Sequence[str] = ()) -> dict[str, Any]:
    """In a process of its own, which stops at the first seed that finds the mutant."""
    seeds = f"{first}:{first + count}"
    run = [
        sys.executable,
        "-m",
        "tests.simulation.planted",
        mutant.name,
        "tests.simulation.run",
        "--seeds",
        seeds,
        "--jobs",
        "1",
        "--until-bad",
        *more,
    ]
    began = time.monotonic()
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        found = {
            "seed": first,
            "problems": [f"the process ended with {done.returncode}: {done.stderr[-300:]}"],
            "tried": 1,
        }
    return {"name": mutant.name, "of": count, "seconds": round(time.monotonic() - began, 1), **found}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--store", help="of every seed, as of `run`")
    options = parser.parse_args(given)
    more = ["--store", options.store] if options.store else []
    known = {name for name, entry in hunted().items() if entry.get("seeds") is not None} if options.left else set()
    chosen = [
        mutant for mutant in MUTANTS if options.only in f"{mutant.area} {mutant.name}" and mutant.name not in known
    ]
    found = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for entry in pool.map(lambda mutant: hunt(mutant, options.first, options.seeds, more), chosen):
            found += entry["seed"] is not None
            print(
                f"{entry['seed']!s:>6} {entry['tried']:>5} {entry['name']}",
                *entry["problems"][:1],
                sep="   ",
                flush=True,
            )
            if options.record:
                record(entry, options.store)
    print(f"{found} of {len(chosen)} found")


if __name__ == "__main__":
    main()
