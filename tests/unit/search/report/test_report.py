"""Reports: Markdown and HTML, links, escaping, excerpts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from clicket.model.document import Citation, Document
from clicket.search.findings import Analysis, QueryResult, Round, SearchResult
from clicket.search.report import to_html, to_markdown

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> [x](javascript:alert(1)) `\"'>&amp; | # *b* \x00\u202e\ud800"
)


def result(*, hostile: str = "", url: str = "https://x.example/p?a=1&b=2", text: str = "") -> SearchResult:
    first = Document(
        id=f"1{hostile}",
        title=f"Tower{hostile}",
        text=f"{hostile} The tower is in Pisa. It leans, badly. {text}",
        url=url,
        score=1,
    )
    second = Document(id="2", title="Pisa", text="Pisa is in Italy.", source=f"notes/pisa.md{hostile}", score=0.5)
    at = first.text.index("The tower")
    return SearchResult(
        question=f"Where is the tower?{hostile}",
        answer=f"Tower: The tower is in Pisa. [1] It leans. [2]\n\nPisa is in Italy.{hostile} [3]",
        citations=(first.cite(at, at + 21), first.cite(at + 13, at + 38), second.cite(0, 17)),
        documents=(first, second),
        rounds=(
            Round(
                number=1,
                found=(
                    QueryResult(query=f"tower{hostile}", documents=("1", "2")),
                    QueryResult(query="x", error=f"timed out{hostile}"),
                ),
                analysis=Analysis(
                    completeness_score=0.5, unexplored_areas=(f"Pisa{hostile}",), components={f"coverage{hostile}": 0.5}
                ),
            ),
        ),
        stopped="max_loop",
        notes=(f"A search failed.{hostile}",),
        unsupported=(f"It is tall.{hostile}",),
    )


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def seen(page: str) -> Seen:
    parser = Seen()
    parser.feed(page)
    return parser


def rendered(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_a_page_shows_question_answer_sources_rounds_and_documents() -> None:
    page = to_html(result())
    for words in (
        "Where is the tower?",
        "timed out",
        "Pisa is in Italy.",
        "notes/pisa.md",
        "0.50",
        "It is tall.",
        "all rounds",
    ):
        assert words in page
    assert "<mark>The tower is in Pisa.</mark> It leans, badly." in page
    assert "https://x.example/p?a=1&amp;b=2#:~:text=The%20tower%20is%20in%20Pisa." in page


@pytest.mark.parametrize("hostile", ["", HOSTILE])
def test_links_lead_to_anchors_or_to_the_web(hostile: str) -> None:
    for page in (to_html(result(hostile=hostile)), rendered(to_markdown(result(hostile=hostile)))):
        there = seen(page)
        assert len(there.ids) == len(set(there.ids))
        inner = [link[1:] for link in there.links if link.startswith("#")]
        assert set(inner) == {"cite-1", "cite-2", "cite-3"} <= set(there.ids)
        assert all(link.startswith(("#", "https://x.example/p?a=1")) for link in there.links)


def test_text_of_documents_and_models_is_escaped() -> None:
    for page in (to_html(result(hostile=HOSTILE)), rendered(to_markdown(result(hostile=HOSTILE)))):
        there = seen(page)
        assert not there.tags & {"script", "img", "iframe", "object", "form", "em"}
        assert not any(name.startswith("on") for name in there.attributes)
        assert not re.search("[\x00\u202e\ud800]", page)
        page.encode()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//x.example",
        "https://",
        "http://[x",
        "https://a b",
        "JaVaScRiPt:x",
    ],
)
def test_only_web_urls_become_links(url: str) -> None:
    for page in (to_html(result(url=url)), rendered(to_markdown(result(url=url)))):
        assert all(link.startswith("#") for link in seen(page).links)


def test_a_long_document_shows_only_what_is_around_the_citations() -> None:
    found = result(text="filler " * 1_000_000)
    for report in (to_html(found), to_markdown(found)):
        assert len(report) < 30_000
        assert "The tower is" in report


def test_a_citation_that_does_not_match_its_document_stands_alone() -> None:
    found = result()
    other = Citation(doc="1", start=0, end=5, sha256="0", text="Other")
    plain = SearchResult(
        question="q", answer="It [1].", citations=(other,), documents=found.documents, rounds=(), stopped="complete"
    )
    assert "<blockquote>\n<p><mark>Other</mark></p>\n</blockquote>" in to_html(plain)
