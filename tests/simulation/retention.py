"""Retention that removes calls while others run. What is removed is judged as it was seen last.

Calls live for `RETENTION` seconds after their end in seeds that have this, and processes sweep often. The archive stands beside the store
and reads it twice a second. The end of a call may be written so late, after an outage, that a sweep removes it before the next look: the
model tells what it removed. A call whose creation was answered with an error, and erased, is not in it: it never was, and an answer, an
effect or a webhook of it is a finding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.world import EPOCH

from clicket.engine.drive import chore_schedule
from clicket.model import Record, fold

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.places import Seen

__all__ = ["RETENTION", "Archive", "sweep_every"]

RETENTION = 12.0
"""Longer than any pause: a program that was paused sends nothing for a call that is gone."""
_LOOK = 0.5


def sweep_every(seconds: float) -> None:
    chore_schedule.SWEEP_EVERY = seconds


class Archive:
    """Records of calls that ended, by id, thread and end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ended: dict[tuple[str, str, float], Record] = {}
        self.gone: dict[tuple[str, str, float], float] = {}
        """When a call was first found missing, by the date of the world."""

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK)

    def look(self) -> None:
        present = set()
        for call in self._cluster.place.swept():
            self._keep(call)
        for call in self._cluster.place.calls():
            if call.ended_at is not None:
                name = self._keep(call)
                present.add(name)
                self.gone.pop(name, None)
        for name in self.ended.keys() - present:
            self.gone.setdefault(name, EPOCH + self._cluster.world.now)
        for name in self._cluster.place.erased():
            self.ended.pop(name, None)
            self.gone.pop(name, None)

    def _keep(self, call: Seen) -> tuple[str, str, float]:
        assert call.ended_at is not None
        name = (call.id, call.thread, call.ended_at)
        known = self.ended.get(name)
        if known is None or len(known.events) < call.seq:
            self.ended[name] = fold(call.events())
        return name

    def has(self, id: str) -> bool:
        """Was such a call seen to end? Then its outcome is kept although the call may be gone."""
        return any(name[0] == id for name in self.ended)

    def is_gone(self, id: str) -> bool:
        """Has retention removed such a call by now?"""
        self.look()
        return any(name[0] == id for name in self.gone)

    def removed(self) -> Iterator[tuple[Record, float]]:
        """Each record that retention removed, with the time when it was found missing."""
        for name, at in self.gone.items():
            yield self.ended[name], at
