"""A schedule that fires each minute by a rule of the seed, while nobody is there for a while; and what is shown of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.simulation.scene import work

from clicket import ToolContext, tool
from clicket.runtime.schedules.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["NAME", "Timetable", "lasting"]

NAME = "minutely"


@tool(idempotent=True, timeout=300, max_retries=1, retry_delay=0.1)
async def lasting(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


class Timetable:
    """`outage`: seconds after the storm in which no process is there; 0: none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        chance = random.Random(f"schedule of {cluster.world.seed}")
        self.overlap: Any = chance.choice(("skip", "skip", "queue", "queue", "allow"))
        self.catch_up: Any = chance.choice(("none", "last", "all"))
        self.seconds = {"skip": 75.0, "queue": 40.0, "allow": 20.0}[self.overlap]
        """How long a call takes."""
        self.outage = chance.choice((0.0, 100.0, 190.0))
        if cluster.features.focus.schedule:  # what is late is late because of a fault
            self.overlap, self.outage, self.seconds = "allow", 0.0, 20.0
        self.shown: Schedule | None = None
        """What is shown of it at rest."""

    def make(self) -> None:
        if (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._make(member), "schedule")

    async def _make(self, member: Member) -> None:
        assert member.runtime is not None
        arguments = {"before": self.seconds, "after": 0}
        await member.runtime.schedule(
            NAME, "* * * * *", "lasting", arguments, catch_up=self.catch_up, overlap=self.overlap
        )
        self._cluster.scene.scheduled_at = self._world.now

    def show(self) -> None:
        if (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._show(member), "show the schedule")

    async def _show(self, member: Member) -> None:
        assert member.runtime is not None
        shown = [each for each in await member.runtime.schedules.list() if each.name == NAME]
        self.shown = shown[0] if shown else None
