"""`rate=` of a tool, and its token bucket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket import tool
from clicket.errors import UsageError
from clicket.stores.bucket import take_tokens
from clicket.tools.rate import parse_rate


@pytest.mark.parametrize(
    ("text", "per_second", "burst"),
    [
        ("10/s", 10.0, 1),
        ("600/m", 10.0, 60),
        ("1/h", 1 / 3600, 1),
        (" 0.5 / s ", 0.5, 1),
        ("100/h burst 20", 100 / 3600, 20),
    ],
)
def test_a_rate_is_calls_in_a_time(text: str, per_second: float, burst: int) -> None:
    rate = parse_rate("tool 'x'", text)
    assert rate is not None
    assert (rate.per_second, rate.burst) == (pytest.approx(per_second), burst)


@pytest.mark.parametrize(
    "text", ["", "10", "10/d", "0/s", "-1/s", "ten/s", "1e9/s", "10/s burst 0", "10/s burst", 10, True, "1/s\n/s"]
)
def test_other_text_is_refused_where_the_tool_is_declared(text: Any) -> None:
    with pytest.raises(UsageError, match=r"limited.*rate must be"):

        @tool(rate=text)
        def limited() -> None: ...


@given(
    rate=st.floats(0.01, 1_000),
    burst=st.integers(1, 50),
    steps=st.lists(st.tuples(st.floats(0, 20), st.integers(0, 20)), max_size=60),
)
def test_in_no_time_are_more_tokens_granted_than_the_burst_and_what_came_since(
    rate: float, burst: int, steps: list[tuple[float, int]]
) -> None:
    now, full_at = 1_000.0, 0.0
    granted: list[tuple[float, int]] = []
    for pause, count in steps:
        now += pause
        grant, full_at = take_tokens(full_at, now, rate, burst, count)
        assert 0 <= grant.count <= count
        assert (grant.wait == 0) == (grant.left > 0)
        granted.append((now, grant.count))
    for first, (start, _) in enumerate(granted):
        total = 0
        for at, count in granted[first:]:
            total += count
            assert total <= burst + rate * (at - start) + 1e-3


@given(rate=st.floats(0.01, 1_000), burst=st.integers(1, 50))
def test_after_the_wait_that_was_said_there_is_a_token(rate: float, burst: int) -> None:
    grant, full_at = take_tokens(0.0, 1_000.0, rate, burst, burst)
    assert (grant.count, grant.left) == (burst, 0)
    later, _ = take_tokens(full_at, 1_000.0 + grant.wait + 1e-6, rate, burst, 1)
    assert later.count == 1


def test_a_bucket_from_before_the_clock_was_set_back_is_empty_and_not_in_debt() -> None:
    grant, full_at = take_tokens(9e9, 1_000.0, 10.0, 5, 1)
    assert (grant.count, grant.wait) == (0, pytest.approx(0.1))
    assert full_at == pytest.approx(1_000.5)
