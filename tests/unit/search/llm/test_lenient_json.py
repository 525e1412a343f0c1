"""JSON as models write it, and the parsers of the three answers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import PATIENCE

from clicket.search.llm.lenient_json import values_in
from clicket.search.llm.response_formats import CLAIMS, JUDGEMENT, QUERIES, Claim, Judgement, Quote

PLAN = {"sub_queries": ["a", "b"]}


def first(text: str) -> Any:
    return next(iter(values_in(text)), "nothing")


@pytest.mark.parametrize(
    "text",
    [
        '{"sub_queries": ["a", "b"]}',
        '```json\n{"sub_queries": ["a", "b"]}\n```',
        'Sure!\n```\n{"sub_queries": ["a", "b"],}\n```\nAnything else?',
        'Here it is: {"sub_queries": ["a", "b"]}. Good luck!',
        "{'sub_queries': ['a', 'b']}",
        '{sub_queries: ["a" "b"]}',
        "{“sub_queries”: [“a”, “b”]}",
        '{"sub_queries": ["a", "b",],}',
        '{"sub_queries": ["a", "b"]',
        '{"sub_queries": ["a", "b"',
        '{"sub_queries": ["a", "b',
        '{"sub_queries": ["old"], "sub_queries": ["a", "b"]}',
        '// plan\n{"sub_queries": [ /* two */ "a", # first\n "b"]}',
        '<think>maybe {"sub_queries": ["no"]}?</think>{"sub_queries": ["a", "b"]}',
        '\ufeff{"sub_queries": ["a", "b"]}',
    ],
)
def test_the_value_is_found(text: str) -> None:
    assert first(text) == PLAN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"n": NaN, "i": -Infinity, "e": 1e999}', {"n": None, "i": None, "e": None}),
        ("{'n': NaN, 'i': -Infinity, 'e': 1e999, 'big': 1" + "0" * 400 + "}", {"n": None, "i": None, "e": None, "big": None}),
        ('{"quote": "it\\\'s \\u00fc \\ud83d\\ude00"}', {"quote": "it's ü 😀"}),
        ("{'quote': 'it's fine'}", {"quote": "it's fine"}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": tru', {"a": None}),
        ('{"a": {"b": [1, {"c": "d', {"a": {"b": [1, {"c": "d"}]}}),
        ("null", None),
        ("no brackets here", "nothing"),
        ("", "nothing"),
        ("[" * 100_000, "nothing"),
        ('{"a":' * 5_000, "nothing"),
    ],
)  # fmt: skip
def test_broken_json_is_repaired_or_ignored(text: str, value: Any) -> None:
    assert first(text) == value


def test_prose_with_brackets_does_not_hide_the_value() -> None:
    assert {"a": 1} in list(values_in('As [1] and {x} say, see [the list]: {"a": 1}'))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + "x" * 10_000_000,
        '{"a": [' + '"q", ' * 2_000_000,
        "[{" * 1_000_000,
        '[{"a": }, ' * 300_000,
        '{"a":"' + "\\" * 3_000_000,
        "['" + "a'b" * 1_000_000,
        "[/*" + "*" * 3_000_000,
        "```" * 1_000_000,
        "<think>" * 500_000,
    ],
    ids=["text", "list", "brackets", "junk", "escapes", "apostrophes", "comment", "fences", "thoughts"],
)
def test_a_huge_answer_is_read_soon(text: str) -> None:
    began = time.process_time()
    assert len(list(values_in(text))) <= 100
    assert time.process_time() - began < PATIENCE


@given(st.text(alphabet="{}[]\":,'\\ntu“”/*# x1-.`\ud800", max_size=60))
def test_reading_always_ends_in_plain_values(text: str) -> None:
    for value in values_in(text):
        assert value is None or isinstance(value, dict | list | str | int | float)
        for form in (QUERIES, JUDGEMENT, CLAIMS):
            form.parse(value)


@pytest.mark.parametrize(
    ("value", "queries"),
    [
        ({"sub_queries": ["a", " b\n c ", "", 3, None, "A"]}, ("a", "b c")),
        (["a", "b"], ("a", "b")),
        ({"sub_queries": ["q"] * 9 + list("uvwxyz")}, ("q", *"uvwxyz")),
        ({"sub_queries": []}, ()),
        ({"sub_queries": [1, 2]}, None),
        ({"sub_queries": "a"}, None),
        ({"other": 1}, None),
        (None, None),
        ("a", None),
    ],
)
def test_plans(value: Any, queries: Any) -> None:
    assert QUERIES.parse(value) == queries


@pytest.mark.parametrize(
    ("value", "judged"),
    [
        ({"completeness_score": 0.5, "unexplored_areas": ["x"]}, Judgement(score=0.5, areas=("x",))),
        ({"completeness_score": 0.25, "unexplored_areas": None}, Judgement(score=0.25)),
        ({"completeness_score": 1, "unexplored_areas": ["x\ny", 3, "X y"]}, Judgement(score=1.0, areas=("x y",))),
        ({"completeness_score": "80%"}, None),
        ({"completeness_score": 80}, None),
        ({"completeness_score": -0.1}, None),
        ({"completeness_score": True}, None),
        ({"completeness_score": None}, None),
        ({"completeness_score": 10**400}, None),
        ({"completeness_score": 0.5, "unexplored_areas": 3}, None),
        ([0.5], None),
    ],
)
def test_judgements(value: Any, judged: Any) -> None:
    assert JUDGEMENT.parse(value) == judged


def test_claims_in_other_shapes() -> None:
    wanted = (Claim(statement="S.", quotes=(Quote(doc="1", text="q"),)),)
    for value in (
        {"claims": [{"statement": "S.", "quotes": [{"doc": 1, "quote": "q"}]}]},
        [{"statement": "S.", "quotes": [{"doc": 1, "quote": "q"}]}],
        {"claims": [{"statement": "S.", "quotes": [{"doc": "1", "quote": "q"}, {"doc": 2}, 3]}, 3, None, {}]},
    ):
        assert CLAIMS.parse(value) == wanted, value
    assert CLAIMS.parse({"claims": []}) == ()
    for value in ({"claims": 3}, {"claims": ["text"]}, "text", None, {"answer": "only words"}):
        assert CLAIMS.parse(value) is None, value
