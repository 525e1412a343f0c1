"""Where tool bodies run: lanes, limits, retries, and the events that a running tool reports.

- `lanes`: which lane the bodies of a tool run in
- `loop_lane`, `caller_task`: async bodies on the event loop; a body in its caller's own task
- `wakeups`: tasks that wait for calls are woken together
- `thread_lane`: blocking bodies in worker threads
- `process_lane`, `processes/`: bodies in child processes
- `ray_lane`, `ray/`: bodies on a Ray cluster
- `stopping`: why a call stops, and which reason replaces which
- `clocks`, `deadlines`: timeout, idle limit and grace of an attempt; many deadlines on few timers
- `retry`: which failures are retried, and after how long
- `limiter`: slots and their queue, with callers in turn
- `sink`, `thread_sink`, `spool`: output, progress and heartbeats as events; the whole output of a call
- `lent_credentials`, `deps`: the caller's tokens for an attempt; values of this process that it gets
- `checkpoints`, `turn_log`: what a tool keeps for its next attempt; the steps of an agent's turn
- `inputs`: questions of a running body to a person
- `kept_files`: images and files of results and messages become artifacts
- `caller_documents`: documents of one caller, sealed where they hold a secret
- `artifacts`: bytes by content hash, and who may read them
- `tracebacks`: where a body raised, as bounded text
- `loop_watch`: notices bodies that block the event loop

The names below are imported lazily: a child process of a tool imports this package too, and needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.executors.artifacts import (
        ARTIFACT_ACCESS,
        ArtifactSource,
        allow_reading,
        artifact_stream,
        chunks_of,
        may_read,
        name_of,
        put_artifact,
        read_artifact,
        spooled,
        unknown,
    )
    from clicket.engine.executors.caller_documents import SEALED, CallerDocuments
    from clicket.engine.executors.deps import Deps
    from clicket.engine.executors.kept_files import MAX_FILES, keep_files
    from clicket.engine.executors.lanes import PREPARED, lane_of
    from clicket.engine.executors.lent_credentials import LentCredentials
    from clicket.engine.executors.limiter import RUNTIME, Limiter
    from clicket.engine.executors.loop_watch import LoopWatch
    from clicket.engine.executors.processes import ProcessPool, factories_for
    from clicket.engine.executors.ray.cluster import Cluster, check_ray
    from clicket.engine.executors.retry import backoff, describe, transient
    from clicket.engine.executors.sink import CallSink, documents_of, gave_token, progress_data, turn_log_of
    from clicket.engine.executors.spool import Spool
    from clicket.engine.executors.stopping import (
        Parked,
        Stopped,
        attempt_of,
        can_stop,
        cancel_with_caller,
        explain,
        is_abandoned,
        park,
        state_of,
        stop,
        stop_error,
    )
    from clicket.engine.executors.tracebacks import log_failure, traceback_of
    from clicket.engine.executors.turn_log import TurnLog, entries_in
    from clicket.engine.executors.wakeups import Wakeups

__all__ = [
    "ARTIFACT_ACCESS",
    "MAX_FILES",
    "PREPARED",
    "RUNTIME",
    "SEALED",
    "ArtifactSource",
    "CallSink",
    "CallerDocuments",
    "Cluster",
    "Deps",
    "LentCredentials",
    "Limiter",
    "LoopWatch",
    "Parked",
    "ProcessPool",
    "Spool",
    "Stopped",
    "TurnLog",
    "Wakeups",
    "allow_reading",
    "artifact_stream",
    "attempt_of",
    "backoff",
    "can_stop",
    "cancel_with_caller",
    "check_ray",
    "chunks_of",
    "describe",
    "documents_of",
    "entries_in",
    "explain",
    "factories_for",
    "gave_token",
    "is_abandoned",
    "keep_files",
    "lane_of",
    "log_failure",
    "may_read",
    "name_of",
    "park",
    "progress_data",
    "put_artifact",
    "read_artifact",
    "spooled",
    "state_of",
    "stop",
    "stop_error",
    "traceback_of",
    "transient",
    "turn_log_of",
    "unknown",
]

_HOMES = {
    "artifacts": "ARTIFACT_ACCESS ArtifactSource allow_reading artifact_stream chunks_of may_read name_of put_artifact read_artifact "
    "spooled unknown",
    "caller_documents": "SEALED CallerDocuments",
    "deps": "Deps",
    "kept_files": "MAX_FILES keep_files",
    "lent_credentials": "LentCredentials",
    "limiter": "RUNTIME Limiter",
    "loop_watch": "LoopWatch",
    "processes": "ProcessPool factories_for",
    "ray.cluster": "Cluster check_ray",
    "retry": "backoff describe transient",
    "lanes": "PREPARED lane_of",
    "sink": "CallSink documents_of gave_token progress_data turn_log_of",
    "spool": "Spool",
    "stopping": "Parked Stopped attempt_of can_stop cancel_with_caller explain is_abandoned park state_of stop "
    "stop_error",
    "tracebacks": "log_failure traceback_of",
    "turn_log": "TurnLog entries_in",
    "wakeups": "Wakeups",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
