"""Scanners of documents, pages and search results."""

from __future__ import annotations

from tests.adversarial.scanner_kit import Case, each, refusing, repeated, variants

from clicket.interpreter.export.page import _coloured
from clicket.interpreter.run.task_parser import parse
from clicket.model.document import Document
from clicket.model.text.charset import declared_in
from clicket.model.text.terms import terms
from clicket.search.extract.html import extract_html, plain_text
from clicket.search.extract.mail import extract_mail
from clicket.search.extract.plain_text import extract_text, markdown
from clicket.search.extract.tables import extract_table
from clicket.search.index.folder_walk import Patterns
from clicket.search.index.splitter import passages
from clicket.search.synthesis.quotes import find_span
from clicket.search.text.names import flattened, name_key, names, own_names
from clicket.search.text.sentences import sentences
from clicket.search.web.result_parser import entries_of

__all__ = ["DOCUMENTS"]

_HTML = (
    *(
        "<",
        "<a",
        "<a ",
        "<a b=",
        '<a b="',
        "<a '",
        "</",
        "</a",
        "<!--",
        "<!",
        "&",
        "&#",
        "&#1",
        "&amp",
        "<p>",
        "<div>",
        "</div>",
    ),
    *(
        "<script>",
        "<title>",
        "<td>",
        "<li><p>",
        '<div class="nav">',
        "<br>",
        "<svg>",
        "a b ",
        "<a =",
        '"',
        "<h1>a</h1>",
        "<pre>\n",
    ),
)
_TEXT = (
    *(
        ". ",
        "a. ",
        "A.",
        "Mr. ",
        "\n",
        " \n",
        "a\n",
        "- ",
        "#",
        "# a\n",
        "===\n",
        "a\n===\n",
        "---\n",
        "```",
        "~~~\n",
        "\t",
        "(",
        "“a",
        "“A”",
    ),
    *(
        "A b ",
        "A ",
        "A-",
        "Aa of ",
        "1 ",
        "，",
        "。",
        "是",
        "中",
        "中A",
        "'s ",
        "``",
        "[1]",
        "a,b\n",
        '"a,',
        '"',
        ";",
        "title: ",
        "7",
        "é",
    ),
)
_DOCUMENT = Document(id="d", text="x " * 10)


def _quoted(text: str) -> None:
    find_span(Document(id="d", text=text), "a " * 50 + "b")


DOCUMENTS = {
    "HTML: scripts without an end": Case(
        each(extract_html), variants("<script>", "<script></", "<style></styl", "<title></title", "<textarea>")
    ),
    "HTML: pieces of tags": Case(each(extract_html), variants(*_HTML), 2_000),
    "HTML: pieces of tags, closed late": Case(each(extract_html), variants(*_HTML, after='">-->'), 2_000),
    "HTML: one line": Case(each(plain_text), variants(*_HTML), 2_000),
    "HTML: the charset": Case(declared_in, lambda size: b"<meta " * size, 2_000),
    "Markdown": Case(each(markdown), variants(*_TEXT), 2_000),
    "Markdown: front matter": Case(markdown, lambda size: f"---\ntitle:{chr(9) * size}{'x' * 301}\ty\n---\n", 2_000),
    "plain text": Case(each(lambda text: extract_text(text.encode())), variants(*_TEXT), 2_000),
    "tables": Case(each(lambda text: extract_table(text.encode())), variants(*_TEXT), 2_000),
    "mail": Case(
        each(lambda text: extract_mail(b"From: a\n" + text.encode())),
        variants("X: y\n", "Content-Type: a;\n b=", "\n--", "Subject: =?utf-8?q?", ";", "To: a\n "),
        2_000,
    ),
    "sentences": Case(each(sentences), variants(*_TEXT), 2_000),
    "passages": Case(each(passages), variants(*_TEXT[::3]), 8_000),
    "terms": Case(each(terms), variants(*_TEXT), 2_000),
    "names": Case(each(names), variants(*_TEXT, "“A” B "), 2_000),
    "names: keys": Case(
        each(lambda text: (name_key.__wrapped__(text), flattened(text))), variants(*_TEXT, after=")"), 2_000
    ),
    "names: of a document": Case(each(lambda text: own_names.__wrapped__(text, text)), variants(*_TEXT), 2_000),
    "a quote in a document": Case(each(_quoted), variants("a ", "a", " ", "b a ", "A\n"), 4_000),
    "a path for patterns": Case(  # a path has 4,096 bytes at most
        Patterns(["*.log", "build/", "docs/**/draft-*", "/a*b*c"], "exclude").match, repeated("a/b"), 1_000
    ),
    "search results as text": Case(
        each(entries_of),
        variants(
            "[a](http://a",
            "title: ",
            "- ",
            "* ",
            "1. a\n",
            "http://a\n",
            "url: http://a\n",
            "[",
            "> ",
            "no ",
            "**title",
        ),
        2_000,
    ),
    "a task of many fences": Case(refusing(parse), repeated("```\nx\n"), 4_000),
    "a task with indents": Case(
        each(parse), variants(" \n", "\t", " x\n", ">>> \n", "...", "```\n>>> ", "\r", "~~~{", "> "), 2_000
    ),
    "colours of code": Case(
        each(_coloured), variants("'", '"', '"""', "'''", "\\'", 'r"', "#", "1.", "def ", "b'''\\"), 2_000
    ),
}
