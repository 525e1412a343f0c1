"""The bounds of one runtime, and what each tool's calls need of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.call import Call, Plan
from clicket.execution import RUNTIME, lane_of
from clicket.tools import Registry, Tool

__all__ = ["Limits", "Plans"]


_INTERNAL_ROOM = 1_000
"""How many calls of clicket's own parts are claimed at once: they hold no slot."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one runtime. Durations are seconds, sizes are bytes."""

    max_concurrency: int = 10
    max_thread_concurrency: int | None = None
    max_queue: int = 50_000
    queue_timeout: float | None = 3600.0
    worker_threads: int = 4
    worker_processes: int = 4
    worker_memory: int | None = None
    cancel_grace: float = 2.0
    close_timeout: float = 10.0
    lease: float = 10.0
    max_arguments_size: int = 1024 * 1024
    max_claims: int = 5
    retention: float = 24 * 3600.0
    retention_calls: int | None = None
    retention_bytes: int | None = None
    thread_retention_calls: int | None = None
    thread_retention_bytes: int | None = None
    outcome_retention: float = 30 * 24 * 3600.0
    health_retention: float = 7 * 24 * 3600.0
    memory_retention: float = 30 * 24 * 3600.0


class Plans:
    """Where calls run and which slots they need, computed once per tool."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_per_thread = limits.max_thread_concurrency
        self._plans: dict[Tool, Plan] = {}
        self.simple: dict[Tool, Plan] = {}
        """Plans of tools whose calls all have the same one, unless a blocking caller waits."""

    def fit(self, call: Call) -> None:
        """Set how the call runs, and what it needs to start."""
        tool = call.required_tool()
        plan = self._plans.get(tool)
        if plan is None:
            plan = self._plans[tool] = self._plan(tool, lane_of(tool))
            if not tool.traits.one_call_per_thread and self._max_per_thread is None:
                self.simple[tool] = plan
        if call.origin.prefer_sync:
            plan = self._plan(tool, lane_of(tool, prefer_sync=True))
        entry, needs = call.entry, plan.needs
        if tool.traits.one_call_per_thread:
            needs = (*needs, ("session", tool.name, entry.caller, entry.thread, 1))
        if self._max_per_thread is not None and needs:
            needs = (*needs, ("thread", entry.caller, entry.thread, self._max_per_thread))
        call.plan = plan if needs is plan.needs else Plan(plan.lane, needs, plan.max_retries)

    def rooms(self, registry: Registry, used: Mapping[tuple[Any, ...], int], *, internal_only: bool) -> dict[str, int]:
        """How many more calls of each tool could start here.

        `internal_only`: calls of tools are left to other processes.
        """
        rooms = dict.fromkeys(registry.inner_names, _INTERNAL_ROOM)
        if not internal_only:
            rooms.update((tool.name, self.room(tool, used)) for tool in registry)
        return rooms

    def room(self, tool: Tool, used: Mapping[tuple[Any, ...], int]) -> int:
        """How many more calls of a tool could start, by the free slots of each limit."""
        plan = self._plans.get(tool) or self._plan(tool, lane_of(tool))
        free: int = min((need[-1] - used.get(need, 0) for need in plan.needs), default=self._limits.max_concurrency)
        return free

    def _plan(self, tool: Tool, lane: str) -> Plan:
        # A call that only makes other calls holds no slot of the runtime: its calls hold slots, and could wait for its slot for ever.
        needs: tuple[tuple[Any, ...], ...] = ()
        if tool.traits.holds_slot:
            needs = ((RUNTIME, self._limits.max_concurrency),)
        if lane == "thread":
            needs = (*needs, ("lane", lane, self._limits.worker_threads))
        elif lane == "process":
            needs = (*needs, ("lane", lane, self._limits.worker_processes))
        if tool.options.max_concurrency is not None:
            needs = (*needs, ("tool", tool.name, tool.options.max_concurrency))
        return Plan(lane, needs, tool.options.max_retries)
