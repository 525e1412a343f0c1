"""`make bench-answers`: its judge, its section of the page, and answers that are judged again without a model."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.search.model_answers import outcome, says
from benchmarks.search.model_section import kept_section, section, with_section

from clicket.search import SearchResult

WHERE = {"commit": "abc", "measured_at": "today", "load": 0.5, "model": "M", "threads": 2, "seconds": 60.0}


def row(outcome: str = "written", **more: Any) -> dict[str, Any]:
    plain = {"answered": True, "first": "x", "right": [False, True, True]}
    own = {"set": "debian", "question": "q", "answers": ["a"], "answered": True, "right": True, "unsupported": []}
    return {**own, "outcome": outcome, "seconds": 20.0, "cpu": 10.0, "tokens": [500, 200, 20], "plain": plain, **more}


@pytest.mark.parametrize(
    ("sentence", "known", "right"),
    [
        ("Ian Murdock founded the project.", "created by Ian Murdock", True),
        ("Linux has seven runlevels.", "7 runlevels", True),
        ("Linux has 6 runlevels.", "7 runlevels", False),
        ("The project was founded.", "created by Ian Murdock", False),
        ("", "created by Ian Murdock", False),
    ],
)
def test_a_sentence_is_right_by_what_it_adds(sentence: str, known: str, right: bool) -> None:
    assert says(sentence, [known], "Who founded the project? How many runlevels has Linux?") is right


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        ("Synthesis: the model m did not answer within 5 s; the answer is made of sentences of the documents.", "late"),
        ("Synthesis: the model m found no answer in the sentences that come nearest.", "refused"),
        ("Synthesis: the model m gave no statement that a passage bears out; the answer is made of …", "unsupported"),
        ("Synthesis: the model m failed: x; the answer is made of sentences of the documents.", "failed"),
        ("", "written"),
    ],
)
def test_how_an_answer_came_about(note: str, kind: str) -> None:
    result = SearchResult(
        question="q",
        answer="a",
        citations=(),
        documents=(),
        rounds=(),
        stopped="complete",
        notes=(note,) if note else (),
    )
    assert outcome(result, asked=True) == kind


def test_the_section_counts_what_the_rows_say() -> None:
    rows = [
        row(),
        row("unsupported", right=True, unsupported=["no"]),  # the first quoted sentence counts instead, and it is wrong
        row("refused", answered=False, right=False),
        row("refused", answers=[], answered=False, right=False),
        row("not asked", answers=[], answered=False, tokens=[0, 0, 0], cpu=0.0, seconds=0.1),
    ]
    made = section(rows, WHERE)
    sentence = next(line for line in made.splitlines() if "the model's sentence" in line)
    assert [cell.split(" (")[0].strip() for cell in sentence.split("|")[2:6]] == ["33 %", "33 %", "33 %", "100 %"]
    assert "200 / 300 / 20" in made
    assert "| 1 of 5" in made


def test_the_section_replaces_itself_and_outlives_other_runs() -> None:
    made = section([row()], WHERE)
    page = "# Page\n\ntext\n\n## Size\n\nlarge\n"
    once = with_section(page, made)
    assert once.index("## Answers that a small model writes") < once.index("## Size")
    assert with_section(once, made) == once
    assert kept_section(once) == made
    assert with_section(page, kept_section(once)) == once
    assert with_section(page, kept_section(page)) == page
