"""Prometheus' page, written by Prometheus' own client from what the store has added up: a restart loses no count.

    body, content_type = await scrape(runtime, accept=request.headers.get("accept", ""))

Tools' counters are of all processes over the store together, so one of them is enough to scrape; gauges are of this one.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from clicket.errors import UsageError
from clicket.journal import Observers
from clicket.kernel import State
from clicket.model.figures import BASE, PER_DOUBLING, Figure
from clicket.model.version import version
from clicket.ports import Clock
from clicket.telemetry.live import Active, Live, survey
from clicket.telemetry.persist_times import PersistTimes
from clicket.telemetry.report import named
from clicket.telemetry.turns import PREFIX, TurnCounts, Turns, is_turn, turn_metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["BOUNDS", "Scraped", "exposition", "scrape"]

_DOUBLINGS = 14
BOUNDS = tuple(BASE * 2**n for n in range(_DOUBLINGS))
"""0.01 s, doubled up to 81.92 s: the bounds that OpenTelemetry advises for tools, and exact sums of our own buckets."""
_ENDED = tuple(state.value for state in State if state.is_terminal)


class Scraped(Active, Protocol):
    @property
    def observers(self) -> Observers: ...
    @property
    def clock(self) -> Clock: ...


async def scrape(runtime: Scraped, accept: str = "") -> tuple[bytes, str]:
    """The page of an open runtime, and its content type. As one caller has it (`acting_for`): the figures of its calls alone."""
    caller = runtime.caller
    figures, live = await survey(runtime)
    turns = TurnCounts.over(runtime.observers).seen_by(caller)
    persisted = PersistTimes.over(runtime.observers, runtime.clock.now)
    mine = live if caller is None else None
    return exposition(figures, mine, store_up=live.store_up, accept=accept, turns=turns, persisted=persisted)


def exposition(
    figures: Iterable[Figure],
    live: Live | None = None,
    *,
    store_up: bool = True,
    accept: str = "",
    turns: dict[tuple[str, str], Turns] | None = None,
    persisted: PersistTimes | None = None,
) -> tuple[bytes, str]:
    """The page and its content type: Prometheus' text, or OpenMetrics where `Accept` asks for it.

    Counts are left out while the store is down: a zero would be taken for a restart of the count.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"metrics need the package {missing.name!r}, which is not installed. "
            "Install it with: pip install 'clicket[server]'."
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(figures), live, store_up if live is None else live.store_up, turns or {}, persisted))
    if live is not None:
        ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Page:
    """A collector, as Prometheus' client asks for one."""

    def __init__(
        self,
        figures: list[Figure],
        live: Live | None,
        store_up: bool,
        turns: dict[tuple[str, str], Turns],
        persisted: PersistTimes | None,
    ) -> None:
        self._persisted = persisted
        self._figures = figures
        self._live = live
        self._store_up = store_up
        self._turns = turns

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        if self._store_up:
            tools = [figure for figure in self._figures if not is_turn(figure)]
            yield from _tools(tools, self._live.tools if self._live is not None else ())
            taken = [figure for figure in self._figures if is_turn(figure)]
            yield from (_turn_seconds(taken),) if taken else ()
        agents = self._live.agents if self._live is not None else ()
        if agents or self._turns:
            yield from turn_metrics(self._turns, agents)
        yield _build(self._live)
        if self._live is not None or not self._store_up:
            yield _up(self._store_up)
        if self._live is not None:
            yield from _gauges(self._live)
            yield from _store(self._live)
            yield from (self._persisted.metric(),) if self._persisted is not None else ()


def _tools(figures: list[Figure], registered: Iterable[str]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    ended = CounterMetricFamily("clicket_tool_executions", "Ended calls.", labels=("tool", "state"))
    errors = CounterMetricFamily("clicket_tool_errors", "Calls by the error that ended them.", labels=("tool", "code"))
    raised = CounterMetricFamily(
        "clicket_tool_exceptions", "Exceptions of tools that ended a call, by their type.", labels=("tool", "type")
    )
    served = CounterMetricFamily("clicket_tool_cached", "Calls that were served from the cache.", labels=("tool",))
    took = HistogramMetricFamily(
        "clicket_tool_execution_seconds", "How long tools ran, retries and failures included.", labels=("tool",)
    )
    groups = named(figures)
    for tool in sorted({*groups, *registered}):
        counts, codes, types, cached = dict.fromkeys(_ENDED, 0), dict[str, int](), dict[str, int](), 0
        for figure in groups.get(tool, ()):
            counts[figure.outcome] += figure.count
            if figure.error:
                codes[figure.code] = codes.get(figure.code, 0) + figure.count
                if figure.error_type:
                    types[figure.error_type] = types.get(figure.error_type, 0) + figure.count
            elif figure.bucket is None:
                cached += figure.count
        for state, count in counts.items():
            ended.add_metric((tool, state), count)
        for code, count in sorted(codes.items()):
            errors.add_metric((tool, code), count)
        for type, count in sorted(types.items()):
            raised.add_metric((tool, type), count)
        served.add_metric((tool,), cached)
        timed = [figure for figure in groups.get(tool, ()) if figure.bucket is not None]
        took.add_metric((tool,), _buckets(timed), sum(figure.seconds for figure in timed))
    yield from (ended, errors, raised, served, took)


def _turn_seconds(figures: list[Figure]) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    took = HistogramMetricFamily("clicket_agent_turn_seconds", "How long agents' turns took.", labels=("agent",))
    for name, group in named(figures).items():
        timed = [figure for figure in group if figure.bucket is not None]
        took.add_metric((name.removeprefix(PREFIX),), _buckets(timed), sum(figure.seconds for figure in timed))
    return took


def _buckets(timed: list[Figure]) -> list[tuple[str, float]]:
    """How many calls took no longer than each bound."""
    buckets = [
        (repr(bound), sum(f.count for f in timed if f.bucket is not None and f.bucket <= n * PER_DOUBLING))
        for n, bound in enumerate(BOUNDS)
    ]
    return [*buckets, ("+Inf", sum(figure.count for figure in timed))]


def _build(live: Live | None) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    labels = {"version": version(), "python": platform.python_version()}
    if live is not None:
        labels |= {"store": live.store_kind, "durability": live.durability}
    info = GaugeMetricFamily("clicket_build_info", "What runs here; always 1.", labels=tuple(labels))
    info.add_metric(tuple(labels.values()), 1)
    return info


def _gauges(live: Live) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    active = GaugeMetricFamily("clicket_calls_active", "Calls in work in this process, by state.", labels=("state",))
    for state, count in live.active.items():
        active.add_metric((state,), count)
    yield active
    for name, text, value in (
        ("clicket_calls_waiting_for_approval", "Calls of this process that wait for a person.", live.waiting_for_approval),
        ("clicket_calls_unsaved", "Calls whose news could not be stored yet.", live.unsaved),
        ("clicket_queue_depth", "Calls that wait for a slot in this process.", live.queued),
        ("clicket_queue_limit", "Calls that may wait here.", live.max_queue),
        ("clicket_slots_used", "Slots of this process that are taken.", live.slots_used),
        ("clicket_slots_limit", "Slots of this process.", live.slots),
        ("clicket_bodies_abandoned", "Tools that would not stop and still hold a slot.", live.abandoned),
    ):  # fmt: skip
        yield GaugeMetricFamily(name, text, value=value)
    yield CounterMetricFamily(
        "clicket_listener_errors", "Listeners that failed on an event.", value=live.listener_errors
    )


def _up(store_up: bool) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily("clicket_store_up", "Did the store answer just now?", value=int(store_up))


def _store(live: Live) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    if live.store_latency is not None:
        yield GaugeMetricFamily(
            "clicket_store_latency_seconds", "How long the store took to answer just now.", value=live.store_latency
        )
    if live.cache is not None:
        yield CounterMetricFamily("clicket_cache_hits", "Calls that the cache served.", value=live.cache.hits)
        yield CounterMetricFamily(
            "clicket_cache_misses", "Calls that the cache could not serve.", value=live.cache.misses
        )
        yield CounterMetricFamily(
            "clicket_cache_evictions", "Results that were removed to make room.", value=live.cache.evictions
        )
        yield GaugeMetricFamily("clicket_cache_items", "Results in the cache.", value=live.cache.items)
        yield GaugeMetricFamily("clicket_cache_bytes", "Bytes of results in the cache.", value=live.cache.bytes)
