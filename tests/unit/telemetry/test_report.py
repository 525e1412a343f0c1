"""Reports from figures: exact counts, None where there is no data, and quantiles that can be merged over processes."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.model.figures import Figure, bucket_of
from clicket.telemetry import UNKNOWN, anomalies_in, report_of


def figure(seconds: float | None = None, *, count: int = 1, **given: Any) -> Figure:
    """`count` calls that took the same."""
    took = seconds or 0.0
    known = {"caller": "", "tool": "t", "outcome": "completed", "error": "", **given}
    return Figure(
        bucket=None if seconds is None else bucket_of(seconds), count=count, seconds=took * count, least=took, most=took,
        **known,
    )  # fmt: skip


def failure(seconds: float | None = 0.1, *, code: str = "tool_error", count: int = 1, **given: Any) -> Figure:
    return figure(seconds, count=count, **{"outcome": "failed", "error": code, **given})


def test_nothing_is_a_report_too() -> None:
    report = report_of([])
    assert report.tools == {}
    assert report.totals.total == 0
    assert report.totals.success_rate is None
    assert report.totals.p99 is None


def test_calls_that_never_ran_have_no_run_time_and_no_infinities() -> None:
    report = report_of([failure(None, code="invalid_input", count=3)]).tools["t"]
    assert (report.total, report.failed, report.success_rate) == (3, 3, 0.0)
    assert (report.mean, report.min, report.max, report.p50, report.p95, report.p99) == (None,) * 6
    assert b"nan" not in msgspec.json.encode(report).lower()


def test_every_ending_is_counted_once_and_by_its_own_name() -> None:
    report = report_of(
        [
            figure(1.0, count=6),
            figure(None, count=2),  # from the cache
            failure(2.0, count=1),
            failure(None, code="outcome_unknown"),
            failure(3.0, outcome="timeout", code="timeout"),
            failure(None, outcome="timeout", code="timeout"),
            failure(0.5, outcome="cancelled", code="cancelled", count=2),
        ]
    ).tools["t"]
    assert (report.total, report.success, report.failed, report.timeout, report.cancelled) == (14, 8, 2, 2, 2)
    assert report.success_rate == 8 / 14
    assert report.cached == 2
    assert report.errors == {"cancelled": 2, "timeout": 2, "outcome_unknown": 1, "tool_error": 1}
    assert report.mean == pytest.approx((6 * 1.0 + 2.0 + 3.0 + 2 * 0.5) / 10)
    assert (report.min, report.max) == (0.5, 3.0)
    assert report.runs == 6 + 1 + 1 + 1


def test_unregistered_tools_are_one_line_and_callers_are_added_up() -> None:
    report = report_of(
        [failure(None, tool="", code="tool_not_found", count=9), figure(1.0, caller="a"), figure(3.0, caller="b")]
    )
    assert list(report.tools) == [UNKNOWN, "t"]
    assert report.tools[UNKNOWN].errors == {"tool_not_found": 9}
    assert report.tools["t"].mean == 2.0
    assert report.totals.total == 11


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=200), st.integers(1, 5))
def test_quantiles_are_within_their_bound_over_any_number_of_processes(times: list[float], processes: int) -> None:
    share = random.Random(0)
    parts = [[] for _ in range(processes)]  # type: list[list[Figure]]
    for took in times:
        share.choice(parts).append(figure(took, caller=str(share.randrange(processes))))
    report = report_of([each for part in parts for each in part]).tools["t"]
    ordered = sorted(times)
    for found, part in ((report.p50, 0.5), (report.p95, 0.95), (report.p99, 0.99)):
        place = part * (len(times) - 1)
        low, high = ordered[int(place)], ordered[min(int(place) + 1, len(times) - 1)]
        assert found is not None
        assert low * 0.978 <= found <= high * 1.022
    assert report.min == ordered[0]
    assert report.max == ordered[-1]


# Anomalies.


def kinds(*figures: Figure) -> list[tuple[str, str]]:
    return [(each.tool, each.kind) for each in anomalies_in(figures)]


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        ([figure(1.0, count=3), failure(1.0, count=2)], ["success_rate"]),
        ([figure(1.0, count=4), failure(1.0, count=1)], []),  # 80 % is not under 80 %
        ([failure(1.0, count=4)], []),  # four runs are too few
        ([figure(31.0, count=5)], ["mean"]),
        ([figure(30.0, count=5)], []),
        ([figure(31.0, count=4), figure(None, count=9)], []),  # cached calls have no run time
        ([failure(60.0, count=5, outcome="timeout", code="timeout")], ["success_rate", "mean"]),
        ([failure(None, count=5, code="outcome_unknown")], ["success_rate"]),
        ([figure(1.0, count=5), failure(40.0, outcome="cancelled", code="cancelled", count=50)], []),
        ([figure(1.0, count=5), failure(None, code="invalid_input", count=50)], []),
        ([figure(1.0, count=5), failure(None, code="permission_denied", count=50)], []),
        ([failure(None, code="timeout", outcome="timeout", count=50)], []),  # in the queue: the tool never ran
        ([failure(None, code="tool_not_found", tool="", count=50)], []),
        # The hub hides a tool after three failures in a row, and the report must still show it;
        ([failure(1.0, count=3), failure(None, code="tool_unavailable", count=2)], ["success_rate"]),
        # but a tool that was only ever called too early is not an anomaly,
        ([failure(None, code="tool_unavailable", count=50)], []),
        # nor one that works, and is called too early now and then.
        ([figure(1.0, count=9), failure(1.0, count=1), failure(None, code="tool_unavailable", count=50)], []),
    ],
)
def test_what_looks_ill(figures: list[Figure], found: list[str]) -> None:
    assert [kind for _, kind in kinds(*figures)] == found


def test_an_anomaly_says_what_and_how_much() -> None:
    (ill,) = anomalies_in([figure(1.0, count=1), failure(1.0, count=9), figure(1.0, tool="well", count=10)])
    assert (ill.tool, ill.kind, ill.value, ill.limit, ill.runs) == ("t", "success_rate", 0.1, 0.8, 10)
    assert "10%" in ill.message
    assert "clicket report --tool t`" in ill.message


def test_one_caller_of_a_tool_does_not_hide_anothers_failures() -> None:
    assert kinds(figure(1.0, count=3, caller="a"), failure(1.0, count=3, caller="b")) == [("t", "success_rate")]
