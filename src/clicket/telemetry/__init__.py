"""What operators see: reports and anomalies, Prometheus' page, OpenTelemetry's spans, structured logs.

Everything is read from the journal or from what stores add up beside it. Importing this package imports neither Prometheus'
client nor OpenTelemetry; whoever turns them on does.
"""

from __future__ import annotations

from clicket.telemetry.incoming import within_trace
from clicket.telemetry.install import instrument, tracing_for
from clicket.telemetry.rebuild import figures_in, from_journal
from clicket.telemetry.report import UNKNOWN, Anomaly, Report, ToolReport, anomalies_in, named, report_of

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
