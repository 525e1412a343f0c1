"""The deps of calls: what runs of agents brought into this process, and what the runtime's factories make here.

A factory runs once, when a value is needed first; if it fails, the next call that needs the value tries again. What a run brought counts
before what a factory makes. A call that another process began has its run's values as long as the turn that made it is in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from clicket.engine.executors.lanes import PREPARED
from clicket.engine.executors.stopping import attempt_of
from clicket.engine.live_call import Call
from clicket.model.deps import RunDeps, how_to_give
from clicket.model.ids import is_of_turn
from clicket.system.bridge import ThreadPool
from clicket.tools import Tool
from clicket.tools.deps import DepValues, Factory, factory_failed, make_dep
from clicket.tools.place import placed

__all__ = ["FACTORY_LIMIT", "Deps", "unprovided"]


FACTORY_LIMIT = 120.0
"""Seconds that a call, or a turn, waits for factories. The attempt's own time counts from the body's start."""


class Deps:
    """`is_worker`: no run of an agent brings anything to this process."""

    def __init__(self, factories: Mapping[str, Factory], thread_pool: ThreadPool, *, is_worker: bool = False) -> None:
        self.factories = factories
        self._thread_pool = thread_pool
        self._is_worker = is_worker
        self._made: dict[str, asyncio.Task[Any]] = {}
        self._exits = AsyncExitStack()
        self._turns: dict[tuple[str, str], dict[str, RunDeps]] = {}
        """By caller and thread, then by the turn's mark, which the ids of its calls have."""
        self.in_use = bool(factories)

    # What runs brought.

    def enter(self, caller: str, thread: str, mark: str, deps: RunDeps) -> None:
        """A turn goes on in this process, with the deps of its run."""
        self.in_use = True
        self._turns.setdefault((caller, thread), {})[mark] = deps

    def leave(self, caller: str, thread: str, mark: str) -> None:
        turns = self._turns.get((caller, thread), {})
        turns.pop(mark, None)
        if not turns:
            self._turns.pop((caller, thread), None)

    def _brought(self, call: Call) -> Mapping[str, Any]:
        own = call.origin.deps
        if own is None:
            return {}
        if len(own.values) < len(own.names):  # another process began the call
            for mark, deps in self._turns.get((call.caller, call.thread), {}).items():
                if is_of_turn(call.id, mark):
                    own.values.update(deps.values)
        return own.values

    # What is missing.

    def missing(self, call: Call) -> list[str]:
        """The deps that the call must have, and that this process does not have. A child process gets none of a run's."""
        tool, own = call.required_tool(), call.origin.deps
        names, brought = set(tool.traits.deps), self._brought(call)
        if tool.options.isolation in PREPARED:
            brought = {}
        elif own is not None and not self._is_worker:
            names.update(own.names)
        return sorted(names - self.factories.keys() - brought.keys())

    def lacking(self, tools: Iterable[Tool], brought: Iterable[str] = ()) -> str:
        """Why not all of these tools can run with what a run brings; empty if they can."""
        for tool in tools:
            in_child = tool.options.isolation in PREPARED
            for name in tool.traits.deps:
                if name not in self.factories and (in_child or name not in brought):
                    return unprovided(tool, name)
        return ""

    # What the body gets.

    def begin(self, call: Call) -> list[asyncio.Task[Any]]:
        """Factories that the call has to wait for."""
        return self._begin(self._wanted(call.required_tool()), self._brought(call))

    def concern(self, call: Call, tool: Tool) -> bool:
        """Does the body get any here? Those of a child process are made there."""
        traits = tool.traits
        reads = bool(traits.deps) or (traits.wants_context and traits.any_dep and not traits.internal)
        return reads and call.plan.lane not in PREPARED

    def lend(self, call: Call) -> None:
        """Give the attempt what it may read. Raises the error of a factory whose value the tool needs."""
        tool = call.required_tool()
        attempt_of(call).deps = values = self._values(self._wanted(tool), self._brought(call))
        for name in tool.traits.deps:
            values[name]

    async def of_run(self, brought: Mapping[str, Any]) -> Mapping[str, Any]:
        """All deps of an agent's turn: its run's, and the runtime's."""
        making = self._begin(self.factories, brought)
        if making:
            await asyncio.wait(making, timeout=FACTORY_LIMIT)
        return self._values(self.factories, brought)

    def _wanted(self, tool: Tool) -> Iterable[str]:
        return self.factories if tool.traits.any_dep else tool.traits.deps

    def _begin(self, names: Iterable[str], brought: Mapping[str, Any]) -> list[asyncio.Task[Any]]:
        making = []
        for name in names:
            if name in brought or name not in self.factories:
                continue
            task = self._made.get(name)
            if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
                made = make_dep(self.factories[name], self._exits, self._thread_pool.run)
                task = self._made[name] = asyncio.ensure_future(made)
            if not task.done():
                making.append(task)
        return making

    def _values(self, names: Iterable[str], brought: Mapping[str, Any]) -> DepValues:
        values: dict[str, Any] = {}
        failed: dict[str, Exception] = {}
        for name in names:
            task = self._made.get(name)
            if name in brought or task is None or not task.done() or task.cancelled():
                continue
            error = task.exception()
            if isinstance(error, Exception):
                failed[name] = factory_failed(name, error)
            else:
                values[name] = task.result()
        return DepValues({**values, **brought}, failed)

    async def close(self) -> None:
        making = [task for task in self._made.values() if not task.done()]
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        await self._exits.aclose()


def unprovided(tool: Tool, name: str) -> str:
    """Why a tool cannot run, and what to do."""
    where = placed(f"the tool {tool.name!r}", tool)
    if tool.options.isolation in PREPARED:
        return (
            f"{where} needs the dep {name!r}, and runs in another process, which gets no values of this one. Let the runtime make it: "
            f"Runtime(deps={{{name!r}: factory}}), with a function of a module that process can import."
        )
    return f"{where} needs the dep {name!r}, which nobody gives. {how_to_give(name)}"
