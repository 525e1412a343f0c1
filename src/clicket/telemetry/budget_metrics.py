"""Budgets as metrics for Prometheus: of the whole store, except for the counter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from clicket.model.spend import BudgetStatus

__all__ = ["budget_metrics"]

_LABELS = ("budget", "scope", "period")
_MAX_SERIES = 500
"""Accounts that are shown: a budget of each thread may have very many."""
_GAUGES = (
    ("clicket_budget_limit", "The limit of a budget, with what people added.", "limit"),
    ("clicket_budget_spent", "What is spent of a budget.", "spent"),
    ("clicket_budget_reserved", "What is reserved of a budget for requests that are under way.", "reserved"),
    ("clicket_budget_left", "What is left of a budget.", "left"),
)


def budget_metrics(budgets: Sequence[BudgetStatus], reached: Mapping[str, int]) -> Iterator[Metric]:
    for name, text, field in _GAUGES:
        for unit, what in (("usd", "in US dollars"), ("tokens", "in tokens")):
            family = GaugeMetricFamily(f"{name}_{unit}", f"{text[:-1]}, {what}.", labels=_LABELS)
            for each in budgets[:_MAX_SERIES]:
                if getattr(each, f"limit_{unit}") is not None:
                    value = getattr(each, f"{field}_{unit}")
                    value += getattr(each, f"raised_{unit}") if field == "limit" else 0
                    family.add_metric((each.name, each.scope, each.period), value)
            yield family
    counter = CounterMetricFamily(
        "clicket_budget_reached", "How often a budget was reached, in this process.", labels=("budget",)
    )
    for title in dict.fromkeys([*(each.name for each in budgets), *reached]):
        counter.add_metric((title,), reached.get(title, 0))
    yield counter
