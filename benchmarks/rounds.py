"""Rounds are interleaved, A B C A B C …, each in a fresh process, so that the machine's moods hit all contenders alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.environments import CACHE, ROOT, EnvironmentFailed, python_of
from benchmarks.question import Contender, Question, Row

__all__ = ["measure"]

_MAX_SECONDS = 300.0


def measure(question: Question, *, rounds: int, seconds: float) -> dict[str, Row]:
    """Run every contender `rounds` times; one that fails is reported with its last words and not run again."""
    pythons: dict[str, Path] = {}
    problems: dict[str, str] = {}
    for environment in dict.fromkeys(contender.environment for contender in question.contenders):
        try:
            pythons[environment] = python_of(environment)
        except (EnvironmentFailed, OSError) as error:
            pythons.pop(environment, None)
            for contender in question.contenders:
                if contender.environment == environment:
                    problems[contender.name] = str(error)
    heard: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in question.contenders}
    for number in range(1, min(rounds, question.max_rounds) + 1):
        for contender in question.contenders:
            if contender.name in problems:
                continue
            print(f"{question.name}: round {number}, {contender.title}", file=sys.stderr, flush=True)
            try:
                heard[contender.name].append(_run(contender, pythons[contender.environment], seconds))
            except RuntimeError as error:
                problems[contender.name] = str(error)
                print(f"  failed: {error}", file=sys.stderr, flush=True)
    return {
        contender.name: _row(heard[contender.name], problems.get(contender.name)) for contender in question.contenders
    }


def _run(contender: Contender, python: Path, seconds: float) -> dict[str, Any]:
    scratch = CACHE / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("CLICKET_", "PYTHON"))},
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",  # these scripts, and the checkout under test
        "BENCH_SCRATCH": str(scratch),
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
    }
    # -P: without it, a peer's script named like its package would import itself.
    command = [str(python), "-P", "-m", contender.module]
    command += [contender.variant] if contender.variant else []
    command += ["--seconds", str(seconds)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=scratch, timeout=_MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"did not end within {_MAX_SECONDS:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines()
        raise RuntimeError(words[-1] if words else f"exit code {done.returncode}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _row(heard: list[dict[str, Any]], problem: str | None) -> Row:
    if not heard:
        return Row(problem=problem or "not run")
    series: dict[str, list[float]] = {}
    for answer in heard:
        for figure, value in answer["figures"].items():
            series.setdefault(figure, []).append(value)
    versions: Mapping[str, str] = heard[-1]["versions"]
    return Row(
        median={figure: statistics.median(values) for figure, values in series.items()},
        low={figure: min(values) for figure, values in series.items()},
        high={figure: max(values) for figure, values in series.items()},
        versions=versions,
        problem=problem,
    )
