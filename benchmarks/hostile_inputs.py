"""How long does one small hostile input hold the event loop? Writes benchmarks/HOSTILE.md. `python -m benchmarks.hostile_inputs`

Each input is tried in a runtime of its own, several rounds long. A task on the loop takes turn after turn meanwhile and notes the longest
time between two turns. Of the rounds the least counts: other programs only make a stall longer. Beside it stands the CPU time of the loop's
thread in the longest turn, which other programs change little; what other
threads do while they hold the interpreter is in the first figure alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import platform
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, thread_time

from benchmarks.hostile_cases import CASES, TOOLS, Case
from clicket import Runtime

_PAGE = Path(__file__).with_name("HOSTILE.md")
_LIMIT = 0.050
_SHOWN = 110


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """Seconds of the longest iteration of the loop, by the clock and of CPU; and what became of the input."""

    wall: float
    cpu: float
    outcome: str


async def _turns(longest: list[float]) -> None:
    while True:
        wall, cpu = perf_counter(), thread_time()
        await asyncio.sleep(0)
        longest[0] = max(longest[0], perf_counter() - wall)
        longest[1] = max(longest[1], thread_time() - cpu)


async def _tried(case: Case) -> Stall:
    async with Runtime(list(TOOLS), store="memory://") as rt:
        longest = [0.0, 0.0]
        watching = asyncio.create_task(_turns(longest))
        await asyncio.sleep(0)
        longest[:] = [0.0, 0.0]
        outcome = await case.run(rt)
        await asyncio.sleep(0)
        watching.cancel()
    return Stall(wall=longest[0], cpu=longest[1], outcome=outcome)


def measured(case: Case, rounds: int) -> Stall:
    """The least stall of several rounds. The garbage collector runs between them, not in them."""
    found: list[Stall] = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        try:
            found.append(asyncio.run(_tried(case)))
        finally:
            gc.enable()
    return Stall(wall=min(each.wall for each in found), cpu=min(each.cpu for each in found), outcome=found[-1].outcome)


def _row(case: Case, stall: Stall) -> str:
    said = " ".join(stall.outcome.split()).replace("|", "\\|")
    said = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
    name = case.name.replace("|", "\\|")
    return f"| {case.group} | {name} | {case.size:,} | {said} | {stall.wall * 1e3:.1f} | {stall.cpu * 1e3:.1f} |"


def page(rows: list[str], over: list[str], rounds: int) -> str:
    required = "All are within 50 ms." if not over else f"Over 50 ms of CPU: {'; '.join(over)}."
    return "\n".join(
        (
            "# Small hostile inputs",
            "",
            "Made by `python -m benchmarks.hostile_inputs`; do not edit.",
            "",
            (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip(),
            "",
            f"{rounds} rounds, Python {platform.python_version()}, {platform.machine()}. {required}",
            "",
            "Tests assert counts (paths, steps, errors), not these times.",
            "",
            "| given as | input | bytes | what happened | longest stall, ms | CPU of the loop, ms |",
            "|---|---|---:|---|---:|---:|",
            *rows,
            "",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of a case's name; the page is not written")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows: list[str] = []
    over: list[str] = []
    for case in CASES:
        if given.only not in f"{case.group}: {case.name}":
            continue
        stall = measured(case, given.rounds)
        rows.append(_row(case, stall))
        print(rows[-1], flush=True)
        if stall.cpu > _LIMIT:
            over.append(f"{case.group}, {case.name}")
    if not given.only:
        _PAGE.write_text(page(rows, over, given.rounds))
    print(f"{len(over)} over {_LIMIT * 1e3:.0f} ms of CPU")


if __name__ == "__main__":
    main()
