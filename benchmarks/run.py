"""`python benchmarks/run.py [--quick] [--only NAME]`: run the benchmarks, print the table, write RESULTS.md and the plot.

Timings are figures, never assertions: a missed ratio is printed and does not fail the run; a contender that crashed does.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

sys.path[0] = str(
    Path(__file__).resolve().parent.parent
)  # so that `benchmarks` is a package however this file is started

from benchmarks import report  # noqa: E402  # after the line above
from benchmarks.environments import CACHE, ROOT, EnvironmentFailed, python_of  # noqa: E402
from benchmarks.question import Answer, Question, Row  # noqa: E402
from benchmarks.rounds import measure  # noqa: E402

NAMES = (
    *("overhead", "steps", "sync_async", "journal", "many", "kernel", "schema", "stall"),
    *("durability", "recovery", "stores", "cache", "fleet", "reach", "server", "code", "uses", "agents"),
)
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PLOT = ROOT / "benchmarks" / "overhead.svg"
KEPT = CACHE / "answers.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round; prints, and leaves RESULTS.md alone")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds per contender (5, quick 1)")
    parser.add_argument("--seconds", type=float, help="seconds per figure (1.5, quick 0.3)")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    seconds = options.seconds or (0.3 if options.quick else 1.5)
    CACHE.mkdir(parents=True, exist_ok=True)
    questions: list[Question] = [import_module(f"benchmarks.{name}").QUESTION for name in NAMES]
    answers: dict[str, Answer] = {}
    for question in questions:
        if options.only and question.name not in options.only:
            continue
        answers[question.name] = ask(question, rounds, seconds, quick=options.quick)
        print(f"\n{question.title}\n\n{report.answer_table(question, answers[question.name])}\n", flush=True)
    found = report.verdicts(questions, answers)
    print(f"{report.verdict_table(found)}\n\nNot met:\n\n{report.missed(found)}")
    if not options.quick:
        kept = {**load(), **answers}
        KEPT.write_text(json.dumps({name: asdict(answer) for name, answer in kept.items()}, indent=1))
        picture = draw(kept)
        former = RESULTS.read_text() if RESULTS.exists() else ""
        RESULTS.write_text(report.page(questions, kept, picture, former))
        print(f"\nwritten: {RESULTS.relative_to(ROOT)}")
    crashed = [f"{name}: {row}" for name, answer in answers.items() for row in answer.rows if answer.rows[row].problem]
    if crashed:
        print("\nwithout a figure: " + ", ".join(crashed), file=sys.stderr)
    return 1 if crashed else 0


def ask(question: Question, rounds: int, seconds: float, *, quick: bool) -> Answer:
    load = os.getloadavg()[0]
    return Answer(
        rows=measure(question, rounds=rounds, seconds=seconds, quick=quick),
        load=load,
        commit=report.commit(),
        measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
        rounds=min(rounds, question.max_rounds),
        seconds=seconds,
    )


def load() -> dict[str, Answer]:
    """The results of earlier runs, so that `--only` renews one section and keeps the others; each has its date."""
    if not KEPT.exists():
        return {}
    found = json.loads(KEPT.read_text())
    return {
        name: Answer(**{**fields, "rows": {row: Row(**values) for row, values in fields["rows"].items()}})
        for name, fields in found.items()
    }


def draw(answers: dict[str, Answer]) -> str | None:
    """The plot, drawn in its own environment; without it the page has no picture. Without new figures of it, it stays as it is."""
    if "overhead" not in answers:
        return PLOT.name if PLOT.exists() else None
    try:
        python = python_of("plot")
    except (EnvironmentFailed, OSError) as error:
        print(f"no plot: {error}", file=sys.stderr)
        return None
    done = subprocess.run([str(python), "-P", str(ROOT / "benchmarks" / "plot.py"), str(KEPT)], check=False)
    return PLOT.name if done.returncode == 0 else None


if __name__ == "__main__":
    raise SystemExit(main())
