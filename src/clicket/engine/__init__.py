"""Accepts calls, runs or hands them to another process, and ends them. `ARCHITECTURE.md` draws how the parts are connected.

- `engine`: `Engine`, which makes the parts, opens and closes them
- `drive`: which part acts when something has happened, chores by the clock, messages, closing
- `recovery`: the calls of dead owners, and chores
- `actions`: what callers, people and other systems do with a call
- `lifecycle`: one call from its acceptance to its end, and what it may wait for
- `core`, `inputs`, `phase`: what the parts share; what can happen to a call; whether the runtime is open, closing or closed
- `cache`, `fleet`, `local`, `people`, `records`, `slots`: small parts, for all others
- `stages`: find, authorize, validate, execute, process, persist; and the policy
- `executors`: where bodies run: the loop, threads, child processes, Ray
- `hub`, `spend`: which tools a thread may use now; what agents and tools use, in tokens and money, and budgets for it
- `call`: decides about one call: pure functions, whose verdicts the other parts act on
- `live_call`, `journal`: a call while this process works on it; the only writer of its state
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.actions.handles import CallHandle
    from clicket.engine.engine import Engine, Setup
    from clicket.engine.local.activity import Activity, HeldCall
    from clicket.engine.people.audit import AuditEntry
    from clicket.engine.recovery.recovered import Progress, Recovered

__all__ = [
    "Activity",
    "AuditEntry",
    "CallHandle",
    "Engine",
    "HeldCall",
    "Progress",
    "Recovered",
    "Setup",
]

# Fetched when they are first used: a command that only reads a store needs one small part of this package.
_HOMES = {
    "local.activity": "Activity HeldCall",
    "people.audit": "AuditEntry",
    "engine": "Engine Setup",
    "actions.handles": "CallHandle",
    "recovery.recovered": "Progress Recovered",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
