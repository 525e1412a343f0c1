"""The built-in synthesizer: which sentences it selects, and how it cites them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.search.findings import Findings, QueryResult, Round
from clicket.search.synthesis import ExtractiveSynthesizer, check
from clicket.search.text.sentences import MAX_SENTENCE

FILM = Document(
    id="film",
    title="The Golden Calf",
    text="The Golden Calf is a 1930 film. It was directed by Millard Webb and released by Fox. It is lost.",
)
WEBB = Document(
    id="webb",
    title="Millard Webb",
    text="Millard Webb was an American director. He liked boats. In 1929 he married the actress Mary Eaton. He owned a dog.",
)
OTHER = Document(id="other", title="Calf", text="A calf is a young cow. Cows eat grass.")


def findings(question: str, *documents: Document, rounds: tuple[Round, ...] = ()) -> Findings:
    ranked = tuple((one.id, 1.0 - number / 10) for number, one in enumerate(documents))
    return Findings(question=question, documents={one.id: one for one in documents}, ranked=ranked, rounds=rounds)


def test_the_answer_is_sentences_of_the_documents_with_their_numbers() -> None:
    asked = findings("Who is the spouse of the director of The Golden Calf?", FILM, WEBB, OTHER)
    synthesis = ExtractiveSynthesizer(max_sentences=5).extract(asked)
    cited = [one.text for one in synthesis.citations]
    assert "In 1929 he married the actress Mary Eaton." in cited
    assert "It was directed by Millard Webb and released by Fox." in cited
    assert len(cited) == 5
    assert synthesis.answered
    assert "Millard Webb: " in synthesis.answer
    assert "In 1929 he married the actress Mary Eaton. [" in synthesis.answer
    assert check(synthesis, asked.documents) == synthesis


def test_fewer_sentences_if_one_covers_the_question() -> None:
    told = " ".join(f"Webb met a man in town {number}." for number in range(12))
    page = Document(id="page", title="Diary", text=f"{told} Millard Webb married the actress Mary Eaton in 1929.")
    wedding, in_lisbon, towns = (
        [one.text for one in ExtractiveSynthesizer().extract(findings(question, page, OTHER)).citations]
        for question in (
            "When was it that Millard Webb married Mary Eaton?",
            "When was it that Millard Webb married Mary Eaton in Lisbon?",
            "Which man met Webb in town?",
        )
    )
    assert wedding[0] == in_lisbon[0] == "Millard Webb married the actress Mary Eaton in 1929."
    assert len(wedding) == 3
    assert len(in_lisbon) == 8  # no sentence covers it
    assert len(towns) > 3  # several are as good


def test_a_chinese_question_is_answered_from_chinese_texts() -> None:
    film = Document(id="1", title="红高粱", text="《红高粱》是一部1987年的电影。导演是张艺谋。它很有名。")
    person = Document(id="2", title="张艺谋", text="张艺谋是中国导演。他出生于陕西西安。他喜欢摄影。")
    synthesis = ExtractiveSynthesizer(max_sentences=3).extract(findings("《红高粱》的导演出生在哪里？", film, person))
    cited = [one.text for one in synthesis.citations]
    assert "导演是张艺谋。" in cited
    assert "他出生于陕西西安。" in cited


def test_only_the_parts_that_were_found_are_read() -> None:
    text = "The tower is old. " * 1_000 + "The tower is in Pisa. " + "The tower is old. " * 1_000
    start = text.index("The tower is in Pisa.")
    long = Document(id="1", title="Tower", text=text, spans=((start, start + 22),))
    synthesis = ExtractiveSynthesizer().extract(findings("Where is the tower?", long))
    assert [one.text for one in synthesis.citations] == ["The tower is in Pisa."]


def test_of_a_long_text_the_best_parts_are_read_and_headings_are_no_answers() -> None:
    text = (
        "The tower is a tall one. " * 400
        + "\n\n# Where is the tower?\n\nThe tower is in Pisa.\n\n"
        + "The tower is red. " * 400
    )
    start = text.index("# Where")
    parts = ((start, start + 3_000), (0, 3_000), (3_000, 6_000))
    long = Document(id="1", title="Tower", text=text, spans=parts)
    cited = [one.text for one in ExtractiveSynthesizer().extract(findings("Where is the tower?", long)).citations]
    assert "The tower is in Pisa." in cited
    assert "Where is the tower?" not in cited


def test_the_sentence_that_leads_on_is_cited_and_the_title_is_not() -> None:
    light = "Tarn Light\n\nTarn Light was lit in 1874 at Tarn. It was designed by Ada Holt. The keepers of Tarn Light lived at Tarn. "
    light += " ".join(f"Keeper {number} painted a door." for number in range(12))
    tower = Document(id="1", title="Tarn Light", text=light)
    person = Document(
        id="2", title="Ada Holt", text="Ada Holt\n========\n\nAda Holt was an engineer. She was born in Quill."
    )
    asked = findings("Where was the designer of Tarn Light born?", tower, person)
    cited = [one.text for one in ExtractiveSynthesizer().extract(asked).citations]
    assert {"It was designed by Ada Holt.", "She was born in Quill."} <= set(cited)
    assert not {"Tarn Light", "Ada Holt"} & set(cited)


def test_the_answer_says_what_was_not_found() -> None:
    searched = Round(
        number=1,
        found=(
            QueryResult(query="Zorbland"),
            QueryResult(query="calf", error="timed out"),
            QueryResult(query="x", documents=("film",)),
        ),
    )
    answer = (
        ExtractiveSynthesizer()
        .extract(findings("Is Zorbland larger than The Golden Calf?", FILM, rounds=(searched,)))
        .answer
    )
    lines = [line for line in answer.split("\n") if "“" in line]
    assert [("Zorbland" in line, "calf" in line) for line in lines] == [(True, False), (True, False), (False, True)]
    assert "failed" in lines[-1]
    assert "“x”" not in answer
    assert "mentions “The Golden Calf”" not in answer
    empty = ExtractiveSynthesizer().extract(findings("Who?"))
    assert empty.citations == ()
    assert "Nothing was found" in empty.answer


def test_footnote_marks_of_a_document_are_not_ours() -> None:
    noted = Document(id="1", title="Tower [9]", text="The tower is in Pisa [7] and leans.[8] It is old.")
    asked = findings("Where is the tower?", noted)
    synthesis = ExtractiveSynthesizer().extract(asked)
    assert "[7]" in synthesis.citations[0].text
    assert all(mark not in synthesis.answer for mark in ("[7]", "[8]", "[9]"))
    assert check(synthesis, asked.documents) == synthesis


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        ExtractiveSynthesizer(max_sentences=0)


_TEXTS = st.text(alphabet=st.characters(), max_size=300) | st.text(
    alphabet="aB. \n[1]。王\ud83d\x00\u202e😀\"'", max_size=300
)


@given(
    question=_TEXTS,
    texts=st.lists(
        st.tuples(_TEXTS, _TEXTS, st.lists(st.tuples(st.integers(-9, 400), st.integers(-9, 400)), max_size=3)),
        max_size=5,
    ),
)
def test_every_citation_holds_whatever_the_texts_are(
    question: str, texts: list[tuple[str, str, list[tuple[int, int]]]]
) -> None:
    documents = [
        Document(id=str(number), title=title, text=text, spans=tuple(spans))
        for number, (title, text, spans) in enumerate(texts)
    ]
    asked = findings(question, *documents)
    synthesis = ExtractiveSynthesizer().extract(asked)
    assert len(synthesis.citations) <= 8
    for one in synthesis.citations:
        assert one.holds(asked.documents[one.doc])
        assert one.end - one.start <= MAX_SENTENCE
    assert check(synthesis, asked.documents).citations == synthesis.citations


def test_the_same_bytes_under_any_hash_seed() -> None:
    program = (
        "import msgspec, sys; sys.path.insert(0, sys.argv[1]); import test_extractive as t;"
        "from clicket.search.report import to_html;"
        "s = t.ExtractiveSynthesizer().extract(t.findings('Who married the director of The Golden Calf?', t.FILM, t.WEBB, t.OTHER));"
        "print(msgspec.json.encode(s).hex())"
    )
    here = os.path.dirname(__file__)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, here],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(outputs) == 1
