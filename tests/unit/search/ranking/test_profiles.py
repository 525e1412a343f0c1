"""The packed profile that an index stores must equal the profile of the text, so that old and new rows rank alike."""

from __future__ import annotations

from itertools import count

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clicket.model.document import Document
from clicket.model.text.terms import terms
from clicket.search.ranking.profiles import LEAD, DocumentProfile, pack_profile, profile_of, remember_packed
from clicket.search.text.names import own_names

TEXTS = st.text(max_size=300) | st.sampled_from(
    [
        "Ada Lovelace was born in London. She knew Charles Babbage Jr. and J. F. Herschel.",
        "松江美术学院创办于1923年，首任院长是韩仲明。",
        "half \ud800 a character",
        "",
    ]
)


DAMAGED = b"\xc1"
IDS = count()


def profile(title: str, text: str, packed: bytes) -> DocumentProfile:
    """The profile with these bytes stored for the text. Profiles are cached by id, so each has a new one."""
    document = Document(id=str(next(IDS)), title=title, text=text)
    remember_packed(document, packed)
    return profile_of(document)


def packed(title: str, text: str) -> bytes:
    return pack_profile(title, text, own_names(title, text[:LEAD]), terms(text))


@given(TEXTS, TEXTS)
def test_a_packed_profile_equals_the_profile_of_the_text(title: str, text: str) -> None:
    read = profile(title, text, DAMAGED)
    stored = profile(title, text, packed(title, text))
    assert (stored.flat, stored.mentions) == (read.flat, read.mentions)
    assert (stored.names, stored.unspaced) == (read.names, read.unspaced)
    assert (stored.full_names, stored.full_name_terms) == (read.full_names, read.full_name_terms)
    assert (stored.terms, stored.title_terms, stored.all_terms) == (read.terms, read.title_terms, read.all_terms)


def test_damaged_or_foreign_bytes_are_ignored() -> None:
    title, text = "Ada", "Ada Lovelace wrote a programme."
    read = profile(title, text, DAMAGED)
    for data in (b"\x91\x01", packed(title, text)[:-3]):
        assert profile(title, text, data).terms == read.terms == tuple(terms(text))


def test_a_profile_without_terms_of_names_is_read_as_one_with_them() -> None:
    """An index that was made before they were stored has none."""
    title, text = "Ada Lovelace", "Ada Lovelace wrote programmes."
    *before, names = msgspec.msgpack.decode(packed(title, text))
    assert names, "the last field has the terms of names"
    assert (
        profile(title, text, msgspec.msgpack.encode(before)).full_name_terms
        == profile(title, text, DAMAGED).full_name_terms
    )


def test_of_a_long_text_only_what_was_found_is_remembered() -> None:
    text = "x" * 9_000 + " Zanzibar is an island."
    document = Document(id="1", text=text, spans=((9_001, len(text)),))
    assert profile_of(document).text == "Zanzibar is an island."
    assert pack_profile("", text, (), []) == b""
