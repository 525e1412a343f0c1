"""`python -m benchmarks.search.fit DATA [--page]`: fits the weights by which sentences are chosen and by which an answer is recognised.

Every set is left out once: the weights are fitted to the tuning questions of the others, and the figures of the set that was left out are
printed; `--page` puts them into SEARCH.md. Then weights are fitted to all sets; `--write` puts those of the decision, rounded, into the
table of the package, `--write-sentences` the others, too. They are fitted from zero: the weights that the package has now are only used to
compare, and as the unit (that of `own`).

The documentation is that of `benchmarks.search.documents`; its held-back halves are measured and never fitted to.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import commit, table
from benchmarks.search.answers import Asked, about_documentation, mixed
from benchmarks.search.data import DataMissing, load
from benchmarks.search.documents import SETS
from benchmarks.search.figures import has, mean
from benchmarks.search.model_section import write_section
from clicket.search import Findings, Index, Synthesis, deep_search
from clicket.search.planning.question_reading import read_question
from clicket.search.synthesis import answerability, sentence_selection
from clicket.search.synthesis.answerability import evidence
from clicket.search.synthesis.extractive import question_and_candidates
from clicket.search.synthesis.sentence_selection import Candidate, Question, select_sentences
from clicket.search.synthesis.source_documents import SourceDocument
from clicket.search.text.names import is_cjk

DOCUMENTS = Path(__file__).resolve().parent.parent.parent / ".cache" / "bench" / "search" / "documents"
_EXTRA = "extra"
"""The row of questions about other documents, which are added to the few unanswerable ones of the documentation to fit the decision."""
_FOREIGN = 40
_SENTENCES = 8
Weights = Sequence[float]


@dataclass(frozen=True)
class Case:
    """A question after its search: the statements that may answer it, and which of them do."""

    asked: Asked
    text: str
    question: Question
    documents: list[SourceDocument]
    candidates: list[Candidate]
    right: dict[tuple[int, int, int], bool]
    """By document and place in its text, see `_place`."""

    @property
    def is_answerable(self) -> bool:
        return bool(self.asked.answers) or not self.asked.judged

    @property
    def is_held_back(self) -> bool:
        return self.asked.row.endswith("held-back")

    def chosen(self, weights: Weights) -> tuple[list[bool], list[float] | None]:
        """Is each chosen sentence right, and the evidence that there is an answer; None if nothing was found."""
        for one in self.candidates:
            one.score = round(sum(map(mul, weights, one.features)), 6)
        best = select_sentences(self.question, self.candidates, _SENTENCES)
        found = (
            evidence(self.text, self.question, best, self.candidates, self.documents)
            if best and self.question.numbered
            else None
        )
        return [self.right[_place(one)] for one in best], found


def _place(one: Candidate) -> tuple[int, int, int]:
    return one.document.rank, one.sentence.start, one.sentence.end


class Recorder:
    """A synthesizer that keeps the findings."""

    findings = Findings(question="")

    async def synthesize(self, findings: Findings) -> Synthesis:
        self.findings = findings
        return Synthesis(answer="")


def collect(index: Index, questions: Iterable[Asked]) -> list[Case]:
    cases, recorder = [], Recorder()
    for one in questions:
        asyncio.run(deep_search(read_question(one.question, index).text, engine=index, synthesizer=recorder))
        question, documents, candidates = question_and_candidates(recorder.findings, index)
        right = {_place(each): any(has([each.sentence.text], answer) for answer in one.answers) for each in candidates}
        cases.append(Case(one, recorder.findings.question, question, documents, candidates, right))
    return cases


def collect_all(data: str, limit: int | None, place: Path) -> dict[str, list[Case]]:
    sets = load(data, limit=limit)
    by_name = {one.name: one for one in sets}
    cases: dict[str, list[Case]] = {}
    for one in sets:
        with Index.open(place / f"{one.name}.db") as index:
            index.add(one.passages)
            cases[one.name] = collect(index, mixed(one, by_name))
        print(f"{one.name}: {len(cases[one.name])} questions", file=sys.stderr)
    foreign = [Asked(each.text, (), _EXTRA) for one in sets for each in one.questions]
    foreign = random.Random(5).sample(foreign, min(_FOREIGN, len(foreign)))
    for name in SETS if DOCUMENTS.is_dir() else ():
        others = [each for other in SETS if other != name for each in about_documentation(other)]
        tuning = [Asked(each.question, (), _EXTRA) for each in others if each.answers and each.row.endswith("tuning")]
        with Index.open(place / f"{name}.db") as index:
            index.add_folder(DOCUMENTS / name)
            cases[name] = collect(index, [*about_documentation(name)[:limit], *tuning[:limit], *foreign])
        print(f"{name}: {len(cases[name])} questions", file=sys.stderr)
    return cases


def descend(gradient: Any, size: int, *, steps: int, rate: float) -> Any:
    """Adam from zero, so that a fit is the same every time."""
    weights, first, second = np.zeros(size), np.zeros(size), np.zeros(size)
    for step in range(1, steps + 1):
        slope = gradient(weights)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - rate * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def fit_sentences(cases: Mapping[str, Sequence[Case]], *, penalty: float = 4e-4) -> Weights:
    """Weights by which right statements of a question score higher than the others, in the unit of the package's `own`. Every set counts
    the same, and so does every question of it."""
    rows, right, shares, sizes = [], [], [], []
    for of_set in cases.values():
        used = [one for one in of_set if not one.is_held_back and 0 < sum(one.right.values()) < len(one.right)]
        for one in used:
            scored = [each for each in one.candidates if each.features]
            rows += [each.features for each in scored]
            right += [one.right[_place(each)] for each in scored]
            shares += [1 / len(used) / len(cases)] * len(scored)
            sizes.append(len(scored))
    x, y, share, size = np.array(rows), np.array(right, dtype=float), np.array(shares), np.array(sizes)
    starts, of = np.cumsum(size) - size, np.repeat(np.arange(len(size)), size)

    def gradient(weights: Any) -> Any:
        z = x @ weights
        e = np.exp(z - np.maximum.reduceat(z, starts)[of])
        good = np.maximum(np.add.reduceat(e * y, starts), 1e-12)
        return x.T @ ((e / np.add.reduceat(e, starts)[of] - e * y / good[of]) * share) + penalty * weights

    weights = descend(gradient, x.shape[1], steps=400, rate=0.05)
    unit = sentence_selection.WEIGHTS[0][1]
    return [float(one) for one in unit * weights / max(weights[0], 0.1)]


def fit_decision(cases: Mapping[str, Sequence[Case]], sentences: Weights, refused: float) -> tuple[list[float], float]:
    """Weights of the evidence, and the value from which on a question counts as answered: on average over the sets, the share `refused`
    of the answerable questions is below it. Both kinds of question count the same. The unit is that of the package."""
    used: dict[str, list[tuple[bool, list[float]]]] = {}
    for name, of_set in cases.items():
        found = [(one.is_answerable, one.chosen(sentences)[1]) for one in of_set if not one.is_held_back]
        given = [(kind, each) for kind, each in found if each is not None]
        if 0 < sum(kind for kind, _ in given) < len(given):
            used[name] = given
    x = np.array([[*given, 1.0] for of_set in used.values() for _, given in of_set])
    y = np.array([kind for of_set in used.values() for kind, _ in of_set], dtype=float)
    counts = {name: (sum(kind for kind, _ in of_set), len(of_set)) for name, of_set in used.items()}
    share = np.array([
        0.5 / (counts[name][0] if kind else counts[name][1] - counts[name][0]) / len(used)
        for name, of_set in used.items()
        for kind, _ in of_set
    ])  # fmt: skip
    last = np.array([*[1.0] * (x.shape[1] - 1), 0.0])
    weights = descend(
        lambda now: x.T @ ((1 / (1 + np.exp(-x @ now)) - y) * share) + 1e-3 * now * last,
        x.shape[1],
        steps=1500,
        rate=0.1,
    )[:-1]
    weights *= answerability.WEIGHTS[0][1] / max(weights[0], 0.1)
    below = [
        np.quantile([np.dot(weights, given) for kind, given in of_set if kind], refused) for of_set in used.values()
    ]
    return [float(one) for one in weights], float(np.mean(below))


@dataclass
class Outcome:
    """For each question with known answers: are they in the first sentence, the first three, all? For each answerable one: was it refused?
    For each other one: was it recognised?"""

    hits: list[tuple[bool, bool, bool]] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)
    recognised: list[bool] = field(default_factory=list)

    def cells(self) -> list[str]:
        return [*(_percent([row[column] for row in self.hits]) for column in range(3)), *self.decided()]

    def decided(self) -> list[str]:
        return [f"{_percent(each)} of {len(each)}" for each in (self.refused, self.recognised)]


def _percent(found: Sequence[bool]) -> str:
    return f"{100 * mean([float(one) for one in found]):.1f}"


def outcome(cases: Sequence[Case], sentences: Weights, decision: Weights, least: float) -> Outcome:
    found = Outcome()
    for one in cases:
        right, given = one.chosen(sentences)
        bar = least - (1.0 if is_cjk(one.text) else 0.0)
        answered = given is not None and round(sum(map(mul, decision, given)) - bar, 6) >= 0
        (found.refused if one.is_answerable else found.recognised).append(not answered)
        if one.asked.answers:
            right = right if answered else []
            found.hits.append((any(right[:1]), any(right[:3]), any(right)))
    return found


def _parts(name: str, cases: Sequence[Case]) -> dict[str, list[Case]]:
    if name not in SETS:
        return {name: list(cases)}
    return {
        f"{name}, {half}": [one for one in cases if one.asked.row.endswith(half)] for half in ("tuning", "held-back")
    }


_HEADS = ["", "first sentence", "first three", "all, at most eight", "refused", "recognised"]


def left_out(cases: Mapping[str, Sequence[Case]], shares: Sequence[float]) -> str:
    """The figures of each set with weights that were fitted to the others, and with the package's sentence weights."""
    package = [weight for _, weight in sentence_selection.WEIGHTS]
    found: dict[str, dict[str, Outcome]] = {}
    for name in cases:
        others = {other: of_set for other, of_set in cases.items() if other != name}
        for kind, sentences in (("the decision alone", package), ("sentences and decision", fit_sentences(others))):
            for share in shares:
                decision, least = fit_decision(others, sentences, share)
                title = f"Fitted without the set: {kind}, refusing {100 * share:g} % of the others"
                for part, of_part in _parts(name, cases[name]).items():
                    found.setdefault(title, {})[part] = outcome(of_part, sentences, decision, least)
    decision = [weight for _, weight in answerability.WEIGHTS]
    found["The weights of the package, which have seen every set but the held-back halves"] = {
        part: outcome(of_part, package, decision, answerability.LEAST)
        for name, of_set in cases.items()
        for part, of_part in _parts(name, of_set).items()
    }
    return "\n\n".join(f"{title}:\n\n{_table(rows)}" for title, rows in found.items())


def _table(rows: Mapping[str, Outcome]) -> str:
    everything = Outcome(
        refused=[one for row in rows.values() for one in row.refused],
        recognised=[one for row in rows.values() for one in row.recognised],
    )
    shown = [[name, *row.cells()] for name, row in rows.items()]
    return table(_HEADS, [*shown, ["all sets together", "", "", "", *everything.decided()]])


def section(left: str, shares: Sequence[float]) -> str:
    """The section of SEARCH.md, without its markers."""
    command = f"python -m benchmarks.search.fit DATA --refused {' '.join(f'{share:g}' for share in shares)} --page"
    introduction = (
        f"`{command}` fits the weights by which sentences are chosen and the decision about an answer to the tuning questions of all "
        "sets but one, from zero, and measures that one; refusals count as not found. Where the decision alone is fitted, sentences are "
        "chosen with the weights of the package. Those were set by hand: weights that were learnt on encyclopaedia passages do not carry "
        "over to documentation."
    )
    made = f"At commit {commit()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    return f"### Each set left out once\n\n{introduction}\n\n{left}\n\n{made}"


def write(path: Path, weights: Mapping[str, float], least: float | None = None) -> None:
    """Replace the numbers in the table `WEIGHTS` of a module of the package, and `LEAST`."""
    text = path.read_text(encoding="utf-8")
    for name, weight in weights.items():
        text, count = re.subn(rf'(\("{name}",\s*)-?[\d.]+\)', lambda found, to=weight: f"{found[1]}{to:.1f})", text)
        if count != 1:
            raise SystemExit(f"{path.name} has {count} rows for {name}")
    if least is not None:
        text = re.sub(r"^LEAST = [\d.-]+", f"LEAST = {least:.1f}", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="the folder with the question sets")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set")
    parser.add_argument(
        "--refused", type=float, nargs="+", default=[0.03], help="shares of answerable questions to refuse (0.03)"
    )
    parser.add_argument(
        "--page", action="store_true", help="put the tables of the sets that were left out into SEARCH.md"
    )
    parser.add_argument("--write", action="store_true", help="write the weights of the decision into the package")
    parser.add_argument("--write-sentences", action="store_true", help="write the weights of sentences, too")
    options = parser.parse_args(words)
    if options.page and options.limit:
        parser.error("--page is for all questions: leave out --limit")
    try:
        with tempfile.TemporaryDirectory(prefix="fit-") as scratch:
            cases = collect_all(options.data, options.limit, Path(scratch))
    except DataMissing as missing:
        print(f"fit: {missing}", file=sys.stderr)
        return 2
    left = left_out(cases, options.refused)
    print(left)
    if options.page:
        write_section("fit", section(left, options.refused))
    names = [name for name, _ in sentence_selection.WEIGHTS]
    sentences = fit_sentences(cases)
    package = [weight for _, weight in sentence_selection.WEIGHTS]
    print("\nFitted to all sets, beside the package's:\n")
    shown = zip(names, sentences, package, strict=True)
    print(table(["sentences", "fitted", "package"], [[name, f"{one:.1f}", f"{own:.1f}"] for name, one, own in shown]))
    decision, least = fit_decision(cases, sentences if options.write_sentences else package, options.refused[0])
    decided = {name: one for (name, _), one in zip(answerability.WEIGHTS, decision, strict=True)}
    rows = [[name, f"{decided[name]:.1f}", f"{own:.1f}"] for name, own in answerability.WEIGHTS]
    print(table(["decision", "fitted", "package"], [*rows, ["least", f"{least:.1f}", f"{answerability.LEAST:.1f}"]]))
    if options.write_sentences:
        write(Path(sentence_selection.__file__), dict(zip(names, sentences, strict=True)))
    if options.write or options.write_sentences:
        write(Path(answerability.__file__), decided, least)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
