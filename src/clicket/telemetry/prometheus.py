"""The page of metrics for Prometheus, written by Prometheus' client from the sums in the store: a restart loses no count.

    body, content_type = await scrape(runtime, accept=request.headers.get("accept", ""))

Counters of tools are sums over all processes of the store, so it is enough to scrape one of them; so is the queue of calls that wait for
a worker. All other gauges are of one process.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Protocol

from clicket.engine.journal import Observers
from clicket.errors import ClicketError, UsageError
from clicket.kernel import State
from clicket.model.figures import BASE, PER_DOUBLING, Figure
from clicket.model.notice import NoticeFigures
from clicket.model.spend import BudgetStatus
from clicket.model.version import version
from clicket.telemetry.persist_times import BOUNDS as PERSIST_BOUNDS
from clicket.telemetry.persist_times import PersistTimes
from clicket.telemetry.process_stats import OpenRuntime, ProcessStats, collect
from clicket.telemetry.report import named
from clicket.telemetry.turns import PREFIX, TurnCounts, Turns, is_turn

try:
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric

    from clicket.telemetry.budget_metrics import budget_metrics
except ModuleNotFoundError as missing:
    raise UsageError(
        f"metrics need the package {missing.name!r}, which is not installed. Install it with: pip install 'clicket[server]'."
    ) from None

__all__ = ["BOUNDS", "Scraped", "exposition", "scrape"]

_DOUBLINGS = 14
BOUNDS = tuple(BASE * 2**n for n in range(_DOUBLINGS))
"""0.01 s, doubled up to 81.92 s: the bounds that OpenTelemetry advises for tools, and exact sums of our own buckets."""
_ENDED = tuple(state.value for state in State if state.is_terminal)


class BudgetSource(Protocol):
    """The budgets of a runtime."""

    @property
    def reached(self) -> Mapping[str, int]: ...
    async def budgets(self) -> list[BudgetStatus]: ...


class Scraped(OpenRuntime, Protocol):
    @property
    def observers(self) -> Observers: ...
    @property
    def spend(self) -> BudgetSource: ...


async def scrape(runtime: Scraped, accept: str = "") -> tuple[bytes, str]:
    """The page of an open runtime, and its content type. For one caller (`acting_for`): the figures of its calls alone."""
    caller = runtime.caller
    figures, stats = await collect(runtime)
    turns = TurnCounts.over(runtime.observers).seen_by(caller)
    persisted = PersistTimes.over(runtime.observers, runtime.clock.now)
    own = stats if caller is None else None
    budgets = await _budgets(runtime) if stats.store_up else None
    return exposition(
        figures, own, store_up=stats.store_up, accept=accept, turns=turns, persisted=persisted, budgets=budgets
    )


async def _budgets(runtime: Scraped) -> list[Metric] | None:
    """None: there are no budgets, or the store does not answer."""
    spend = runtime.spend
    try:
        found = await spend.budgets()
    except ClicketError:
        return None
    return list(budget_metrics(found, spend.reached if runtime.caller is None else {})) if found else None


def exposition(
    figures: Iterable[Figure],
    stats: ProcessStats | None = None,
    *,
    store_up: bool = True,
    accept: str = "",
    turns: dict[tuple[str, str], Turns] | None = None,
    persisted: PersistTimes | None = None,
    budgets: Iterable[Metric] | None = None,
) -> tuple[bytes, str]:
    """The page and its content type: Prometheus' text format, or OpenMetrics if `accept` prefers it.

    Counts are left out while the store is down: Prometheus would take a zero for a restart of the counter.
    """
    registry = CollectorRegistry(auto_describe=False)
    store_up = store_up if stats is None else stats.store_up
    metrics = [*_metrics(list(figures), stats, store_up, turns or {}, persisted), *(budgets or ())]
    registry.register(_Page(metrics))
    if stats is not None:
        ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Page:
    """A collector of Prometheus' client."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._metrics


def _metrics(
    figures: list[Figure],
    stats: ProcessStats | None,
    store_up: bool,
    turns: dict[tuple[str, str], Turns],
    persisted: PersistTimes | None,
) -> Iterator[Metric]:
    if store_up:
        yield from _tools(
            [figure for figure in figures if not is_turn(figure)], stats.tools if stats is not None else ()
        )
        of_turns = [figure for figure in figures if is_turn(figure)]
        yield from (_turn_seconds(of_turns),) if of_turns else ()
    agents = stats.agents if stats is not None else ()
    if agents or turns:
        yield from _turns(turns, agents)
    yield _build(stats)
    if stats is not None or not store_up:
        yield GaugeMetricFamily("clicket_store_up", "Did the store answer just now?", value=int(store_up))
    if stats is not None:
        yield from _gauges(stats)
        yield from _store(stats)
        yield from () if stats.backlog is None else _queue(stats.backlog)
        yield from () if stats.notices is None else _notices(stats.notices)
        yield from (_persist_seconds(persisted),) if persisted is not None else ()


def _tools(figures: list[Figure], registered: Iterable[str]) -> Iterator[Metric]:
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
        counts = dict.fromkeys(_ENDED, 0)
        codes = dict[str, int]()
        types = dict[str, int]()
        cached = 0
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
    took = HistogramMetricFamily("clicket_agent_turn_seconds", "How long agents' turns took.", labels=("agent",))
    for name, group in named(figures).items():
        timed = [figure for figure in group if figure.bucket is not None]
        took.add_metric((name.removeprefix(PREFIX),), _buckets(timed), sum(figure.seconds for figure in timed))
    return took


def _turns(counts: dict[tuple[str, str], Turns], agents: Iterable[str]) -> Iterator[Metric]:
    """`agents`: the agents of this process. Each is listed, also before its first turn."""
    turns = CounterMetricFamily(
        "clicket_agent_turns", "Turns that ended in this process, by what stopped them.", labels=("agent", "stopped")
    )
    steps = CounterMetricFamily("clicket_agent_steps", "Answers of the model in these turns.", labels=("agent",))
    calls = CounterMetricFamily("clicket_agent_tool_calls", "Tool calls of these turns.", labels=("agent",))
    tokens = CounterMetricFamily("clicket_agent_tokens", "Tokens of these turns.", labels=("agent", "direction"))
    cache = CounterMetricFamily(
        "clicket_agent_cache_tokens",
        "Input tokens of these turns that vendors read from their prompt caches, or wrote to them.",
        labels=("agent", "kind"),
    )
    cost = CounterMetricFamily(
        "clicket_agent_cost", "What these turns cost, in the currency of the models' prices.", labels=("agent",)
    )
    for agent in sorted({*agents, *(name for name, _ in counts)}):
        own = {stopped: sums for (name, stopped), sums in counts.items() if name == agent}
        for stopped, sums in sorted({"finished": Turns(), **own}.items()):
            turns.add_metric((agent, stopped), sums.turns)
        steps.add_metric((agent,), sum(sums.steps for sums in own.values()))
        calls.add_metric((agent,), sum(sums.calls for sums in own.values()))
        tokens.add_metric((agent, "input"), sum(sums.input_tokens for sums in own.values()))
        tokens.add_metric((agent, "output"), sum(sums.output_tokens for sums in own.values()))
        cache.add_metric((agent, "read"), sum(sums.cached_tokens for sums in own.values()))
        cache.add_metric((agent, "write"), sum(sums.cache_write_tokens for sums in own.values()))
        cost.add_metric((agent,), sum(sums.cost for sums in own.values()))
    yield from (turns, steps, calls, tokens, cache, cost)


def _buckets(timed: list[Figure]) -> list[tuple[str, float]]:
    """How many calls took no longer than each bound."""
    buckets = [
        (repr(bound), sum(f.count for f in timed if f.bucket is not None and f.bucket <= n * PER_DOUBLING))
        for n, bound in enumerate(BOUNDS)
    ]
    return [*buckets, ("+Inf", sum(figure.count for figure in timed))]


def _build(stats: ProcessStats | None) -> Metric:
    labels = {"version": version(), "python": platform.python_version()}
    if stats is not None:
        labels |= {"store": stats.store_kind, "durability": stats.durability}
    info = GaugeMetricFamily("clicket_build_info", "What runs here; always 1.", labels=tuple(labels))
    info.add_metric(tuple(labels.values()), 1)
    return info


def _gauges(stats: ProcessStats) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        "clicket_calls_active", "Calls of this process that have not ended, by state.", labels=("state",)
    )
    for state, count in stats.active.items():
        active.add_metric((state,), count)
    yield active
    for name, text, value in (
        ("clicket_calls_waiting_for_approval", "Calls of this process that wait for a person.", stats.waiting_for_approval),
        ("clicket_calls_unsaved", "Calls whose last events could not be stored yet.", stats.unsaved),
        ("clicket_queue_depth", "Calls that wait for a slot in this process.", stats.queued),
        ("clicket_queue_limit", "Calls that may wait here.", stats.max_queue),
        ("clicket_slots_used", "Slots of this process that are taken.", stats.slots_used),
        ("clicket_slots_limit", "Slots of this process.", stats.slots),
        ("clicket_bodies_abandoned", "Tools that would not stop and still hold a slot.", stats.abandoned),
    ):  # fmt: skip
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, total in (
        ("clicket_listener_errors", "Listeners that failed on an event.", stats.listener_errors),
        ("clicket_due_calls", "Calls with not_before that this process let run when they were due.", stats.due_released),
        ("clicket_due_calls_late_seconds", "By how much they were late, in all.", stats.due_late_seconds),
        ("clicket_schedule_firings", "Calls that this process made for schedules.", stats.schedule_firings),
        ("clicket_schedule_late_seconds", "By how much they were late, in all.", stats.schedule_late_seconds),
    ):  # fmt: skip
        yield CounterMetricFamily(name, text, value=total)


def _queue(backlog: dict[str, tuple[int, float]]) -> Iterator[Metric]:
    """Of the whole store, so the same in every process: for autoscalers of workers."""
    length = GaugeMetricFamily("clicket_queue_length", "Calls in the store that wait for a worker.", labels=("tool",))
    oldest = GaugeMetricFamily(
        "clicket_queue_oldest_seconds", "How long the oldest of them has waited.", labels=("tool",)
    )
    for tool, (count, seconds) in backlog.items():
        length.add_metric((tool,), count)
        oldest.add_metric((tool,), seconds)
    yield from (length, oldest)


def _notices(figures: NoticeFigures) -> Iterator[Metric]:
    """Pending ones of the whole store, the rest of this process."""
    ended = CounterMetricFamily("clicket_notices", "Notices to webhooks that ended in this process.", labels=("state",))
    ended.add_metric(("delivered",), figures.delivered)
    ended.add_metric(("failed",), figures.failed)
    yield ended
    yield GaugeMetricFamily("clicket_notices_pending", "Notices that are not delivered yet.", value=figures.pending)
    yield GaugeMetricFamily(
        "clicket_notices_oldest_seconds", "How long the oldest of them has waited.", value=figures.oldest_seconds
    )


def _persist_seconds(times: PersistTimes) -> Metric:
    family = HistogramMetricFamily(
        "clicket_persist_seconds", "From an outcome's event until the store had it, in this process.", labels=()
    )
    bounds = (*map(repr, PERSIST_BOUNDS), "+Inf")
    family.add_metric((), list(zip(bounds, accumulate(times.counts), strict=True)), times.seconds)
    return family


def _store(stats: ProcessStats) -> Iterator[Metric]:
    if stats.store_latency is not None:
        yield GaugeMetricFamily(
            "clicket_store_latency_seconds", "How long the store took to answer just now.", value=stats.store_latency
        )
    if stats.cache is not None:
        for family, name, text in (
            (CounterMetricFamily, "hits", "Calls that the cache served."),
            (CounterMetricFamily, "misses", "Calls that the cache could not serve."),
            (CounterMetricFamily, "evictions", "Results that were removed to make room."),
            (GaugeMetricFamily, "items", "Results in the cache."),
            (GaugeMetricFamily, "bytes", "Bytes of results in the cache."),
        ):
            yield family(f"clicket_cache_{name}", text, value=getattr(stats.cache, name))
