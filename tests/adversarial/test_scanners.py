"""Every parser and scanner of ours that reads what others write takes time that grows no faster than its input.

Each case is a function and an input of any size that would be hard for a careless one. The figures are printed:
`pytest -rP tests/adversarial`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
from tests.adversarial.inventory import MADE
from tests.adversarial.measuring import growth

from clicket.adapters.runtime_access import Offer, ToolCatalog
from clicket.agents.subagents import _ASKING
from clicket.cli.formatting import parse_duration, parse_size, shown_url
from clicket.client.connection import _lines
from clicket.errors import ClicketError, did_you_mean
from clicket.interpreter.export.page import _coloured
from clicket.interpreter.run.task_parser import MarkdownTooComplex, parse
from clicket.model.arguments import fingerprint, parse_arguments
from clicket.model.chat import ChatReply, ChatRequest, ToolOffer, Usage
from clicket.model.codec import canonical
from clicket.model.document import Document
from clicket.model.output import encode_output
from clicket.models.reply_builder import ToolUseBuilder, ignore_delta
from clicket.models.schema_tools import _read
from clicket.models.server_sent_events import EventParser
from clicket.models.transcript import Names
from clicket.pipeline.validate import _further
from clicket.search.extract.charset import declared_in
from clicket.search.extract.extracted_text import Unreadable
from clicket.search.extract.html import extract_html, plain_text
from clicket.search.extract.mail import extract_mail
from clicket.search.extract.plain_text import extract_text, markdown
from clicket.search.extract.tables import extract_table
from clicket.search.findings import Synthesis
from clicket.search.index.folder_walk import Patterns
from clicket.search.index.splitter import passages
from clicket.search.llm.lenient_json import values_in
from clicket.search.llm.numbers import numbers_in
from clicket.search.llm.parts import add_marks
from clicket.search.synthesis.citations import check as check_citations
from clicket.search.synthesis.citations import unmarked
from clicket.search.synthesis.quotes import find_span
from clicket.search.text.names import candidates, flattened, name_key, names, own_names
from clicket.search.text.sentences import sentences
from clicket.search.text.terms import terms
from clicket.server.host_check import is_loopback
from clicket.telemetry.tracing import within_trace
from clicket.tools import tool
from clicket.tools.check import compile_schema
from clicket.tools.depends import find_cycle
from clicket.tools.guard import numeric_host
from clicket.tools.model_arguments import tidy
from clicket.tools.openapi import read_operations
from clicket.tools.response import decode as decode_response
from clicket.tools.response import retry_after
from clicket.vault import Window, hide, hide_text, look, resembles
from clicket.vault.shapes import _MARKERS, open_from
from clicket.vault.values import Values
from clicket.web.result_parser import entries_of

_MAX = 64 * 1024 * 1024
_REFUSED = (ClicketError, MarkdownTooComplex, Unreadable)


class Case(NamedTuple):
    work: Callable[[Any], object]
    make: Callable[[int], Any]
    size: int = 4_000


def repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * (size // len(unit)) + after


def refusing(work: Callable[[Any], object]) -> Callable[[Any], object]:
    """What is refused is refused in time."""

    def run(given: Any) -> None:
        with contextlib.suppress(*_REFUSED):
            work(given)

    return run


def each(work: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(given: list[Any]) -> None:
        for one in given:
            with contextlib.suppress(*_REFUSED):
                work(one)

    return run


def variants(*units: str, after: str = "") -> Callable[[int], list[str]]:
    return lambda size: [unit * (size // len(unit)) + after for unit in units]


# Arguments and outputs.

_parse = refusing(lambda text: parse_arguments(text, max_size=_MAX))
_check = compile_schema({"type": "object", "properties": {"city": {"type": "string"}}}, "a tool")
_texts_only = compile_schema({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "a tool")
_maybe_texts = compile_schema(
    {"properties": {"a": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}}}, "a tool"
)


@tool
def greet(name: str) -> str:
    """Say hello."""
    return name


def _validated(arguments: dict[str, Any]) -> None:
    _further(greet, arguments, _check(arguments))


ARGUMENTS = {
    "arguments: a string without an end": Case(_parse, repeated('\\"', '{"a":"' + "[" * 101), 20_000),
    "arguments: quotes and colons without an end": Case(_parse, repeated('":\\', '{"a":1,"b":"'), 20_000),
    "arguments: arrays 99 deep": Case(
        _parse, lambda size: '{"a":[' + ",".join(["[" * 98 + "]" * 98] * (size // 200)) + "]}", 20_000
    ),
    "arguments: a mapping of arrays 99 deep": Case(
        _parse, lambda size: {"a": [json.loads("[" * 98 + "]" * 98)] * (size // 200)}, 20_000
    ),
    "arguments: the same key again and again": Case(
        _parse, lambda size: "{" + ",".join(['"a":[{"b":1,"b":2}]'] * (size // 20)) + "}", 20_000
    ),
    "arguments: bad values under a long key": Case(_parse, lambda size: {"k" * size: [float("nan")] * size}, 2_000),
    "arguments: unclosed brackets": Case(_parse, repeated("[{"), 20_000),
    "arguments: their fingerprint": Case(fingerprint, lambda size: {"a": [[float("nan")]] * size}, 2_000),
    "arguments: one spelling": Case(canonical, lambda size: {f"k{n}": [float(n)] for n in range(size)}, 2_000),
    "schema: unknown fields": Case(_validated, lambda size: {f"city{n}": n for n in range(size)}, 5_000),
    "schema: wrong items": Case(_texts_only, lambda size: {"a": [[]] * size}, 5_000),
    "schema: wrong items of an optional list": Case(_maybe_texts, lambda size: {"a": [1] * size}, 10_000),
    "schema: an unknown field with a long name": Case(_check, lambda size: {"city" * size: 1}, 5_000),
    "near misses": Case(
        lambda given: did_you_mean(*given), lambda size: ("x" * size, [f"x{n}" for n in range(size)]), 2_000
    ),
    "model's arguments": Case(lambda text: tidy(text, {"properties": {}}), repeated('{"a":'), 20_000),
    "output: nested objects": Case(
        refusing(encode_output), lambda size: {"a": [{1: {2: {3: [None] * 9}}}] * (size // 10)}, 5_000
    ),
    "depends_on: a long chain": Case(
        lambda edges: find_cycle("t0", lambda name: edges.get(name, ())),
        lambda size: {f"t{n}": [f"t{n + 1}"] for n in range(size)},
        5_000,
    ),
}

# Secrets.

_TOKENS = [f"sk-{number:020d}A" for number in range(40_000)]


def _pushed(pieces: list[str]) -> None:
    window = Window(look({"key": "secret value of some length"}, None, frozenset({"key"})))
    for piece in pieces:
        window.push(piece)
    window.flush()


SECRETS = {
    "secrets: many tokens": Case(
        refusing(lambda text: look({"a": text}, None)), lambda size: " ".join(_TOKENS[:size]), 1_000
    ),
    "secrets: many declared values": Case(
        refusing(lambda given: look(given, None, frozenset({"a"}))),
        lambda size: {"a": _TOKENS[:size], "b": [str(number) for number in range(size)]},
        1_000,
    ),
    "secrets: an output with many values": Case(
        lambda given: hide_text(*given),
        lambda size: ("v0" * size, look({"a": [f"v0{n:05d}" for n in range(size)]}, None, frozenset({"a"}))),
        1_000,
    ),
    "secrets: values with all lengths": Case(
        lambda given: hide_text(*given),
        lambda size: ("a" * size, look({"a": ["a" * n for n in range(size // 10)]}, None, frozenset({"a"}))),
        2_000,
    ),
    "secrets: a value that overlaps itself": Case(
        lambda text: hide_text(text * 2, look({"a": text}, None, frozenset({"a"}))), repeated("a"), 10_000
    ),
    "secrets: nearly the beginning of a value": Case(
        lambda text: hide_text(text + "c", look({"a": text + "b"}, None, frozenset({"a"}))), repeated("a"), 10_000
    ),
    "secrets: markers of every shape": Case(
        each(lambda text: (hide_text(text), open_from(text))), variants(*_MARKERS), 4_000
    ),
    "secrets: markers of every shape, broken": Case(
        each(lambda text: (hide_text(text), open_from(text, Values(("secret",))))),
        variants(*(f"{marker}a." for marker in _MARKERS), "Bearer  ", "://a:b", "eyJa.", after=" "),
    ),
    "secrets: keys that look like tokens": Case(hide, lambda size: dict.fromkeys(_TOKENS[:size], 1), 1_000),
    "secrets: text in pieces": Case(_pushed, lambda size: ["secret "] * size, 1_000),
    "secrets: masked arguments compared": Case(
        lambda text: resembles(text, "a" * len(text)), repeated("[secret]a"), 5_000
    ),
}

# What models answer.

_OFFER = ToolOffer(name="t", description="", input_schema={"type": "object"})
_ASKED = ChatRequest(messages=(), tools=(_OFFER,))


def _use(pieces: list[str]) -> None:
    use = ToolUseBuilder(Names(_ASKED), ignore_delta, 0, None)
    use.name("t")
    for piece in pieces:
        use.arguments(piece)
        use.is_whole()


def _events(parts: list[bytes]) -> None:
    parser = EventParser()
    for part in parts:
        for _ in parser.feed(part):
            pass


def _lines_of(parts: list[bytes]) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def read() -> int:
        return sum([len(line) async for line in _lines(pieces())])

    asyncio.run(read())


def _schema_answer(text: str) -> None:
    _read(_ASKED, ChatReply(text=text, usage=Usage()))


MODELS = {
    "model: values in an answer": Case(
        each(lambda text: list(values_in(text))),
        variants(
            *(
                "[7",
                "7",
                "[" * 7,
                '{"a":',
                "'a'b",
                "```",
                "/*",
                "//",
                "<think>",
                '"\\',
                "“",
                "{a:1,",
                "[1.",
                "[-",
                "1e",
            ),
            after="!",
        ),
        2_000,
    ),
    "model: a long number in an answer": Case(lambda text: list(values_in(text)), repeated("7", "[", "x"), 5_000),
    "model: a fenced answer": Case(each(_schema_answer), variants("```\n", "\n", "```json\n \n", " ", after="```")),
    "model: the end of a sentence": Case(lambda text: add_marks(text, "[1]"), repeated(".", "", "x"), 10_000),
    "model: marks in an answer": Case(
        each(unmarked), variants("[1]", "[1", "[[", "[1](", "【1，", "[1-", "1]]", after="]"), 4_000
    ),
    "model: marks in marks": Case(unmarked, lambda size: "[" * size + "1" + "]" * size, 2_000),
    "model: citations of an answer": Case(
        each(lambda text: check_citations(Synthesis(answer=text, citations=(), by="m"), {})),
        variants("a. [1] ", "[1] ", "a [1", "a.\n", "**a", "- ", "… ", "a, ", "#", after="."),
        2_000,
    ),
    "model: numbers of an answer": Case(
        each(numbers_in), variants("7", "7,", "7 777", "7.", "twenty ", "一", "7 -", "12月", "7-", "1,234,", after="x")
    ),
    "model: arguments in small pieces": Case(_use, lambda size: ['{"a":"}'] + ["}"] * size, 2_500),
    "model: events in small pieces": Case(_events, lambda size: [b"data: x", *[b"x"] * size, b"\n\n"], 10_000),
    "client: a line in small pieces": Case(_lines_of, lambda size: [b"x" * 20] * size, 5_000),
}

# Documents, pages, search results.

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
    "names: candidates": Case(each(candidates), variants(*_TEXT), 1_000),
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

# Addresses, headers, settings.


def _traced(text: str) -> None:
    with within_trace({"traceparent": text, "tracestate": text}):
        pass


def _named(text: str) -> str:
    offers = [tool(name=f"a.{number}")(lambda: "") for number in range(50)]
    return ToolCatalog([Offer(each, each.name.replace(".", "_")) for each in offers]).in_wire_names(text)


OTHERS = {
    "names of tools in a message": Case(_named, repeated("a.1b"), 2_000),
    "a response in a slow charset": Case(
        lambda body: decode_response("text/plain; charset=punycode", body), lambda size: b"a-" + b"b9" * size, 2_000
    ),
    "a response's content type": Case(
        lambda text: decode_response(f"text/plain; a={text}", b"x"), repeated('";'), 4_000
    ),
    "a response's JSON": Case(
        refusing(lambda body: decode_response("application/json", body)), lambda size: b'["\\ud800' * size, 2_000
    ),
    "Retry-After": Case(lambda text: retry_after(text, 0.0), repeated("Mon, 1 "), 4_000),
    "a host": Case(
        each(lambda text: (numeric_host(text), is_loopback(text))), variants("1.", "0x", "a.", "a-", "[", ":", "%")
    ),
    "a trace's headers": Case(_traced, repeated("00-"), 4_000),
    "a URL without its password": Case(
        each(shown_url), variants("a://:", "a://a:b@", "?password=", "&a", "://", after="@"), 4_000
    ),
    "durations and sizes": Case(
        each(lambda text: (parse_duration(text), parse_size(text))), variants("7", "7.", "7s", " "), 4_000
    ),
    "ids of calls": Case(each(lambda text: list(_ASKING.finditer(text))), variants("/a.1", "/a.1.1-1", ".1-1"), 4_000),
    "an OpenAPI document": Case(
        refusing(lambda document: read_operations(document, base_url="https://a.test")),
        lambda size: {
            "openapi": "3.1.0",
            "paths": {f"/p{n}": {"get": {"operationId": f"op{n}", "responses": {}}} for n in range(size)},
        },
        100,
    ),
}

CASES = ARGUMENTS | SECRETS | MODELS | DOCUMENTS | OTHERS


@pytest.mark.parametrize("name", CASES)
def test_a_scanner_is_linear(name: str) -> None:
    case = CASES[name]
    measured = growth(case.work, case.make, case.size)
    print(f"{name}: {measured}")
    assert measured.fits, f"{name}: {measured}"


def test_expressions_that_are_made_later_have_their_case() -> None:
    assert set(MADE.values()) <= set(CASES)
