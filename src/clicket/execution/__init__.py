"""Where tool bodies run: lanes, limits, retries, and the events that a running tool reports."""

from __future__ import annotations

from clicket.execution.artifacts import GRANT, grant, granted, name_of, read_artifact, unknown
from clicket.execution.caller_task import Wait
from clicket.execution.limiter import RUNTIME, Limiter
from clicket.execution.loop_watch import LoopWatch
from clicket.execution.processes import ProcessPool
from clicket.execution.retry import backoff, describe, transient
from clicket.execution.runner import Runner, lane_of
from clicket.execution.sink import CallSink, progress_data, turn_log
from clicket.execution.spool import Spool
from clicket.execution.stopping import (
    Stopped,
    attempt_of,
    caller_left,
    can_stop,
    explain,
    is_abandoned,
    state_of,
    stop,
    stop_error,
)
from clicket.execution.tracebacks import log_failure, traceback_of
from clicket.execution.turn_log import TurnLog, entries_in

__all__ = [
    "GRANT",
    "RUNTIME",
    "CallSink",
    "Limiter",
    "LoopWatch",
    "ProcessPool",
    "Runner",
    "Spool",
    "Stopped",
    "TurnLog",
    "Wait",
    "attempt_of",
    "backoff",
    "caller_left",
    "can_stop",
    "describe",
    "entries_in",
    "explain",
    "grant",
    "granted",
    "is_abandoned",
    "lane_of",
    "log_failure",
    "name_of",
    "progress_data",
    "read_artifact",
    "state_of",
    "stop",
    "stop_error",
    "traceback_of",
    "transient",
    "turn_log",
    "unknown",
]
