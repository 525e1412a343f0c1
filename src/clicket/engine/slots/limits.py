"""The bounds of one runtime: concurrency, queue, workers, lease, retention. `clicket.runtime.settings.Settings` has the defaults."""

from __future__ import annotations

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one runtime. Durations are seconds, sizes are bytes; None means no bound."""

    max_concurrency: int
    max_thread_concurrency: int | None
    max_queue: int
    queue_timeout: float | None
    worker_threads: int
    worker_processes: int
    worker_memory: int | None
    cancel_grace: float
    close_timeout: float
    lease: float
    max_arguments_size: int
    max_claims: int
    retention: float
    retention_calls: int | None
    retention_bytes: int | None
    thread_retention_calls: int | None
    thread_retention_bytes: int | None
    outcome_retention: float
    health_retention: float
    memory_retention: float
