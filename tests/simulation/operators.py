"""People who operate a fleet: they look at lists, cordon and drain workers; and other systems that report on external calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError, Conflict, NotFound

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["Operators"]


class Operators:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self._scene = cluster, cluster.world, cluster.scene

    def look(self) -> None:
        """A person opens a list."""
        if (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._look(member.runtime), "a person who looks")

    async def _look(self, runtime: Any) -> None:
        chance = self._world.chance
        what = chance.choice(("history", "history", "threads", "workers", "report", "queue", "unknown", "call"))
        if what == "history":
            await self._read_history(runtime)
        elif what == "threads":
            for thread in (await runtime.threads(limit=3)).items:
                if not (await runtime.history(thread=thread.name, limit=1)).items and thread.agent is None:
                    self._world.wrong("lists show what is stored", f"thread {thread.name} is listed, and has no call")
        elif what == "workers":
            await runtime.workers.list()
        elif what == "report":
            await runtime.report()
            await runtime.anomalies()
        elif what == "queue":
            await runtime.queue()
        elif what == "unknown":
            for record in (await runtime.unknown(limit=5)).items:
                if record.error is None or record.error.code != "outcome_unknown":
                    self._world.wrong("lists show what is stored", f"{record.id} is listed as unknown: {record.error}")
        elif (call := next(self._cluster.place.calls(), None)) is not None:
            try:
                record = await runtime.get(call.id, thread=call.thread)
            except NotFound:
                return
            if [event.seq for event in record.events] != list(range(1, len(record.events) + 1)):
                self._world.wrong("events without holes", f"{record.id} is read as {len(record.events)} events")

    async def _read_history(self, runtime: Any) -> None:
        """Two pages: no call is on both, and each fits the filter."""
        chance = self._world.chance
        filters: dict[str, Any] = chance.choice(
            ({}, {"state": "completed"}, {"state": "failed"}, {"tool": "put"}, {"thread": "t1"}, {"active": True})
        )
        order = chance.choice(("asc", "desc"))
        first = await runtime.history(limit=3, order=order, **filters)
        items = list(first.items)
        if first.cursor is not None:
            items += (await runtime.history(limit=3, order=order, cursor=first.cursor, **filters)).items
        names = [(record.caller, record.thread, record.id) for record in items]
        if len(set(names)) < len(names):
            self._world.wrong("lists show what is stored", f"two pages of history have a call twice: {names}")
        for record in items:
            if "tool" in filters and record.tool != filters["tool"]:
                self._world.wrong("lists show what is stored", f"{record.id} of {record.tool} among those of {filters}")

    # Workers.

    def steer(self) -> None:
        """A person cordons a worker, drains it, or lets it work again; a drained one leaves, as a worker process does."""
        if (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._steer(member), "a person who steers")

    async def _steer(self, member: Member) -> None:
        chance, runtime = self._world.chance, member.runtime
        assert runtime is not None
        other = chance.choice([each for each in self._cluster.members if each.runtime is not None])
        assert other.runtime is not None
        id, what = other.runtime.workers.id, chance.choice(("cordon", "drain", "uncordon"))
        try:
            await getattr(runtime.workers, what)(id, by="ops")
        except (Conflict, NotFound):
            return
        self._world.tell("ops", f"{what} {other.node}")
        self._scene.steered.append((self._world.now, other.node.name, what))
        if what == "drain" and other.is_up:
            self._world.spawn(other.node, self._leave_when_drained(other))

    def drain(self, member: Member) -> None:
        """A worker is told to drain while a call comes to it."""

        async def drain() -> None:
            assert member.runtime is not None
            await member.runtime.workers.drain(member.runtime.workers.id, by="ops")
            self._world.tell("ops", f"drain {member.node}")
            self._scene.steered.append((self._world.now, member.node.name, "drain"))
            self._world.spawn(member.node, self._leave_when_drained(member))

        if member.is_up:
            self._cluster.clients.do(member, drain(), "a person who steers")

    async def _leave_when_drained(self, member: Member) -> None:
        """If it is let work again before, it stays."""
        assert member.runtime is not None
        await member.runtime.workers.until_drained()
        self._world.tell(member.node, "is drained, and leaves")
        member.leave()

    def free_all(self) -> None:
        """The storm is over: every worker that is not ending works again."""
        for member in self._cluster.members:
            if member.is_up:
                self._cluster.clients.do(member, self._free(member), "a person who steers")

    async def _free(self, member: Member) -> None:
        assert member.runtime is not None
        self._scene.steered.append((self._world.now, member.node.name, "uncordon"))
        try:
            await member.runtime.workers.uncordon(member.runtime.workers.id, by="ops")
        except (Conflict, NotFound):  # it is draining
            member.leave()

    # Other systems.

    def report(self) -> None:
        """Another system reports on an external call: a part of its output, progress, a sign of life."""
        if self._scene.tokens and (member := self._cluster.up()) is not None:
            token = self._scene.tokens[self._world.chance.choice(sorted(self._scene.tokens))]
            self._cluster.clients.do(member, self._report(member.runtime, token), "another system that reports")

    def forge(self) -> None:
        """Somebody who knows an external call, and not its token, completes it: that is refused."""
        if self._scene.tokens and (member := self._cluster.up()) is not None:
            id = self._world.chance.choice(sorted(self._scene.tokens))
            self._cluster.clients.do(member, self._forge(member.runtime, id), f"a forged result of {id}")

    async def _forge(self, runtime: Any, id: str) -> None:
        token = self._scene.tokens[id]
        try:
            await runtime.complete(token[:9] + ("A" if token[9] != "A" else "B") + token[10:], {"id": "forged"})
        except ClicketError:
            return
        self._world.wrong("a token is needed", f"{id} was completed with a forged token")

    async def _report(self, runtime: Any, token: str) -> None:
        dice = self._world.chance.random()
        if dice < 0.4:
            await runtime.emit(token, "a part ")
        elif dice < 0.7:
            await runtime.report_progress(token, 1, 2, "half")
        else:
            await runtime.heartbeat(token)
