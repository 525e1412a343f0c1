"""Decides where attempts run: in this process, or in the process that claims the call from the same store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.activity import Activity, HeldCall
    from clicket.engine.audit import AuditEntry
    from clicket.engine.caching import CacheOptions
    from clicket.engine.engine import Engine
    from clicket.engine.handles import CallHandle
    from clicket.engine.limits import Limits
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

# Fetched when they are first used: a command that only reads a store needs one small part of this package.
_HOMES = {
    "activity": "Activity HeldCall",
    "audit": "AuditEntry",
    "caching": "CacheOptions",
    "engine": "Engine",
    "handles": "CallHandle",
    "limits": "Limits",
    "recovery": "Progress Recovered",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
