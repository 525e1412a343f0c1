"""`Runtime.memory`: what agents remember about a caller, for the person that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from clicket import system
from clicket.engine import Engine
from clicket.engine.executors import CallerDocuments
from clicket.errors import PermissionDenied, UsageError
from clicket.model.fact import Fact

if TYPE_CHECKING:  # a runtime without agents does not load them
    from clicket.agents.facts import Facts

__all__ = ["MemoryView", "memory"]

_AGENT = re.compile(r"[A-Za-z0-9_-]{1,64}")


class MemoryView:
    """`await rt.memory.list(caller="u1")`. The runtime of one caller (`acting_for`) has that caller's; the program's own runtime names
    the caller, and means itself without one."""

    def __init__(self, engine: Engine, caller: str | None) -> None:
        self._engine = engine
        self._caller = caller

    async def list(self, *, caller: str | None = None, agent: str | None = None) -> Sequence[Fact]:
        """The facts: those that all agents read first, then those of single agents. `agent`: those of one agent alone; empty: those that
        all agents read."""
        _, facts = self._facts(caller)
        return await (facts.all() if agent is None else facts.of(agent))

    async def add(self, text: str, *, caller: str | None = None, agent: str = "", by: str = "") -> Fact:
        """Remember a fact for all agents of the caller, or for one. Their next turns read it."""
        if agent and not _AGENT.fullmatch(agent):
            raise UsageError(f"{agent!r:.80} is not the name of an agent.")
        whose, facts = self._facts(caller)
        fact = await facts.add(system.random_hex(5), text, agent=agent, by=by or whose or "program")
        return await self._noted(fact, "memory.added", whose, by)

    async def edit(self, id: str, text: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Replace the text of a fact. `NotFound`: no fact has this id."""
        whose, facts = self._facts(caller)
        return await self._noted(await facts.edit(id, text, by=by or whose or "program"), "memory.edited", whose, by)

    async def forget(self, id: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Remove a fact; returns it. Turns that have begun still know it, and threads in which it was said. `NotFound`: there is none."""
        whose, facts = self._facts(caller)
        return await self._noted(await facts.forget_any(id), "memory.forgotten", whose, by)

    async def _noted(self, fact: Fact, what: str, caller: str, by: str) -> Fact:
        """An entry of the audit log, without the text."""
        await self._engine.audit.kept(by or caller, what, fact=fact.id, agent=fact.agent, caller=caller)
        return fact

    def _facts(self, caller: str | None) -> tuple[str, Facts]:
        from clicket.agents.facts import Facts

        if self._caller is not None and caller not in (None, self._caller):
            raise PermissionDenied("this runtime acts for one caller, and has the memory of that caller alone.")
        whose = (self._caller or "") if caller is None else caller
        engine = self._engine
        return whose, Facts(CallerDocuments(engine.store, engine.vault, whose, engine.clock))


class _HasEngine(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


class _Memory:
    """What agents remember about a caller: `await rt.memory.list(caller="u1")`, `add(text)`, `edit(id, text)`, `forget(id)`."""

    def __get__(self, runtime: _HasEngine, owner: Any = None) -> MemoryView:
        return MemoryView(runtime._opened, runtime._caller)


memory = _Memory()
