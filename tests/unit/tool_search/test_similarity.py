"""The meaning of texts as vectors: which texts are alike, and that a tool's place does not depend on what came and went."""

from __future__ import annotations

from math import floor, sqrt
from random import Random
from typing import Any, NamedTuple

import pytest

from clicket.text.terms import terms
from clicket.tool_search.index import ToolIndex
from clicket.tool_search.similarity import Similarities
from clicket.tool_search.word_vectors import DIMENSIONS, LENGTH, text_vector


class Made(NamedTuple):
    name: str
    description: str = ""
    input_schema: Any = None


def vector(text: str) -> tuple[int, ...]:
    found = text_vector((term, 1.0) for term in terms(text))
    assert found is not None
    return found


def unit(numbers: list[float]) -> tuple[int, ...]:
    """With the length of the vector of a text."""
    length = sqrt(sum(number * number for number in numbers))
    return tuple(floor(number * LENGTH / length + 0.5) for number in numbers)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("call off the dinner", "cancel a reservation", "restart a server"),
        ("is it going to be wet outside", "weather forecast", "invoice of a customer"),
        ("homework for biology", "assignments of a course", "orders of a shop"),
        ("medicine that the patient takes", "list prescriptions", "list branches"),
    ],
)
def test_a_text_is_closer_to_one_that_means_the_same(text: str, near: str, far: str) -> None:
    similarities = Similarities()
    similarities.put("1", vector(near))
    similarities.put("2", vector(far))
    found = similarities.to(vector(text))
    assert found["1"] > found["2"]


def test_a_text_of_unknown_words_has_no_vector() -> None:
    assert text_vector([("zzzzqqqq", 1.0)]) is None
    assert text_vector([("weather", 0.0)]) is None
    assert text_vector([]) is None


def test_the_vector_of_a_text_does_not_depend_on_the_order_of_its_words() -> None:
    assert vector("cancel the hotel booking") == vector("booking hotel the cancel")


def test_products_are_exact() -> None:
    random = Random(5)
    vectors = {number: unit([random.gauss(0, 1) for _ in range(DIMENSIONS)]) for number in range(40)}
    vectors[40], vectors[41] = unit([1.0] * DIMENSIONS), unit([-1.0] * DIMENSIONS)
    vectors[42] = (LENGTH, *[0] * (DIMENSIONS - 1))
    vectors[43], vectors[44] = (5,) * 92 + (0,) * (DIMENSIONS - 92), (-5,) * 92 + (0,) * (DIMENSIONS - 92)
    similarities = Similarities()
    for number, each in vectors.items():
        similarities.put(str(number), each)
    for asked in vectors.values():
        found = similarities.to(asked)
        for number, each in vectors.items():
            assert found[str(number)] == sum(a * b for a, b in zip(asked, each, strict=True)) / LENGTH**2


def test_a_tool_that_left_is_not_compared_and_its_slot_is_used_again() -> None:
    similarities = Similarities()
    assert similarities.to(vector("weather")) == {}
    similarities.put("1", vector("weather"))
    similarities.put("2", vector("invoice"))
    similarities.remove("1")
    similarities.remove("7")
    assert set(similarities.to(vector("weather"))) == {"2"}
    similarities.put("3", vector("forecast"))
    anew = Similarities()
    anew.put("2", vector("invoice"))
    anew.put("3", vector("forecast"))
    assert similarities.to(vector("weather")) == anew.to(vector("weather"))


def test_a_tool_is_found_that_shares_no_word_with_the_request() -> None:
    tools = [
        Made("get_docket", "Docket of a court case with its filings."),
        Made("list_branches", "Returns the branches of a repository."),
        Made("list_orders", "Returns the orders of a shop."),
    ]
    index = ToolIndex(tools)
    assert index.search("lawyer and judge in a trial") == ["get_docket"]
    assert index.search("lawyer and judge in a trial", among={"list_branches"}) == []
    index.remove("get_docket")
    assert index.search("lawyer and judge in a trial") == []
