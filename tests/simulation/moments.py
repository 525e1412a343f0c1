"""What befalls processes, calls and turns at moments that matter: at a write, at its answer, when a body begins or a model is asked.

A fault at any time mostly hits a process that has nothing to do. Here it is armed, and strikes a few callbacks after the moment that it
waits for. All of it is drawn apart from the workload's own chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.focus import armed_in
from tests.simulation.loop import Node

from clicket.ports import Append

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["Moments"]

_WRITES = ("append", "document", "hold", "claim")
_KINDS = (*_WRITES, "append", "document", "document", "answer", "answer", "body", "effect", "check", "model")
_FAULTS = ("crash", "crash", "crash", "pause", "cut", "leave", "outage")
_AND = {"crash and cancel": "cancel", "crash and stop": "stop"}
"""A process dies, and soon after somebody does this with what it did."""
_DURING_CUT = {"cut and cancel": "cancel", "cut and decide": "decide"}
"""A process does not reach the store for longer than it tries, and meanwhile somebody does this in another one."""
_REQUESTS = ("cancel", "caller leaves", "caller leaves", "stop")
_KINDS_OF = {
    "caller leaves": ("answer",),
    "cancel": ("check", "check", "body", "effect", "answer"),
    "stop": ("model", "body", "answer"),
}
_SOON = (0, 0, 1, 1, 2, 3, 5, 8)
"""Callbacks between the moment and what it brings."""
_LATER = (5, 10, 20, 30, 40, 60)
_LEASE = 3.0
_MOST_CRASHES = 5
"""A turn whose process dies more often is not continued."""
_LIMIT = 12.0
"""Seconds after which a wait for a person ends (`scene.POLICY`)."""


class Moments:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._chance = random.Random(f"moments of {cluster.world.seed}")
        self._armed: list[tuple[str, str, int]] = []
        """Kind of the moment, what it brings, and how many of them pass before."""

    def planned(self, end: float) -> list[tuple[float, Callable[[], None]]]:
        plan: list[tuple[float, Callable[[], None]]] = []
        if self._cluster.features.moments:
            plan += [(self._chance.uniform(0, end), self.arm) for _ in range(self._chance.randint(2, 8))]
        crashes = 0
        for kind, act in armed_in(self._cluster.features.focus) * self._chance.randint(2, 5):
            crashes += act.startswith("crash")
            if crashes <= _MOST_CRASHES or not act.startswith("crash"):
                plan.append((self._chance.uniform(0, end), partial(self._arm, kind, act)))
        return plan

    def arm_one(self) -> None:
        self._arm(*self._chance.choice(armed_in(self._cluster.features.focus)))

    def _arm(self, kind: str, act: str) -> None:
        self._armed.append((kind, act, self._chance.choice((0, 0, 1, 2, 4))))

    def arm(self) -> None:
        chance = self._chance
        act = chance.choice((*_REQUESTS, *_FAULTS) if not self._cluster.is_quiet else _REQUESTS)
        self._armed.append((chance.choice(_KINDS_OF.get(act, _KINDS)), act, chance.choice((0, 0, 0, 1, 2, 5, 10))))

    def happens(self, kind: str, node: Node | None, call: str = "", what: Sequence[str | Append] = ()) -> None:
        """Called at each moment: of which process, and of which call, if of one. `what`: kinds of documents, or what was appended."""
        if not self._armed or not self._cluster.scene.is_storm:
            return
        names = {kind: call, "write" if kind in _WRITES else kind: call}
        if any(armed.startswith(f"{kind} ") for armed, _, _ in self._armed):
            for each in what:
                if isinstance(each, str):
                    names[f"{kind} {each}"] = call
                else:
                    names |= {f"{kind} {tag}": each.id for tag in _tags(each)}
        for place, (armed, act, left) in enumerate(self._armed):
            if armed not in names and not (kind == "write" and armed in _WRITES):  # a SQLite file has one kind of them
                continue
            if left:
                self._armed[place] = (armed, act, left - 1)
            else:
                del self._armed[place]
                steps = 0 if act.endswith("at once") else self._chance.choice(_LATER if act == "crash later" else _SOON)
                of = names.get(armed, call)
                self._cluster.after_steps(
                    steps, partial(self._strike, act.removesuffix(" at once").removesuffix(" later"), node, of)
                )
                return

    def _strike(self, act: str, node: Node | None, call: str) -> None:
        members = [member for member in self._cluster.members if member.node is node and node.is_alive]
        if act == "outage":
            self.outage()
        elif act in _REQUESTS:
            Context().run(self._ask_for, act, members, call)
        elif act in ("decide", "cross", "complete"):
            Context().run(self._answer, act, call)
        elif members:
            Context().run(self._befall, act, members[0], call)

    def _answer(self, act: str, call: str) -> None:
        """A person, or another system, answers."""
        people = self._cluster.clients.ask_all_people
        if act == "decide":
            people()
        elif act == "cross":
            self.crosses(people)
        elif call in self._cluster.scene.tokens:
            self._cluster.clients.complete(call)

    def _befall(self, act: str, member: Member, call: str) -> None:
        later = self._world.loop.call_later
        if act == "drain":
            self._cluster.operators.drain(member)
        elif act in _AND:
            self._cluster.befall("crash", member, self._chance)
            later(self._chance.uniform(0, 2), partial(self._ask_for, _AND[act], [], call), context=Context())
        elif act in _DURING_CUT:
            self._cut(member, self._chance.uniform(0.95, 1.1) * _LEASE)
            request = _DURING_CUT[act]
            ask = (
                partial(self._answer, request, call)
                if request == "decide"
                else partial(self._ask_for, request, [], call)
            )
            later(self._chance.uniform(0, 1), ask, context=Context())
        elif act in ("swap", "away"):
            self._put_away(member, self._chance.choice((0.2, 0.6) if act == "swap" else (1.5, 2.4)) * _LEASE)
            for other in self._cluster.members if act == "swap" else ():
                if other is not member and other.node.paused_until > self._world.now:
                    other.node.paused_until = self._world.now + 0.001
                    later(0.001, self._world.loop.resume, other.node, context=Context())
        else:
            self._cluster.befall(act, member, self._chance)
            if act == "crash":  # before another process has its calls
                people, stop = self._cluster.clients.ask_all_people, self._cluster.conversations.stop
                meanwhile = self._chance.choice((people, stop, self._cancel, None))
                if meanwhile is not None:
                    later(self._chance.uniform(0, 3), meanwhile, context=Context())

    def _put_away(self, member: Member, seconds: float) -> None:
        self._world.tell(member.node, f"is paused for {seconds:.3f} s")
        self._cluster.faults["pause"] += 1
        member.node.paused_until, member.node.was_away = self._world.now + seconds, True

    def _cut(self, member: Member, seconds: float) -> None:
        self._world.tell(member.node, f"does not reach the store for {seconds:.3f} s")
        self._cluster.faults["cut"] += 1
        self._cluster.network.cut[member.node] = self._world.now + seconds
        member.node.was_away = True

    def outage(self) -> None:
        """No process reaches the store for a while."""
        seconds = self._chance.choice((0.5, 2.0, 4.0, 8.0))
        until = self._world.now + seconds
        self._cluster.nobody_for += seconds
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
            waiting = [client for client in waiting if client.get_name() == call] or waiting
            if waiting:
                clients.leave(self._chance.choice(waiting))

    def hesitates(self) -> float:
        """For how long a person looks at a question."""
        if self._cluster.features.focus.slow_people:
            return self._chance.choice((0.0, 5.0, 8.0))
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


def _tags(change: Append) -> Iterator[str]:
    """What an append says, for moments that wait for it."""
    if change.expect == 0:
        yield "created"
    if change.waiting_for is not None:
        yield f"waits for {change.waiting_for}"
    if change.ended_at is not None:
        yield "ends"
    for event in change.events:
        yield event.type
        if event.type == "attempt_started":
            yield f"starts {change.call.tool}"
        yield from (name for name in ("closed", "spend") if name in event.data or f"external_{name}" in event.data)
        if isinstance(entry := event.data.get("entry"), dict):
            yield f"entry {entry.get('e')}"
