"""The page of metrics: Prometheus' parser reads our figures, and its linter reports no error."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse
from tests.kit.waiting import PATIENCE
from tests.unit.telemetry.test_report import failure, figure

from clicket.model.figures import Figure
from clicket.ports import CacheStats
from clicket.telemetry.process_stats import ProcessStats
from clicket.telemetry.prometheus import BOUNDS, exposition

LIVE = ProcessStats(
    tools=("t", "idle"), active={"running": 2, "pending": 1}, queued=1, max_queue=9, slots_used=2, slots=10,
    cache=CacheStats(items=1, bytes=10, hits=5, misses=2, evictions=1), store_latency=0.001, store_kind="sqlite", durability="process",
)  # fmt: skip
FIGURES = [
    figure(0.01, count=2), figure(0.0100001), figure(100.0), figure(None, count=4),
    failure(0.02), failure(None, code="invalid_input", count=3), failure(None, tool="", code="tool_not_found"),
    failure(1.0, outcome="timeout", code="timeout", caller="k"),
]  # fmt: skip


def samples(page: bytes, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in parse(page.decode())
        for sample in family.samples
        if sample.name == name
    }


def promtool(page: bytes) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done.stdout + done.stderr


def test_counts_are_the_figures() -> None:
    page, kind = exposition(FIGURES, LIVE)
    assert kind.startswith("text/plain; version=0.0.4")
    assert samples(page, "clicket_tool_executions_total") == {
        **{(state, tool): 0 for tool in ("(unknown)", "idle", "t") for state in ("completed", "failed", "timeout", "cancelled")},
        ("completed", "t"): 8, ("failed", "t"): 4, ("timeout", "t"): 1, ("failed", "(unknown)"): 1,
    }  # fmt: skip
    assert samples(page, "clicket_tool_errors_total") == {
        ("tool_error", "t"): 1, ("invalid_input", "t"): 3, ("timeout", "t"): 1, ("tool_not_found", "(unknown)"): 1,
    }  # fmt: skip
    assert samples(page, "clicket_tool_cached_total")[("t",)] == 4


def test_exceptions_are_counted_by_their_type_and_errors_by_their_code() -> None:
    figures = [failure(code="tool_error:ValueError"), failure(code="tool_error:KeyError"), failure(code="tool_error")]
    page, _ = exposition(figures)
    assert samples(page, "clicket_tool_errors_total") == {("tool_error", "t"): 3}
    assert samples(page, "clicket_tool_exceptions_total") == {("t", "ValueError"): 1, ("t", "KeyError"): 1}
    promtool(page)


def test_buckets_are_exact_at_their_bounds() -> None:
    page, _ = exposition(FIGURES, LIVE)
    of = {
        le: count for (le, tool), count in samples(page, "clicket_tool_execution_seconds_bucket").items() if tool == "t"
    }
    assert [float(le) for le in of] == [*BOUNDS, float("inf")]
    assert (of["0.01"], of["0.02"], of["0.64"], of["1.28"], of["81.92"], of["+Inf"]) == (2, 4, 4, 5, 5, 6)
    assert samples(page, "clicket_tool_execution_seconds_count")[("t",)] == 6
    assert samples(page, "clicket_tool_execution_seconds_sum")[("t",)] == pytest.approx(101.0500001)


@pytest.mark.parametrize("n", range(14))
def test_a_run_of_exactly_a_bound_is_within_it(n: int) -> None:
    """The bounds are powers of a root of two; a rounding error would put a call into the next bucket."""
    bound = BOUNDS[n]
    for took, within in ((bound, 1), (bound * 1.0001, 0), (bound * 0.9999, 1)):
        page, _ = exposition([figure(took)])
        assert samples(page, "clicket_tool_execution_seconds_bucket")[(repr(bound), "t")] == within


def test_the_moment_is_in_gauges() -> None:
    page, _ = exposition([], LIVE)
    assert samples(page, "clicket_calls_active") == {("running",): 2, ("pending",): 1}
    assert samples(page, "clicket_slots_used") == {(): 2}
    assert samples(page, "clicket_slots_limit") == {(): 10}
    assert samples(page, "clicket_queue_depth") == {(): 1}
    assert samples(page, "clicket_cache_hits_total") == {(): 5}
    assert samples(page, "clicket_store_up") == {(): 1}
    assert samples(page, "process_resident_memory_bytes")[()] > 1e6
    ((version, *_),) = [labels[::-1] for labels in samples(page, "clicket_build_info")]
    assert version


def test_one_callers_page_has_no_gauges() -> None:
    page, _ = exposition(FIGURES, None)
    names = {family.name for family in parse(page.decode())}
    assert names == {
        "clicket_tool_executions", "clicket_tool_errors", "clicket_tool_exceptions", "clicket_tool_cached",
        "clicket_tool_execution_seconds", "clicket_build_info",
    }  # fmt: skip


HOSTILE = 'a"b\\c\nd{e}=\u202e\N{SNOWMAN}'


@pytest.mark.parametrize("figures", [FIGURES, [], [figure(1.0, tool=HOSTILE), failure(tool=HOSTILE, code=HOSTILE)]])
@pytest.mark.parametrize("live", [LIVE, ProcessStats(store_up=False), None])
def test_prometheus_own_linter_has_nothing_to_say(figures: list[Figure], live: ProcessStats | None) -> None:
    page, _ = exposition(figures, live)
    promtool(page)


def test_names_of_tools_cannot_break_out_of_their_label() -> None:
    page, _ = exposition([figure(1.0, tool=HOSTILE)])
    assert samples(page, "clicket_tool_executions_total")[("completed", HOSTILE)] == 1


def test_openmetrics_when_requested() -> None:
    page, kind = exposition(FIGURES, LIVE, accept="application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    found = {family.name: family for family in parse_open(page.decode())}
    assert sum(sample.value for sample in found["clicket_tool_executions"].samples) == 14
