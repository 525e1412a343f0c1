"""The JSON values of a model's text: what counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.model.text.json_in_text import MAX_TEXT, json_in_text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        (' \n"a" ', ["a"]),
        ("7", [7]),
        ("null", [None]),
        ('\ufeff{"a": 1}', [{"a": 1}]),
        ('{"a": "two\nlines"}', [{"a": "two\nlines"}]),
        ('<think>{"a": 2}?</think>{"a": 1}', [{"a": 1}]),
        ('```json\n{"a": 1}\n```', [{"a": 1}]),
        ('```JSON\r\n{"a": 1}```', [{"a": 1}]),
        ('```\n[1]\n``` and ```\n[2]\n```', [[1], [2]]),
        ('Sure: ```{"a": "```"}```.', [{"a": "```"}]),
        ('```json\n7\n```', [7]),
        ('{"a": 2}? No:\n```json\n{"a": 1}\n```', [{"a": 1}]),
        ('[2, 3 and 4] are\n```json\n{"a": 1}\n```', [{"a": 1}]),
        ('```python\nx = {"a": 2}\n```\nso {"a": 1}', [{"a": 1}]),
        ('It is {"a": 1}.', [{"a": 1}]),
        ('Of {a, b} it is {"a": {"b": 1}}, see [1].', [{"a": {"b": 1}}]),
        ('{"a": 1} {"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{"a": "```json\\n{}\\n```"}!', [{"a": "```json\n{}\n```"}]),
        ("The list:\n[1, 2]\nEnds.", [[1, 2]]),
        ("`[1, 2]`.", [[1, 2]]),
        ("Sources [1] and [2]", []),
        ("[see below] nothing", []),
        ("it is 7", []),
        ("", []),
    ],
)  # fmt: skip
def test_values(text: str, values: list[Any]) -> None:
    found = json_in_text(text)
    assert list(found.values) == values
    assert found.broken == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": [{"b": 1}, {"b"', "not valid JSON: "),
        ('Here: {"a": [1, 2], "b": tru}', "not valid JSON: "),
        ('{"a": "```json\n{}\n```', "not valid JSON: "),
        ('```json\n{"a": 1,}\n```', "not valid JSON: "),
        ('```json\n{"a": 1} {"a": 2}\n```', "not valid JSON: the code block has more text"),
        ('[{"a": 1}, {"a": 2', "not valid JSON: "),
        ('{"a": 1, "a": 1}', 'the key "a" appears more than once'),
        ('{"a": 1e999}', "the number 1e999 is out of range"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ("[" * 100_000, "it is nested too deeply"),
        ("{}" * 200, "it has more than 100 places"),
        (" " * (MAX_TEXT + 1), "it has 1,000,001 characters"),
    ],
)
def test_what_has_begun_and_cannot_be_read_has_no_values(text: str, reason: str) -> None:
    found = json_in_text(text)
    assert found.values == ()
    assert found.broken.startswith(reason)
