"""What the parts of the engine that act on calls share. It is made once and passed whole, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket.engine.cache.caching import Caching
from clicket.engine.cache.single_flight import SingleFlight
from clicket.engine.executors import Deps, Limiter
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.fleet.queues import Queues
from clicket.engine.hub import Hub
from clicket.engine.inputs import Inputs
from clicket.engine.journal import Journal
from clicket.engine.local.live_calls import LiveCalls
from clicket.engine.local.timers import WaitTimers
from clicket.engine.people.audit import AuditLog
from clicket.engine.people.grants import Grants
from clicket.engine.phase import Phase
from clicket.engine.records.arguments import ArgumentsOnRecord
from clicket.engine.records.signals import Signals
from clicket.engine.records.stored_calls import StoredCalls
from clicket.engine.records.tool_costs import ToolCosts
from clicket.engine.slots.gate import SharedSlotGate
from clicket.engine.slots.plans import Plans
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.engine.stages import Pipeline, Policy
from clicket.model.config import Limits, Retention
from clicket.model.ports import Clock, Store
from clicket.tools import Registry

__all__ = ["Core"]


class Core(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    store: Store
    clock: Clock
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    registry: Registry
    policy: Policy
    limits: Limits
    retention: Retention
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
    deps: Deps
    signals: Signals
    stored_calls: StoredCalls
    claimer: WorkClaimer
    arguments: ArgumentsOnRecord
    audit: AuditLog
    grants: Grants
    costs: ToolCosts
