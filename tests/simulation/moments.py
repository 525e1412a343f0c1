"""What befalls processes, calls and turns at moments that matter: at a write, at its answer, when a body begins or a model is asked.

A fault at any time mostly hits a process that has nothing to do. Here it is armed, and strikes a few callbacks after the moment that it
waits for. All of it is drawn apart from the workload's own chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from tests.simulation.loop import Node

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["Moments"]

_WRITES = ("append", "document", "hold", "claim")
_KINDS = (*_WRITES, "append", "document", "document", "answer", "answer", "body", "effect", "check", "model")
_FAULTS = ("crash", "crash", "crash", "pause", "cut", "leave", "outage")
_REQUESTS = ("cancel", "caller leaves", "caller leaves", "stop")
_KINDS_OF = {
    "caller leaves": ("answer",),
    "cancel": ("check", "check", "body", "effect", "answer"),
    "stop": ("model", "body", "answer"),
}
_SOON = (0, 0, 1, 1, 2, 3, 5, 8)
"""Callbacks between the moment and what it brings."""
_LIMIT = 12.0
"""Seconds after which a wait for a person ends (`scene.POLICY`)."""


class Moments:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._chance = random.Random(f"moments of {cluster.world.seed}")
        self._armed: list[tuple[str, str, int]] = []
        """Kind of the moment, what it brings, and how many of them pass before."""

    def planned(self, end: float) -> list[tuple[float, Callable[[], None]]]:
        return [(self._chance.uniform(0, end), self.arm) for _ in range(self._chance.randint(2, 8))]

    def arm(self) -> None:
        chance = self._chance
        act = chance.choice((*_REQUESTS, *_FAULTS) if not self._cluster.is_quiet else _REQUESTS)
        self._armed.append((chance.choice(_KINDS_OF.get(act, _KINDS)), act, chance.choice((0, 0, 0, 1, 2, 5, 10))))

    def happens(self, kind: str, node: Node | None, call: str = "") -> None:
        """Called at each moment: of which process, and of which call, if of one."""
        if not self._armed or not self._cluster.scene.is_storm:
            return
        for place, (armed, act, left) in enumerate(self._armed):
            if kind != armed and not (kind == "write" and armed in _WRITES):  # a SQLite file has one kind of them
                continue
            if left:
                self._armed[place] = (armed, act, left - 1)
            else:
                del self._armed[place]
                steps = self._chance.choice(_SOON)
                self._cluster.after_steps(steps, lambda act=act: self._strike(act, node, call))  # type: ignore[misc]
                return

    def _strike(self, act: str, node: Node | None, call: str) -> None:
        members = [member for member in self._cluster.members if member.node is node and node.is_alive]
        if act == "outage":
            self.outage()
        elif act in _REQUESTS:
            Context().run(self._ask_for, act, members, call)
        elif members:
            Context().run(self._cluster.befall, act, members[0], self._chance)
            if act == "crash":  # before another process has its calls
                people, stop = self._cluster.clients.ask_all_people, self._cluster.conversations.stop
                meanwhile = self._chance.choice((people, stop, self._cancel, None))
                if meanwhile is not None:
                    self._world.loop.call_later(self._chance.uniform(0, 3), meanwhile, context=Context())

    def outage(self) -> None:
        """No process reaches the store for a while."""
        until = self._world.now + self._chance.choice((0.5, 2.0, 4.0, 8.0))
        self._world.tell("world", f"no process reaches the store until {until:.3f}")
        self._cluster.faults["cut"] += 1
        for member in self._cluster.members:
            self._cluster.network.cut[member.node] = until
            member.node.was_away = True

    def _ask_for(self, act: str, members: list[Member], call: str) -> None:
        clients = self._cluster.clients
        if act == "stop":
            self._cluster.conversations.stop()
        elif act == "cancel":
            self._cancel(call)
        else:
            open_clients = (client for member in members for client in member.clients if not client.done())
            waiting = [client for client in open_clients if client.get_name() in clients.given]
            if waiting:
                clients.leave(self._chance.choice(waiting))

    def hesitates(self) -> float:
        """For how long a person looks at a question."""
        return self._chance.choice((0.0, 0.0, 1.0, 3.0)) if self._cluster.features.hesitations else 0.0

    def _cancel(self, call: str = "") -> None:
        clients = self._cluster.clients
        open_ = [call] if call in clients.given else clients.open_calls()
        if open_:
            clients.cancel(self._chance.choice(open_))

    # What comes just when its time ends.

    def reports(self, then: Callable[[], None], left: float) -> None:
        """Another system ends an external call at once, before its body has returned, or about when its time ends."""
        if self._chance.random() < 0.4:
            self._world.loop.call_later(self._chance.uniform(0, 0.5), then, context=Context())
        else:
            self.crosses(then, left)

    def crosses(self, then: Callable[[], None], seconds: float = _LIMIT) -> None:
        """Let it happen about so many seconds from now, or not at all."""
        if self._chance.random() < 0.7:
            delay = seconds + self._chance.choice((0.003, 0.03, 0.3)) * self._chance.uniform(-1, 1)
            self._world.loop.call_later(max(delay, 0.0), then, context=Context())
