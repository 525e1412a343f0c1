"""The cost of each step of a call. The defaults are measured as `docs/guides/scale.md` describes."""

from __future__ import annotations

import msgspec

__all__ = ["Costs"]


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, unless a field says otherwise. A transaction costs the store a fixed part and a part for each call in it."""

    accept: float = 90e-6
    """Store CPU of a transaction that accepts calls."""
    accept_each: float = 110e-6
    claim: float = 180e-6
    claim_each: float = 70e-6
    outcome: float = 90e-6
    outcome_each: float = 90e-6
    empty_claim: float = 120e-6
    """Store CPU of a claim that finds nothing."""
    renew: float = 100e-6
    sync: float = 0.5e-3
    """Time of one flush of the log; transactions that wait for it share it."""
    trip: float = 0.25e-3
    """Time from a process to the store, or back."""
    message: float = 0.6e-3
    """Time from the commit until another process has its message."""
    submitter: float = 220e-6
    """CPU of the submitting process for one call."""
    worker: float = 280e-6
    """CPU of the worker for one call, without its body."""
    log_bytes: int = 4_300
    """Bytes of write-ahead log for one call."""
    table_bytes: int = 2_400
    """Bytes in tables and indexes for one call, until retention removes it."""
