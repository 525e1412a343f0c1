"""Where bodies run: lanes, limits, retries, and the signs of life on the way."""

from __future__ import annotations

from clicket.execution.artifacts import GRANT, grant, granted, name_of, unknown
from clicket.execution.hold import Wait
from clicket.execution.limits import RUNTIME, Limiter
from clicket.execution.outcome import Stopped, state_of, stop_error
from clicket.execution.processes import ProcessPool
from clicket.execution.retry import backoff, describe, transient
from clicket.execution.runner import STOPPABLE, Runner, lane_of
from clicket.execution.sink import CallSink, progress_data
from clicket.execution.spool import Spool
from clicket.execution.turns import TurnLog, entries_in

__all__ = [
    "GRANT",
    "RUNTIME",
    "STOPPABLE",
    "CallSink",
    "Limiter",
    "ProcessPool",
    "Runner",
    "Spool",
    "Stopped",
    "TurnLog",
    "Wait",
    "backoff",
    "describe",
    "entries_in",
    "grant",
    "granted",
    "lane_of",
    "name_of",
    "progress_data",
    "state_of",
    "stop_error",
    "transient",
    "unknown",
]
