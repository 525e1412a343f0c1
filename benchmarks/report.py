"""RESULTS.md: every figure with its spread, the commit, the machine, the versions and the command that made it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.question import Answer, Column, Question, Row, Verdict

__all__ = ["answer_table", "commit", "machine", "missed", "page", "table", "verdict_table", "verdicts"]

_INTRODUCTION = (
    "Made by `make bench`; do not edit. Each contender has its own environment; rounds are interleaved, each in a fresh "
    "process; a cell is the median of the rounds with the lowest and the highest one in brackets. Seconds depend on the "
    "machine, so what is required is stated as ratios of figures from the same run: the median of the ratios of its rounds."
)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, its columns padded so that it reads well as plain text too."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def verdicts(questions: Iterable[Question], answers: Mapping[str, Answer]) -> list[Verdict]:
    return [
        required.judge(answers[question.name])
        for question in questions
        if question.name in answers
        for required in question.required
    ]


def verdict_table(found: Iterable[Verdict]) -> str:
    return table(("what", "required", "measured", "ok"), ((v.text, v.required, v.measured, v.ok) for v in found))


def missed(found: Iterable[Verdict]) -> str:
    """The missed requirements, as text."""
    lines = [
        f"- {v.text}: required {v.required}, measured {v.measured}.{f' {v.note}' if v.note else ''}"
        for v in found
        if v.ok in ("NO", "?")
    ]
    return "\n".join(lines) or "Nothing."


def answer_table(question: Question, answer: Answer) -> str:
    heads = ["", *(column.title for column in question.columns)]
    rows = []
    for contender in question.contenders:
        row = answer.rows[contender.name]
        rows.append([contender.title, *(_cell(row, column) for column in question.columns)])
    text = table(heads, rows)
    failed = [f"Failed: {c.title}: {row.problem}" for c in question.contenders if (row := answer.rows[c.name]).problem]
    return "\n\n".join([text, *failed])


def _cell(row: Row, column: Column) -> str:
    if column.figure not in row.median:
        return "failed" if row.problem else "–"
    middle, low, high = (column.show(part[column.figure]) for part in (row.median, row.low, row.high))
    return middle if low == high else f"{middle} ({low} – {high})"


def _versions(answer: Answer) -> str:
    found: dict[str, str] = {}
    for row in answer.rows.values():
        found.update(row.versions)
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def _source(answer: Answer) -> str:
    where = f"`{answer.command}` at commit {answer.commit}, {answer.measured_at}"
    return f"{where}, {answer.rounds} rounds of {answer.seconds:g} s a figure, load before {answer.load:.1f}. {_versions(answer)}."


def page(questions: Iterable[Question], answers: Mapping[str, Answer], plot: str | None, former: str = "") -> str:
    """The whole page. Sections and verdicts that were not measured stay as they are on the `former` page."""
    questions = list(questions)
    old_sections, old_verdicts = _sections(former), _former_verdicts(former)
    found: list[Verdict] = []
    sections: list[str] = []
    for question in questions:
        if question.name in answers:
            answer = answers[question.name]
            found += verdicts([question], answers)
            table_text = answer_table(question, answer)
            sections += [f"## {question.title}", question.about, table_text, _source(answer)]
        elif question.title in old_sections:
            found += [old_verdicts[text] for each in question.required if (text := each.shown_text) in old_verdicts]
            sections += [f"## {question.title}", old_sections[question.title]]
    parts = [
        "# Results",
        _INTRODUCTION,
        f"Machine: {machine()}.",
        "## Required",
        verdict_table(found),
        "Not met:",
        missed(found),
    ]
    if plot:
        parts.append(f"![Overhead of one call]({plot})")
    parts += sections
    console = Path(__file__).with_name("CONSOLE.md")  # measured in a browser by benchmarks/console.py
    if console.exists():
        parts.append(console.read_text().strip().replace("# The console in figures", "## The console", 1))
    return "\n\n".join(parts) + "\n"


def _sections(former: str) -> dict[str, str]:
    """The body of each section of a page, by its title."""
    pieces = ("\n" + former).split("\n## ")[1:]
    return {title: body.strip() for title, _, body in (piece.partition("\n") for piece in pieces)}


def _former_verdicts(former: str) -> dict[str, Verdict]:
    rows = [
        line.strip("|").split("|") for line in _sections(former).get("Required", "").splitlines()[2:] if line[:1] == "|"
    ]
    found = [
        Verdict(**dict(zip(("text", "required", "measured", "ok"), map(str.strip, row), strict=True))) for row in rows
    ]
    return {verdict.text: verdict for verdict in found}


def commit() -> str:
    """The short commit, marked when the code under test differs from it."""
    name = _git("rev-parse", "--short", "HEAD") or "none"
    return f"{name} with local changes" if _git("status", "--porcelain", "--", "src") else name


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine() -> str:
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{_processor()}, {os.cpu_count()} cores, {_memory()}, {system}, Linux {platform.release()}"


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 1024 / 1024:.0f} GiB"
    return "memory unknown"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
