"""Scanners of model answers."""

from __future__ import annotations

from tests.adversarial.scanner_kit import Case, each, repeated, variants

from clicket.model.chat import ChatReply, ChatRequest, ToolOffer, Usage
from clicket.model.text.json_in_text import json_in_text
from clicket.model.text.server_sent_events import EventParser, LineParser
from clicket.models.reply_builder import ToolUseBuilder, ignore_delta
from clicket.models.schema_tools import _read
from clicket.models.transcript import Names
from clicket.search.findings import Synthesis
from clicket.search.llm.lenient_json import values_in
from clicket.search.llm.numbers import numbers_in
from clicket.search.llm.parts import add_marks
from clicket.search.synthesis.citations import check as check_citations
from clicket.search.synthesis.citations import unmarked

__all__ = ["MODELS"]

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
    parser = LineParser()
    for part in parts:
        for _ in parser.feed(part):
            pass


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
    "model: JSON in a text": Case(
        each(json_in_text),
        variants(
            "[7",
            "[" * 7,
            '{"a":',
            "{ ",
            "[1]",
            "{}",
            "```",
            "```json\n[",
            '```\n["',
            "```a",
            "<think>",
            '"\\',
            after="!",
        ),
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
    "a line in small pieces": Case(_lines_of, lambda size: [b"x" * 20] * size, 5_000),
}
