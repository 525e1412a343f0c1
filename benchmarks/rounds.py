"""Rounds are interleaved, A B C A B C …, each in a fresh process, so that changing load affects all contenders alike."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from benchmarks.environments import CACHE, ROOT, EnvironmentFailed, python_of
from benchmarks.question import Contender, Question, Row
from benchmarks.servers import ServerFailed, running

__all__ = ["measure"]

_MAX_SECONDS = 300.0


def measure(question: Question, *, rounds: int, seconds: float, quick: bool = False) -> dict[str, Row]:
    """Run every contender `rounds` times; a failed one is reported with its last output and not run again."""
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
                with running(contender.servers, _scratch()) as found:
                    told = {**found, "BENCH_QUICK": "1" if quick else ""}
                    heard[contender.name].append(_run(contender, pythons[contender.environment], seconds, told))
            except (RuntimeError, ServerFailed) as error:
                problems[contender.name] = str(error)
                print(f"  failed: {error}", file=sys.stderr, flush=True)
    return {
        contender.name: _row(heard[contender.name], problems.get(contender.name)) for contender in question.contenders
    }


def _scratch() -> Path:
    scratch = CACHE / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _run(contender: Contender, python: Path, seconds: float, told: Mapping[str, str]) -> dict[str, Any]:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("CLICKET_", "PYTHON"))},
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",  # these scripts, and the checkout under test
        "BENCH_SCRATCH": str(_scratch()),
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
        **told,
    }
    # -P: without it, a peer's script named like its package would import itself.
    command = [str(python), "-P", "-m", contender.module]
    command += [contender.variant] if contender.variant else []
    command += ["--seconds", str(seconds)]
    with TemporaryFile("w+", dir=_scratch()) as output, TemporaryFile("w+", dir=_scratch()) as words:
        process = subprocess.Popen(
            command, stdout=output, stderr=words, env=environment, cwd=_scratch(), start_new_session=True
        )
        try:
            process.wait(_MAX_SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"did not end within {_MAX_SECONDS:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):  # including the workers that it may have left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        lines, said = ([line for line in _text(file).splitlines() if line.strip()] for file in (output, words))
    if process.returncode or not lines:
        raise RuntimeError(said[-1] if said else f"exit code {process.returncode}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


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
        rounds=series,
        versions=versions,
        problem=problem,
    )
