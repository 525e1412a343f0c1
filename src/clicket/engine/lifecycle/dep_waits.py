"""Calls of a turn that this process took over without the deps of the turn's run: they are left to the process that runs the turn, which
has them. Nothing of a wait is in memory: the names are in the call's first event."""

from __future__ import annotations

from clicket.engine.core import Core
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.live_call import Call

__all__ = ["DepWaits"]


class DepWaits:
    def __init__(self, core: Core, handover: HandOver) -> None:
        self._journal = core.journal
        self._handover = handover
        self._deps = core.deps

    def must_wait(self, call: Call) -> bool:
        """Not the calls of clicket's own parts: their bodies read no deps."""
        return not call.entry.internal and bool(self._deps.missing(call))

    def enter(self, call: Call) -> None:
        names = ", ".join(self._deps.missing(call))
        text = f"It waits for deps of its agent's run, which this process does not have: {names}. agent.run or agent.resume brings them."
        self._journal.wait_for(call.entry, "dep")
        self._journal.record(call.entry, "note", {"text": text, "waiting_for": "dep"})
        self._handover.put_away(call)
