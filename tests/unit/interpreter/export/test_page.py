"""Runs as a page: everything is shown, and everything that a program wrote is only text or picture."""

from __future__ import annotations

import base64
from html import escape, unescape
from html.parser import HTMLParser

import pytest
from tests.kit.examples import in_long_runs
from tests.unit.interpreter.export.runs import ATTACKS, ISOLATION, PNG, TABLE, everything, hostile

from clicket.interpreter.export.page import to_html
from clicket.interpreter.result import Block, Display, Result

OURS = {
    "html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "pre", "code", "b", "i", "img",
    "iframe", "footer", "ul", "li", "p", "a", "h1", "h2", "h3", "em", "strong", "blockquote", "ol", "hr", "br",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class Tags(HTMLParser):
    """The tags that a browser would read from the page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_everything_is_on_the_page() -> None:
    page = Tags(to_html(everything(), title="Cities & more"))
    for text in ("Cities & more", 'print("one")', "one\n", "careful", "ZeroDivisionError: division by zero", "out.csv"):
        assert text in page.text
    assert "select 1" in page.text
    assert "isolation full" in page.text
    assert [tag for tag, _ in page.tags].count("h1") == 1
    (frame,) = page.all("iframe")
    assert TABLE in (frame["srcdoc"] or "")
    (picture,) = page.all("img")
    assert (picture["src"] or "").startswith("data:image/svg+xml;base64,")


def test_the_page_allows_itself_nothing() -> None:
    policies = [
        attributes["content"]
        for attributes in Tags(to_html(everything())).all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    ]


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_stays_text(attack: str) -> None:
    html = to_html(hostile(attack), title=attack)
    html.encode()
    page = Tags(html)
    assert {tag for tag, _ in page.tags} <= OURS
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert not (attributes.get("href") or "").lower().startswith(("javascript", "data")), attributes
        assert tag == "img" or "src" not in attributes
    assert all((image["src"] or "").startswith("data:image/") for image in page.all("img"))
    for frame in page.all("iframe"):
        assert frame["sandbox"] == ""
        assert "Content-Security-Policy" in (frame["srcdoc"] or "")
    for wrong in ("\x00", "\x1b", "\u202e"):
        assert wrong not in html


def test_html_of_the_program_is_only_inside_the_frame() -> None:
    html = to_html(hostile(ATTACKS[1]))
    (frame,) = Tags(html).all("iframe")
    assert (frame["srcdoc"] or "").endswith(ATTACKS[1])
    assert ATTACKS[1] not in html
    assert escape(ATTACKS[1]) in html
    assert unescape(html).count("<script>") > 0


def test_drawings_are_pictures_and_pictures_that_are_none_are_not_shown() -> None:
    shown = (
        Display(mime="image/svg+xml", data="<svg onload='alert(1)'/>", group=1),
        Display(mime="image/png", data='"><scri>', group=2),
        Display(mime="image/png", data=PNG[:40] + "\n" + PNG[40:], group=3),
    )
    run = Result(
        status="ok", blocks=(Block(index=0, code="", status="ok"),), displays=shown, isolation=ISOLATION
    )  # fmt: skip
    page = Tags(to_html(run))
    first, second = page.all("img")
    assert base64.b64decode((first["src"] or "").partition(",")[2]) == b"<svg onload='alert(1)'/>"
    assert (second["src"] or "").endswith(PNG)
    assert "(image/png, 8 characters)" in page.text


def test_only_harmless_links_lead_out_and_pictures_from_elsewhere_are_not_fetched() -> None:
    page = Tags(to_html(hostile("plain")))
    links = {link["href"]: link["rel"] for link in page.all("a")}
    assert "https://good.test/" in links
    assert not [href for href in links if "javascript" in (href or "")]
    assert set(links.values()) == {"noopener noreferrer nofollow"}
    assert not [image for image in page.all("img") if "evil" in (image["src"] or "")]


@pytest.mark.parametrize("piece", ['"\\', '"""\\', "'''", "'", "#", "![](", "> ", "* ", "`", "[", "<a ", "_*", "<tr"])
def test_no_text_takes_long(piece: str) -> None:
    """An attacker's text must not be slow to render: slower than the test's timeout means a hang."""
    for length in (29_000, 99_000, in_long_runs(1_000_000, else_=200_000)):  # below and above each limit of the page
        text = piece * (length // len(piece))
        block = Block(index=0, code=text, lines=(1, 1), status="ok", stdout=text)
        shown = (Display(mime="text/html", data=text, group=1), Display(mime="text/markdown", data=text, group=2))
        to_html(Result(status="ok", task=text, blocks=(block,), displays=shown, isolation=ISOLATION))


def test_the_same_runs_give_the_same_page() -> None:
    assert to_html([everything(), everything()]) == to_html([everything(), everything()])
