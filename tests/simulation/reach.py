"""`python -m tests.simulation.reach --seeds 0:1000`: what of the core no seed reaches, and why it does not.

Runs the seeds under coverage with branches, and prints the functions of `engine/`, `agents/` and `stores/sqlite/` that have lines
or branches which no seed ran. `unreached.toml` has the reasons; what has none is printed with its lines.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage
from tests.simulation.places import template
from tests.simulation.run import run_seed

import clicket

__all__ = ["Missed", "reasons"]

PACKAGE = Path(clicket.__file__).parent
PLACES = ("engine", "agents", "stores/sqlite")
ELSEWHERE = ("engine/executors", "engine/hub", "engine/spend", "engine/stages")
"""Most of these is reached by tests of their own."""
REASONS = Path(__file__).with_name("unreached.toml")


class Missed(NamedTuple):
    """A function of which no seed ran everything. `whole`: no seed called it."""

    file: str
    function: str
    whole: bool
    lines: list[int]
    branches: list[list[int]]


def reasons() -> list[dict[str, str]]:
    """`where` is a pattern for `file:function`; the first that fits counts."""
    found: list[dict[str, str]] = tomllib.loads(REASONS.read_text("utf-8"))["reason"]
    return found


def reason_of(missed: Missed, known: Sequence[dict[str, str]]) -> str | None:
    name = f"{missed.file}:{missed.function}"
    return next((each["why"] for each in known if fnmatch.fnmatchcase(name, each["where"])), None)


def run(seeds: Sequence[int], jobs: int, folder: Path) -> None:
    """Each share of the seeds in a forked process, which leaves its data in the folder."""
    template()
    children = []
    for job in range(jobs):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                measured = _coverage(folder, suffix=str(job))
                measured.start()
                for seed in seeds[job::jobs]:
                    world, _ = run_seed(seed)
                    if world.problems:
                        print(f"seed {seed}: {world.problems[:2]}", file=sys.stderr)
                measured.stop()
                measured.save()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    for pid in children:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a process of the simulation ended with {status}")


def _coverage(folder: Path, suffix: str | None = None) -> coverage.Coverage:
    return coverage.Coverage(
        data_file=str(folder / "reach"), data_suffix=suffix, branch=True, config_file=False,
        source=[str(PACKAGE / place) for place in PLACES], omit=[f"{PACKAGE / place}/*" for place in ELSEWHERE],
    )  # fmt: skip


def missed(folder: Path) -> Iterator[Missed]:
    measured = _coverage(folder)
    measured.combine([str(folder)])
    report = folder / "report.json"
    measured.json_report(outfile=str(report))
    for path, file in json.loads(report.read_text())["files"].items():
        name = Path(path).resolve().relative_to(PACKAGE).as_posix()
        for function, data in file["functions"].items():
            if function and (data["missing_lines"] or data["missing_branches"]):
                yield Missed(
                    name, function, not data["executed_lines"], data["missing_lines"], data["missing_branches"]
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:400", help="FIRST:END")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="print those with a reason, too")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    known, counts = reasons(), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(range(int(first), int(end)), given.jobs, folder)
        for each in missed(folder):
            why = reason_of(each, known)
            counts["without a reason" if why is None else "with a reason"] += max(len(each.branches), 1)
            if why is None or given.all:
                print(_line(each), *([] if why is None else [f"    {why}"]), sep="\n")
    print(json.dumps(counts))
    sys.exit(counts["without a reason"] > 0)


def _line(each: Missed) -> str:
    what: Any = "never called" if each.whole else f"lines {each.lines}, branches {each.branches}"
    return f"{each.file}:{each.function}: {what}"


if __name__ == "__main__":
    main()
