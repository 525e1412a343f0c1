"""What the parts of the engine that act on calls share. It is made once and passed whole, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket.engine.arguments import ArgumentsOnRecord
from clicket.engine.audit import AuditLog
from clicket.engine.caching import Caching
from clicket.engine.claimer import WorkClaimer
from clicket.engine.gate import SharedSlotGate
from clicket.engine.grants import Grants
from clicket.engine.inputs import Inputs
from clicket.engine.limits import Limits
from clicket.engine.live_calls import LiveCalls
from clicket.engine.phase import Phase
from clicket.engine.plans import Plans
from clicket.engine.queues import Queues
from clicket.engine.requests import Requests
from clicket.engine.shared_slots import SharedSlots
from clicket.engine.single_flight import SingleFlight
from clicket.engine.stored_calls import StoredCalls
from clicket.engine.timers import WaitTimers
from clicket.engine.tool_costs import ToolCosts
from clicket.execution import Limiter
from clicket.hub import Hub
from clicket.journal import Journal
from clicket.pipeline import Pipeline, Policy
from clicket.ports import Clock, Store
from clicket.tools import Registry

__all__ = ["Core"]


class Core(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    store: Store
    clock: Clock
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    registry: Registry
    policy: Policy
    limits: Limits
    phase: Phase
    shares: bool
    """Other processes may use the store."""
    gives_away: bool
    """The settings say that calls are accepted here, and run by other processes. `phase.leaves_calls`: so it is now."""
    inputs: Inputs

    journal: Journal
    pipeline: Pipeline
    live: LiveCalls
    limiter: Limiter
    timers: WaitTimers
    plans: Plans
    queues: Queues
    hub: Hub
    slots: SharedSlots
    gate: SharedSlotGate
    caching: Caching
    flights: SingleFlight
    requests: Requests
    stored_calls: StoredCalls
    claimer: WorkClaimer
    arguments: ArgumentsOnRecord
    audit: AuditLog
    grants: Grants
    costs: ToolCosts
