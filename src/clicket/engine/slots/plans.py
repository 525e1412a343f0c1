"""Where the calls of each tool run, and which slots of the runtime they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clicket.engine.executors import PREPARED, RUNTIME, lane_of
from clicket.engine.live_call import Call, Plan
from clicket.model.config import Limits
from clicket.tools import Registry, Tool

__all__ = ["Plans", "rate_need"]

_INTERNAL_ROOM = 1_000
"""How many calls of clicket's own parts are claimed at once: they hold no slot."""


def rate_need(tool: Tool) -> tuple[Any, ...]:
    """What a call of a tool with a rate needs. Any number of calls may run; while the rate is used up, the key is blocked."""
    return ("rate", tool.name, 1 << 62)


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
            is_free = not tool.traits.one_call_per_thread and not tool.options.labels and not tool.traits.deps
            if is_free and self._max_per_thread is None:
                self.simple[tool] = plan
        if call.origin.prefer_sync:
            plan = self._plan(tool, lane_of(tool, prefer_sync=True))
        entry = call.entry
        needs = plan.needs
        if tool.traits.one_call_per_thread:
            needs = (*needs, ("session", tool.name, entry.caller, entry.thread, 1))
        if self._max_per_thread is not None and needs and tool.traits.holds_slot:
            needs = (*needs, ("thread", entry.caller, entry.thread, self._max_per_thread))
        call.plan = plan if needs is plan.needs else _plan_of(plan.lane, needs, plan.max_retries)

    def rooms(
        self,
        registry: Registry,
        used: Mapping[tuple[Any, ...], int],
        *,
        internal_only: bool,
        runs: Callable[[Tool], bool] = lambda tool: True,
    ) -> dict[str, int]:
        """How many more calls of each tool could start here.

        `internal_only`: calls of tools are left to other processes. `runs`: may calls of the tool run here at all?
        """
        rooms = dict.fromkeys(registry.inner_names, _INTERNAL_ROOM)
        if not internal_only:
            rooms.update((tool.name, self.room(tool, used)) for tool in registry if runs(tool))
        return rooms

    def room_for(
        self,
        name: str,
        registry: Registry,
        used: Mapping[tuple[Any, ...], int],
        *,
        internal_only: bool,
        runs: Callable[[Tool], bool],
    ) -> int:
        """As `rooms`, of one tool."""
        found = registry.tools.get(name)
        if found is not None and found.tool.traits.listed and not internal_only and runs(found.tool):
            return self.room(found.tool, used)
        return _INTERNAL_ROOM if name in registry.inner_names else 0

    def room(self, tool: Tool, used: Mapping[tuple[Any, ...], int]) -> int:
        """How many more calls of a tool could start, by the free slots of each limit."""
        plan = self._plans.get(tool) or self._plan(tool, lane_of(tool))
        room: int | None = None
        for need in plan.needs:
            free: int = need[-1] - used.get(need, 0)
            if room is None or free < room:
                room = free
        return self._limits.max_concurrency if room is None else room

    def _plan(self, tool: Tool, lane: str) -> Plan:
        # A call that only makes other calls holds no slot of the runtime: its calls hold slots, and could wait for its slot for ever.
        needs: tuple[tuple[Any, ...], ...] = ()
        if tool.traits.holds_slot:
            needs = ((RUNTIME, self._limits.max_concurrency),)
        if lane == "thread":
            needs = (*needs, ("lane", lane, self._limits.worker_threads))
        elif lane == "process":
            needs = (*needs, ("lane", lane, self._limits.tool_processes))
        if tool.options.max_concurrency is not None:
            needs = (*needs, ("tool", tool.name, tool.options.max_concurrency))
        if tool.options.rate is not None:
            needs = (*needs, rate_need(tool))
        return _plan_of(lane, needs, tool.options.max_retries)


def _plan_of(lane: str, needs: tuple[tuple[Any, ...], ...], max_retries: int) -> Plan:
    return Plan(lane, needs, max_retries, len(needs) == 1 and lane not in PREPARED)
