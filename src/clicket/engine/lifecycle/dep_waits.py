"""Calls of a turn that this process took over without the deps of the turn's run: they wait until a caller brings these to the turn.
Nothing of a wait is in memory alone: the names are in the call's first event."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clicket.engine.core import Core
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call

__all__ = ["DepWaits"]


class DepWaits:
    def __init__(self, core: Core, ending: Ending) -> None:
        self._journal = core.journal
        self._live = core.live
        self._ending = ending
        self._deps = core.deps
        self._waiting: dict[Call, Callable[[Call], None]] = {}
        core.deps.on_brought = self._look

    def must_wait(self, call: Call) -> bool:
        """Not the calls of clicket's own parts: their bodies read no deps."""
        return not call.entry.internal and bool(self._deps.missing(call))

    def enter(self, call: Call, then: Callable[[Call], None]) -> None:
        """`then` is called when the deps are here."""
        self._live.add(call)
        self._waiting[call] = then
        names = ", ".join(self._deps.missing(call))
        text = f"It waits for deps of its agent's run, which this process does not have: {names}. agent.run or agent.resume brings them."
        self._journal.wait_for(call.entry, "dep")
        self._journal.record(call.entry, "note", {"text": text, "waiting_for": "dep"})
        self._journal.commit(call.entry, partial(self._ending.on_created, call))

    def _look(self) -> None:
        for call, then in [*self._waiting.items()]:
            is_over = call.ending or call.failure is not None
            if is_over or not self._deps.missing(call):
                del self._waiting[call]
                if not is_over:
                    self._journal.wait_for(call.entry, None)
                    self._journal.record(call.entry, "note", {"text": "The deps are here.", "waiting_for": None})
                    then(call)
