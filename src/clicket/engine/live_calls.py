"""The calls that live in this process, by name. One id may be in use in any number of threads: agents name their calls alike in all."""

from __future__ import annotations

from clicket.journal import LiveCall

__all__ = ["LiveCalls"]


class LiveCalls:
    """`calls` are by id, those of one id in the order in which they came."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[LiveCall, None]] = {}
        self._places: dict[tuple[str, str, str], LiveCall | None] = {}
        """By id, thread and caller; None: several of that name, as while a second one is about to be refused."""

    def add(self, call: LiveCall) -> None:
        known, place = self.calls.get(call.id), (call.id, call.request.thread, call.caller)
        if known is None:
            self.calls[call.id] = {call: None}
            self._places[place] = call
        else:
            known[call] = None
            self._places[place] = call if self._places.get(place, call) is call else None

    def remove(self, call: LiveCall) -> None:
        known = self.calls.get(call.id)
        if known is None or call not in known:
            return
        del known[call]
        if not known:
            del self.calls[call.id]
        place = (call.id, call.request.thread, call.caller)
        if self._places.pop(place) is None:
            left = [other for other in known if (other.id, other.thread, other.caller) == place]
            if left:
                self._places[place] = left[0] if len(left) == 1 else None

    def find(self, id: str, thread: str | None, caller: str | None) -> LiveCall | None:
        """The live call of that name; None also when several threads have it and none was named."""
        if thread is not None and caller is not None:
            return self._places.get((id, thread, caller))
        found = [
            call
            for call in self.calls.get(id, ())
            if (thread is None or call.thread == thread) and (caller is None or call.caller == caller)
        ]
        return found[0] if len(found) == 1 else None
