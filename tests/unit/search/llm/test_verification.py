"""Every claim that is kept is based on verbatim text of the document that it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.model.document import Document
from clicket.search.llm.context_budget import PromptDocument
from clicket.search.llm.response_formats import CLAIMS, Claim, Quote
from clicket.search.llm.verification import verify_claims

TEXTS = st.lists(
    st.sampled_from(
        ["Byron died in 1824. ", "İstanbul ", "ﬁne", "李白在当涂去世。", "😀", "\ud800", "\u0301", "\x00", "…", "[1]", "“No”", "\n", "ß"]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(st.tuples(TEXTS, st.integers(-1, 4), TEXTS), max_size=5))
def test_every_citation_holds(texts: list[str], said: list[tuple[str, int, str]]) -> None:
    found = [
        PromptDocument(number=at, document=Document(id=f"d{at}", text=text), text=text)
        for at, text in enumerate(texts, 1)
    ]
    # Each document also has a true quote, so that some claims are kept.
    said = [*said, *((one.document.text, one.number, one.document.text) for one in found)]
    claims = CLAIMS.parse([{"statement": a, "quotes": [{"doc": number, "quote": b}]} for a, number, b in said]) or ()
    verified = verify_claims(claims, found, "Who died?")
    documents = {one.document.id: one.document for one in found}
    for statement, cited in verified.claims:
        statement.encode()
        assert cited
        assert all(one.holds(documents[one.doc]) for one in cited)
    for statement in verified.unsupported:
        statement.encode()


INSTITUTE = "The Marrow Institute is a school of engineering in the city of Ardley."
BACHELOR = "Ada Blum refused to sell her house in Ardley."


@pytest.mark.parametrize(
    ("text", "statement", "question", "holds"),
    [
        (INSTITUTE, "The Marrow Institute is in the city of Ardley.", "", True),
        (INSTITUTE, "The Marrow Institute is not in the city of Ardley.", "", False),
        (INSTITUTE, "The Marrow Institute isn\u2019t a school in Ardley.", "", False),
        (INSTITUTE, "The Marrow Institute is a school that never was in the city of Ardley.", "", False),
        (INSTITUTE, "The Marrow Institute is not only in the city of Ardley, it is a school.", "", True),
        (INSTITUTE, "The Marrow Institute is not in Ardley.", "Which institute is not in Ardley?", True),
        (BACHELOR, "Ada Blum did not sell her house in Ardley.", "", True),
        ("李白在当涂去世，葬于青山。", "李白不是在当涂去世。", "", False),
        ("李白没有在长安去世。", "李白没有在长安去世。", "", True),
    ],
)
def test_a_negation_needs_a_negation_in_the_source(text: str, statement: str, question: str, holds: bool) -> None:
    found = [PromptDocument(number=1, document=Document(id="d", title="", text=text), text=text)]
    claim = Claim(statement=statement, quotes=(Quote(doc="1", text=text),))
    assert bool(verify_claims([claim], found, question).claims) is holds


@pytest.mark.parametrize(
    ("statement", "holds"),
    [
        ("Marrow Institute: school, engineering, Ardley.", True),
        ("Marrow Institute trains midwives, nurses, dentists.", False),  # no stopword, and so no sign of a language
        ("Marrow Institute", True),
        ("Ardley hosts excellent museums", False),
        ("Das Marrow Institute ist eine Schule und liegt in Ardley.", True),  # other words: only names are compared
        ("L’Institut Marrow est une école à Ardley.", True),
        ("El Marrow Institute es una escuela en Ardley.", True),
        ("Marrow Institute находится в городе Ardley", True),
        ("Marrow Institute 是 Ardley 的一所工程学校，历史悠久。", True),
    ],
)
def test_a_statement_without_stopwords_is_compared_all_the_same(statement: str, holds: bool) -> None:
    found = [PromptDocument(number=1, document=Document(id="d", title="", text=INSTITUTE), text=INSTITUTE)]
    claim = Claim(statement=statement, quotes=(Quote(doc="1", text=INSTITUTE),))
    assert bool(verify_claims([claim], found, "").claims) is holds
