"""What an index keeps of a document must be what reading it gives: a search over old rows and new ones ranks alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clicket.model.document import Document
from clicket.search.ranking import pages
from clicket.search.ranking.pages import LEAD, packed, page_of, stored
from clicket.search.text.names import own_names
from clicket.search.text.terms import terms

TEXTS = st.text(max_size=300) | st.sampled_from(
    [
        "Ada Lovelace was born in London. She knew Charles Babbage Jr. and J. F. Herschel.",
        "松江美术学院创办于1923年，首任院长是韩仲明。",
        "half \ud800 a character",
        "",
    ]
)


def read_again(document: Document) -> pages.Page:
    pages._read.cache_clear()
    return page_of(document)


def kept(title: str, text: str) -> bytes:
    return packed(title, text, own_names(title, text[:LEAD]), terms(text))


@given(TEXTS, TEXTS)
def test_what_is_stored_is_what_reading_gives(title: str, text: str) -> None:
    document = Document(id="1", title=title, text=text)
    pages._stored.clear()
    read = read_again(document)
    stored(document, kept(title, text))
    page = read_again(document)
    assert (page.flat, page.words, page.mentioned) == (read.flat, read.words, read.mentioned)
    assert page.names == read.names
    assert page.called == read.called
    assert (page.terms, page.title_terms, page.known) == (read.terms, read.title_terms, read.known)


def test_damaged_or_foreign_bytes_are_read_again() -> None:
    document = Document(id="1", title="Ada", text="Ada Lovelace wrote a programme.")
    pages._stored.clear()
    read = read_again(document)
    for known in (b"\xc1", b"\x91\x01", kept("Ada", document.text)[:-3]):
        stored(document, known)
        assert read_again(document).terms == read.terms


def test_of_a_long_text_only_what_was_found_is_remembered() -> None:
    text = "x" * 9_000 + " Zanzibar is an island."
    document = Document(id="1", text=text, spans=((9_001, len(text)),))
    assert page_of(document).text == "Zanzibar is an island."
    assert packed("", text, (), []) == b""
