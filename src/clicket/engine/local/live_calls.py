"""The live calls of this process, by id.

An id that clicket made is unique. One that a caller chose may be in use in any number of threads: agents use the same ids in all
of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from clicket.engine.live_call import Call

__all__ = ["LiveCalls"]


class LiveCalls:
    def __init__(self) -> None:
        self.made: dict[str, Call] = {}
        """By an id that clicket made: unique, so adding and removing are one step each."""
        self._chosen: dict[str, dict[Call, None]] = {}
        """By an id that a caller chose, in the order in which they came."""
        self._places: dict[tuple[str, str, str], Call | None] = {}
        """The latter by id, thread and caller; None: several, as while a second one is about to be refused."""

    def add(self, call: Call) -> None:
        entry = call.entry
        id = entry.id
        if call.request.id is None:
            self.made[id] = call
            return
        known = self._chosen.get(id)
        place = (id, entry.thread, entry.caller)
        if known is None:
            self._chosen[id] = {call: None}
            self._places[place] = call
        else:
            known[call] = None
            self._places[place] = call if self._places.get(place, call) is call else None

    def remove(self, call: Call) -> None:
        entry = call.entry
        id = entry.id
        if self.made.get(id) is call:
            del self.made[id]
            return
        known = self._chosen.get(id)
        if known is None or call not in known:
            return
        del known[call]
        if not known:
            del self._chosen[id]
        place = (id, entry.thread, entry.caller)
        if self._places.pop(place) is None:
            left = [other for other in known if (other.id, other.thread, other.caller) == place]
            if left:
                self._places[place] = left[0] if len(left) == 1 else None

    def find(self, id: str, thread: str | None, caller: str | None) -> Call | None:
        """The live call of that id; None also when several threads have one and no thread was named."""
        call = self.made.get(id)
        if call is not None and id not in self._chosen:
            entry = call.entry
            return call if thread in (None, entry.thread) and caller in (None, entry.caller) else None
        if thread is not None and caller is not None and call is None:
            return self._places.get((id, thread, caller))
        found = [
            each
            for each in self.named(id)
            if (thread is None or each.thread == thread) and (caller is None or each.caller == caller)
        ]
        return found[0] if len(found) == 1 else None

    def named(self, id: str) -> list[Call]:
        """Every call of that id."""
        made = self.made.get(id)
        return [*(() if made is None else (made,)), *self._chosen.get(id, ())]

    def __iter__(self) -> Iterator[Call]:
        """Every call, as of now: calls that come and go meanwhile change nothing."""
        return iter([*self.made.values(), *(call for calls in self._chosen.values() for call in calls)])

    def __len__(self) -> int:
        return len(self.made) + sum(map(len, self._chosen.values()))
