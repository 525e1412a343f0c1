"""Citations that do not match their document are removed, with the statements based on them."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import PATIENCE

from clicket.model.document import Citation, Document
from clicket.search.findings import Synthesis
from clicket.search.synthesis import check
from clicket.search.synthesis.citations import EXTRACTIVE, NOTHING_LEFT

TEXT = "Paris is the capital of France. Lyon is older than one thinks. 北京是首都。"
DOCUMENTS = {"a": Document(id="a", text=TEXT), "b": Document(id="b", text="Oslo is in Norway.")}
PARIS = DOCUMENTS["a"].cite(0, 31)
LYON = DOCUMENTS["a"].cite(32, 62)
OSLO = DOCUMENTS["b"].cite(0, 18)


def lie(**changes: Any) -> Citation:
    return msgspec.structs.replace(PARIS, **changes)


LIES = {
    "another text": lie(text="Paris is the capital of Norway."),
    "another hash": lie(sha256="0" * 64),
    "another document": lie(doc="b"),
    "no such document": lie(doc="z"),
    "moved": lie(start=1, end=32),
    "negative": lie(start=-72, end=-41),
    "backwards": lie(start=31, end=0),
    "beyond": lie(end=10**30),
    "empty": lie(start=3, end=3, text=""),
    "not a number": lie(start=float("nan")),
    "not whole": lie(start=0.0),
    "a truth value": lie(start=False),
    "text as numbers": lie(text=17),
    "document as list": lie(doc=["a"]),
    "nothing": lie(doc=None, start=None, end=None, text=None, sha256=None),
    "no citation": {"doc": "a", "start": 0, "end": 31},
}


@pytest.mark.parametrize("name", LIES)
def test_a_false_citation_is_removed_with_its_statement(name: str) -> None:
    given = Synthesis(answer="It is Paris [2]. It is Oslo [1].", citations=(OSLO, LIES[name]), by="model")  # type: ignore[arg-type]
    checked = check(given, DOCUMENTS)
    assert checked.citations == (OSLO,)
    assert checked.answer == "It is Oslo [1]."
    assert checked.unsupported == ("It is Paris.",)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Yes [1]. No [3].", "Yes [1]. No [2]."),
        ("Yes.[1] No. [3]", "Yes.[1] No. [2]"),
        ("Yes [1, 3].", "Yes [1][2]."),
        ("Yes [1-3].", "Yes [1][2]."),
        ("Yes [1][4].", "Yes [1][2]."),
        ("Yes [[1]](https://x.example/a_(b)).", "Yes [1]."),
        ("Yes [[[1]]] [0][99999999][" + "9" * 6_000 + "].", "Yes [1]."),
        ("Yes 【1】。No【3】。", "Yes [1]。No[2]。"),
        ("Yes [1]. And so.", "Yes [1]. And so (not supported by a source)."),
        ("- Yes [1].\n- So it is", "- Yes [1].\n- So it is (not supported by a source)"),
        ("# Answer\n\nIn short:\nYes [1].", "# Answer\n\nIn short:\nYes [1]."),
        ("No [2].", NOTHING_LEFT),
        ("", ""),
    ],
)
def test_marks_are_renumbered_and_statements_without_marks_are_labelled(answer: str, expected: str) -> None:
    given = Synthesis(answer=answer, citations=(PARIS, LIES["moved"], LYON, LYON), by="model")
    checked = check(given, DOCUMENTS)
    assert checked.answer == expected
    assert checked.citations == (PARIS, LYON)


def test_sentences_about_the_search_need_no_citation() -> None:
    given = Synthesis(answer="A: Paris [1]\n\nNothing was found for “x”.", citations=(PARIS,), by=EXTRACTIVE)
    assert check(given, DOCUMENTS) == given


def test_citations_without_end_and_an_answer_without_end_are_bounded() -> None:
    given = Synthesis(answer="[1] " * 1_000_000, citations=(lie(doc="z"),) * 1_000_000, by="model")
    began = time.process_time()
    checked = check(given, DOCUMENTS)
    assert time.process_time() - began < PATIENCE
    assert checked.citations == ()
    assert len(checked.answer) < 200_000


_CITATIONS = st.builds(
    Citation,
    doc=st.sampled_from(["a", "b", "z"]),
    start=st.integers(-5, 80) | st.just(float("nan")),
    end=st.integers(-5, 80) | st.integers(),
    text=st.sampled_from(["", "Paris", TEXT, "Oslo is in Norway."]),
    sha256=st.sampled_from(["", PARIS.sha256, OSLO.sha256]),
)


@given(
    answer=st.text(alphabet="[]()1234,- .\nab。【】#*:!", max_size=200),
    citations=st.lists(_CITATIONS | st.sampled_from([PARIS, LYON, OSLO]), max_size=5),
)
def test_only_valid_citations_are_left_and_checking_again_changes_nothing(
    answer: str, citations: list[Citation]
) -> None:
    checked = check(Synthesis(answer=answer, citations=tuple(citations), by="model"), DOCUMENTS)
    assert all(one.holds(DOCUMENTS[one.doc]) for one in checked.citations)
    assert check(checked, DOCUMENTS) == checked
