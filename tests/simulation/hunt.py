"""`python -m tests.simulation.hunt --seeds 2000`: plant each mutant, and look how many seeds it takes until the judge finds it.

Writes one line of JSON for each: its name, the first seed that finds it, how many were tried, and what was said. `--only WORD` limits it
to mutants or areas with that word in their name; `--known FILE` leaves out those that a former run has found.
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

__all__ = ["hunt"]


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
    return {"name": mutant.name, "area": mutant.area, "seconds": round(time.monotonic() - began, 1), **found}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--known", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--store", help="of every seed, as of `run`")
    options = parser.parse_args(given)
    more = ["--store", options.store] if options.store else []
    known = {}
    if options.known is not None and options.known.exists():
        for line in options.known.read_text().splitlines():
            entry = json.loads(line)
            known[entry["name"]] = entry
    chosen = [
        mutant
        for mutant in MUTANTS
        if options.only in f"{mutant.area} {mutant.name}" and known.get(mutant.name, {}).get("seed") is None
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
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
    print(f"{found} of {len(chosen)} found")


if __name__ == "__main__":
    main()
