"""Reports, metrics, spans and logs for operators, made from the journal and from the sums that stores keep.

    report           Report and anomalies, from figures
    journal_figures  figures of a period, counted from the journal
    series           time series of calls, by the minute
    series_rows      figures of a short time as rows
    backlog          queues of a store, added up by tool
    prometheus       the page of metrics
    process_stats    stats of this process, for that page
    persist_times    how long outcomes took to become durable, for that page
    budget_metrics   budgets as metrics, for that page
    turns            counts of agents' turns
    tracing          turns OpenTelemetry on for a runtime; continues the trace of a request
    otel             spans of calls
    model_spans      spans of requests to models
    queue_gauges     calls that wait for a worker, as gauges of OpenTelemetry
    alerts           tools far from their usual, and budgets that are reached, as notices
    export           OpenTelemetry's providers and exporters
    logs             log records that name their call

Importing this package imports neither Prometheus' client nor OpenTelemetry.
"""

from __future__ import annotations

from clicket.telemetry.journal_figures import figures_in, from_journal
from clicket.telemetry.report import UNKNOWN, Anomaly, Report, ToolReport, anomalies_in, named, report_of
from clicket.telemetry.tracing import instrument, tracing_for, within_trace

__all__ = [
    "UNKNOWN",
    "Anomaly",
    "Report",
    "ToolReport",
    "anomalies_in",
    "figures_in",
    "from_journal",
    "instrument",
    "named",
    "report_of",
    "tracing_for",
    "within_trace",
]
