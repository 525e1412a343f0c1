"""The limits of a turn, and which of a model's token counts are accepted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.agents.turn_limits import Limits, Spent, counted
from clicket.errors import UsageError
from clicket.model.chat import ToolUse, Usage

NUMBERS: st.SearchStrategy[Any] = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=2))


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_figures_are_counted_only_if_they_can_be(one: Any, two: Any, three: Any, four: Any, cost: Any) -> None:
    usage = counted(
        Usage(
            input_tokens=one,
            output_tokens=two,
            cached_tokens=three,
            cache_write_tokens=four,
            reasoning_tokens=four,
            cost=cost,
        )
    )
    for figure in (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ):
        assert type(figure) is int
        assert figure >= 0
    assert 0 <= usage.cost < float("inf")
    assert type(usage.cost) is float
    if type(one) is int and one >= 0:
        assert usage.input_tokens == one
    assert counted(usage) == usage


@pytest.mark.parametrize("wrong", [None, 7, "many", {"input_tokens": 1}])
def test_what_is_no_usage_is_none(wrong: Any) -> None:
    assert counted(wrong) == Usage()


def test_a_run_can_be_stepped_until_a_limit_is_reached() -> None:
    limits = Limits(max_steps=2, max_tokens=10, max_cost=1.0, max_seconds=5.0)
    spent = Spent()
    assert spent.over(limits) is None
    assert spent.seconds_left(5.0) == 5.0
    spent.steps, spent.usage, spent.seconds = 1, Usage(input_tokens=9, cost=0.99), 4.999
    assert spent.over(limits) is None
    spent.usage = Usage(input_tokens=4, output_tokens=6)
    assert spent.over(limits) == ("budget", "Terminated: Reached the budget of tokens (10 of 10)")
    spent.usage = Usage(cost=1.5)
    assert spent.over(limits) == ("budget", "Terminated: Reached the budget of cost (1.5 of 1)")
    spent.usage, spent.seconds = Usage(), 5.5
    assert spent.over(limits) == ("budget", "Terminated: Reached the budget of seconds (5.5 of 5)")
    assert spent.seconds_left(5.0) == 0.0
    spent.steps = 2
    assert spent.over(limits) == ("max_steps", "Terminated: Reached max steps (2)")


def test_tool_calls_alone_do_not_end_a_run_that_could_answer() -> None:
    spent = Spent()
    spent.steps, spent.calls = 1, 5
    assert spent.over(Limits(max_calls=5)) is None


def test_no_bound_is_none() -> None:
    spent = Spent()
    spent.steps, spent.calls, spent.seconds, spent.usage = 10**6, 10**6, 1e9, Usage(input_tokens=10**12, cost=1e12)
    limits = Limits(max_steps=10**7, max_calls=None)
    assert spent.over(limits) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_steps": -1}, {"max_steps": None}, {"max_steps": 1.0}, {"max_steps": True}, {"max_calls": -1},
        {"max_tokens": "10"}, {"max_repeats": 0}, {"max_cost": -0.1}, {"max_cost": float("nan")},
        {"max_seconds": float("inf")}, {"max_seconds": "1"}, {"max_cost": True},
    ],
)  # fmt: skip
def test_bounds_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Limits(**wrong)


def test_steps_that_are_being_taken_or_are_on_record_are_spent() -> None:
    spent, limits = Spent(), Limits(max_steps=3)
    spent.steps, spent.asking, spent.ahead = 1, 1, 0
    assert spent.over(limits) is None
    spent.ahead = 1
    assert spent.over(limits) == ("max_steps", "Terminated: Reached max steps (3)")
    spent.asking, spent.ahead = 2, 0
    assert spent.over(limits) is not None


def test_calls_and_equal_calls_are_counted_until_a_limit_forbids_one() -> None:
    spent, limits, repeats = Spent(), Limits(max_calls=4, max_repeats=2), Counter[tuple[str, bytes]]()
    equal = [
        ToolUse(id=str(n), name="add", arguments=text) for n, text in enumerate(('{"a": 1, "b": 2}', '{"b":2,"a":1}'))
    ]
    assert [spent.count_call(use, limits, repeats) for use in equal] == [None, None]
    for use in equal:
        forbidden = spent.count_call(use, limits, repeats)
        assert forbidden is not None
        assert forbidden[0] == "repeated"
    for arguments in ("not JSON", '{"a": 1}'):
        assert spent.count_call(ToolUse(id="x", name="add", arguments=arguments), limits, repeats) is None
    assert spent.calls == 4
    forbidden = spent.count_call(ToolUse(id="y", name="other", arguments=""), limits, repeats)
    assert forbidden is not None
    assert forbidden[0] == "budget"
