"""The main text of HTML pages: what is kept, what is left out, and the time for hostile pages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import PATIENCE

from clicket.model.text.charset import decode
from clicket.search.extract import html
from clicket.search.extract.html import extract_html, plain_text

ARTICLE = """<!doctype html><html><head><title>Ada Lovelace - Encyclopedia</title><meta charset="utf-8">
<style>p { color: red }</style><script>if (a < b) document.write("<p>not this</p>");</script></head>
<body class="has-sidebar"><a href="#x">Skip</a><header><a href="/">Encyclopedia</a></header>
<nav><ul><li><a href="/a">Home</a><li><a href="/b">News</a></ul></nav>
<div class="cookie-banner">We use cookies &amp; more</div>
<main><h1>Ada <em>Lovelace</em><a class="headerlink" href="#a">¶</a></h1>
<p>Augusta Ada King<sup class="reference">[1]</sup>, Countess of Lovelace (1815&ndash;1852) was an English mathematician,
known for her work on Charles&nbsp;Babbage's <a href="/e">Analytical Engine</a>.<br>Born in London.</p>
<h2>Family<span class="mw-editsection">[<span>edit</span>]</span></h2>
<table><tr><th>Born<td>10 December<br>1815<tr><th>Spouse<td>William King</table>
<ul><li><p>Byron</p><li>Ralph</ul><pre>a  b
  c</pre><!-- <p>not this either</p> --><div hidden>nor this</div><p style="color:red">Last.</p>
<aside>Read more</aside></main><footer>&copy; nobody</footer></body></html>"""


def test_the_main_text_stays_and_the_rest_goes() -> None:
    read = extract_html(ARTICLE.encode())
    assert read.title == "Ada Lovelace"
    assert read.text == (
        "Ada Lovelace\n\n"
        "Augusta Ada King, Countess of Lovelace (1815–1852) was an English mathematician, "
        "known for her work on Charles Babbage's Analytical Engine.\nBorn in London.\n\n"
        "Family\n\nBorn | 10 December 1815\nSpouse | William King\n\nByron\nRalph\n\na  b\n  c\n\nLast."
    )
    assert [(one.text, one.level) for one in read.headings] == [("Ada Lovelace", 1), ("Family", 2)]
    assert all(read.text[one.start :].startswith(one.text) for one in read.headings)
    assert not read.truncated


def test_pages_without_marks_lose_their_menus_by_what_they_are() -> None:
    links = "".join(f'<li><a href="/{n}">Section number {n}</a></li>' for n in range(30))
    body = "<p>" + "A sentence of the article that goes on for a while. " * 8 + "</p>"
    read = extract_html(
        f"<title>T</title><div><ul>{links}</ul></div><div class=text>{body}</div><div id=site-footer>Imprint</div>"
    )
    assert read.text.startswith("A sentence")
    assert "Section" not in read.text
    assert "Imprint" not in read.text


def test_a_page_of_links_or_of_nothing_but_menus_is_still_a_page() -> None:
    assert extract_html("<nav><a href=/>Only this</a></nav>").text == "Only this"
    assert extract_html("<ul><li><a>One</a><li><a>Two</a></ul>").text == "One\nTwo"
    assert extract_html("just text & more").text == "just text & more"
    assert extract_html(b"").text == ""


def test_a_piece_of_markup_is_a_line() -> None:
    assert plain_text("It&#x27;s <strong>marked</strong>\n &amp; cut<script>x</script>") == "It's marked & cut"
    assert plain_text("1 < 2 and 3 > 2") == "1 < 2 and 3 > 2"


@pytest.mark.parametrize(
    "hostile",
    [
        "<div>" * 100_000,
        "<div class='a b'>" * 30_000 + "x" + "</div>" * 30_000,
        "<div>" * 30_000 + "</section>" * 60_000,
        "<" * 300_000,
        "&" * 1_000_000,
        "&#" + "9" * 1_000_000,
        "&#9999999999;&#x" + "f" * 999_999 + ";" + "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 20_000,
        '<a b="' * 300_000,
        "<a b='" + '<a b="' * 300_000,
        "<!--" * 500_000,
        "<script>" * 250_000,
        "<script></scrip" * 250_000,
        "<div " + "a=b " * 500_000 + ">",
        "<a " + "= " * 1_000_000,
        "<p>x" * 50_000,
        "<td>x" * 50_000,
        "<span class=reference>" * 50_000,
        "<svg><title>" * 100_000,
        " " * 2_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_markup_costs_no_more_than_its_length(hostile: str) -> None:
    start = time.process_time()
    extract_html(hostile)
    assert (
        time.process_time() - start < PATIENCE
    )  # each takes less than a second; quadratic time would take many minutes


def test_no_more_is_read_than_people_would(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extract_html(b"word " * 20_000_000).truncated  # 100 MB
    monkeypatch.setattr(html, "MAX_TOKENS", 1000)
    read = extract_html("<p>word " * 1000)
    assert read.truncated
    assert read.text.count("word") == 500


@given(st.text(alphabet="<>/!-'\"= abdipvt&#;x\n", max_size=200))
def test_anything_can_be_read(text: str) -> None:
    read = extract_html(text)
    assert all(read.text[one.start : one.start + len(one.text)] == one.text for one in read.headings)


@given(st.binary(max_size=100), st.sampled_from(["utf-8", "gbk", "utf-16", "big5", "iso-2022-jp", "zip", "", None]))
def test_any_bytes_are_some_text(data: bytes, label: str | None) -> None:
    assert isinstance(decode(data, label), str)


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        ("\ufeffé".encode(), "latin-1", "é"),
        ("é".encode("utf-16"), None, "é"),
        ("é".encode(), None, "é"),
        ("é".encode("latin-1"), None, "é"),
        ("\u201cé".encode("cp1252"), "ISO-8859-1", "\u201cé"),
        ("中文".encode("gb18030"), "GB2312", "中文"),
        ("中文".encode()[:-1], "utf-8", "中"),
    ],
)
def test_charsets(data: bytes, label: str | None, text: str) -> None:
    assert decode(data, label) == text


def test_a_term_of_a_definition_is_a_heading() -> None:
    read = extract_html("<h1>Calls</h1><dl><dt>run(x)</dt><dd><p>Runs x.</p></dd><dt>Alone</dt></dl><p>End.</p>")
    assert [(one.text, one.level) for one in read.headings] == [("Calls", 1), ("run(x)", 7)]
