"""Decides where attempts run: in this process, or in the process that claims the call from the same store."""

from __future__ import annotations

from clicket.engine.activity import Activity, HeldCall
from clicket.engine.audit import AuditEntry
from clicket.engine.caching import CacheOptions
from clicket.engine.engine import Engine
from clicket.engine.handles import CallHandle
from clicket.engine.plans import Limits
from clicket.engine.recovery import Progress, Recovered

__all__ = [
    "Activity",
    "AuditEntry",
    "CacheOptions",
    "CallHandle",
    "Engine",
    "HeldCall",
    "Limits",
    "Progress",
    "Recovered",
]
