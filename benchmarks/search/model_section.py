"""Sections of SEARCH.md that other commands than `make bench-search` make, which keeps them as they are; and the one about answers that a
model writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import table
from benchmarks.search.documents import SETS
from benchmarks.search.figures import interval, mean, percentile

__all__ = ["PAGE", "kept_section", "placed", "section", "with_section", "write_section"]

PAGE = Path(__file__).resolve().parents[1] / "SEARCH.md"

_BEGIN, _END = "<!-- bench-answers -->", "<!-- end of bench-answers -->"
_SECTION = re.compile(f"{_BEGIN}.*?{_END}\n*", re.DOTALL)
_KEPT = re.compile(rf"(?:<!-- (fit|ablation|fit-ranking) -->.*?<!-- end of \1 -->\n*)*{_BEGIN}.*?{_END}", re.DOTALL)
"""With the sections that `fit`, `ablation` and `fit_ranking` made, which are before it."""
_INTRODUCTION = (
    "Made by `make bench-answers`. Questions about documentation that were held back, {known} with an answer and {unknown} without, asked "
    "without a model and with one that writes the answer (`brief=True`): {model}, threads: {threads}, {seconds:g} s for an answer. A "
    "sentence is *right* if it has two thirds of the terms that a known answer adds to the question, and all its numbers; the same rule is "
    "used for both. *Refused*: questions with an answer for which `result.answered` is false. *Recognised*: questions without an answer "
    "for which it is false. If the model did not write the answer, the first sentence of the one that took its place counts. In brackets "
    "the 95 % bootstrap interval."
)


def with_section(page: str, made: str) -> str:
    """The page with this section, in the place of the former one, or before the section about size."""
    if not made:
        return page
    if _SECTION.search(page):
        return _SECTION.sub(lambda _: f"{made}\n\n", page)
    at = page.find("\n## Size")
    return f"{page.rstrip()}\n\n{made}\n" if at < 0 else f"{page[: at + 1]}{made}\n\n{page[at + 1 :]}"


def placed(page: str, name: str, made: str) -> str:
    """The page with a section between comments of this name, in the place of the former one, or before that of `make bench-answers`."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    former = re.compile(f"{begin}.*?{end}", re.DOTALL)
    whole = f"{begin}\n\n{made}\n\n{end}"
    if former.search(page):
        return former.sub(lambda _: whole, page)
    at = page.find(_BEGIN)
    return f"{page.rstrip()}\n\n{whole}\n" if at < 0 else f"{page[:at]}{whole}\n\n{page[at:]}"


def write_section(name: str, made: str) -> None:
    """Put a section into SEARCH.md, between comments of this name."""
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), name, made), encoding="utf-8")


def kept_section(page: str) -> str:
    """The section as the page has it, with those of `fit`, `ablation` and `fit_ranking`; empty if it has none."""
    found = _KEPT.search(page)
    return found.group() if found else ""


def section(rows: Sequence[Mapping[str, Any]], where: Mapping[str, Any]) -> str:
    known = sum(bool(row["answers"]) for row in rows)
    introduction = _INTRODUCTION.format(**where, known=known, unknown=len(rows) - known)
    parts = [_BEGIN, "## Answers that a small model writes", introduction, _answers(rows), _cost(rows)]
    when = f"at commit {where['commit']}, {where['measured_at']}, load before {where['load']:.1f}"
    parts.append(
        f"`make bench-answers` {when}. Seconds are those of a machine with other work; CPU is that of the model's server."
    )
    parts.append(_END)
    return "\n\n".join(parts)


def _answers(rows: Sequence[Mapping[str, Any]]) -> str:
    body = []
    for name, title in SETS.items():
        of = [row for row in rows if row["set"] == name]
        if of:
            for at, what in enumerate(("the first sentence", "the first three", "all, at most eight")):
                body.append([f"{title}: {what}", *_shares(of, [row["plain"]["right"][at] for row in of], "plain")])
            body.append([f"{title}: the model's sentence", *_shares(of, [_right(row) for row in of], "model")])
    return table(["", "right", "wrong", "refused", "recognised"], body)


def _right(row: Mapping[str, Any]) -> bool:
    return bool(row["right"] if row["outcome"] == "written" else row["answered"] and row["plain"]["right"][0])


def _shares(of: Sequence[Mapping[str, Any]], right: Sequence[bool], which: str) -> list[str]:
    said = [bool(row["answered"] if which == "model" else row["plain"]["answered"]) for row in of]
    known = [bool(row["answers"]) for row in of]
    answerable = [(ok, given) for ok, given, has in zip(right, said, known, strict=True) if has]
    return [
        _share([ok for ok, _ in answerable]),
        _share([given and not ok for ok, given in answerable]),
        _share([not given for _, given in answerable]),
        _share([not given for given, has in zip(said, known, strict=True) if not has]),
    ]


def _share(found: Sequence[bool]) -> str:
    if not found:
        return "–"
    values = [float(one) for one in found]
    low, high = interval(values)
    return f"{100 * mean(values):.0f} % ({100 * low:.0f} – {100 * high:.0f}) of {len(found)}"


_OUTCOMES = {
    "written": "the model wrote the answer",
    "unsupported": "no sentence of its answer was supported: quoted sentences instead",
    "refused": "it found no answer in the passages",
    "late": "it did not answer in time: quoted sentences instead",
    "failed": "it failed: quoted sentences instead",
    "not asked": "it was not asked: the documents do not answer",
}


def _cost(rows: Sequence[Mapping[str, Any]]) -> str:
    asked = [row for row in rows if row["outcome"] != "not asked"]
    outcomes = [
        [text, f"{sum(row['outcome'] == name for row in rows)} of {len(rows)}"] for name, text in _OUTCOMES.items()
    ]
    new, written = (
        ([float(one) for one in column] for column in zip(*_new_tokens(asked), strict=True)) if asked else ([], [])
    )
    figures = [
        ["sentences of the model that were left out as unsupported", str(sum(len(row["unsupported"]) for row in rows))],
        ["seconds a question, mean / median / 95 %", _spread([row["seconds"] for row in asked])],
        ["CPU seconds of the server a question, mean / median / 95 %", _spread([row["cpu"] for row in asked])],
        ["seconds at most 30 / 60 / 81", _within([row["seconds"] for row in asked])],
        ["CPU seconds at most 30 / 60 / 81", _within([row["cpu"] for row in asked])],
        [
            "tokens a question: prompt read before / new / answer",
            f"{_read_before(asked):.0f} / {mean(new):.0f} / {mean(written):.0f}",
        ],
    ]
    return table(["the model", ""], [*outcomes, *figures])


def _new_tokens(asked: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Tokens of the prompt that the server had not read before, and of the answer. A late one has no counts."""
    return [(row["tokens"][0] - row["tokens"][1], row["tokens"][2]) for row in asked if row["tokens"][0]]


def _read_before(asked: Sequence[Mapping[str, Any]]) -> float:
    return mean([float(row["tokens"][1]) for row in asked if row["tokens"][0]])


def _within(values: Sequence[float]) -> str:
    """The last is nine tenths of the time that a search gives its answer if nothing else is set."""
    return " / ".join(f"{100 * mean([float(one <= most) for one in values]):.0f} %" for most in (30, 60, 81))


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.1f} / {percentile(values, 0.5):.1f} / {percentile(values, 0.95):.1f}" if values else "–"
