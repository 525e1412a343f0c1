"""`python -m benchmarks.simulation [case …] [--seed N] [--limit] [--json]`: simulate fleets and print the results."""

from __future__ import annotations

import argparse
import sys

import msgspec

from benchmarks.simulation.cases import CASES, Case, limit_of
from benchmarks.simulation.fleet import Fleet, Report

_COLUMNS = (
    *("case", "calls", "calls/s", "start p50", "p95", "p99", "max", "store busy", "transactions/call", "log"),
    *("unknown", "lost", "repeated"),
)


def _row(name: str, report: Report) -> tuple[str, ...]:
    waits = (report.wait_p50, report.wait_p95, report.wait_p99, report.wait_max)
    return (
        name,
        f"{report.calls:,}",
        f"{report.rate:,.0f}",
        *(f"{wait * 1e3:,.1f} ms" for wait in waits),
        f"{report.store_load:.0%}",
        f"{report.transactions:.2f}",
        f"{report.log_mb:.1f} MB/s",
        f"{report.unknown:,}",
        f"{report.lost:,}",
        f"{report.repeated:,}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--limit", action="store_true", help="find the highest rate that one store takes in the base case"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each case")
    options = parser.parse_args()
    known = {case.name: case for case in CASES}
    if wrong := [name for name in options.cases if name not in known]:
        parser.error(f"there is no case {wrong[0]!r}; known are {', '.join(known)}.")
    chosen = [known[name] for name in options.cases] or list(CASES)
    if not options.json:
        print("| " + " | ".join(_COLUMNS) + " |\n|" + "---|" * len(_COLUMNS))
    for case in chosen:
        _show(case, Fleet(msgspec.structs.replace(case.plan, seed=options.seed)).run(), as_json=options.json)
    if options.limit:
        plan = msgspec.structs.replace(known["base"].plan, seed=options.seed, seconds=5, body=0.1)
        rate, report = limit_of(plan)
        _show(
            Case(name=f"the most that one store takes: {rate:,.0f}/s", about="", plan=plan),
            report,
            as_json=options.json,
        )
    return 0


def _show(case: Case, report: Report, *, as_json: bool) -> None:
    if as_json:
        print(
            msgspec.json.encode({"case": case.name, "about": case.about, "plan": case.plan, "report": report}).decode(),
            flush=True,
        )
    else:
        print("| " + " | ".join(_row(case.name, report)) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
