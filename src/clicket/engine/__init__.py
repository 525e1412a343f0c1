"""Accepts calls, runs or hands them to another process, and ends them. `ARCHITECTURE.md` draws how the parts are connected.

- `engine`, `chore_schedule`: `Engine`, which makes the parts; how often each chore runs
- `inputs`, `driver`: what can happen to a call; which part acts then
- `core`, `phase`: what the parts share; whether the runtime is open, closing or closed
- `admission`, `next_steps`: accepts a call: the first three stages; then, and after each wait, lets it go on to what it needs next
- `limits`, `plans`, `capacity`: `Limits` of a runtime; what each tool's calls need of them; how many more could start
- `running`, `runner`: takes slots, starts attempts, runs bodies; runs attempts until one succeeds or ends the call
- `ending`: records how a call ended here, answers its waiters, releases its slots
- `stopping`: ends a call that waits, or stops the attempt of one that runs
- `gate`, `shared_slots`: slots of this runtime, and slots that all runtimes over a store share
- `caching`: the result cache: keys, stored results
- `single_flight`: of equal calls at the same time one runs, and the others get its result
- `approvals`, `questions`: the owner's side of an approval: ask, apply the decision; the event that asks
- `decisions`: the other side: approve, deny, answer or cancel a call of any process
- `approvers`, `grants`: which people may approve a call; approvals that also answer later questions
- `resolutions`: settles calls whose outcome is unknown
- `credential_waits`: calls that wait for a credential of their caller
- `parking`, `reconciling`: calls whose body is over without an outcome; asking a tool's own check
- `external`, `external_results`: calls that end elsewhere: the wait of the owner; what a token brings, in any process
- `call`: decides about one call: pure functions, whose verdicts the other parts act on
- `attempt_history`: what the events of a call say about its attempts
- `requests`: events that one process writes into a call of another
- `handles`, `stored_calls`: follow, await and cancel a call; calls of other processes, read from the store
- `handover`, `claimer`: calls that change their owner; claiming calls that wait
- `queues`, `rates`, `sessions`: which queues are claimed from; tokens of tools with a rate; which process holds a session
- `due_calls`, `nested_calls`: calls that wait for their time; calls that a running call makes
- `notice_handler`: hints and notices of other processes
- `placement`, `offers`: which worker is told of a call; starting a call that a notice offers, telling of room
- `recovery`, `recovered`: takes over the calls of dead owners; its report
- `background`, `chores`: timers of repeated work; the work itself
- `closing`, `draining`: closes a runtime in order; what a worker does that is cordoned or drained
- `worker_entry`, `worker_list`: the entry of this runtime among the workers; all workers
- `live_calls`, `timers`, `tasks`, `loop_share`: calls of this process, timers of waits, tasks, fair use of the event loop
- `arguments`: the arguments that a call runs with, read from its journal
- `kept_outcomes`: outcomes that are kept longer than their events
- `audit`, `activity`, `tool_costs`: the audit log; what the engine does now; costs that tools report
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.activity import Activity, HeldCall
    from clicket.engine.audit import AuditEntry
    from clicket.engine.caching import CacheOptions
    from clicket.engine.engine import Engine, Setup
    from clicket.engine.handles import CallHandle
    from clicket.engine.limits import Limits
    from clicket.engine.recovered import Progress, Recovered

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
    "Setup",
]

# Fetched when they are first used: a command that only reads a store needs one small part of this package.
_HOMES = {
    "activity": "Activity HeldCall",
    "audit": "AuditEntry",
    "caching": "CacheOptions",
    "engine": "Engine Setup",
    "handles": "CallHandle",
    "limits": "Limits",
    "recovered": "Progress Recovered",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
