"""Programs that make calls, cancel and watch them; people and other systems that answer them. What they saw goes on record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tests.crash.judge import Ack
from tests.simulation.servers import SERVED

from clicket.engine.records.stored_calls import Closed
from clicket.errors import AgentBusy, ClicketError, Conflict, NotFound, QueueFull, StoreUnavailable, UsageError
from clicket.model import ToolResult

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["EDITED", "REFUSED", "Clients"]

_UNANSWERED = (StoreUnavailable, NotFound, Conflict, Closed, AgentBusy, QueueFull)
"""Errors that acknowledge nothing."""
EDITED = 0.023
"""What a person writes in place of the arguments."""
REFUSED = "unknown"
"""An argument that no schema allows."""
CALLERS = ("", "", "ann", "bob")
SERVED_CALLERS = ("ann", "", "bob", "ann")
"""Where members serve HTTP."""


class Clients:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self.scene = cluster, cluster.world, cluster.scene
        self.given: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}
        self.made_at: dict[str, float] = {}

    def do(self, member: Member, work: Coroutine[Any, Any, None], name: str) -> None:
        """Something that a program does in a process. It ends with its process."""

        async def client() -> None:
            try:
                await work
            except _UNANSWERED:
                pass
            except UsageError as error:
                if "not open" not in str(error) and "is closed" not in str(error):
                    self._world.wrong("errors are expected ones", f"{name}: {error!r}")
            except ClicketError as error:
                self._world.wrong("errors are expected ones", f"{name}: {error!r}")

        task = self._world.spawn(member.node, client())
        task.set_name(name)
        member.clients.append(task)

    # Calls.

    def make_equal_calls(self, first: int) -> None:
        """Programs in all processes make calls that differ only in their ids."""
        chance = random.Random(f"calls {first} of {self._world.seed}")
        focus = self._cluster.features.focus
        name = chance.choice(("look_up", "look_up", "narrow", "rated", "approved", "put", "order"))
        if focus.tools:
            name = chance.choice(focus.tools.split())
        elif self._cluster.features.grants and chance.random() < 0.6:
            name = "approved"
        if not self._cluster.is_quiet and chance.random() < 0.15:
            self._world.loop.call_later(
                chance.choice((0.0, 0.03, 0.3)), self._cluster.moments.outage, context=Context()
            )
        given: dict[str, Any] = {"before": chance.choice((0.05, 0.3)), "after": 0}
        if name == "narrow" and chance.random() < 0.5:
            given["before"] = 4.5  # the last ones wait in vain for their turn
        if name == "approved" and focus.equal:
            given["before"] = 1.4  # those that were decided on at once fill the queue
        if name == "order":
            given["after"] = 0.6
        if name in ("look_up", "put", "pay", "costly", "order_twice"):
            given["key" if name == "look_up" else "fails"] = 0
        for number in range(first, first + (focus.equal or max(6, 2 * len(self._cluster.members)))):
            member = self._cluster.members[number % len(self._cluster.members)]
            if member.is_up:
                id = f"c{number}"
                options = {"thread": "t0", "deadline": chance.uniform(0.5, 8)} if focus.deadlines else {"thread": "t0"}
                self.given[id], self.made_at[id] = (name, given, options), self._world.now
                self._world.tell(member.node, f"a client calls {id}: {self.given[id]}")
                self.do(member, self.call(member, id, waits=chance.random() < 0.6), id)

    def make_call(self, number: int) -> None:
        """A program makes a call, perhaps twice, and perhaps cancels it."""
        chance, id = self._world.chance, f"c{number}"
        self.given[id], self.made_at[id] = self._request(number), self._world.now
        if self.given[id][0] in ("approved", "asking") and self._cluster.features.crossings:
            self._cluster.moments.crosses(self.ask_all_people)
        for _ in range(2 if chance.random() < 0.15 else 1):
            if self._over_http(id):
                self._world.tell("client", f"calls {id} over HTTP: {self.given[id]}")
                self._cluster.http.do(self._cluster.http.call(id, self.caller_of(id)), id)
            elif (member := self._cluster.up()) is not None:
                self._world.tell(member.node, f"a client calls {id}: {self.given[id]}")
                self.do(member, self.call(member, id, waits=chance.random() < 0.6), id)
        if chance.random() < 0.25:
            self._world.loop.call_later(chance.expovariate(1), self.cancel, id)
        if chance.random() < (0.9 if self._cluster.features.focus.watched else 0.2):
            self._world.loop.call_later(chance.expovariate(2), self._watch, id)

    def _request(self, number: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
        chance = self._world.chance
        waits = (0, 0, 0.01, 0.1, 0.5, 1.4, 5.0)
        name = chance.choice(self._cluster.tools).name
        if self._cluster.features.favourite and chance.random() < 0.5:
            name = self._cluster.favourite
        focus = self._cluster.features.focus
        if focus.tools and chance.random() < 0.8:
            name = chance.choice(focus.tools.split())
        if name == "deadly" and (self._cluster.is_quiet or chance.random() < 0.7):
            name = "put"
        has = self._cluster.features
        for wanted, often in (
            ("approved", has.grants),
            ("asking", has.questions),
            ("with_key", has.credentials),
            ("costly", has.costs),
        ):
            if often and chance.random() < 0.4:
                name = wanted
        given: dict[str, Any] = {"before": chance.choice(waits), "after": chance.choice(waits)}
        if name in ("pay", "put", "costly"):
            given["fails"] = chance.choice((0, 0, 1, 4))
        if name == "order_twice":
            given["fails"] = chance.choice((0, 1, 1))
        if name == "look_up":
            given = {"before": 0.3, "after": 0, "key": chance.randint(0, 1)}
        if name in ("rated", "seldom"):
            given = {"before": 0.01, "after": 0}
        if has.servers and random.Random(f"refused {number} of {self._world.seed}").random() < 0.04:
            given[REFUSED] = 1
        options: dict[str, Any] = {"thread": f"t{number % 3}"}
        if chance.random() < (0.7 if focus.deadlines else 0.15):
            options["deadline"] = chance.uniform(0.5, 8)
        if chance.random() < (0.5 if has.later else 0.1):
            options["not_before"] = self._world.system.now() + chance.uniform(0.5, 6)
        if chance.random() < 0.1:
            options["priority"] = 5
        return name, given, options

    def caller_of(self, id: str) -> str:
        callers = SERVED_CALLERS if self._cluster.features.servers else CALLERS
        return callers[int(id[1:]) % len(callers)] if id[1:].isdigit() else ""

    def _over_http(self, id: str, share: float = 0.6) -> bool:
        return self._cluster.features.servers and self.caller_of(id) in SERVED and self._world.chance.random() < share

    def runtime_of(self, member: Member, id: str) -> Any:
        assert member.runtime is not None
        caller = self.caller_of(id)
        return member.runtime.acting_for(caller) if caller else member.runtime

    async def call(self, member: Member, id: str, *, waits: bool) -> None:
        tool, arguments, options = self.given[id]
        runtime = self.runtime_of(member, id)
        if waits:
            self._answered(id, await runtime.call(tool, arguments, id=id, **options))
        else:
            handle = await runtime.submit(tool, arguments, id=id, **options)
            self.scene.acks.append(Ack(did="submit", id=id))
            self._world.tell(member.node, f"{id} is accepted")
            self.stored(id, "submit")
            self._answered(id, await handle.result())

    def _answered(self, id: str, result: ToolResult) -> None:
        code = result.error.code if result.error is not None else None
        self._world.tell("client", f"{id} is {result.state} {code or result.output}")
        self.scene.acks.append(
            Ack(
                did="result", id=id, state=result.state.value, code=code, output=result.output, artifact=result.artifact
            )
        )
        if (found := self.stored(id, "result")) and found.ended_at is None:
            self._world.wrong(
                "durable before visible", f"a caller of {id} got {result.state}, and the store has {found.state}"
            )

    def stored(self, id: str, what: str) -> Any:
        """The call, which the store must have."""
        found = self._cluster.find(id)
        if found is None and not self._cluster.archive.has(id):
            self._world.wrong(
                "acknowledged means stored", f"{what} of {id} was answered, and the store does not have it"
            )
        return found

    def open_calls(self) -> list[str]:
        return [id for id in self.given if (found := self._cluster.find(id)) is not None and found.ended_at is None]

    def leave(self, client: asyncio.Task[None]) -> None:
        """A program that waits for its call stops to wait: that cancels the call."""
        self._world.tell("client", f"leaves {client.get_name()}")
        self.scene.may_be_cancelled.add(client.get_name())
        client.cancel()

    def cancel(self, id: str) -> None:
        async def cancel(member: Member) -> None:
            self._world.tell(member.node, f"a client cancels {id}")
            took = await self.runtime_of(member, id).cancel(id)
            self._world.tell(member.node, f"the cancel of {id} is answered {took}")
            if took:
                self.scene.cancelled.setdefault(id, self._world.now)
            self.scene.acks.append(Ack(did="cancel", id=id, took=took))

        self.scene.may_be_cancelled.add(id)
        if self._over_http(id):
            self._cluster.http.do(self._cluster.http.cancel(id, self.caller_of(id)), f"cancel {id}")
        elif (member := self._cluster.up()) is not None:
            self.do(member, cancel(member), f"cancel {id}")

    def _watch(self, id: str) -> None:
        async def watch(member: Member) -> None:
            handle = await self.runtime_of(member, id).handle(id)
            last, began = 0, self._world.now
            async for event in handle.events():
                if event.seq != last + 1:
                    self._world.wrong("events without holes", f"a reader of {id} got event {event.seq} after {last}")
                last = event.seq
                self.scene.acks.append(Ack(did="saw", id=id, seq=event.seq, type=event.type, state=event.state.value))
                if event.is_terminal:
                    self.scene.heard_ends.append((id, began, self._world.now))

        if self._over_http(id):
            self._cluster.http.do(self._cluster.http.watch(id, self.caller_of(id)), f"watch {id}")
        elif (member := self._cluster.up()) is not None:
            self.do(member, watch(member), f"watch {id}")

    # People and other systems.

    def ask_a_person(self) -> None:
        if self._cluster.features.servers and self._world.chance.random() < 0.5:
            self._cluster.http.do(self._cluster.http.decide(all_=False), "a person")
        elif (member := self._cluster.up()) is not None:
            self.do(member, self._decide(member, all_=False), "a person")
            if self._world.chance.random() < 0.3 and (other := self._cluster.up()) is not None:
                self.do(other, self._decide(other, all_=False), "another person")

    def ask_all_people(self) -> None:
        if (member := self._cluster.up()) is not None:
            self.do(member, self._decide(member, all_=True), "people")

    async def _decide(self, member: Member, *, all_: bool) -> None:
        runtime, chance = member.runtime, self._world.chance
        assert runtime is not None
        page = await runtime.history(limit=200, active=True)
        for record in page.items:
            if not all_ and chance.random() < 0.5:
                continue
            await asyncio.sleep(0 if all_ else self._cluster.moments.hesitates())
            if record.waiting_for == "approval":
                await self._decide_one(runtime, record)
            elif record.waiting_for == "external" and (token := self.scene.tokens.get(record.id)) is not None:
                output = self._result_of(record.id)
                if self._cluster.features.servers and chance.random() < 0.5:
                    self._cluster.http.do(
                        self._cluster.http.complete(record.id, token, output), f"complete {record.id}"
                    )
                elif chance.random() < 0.8:
                    await runtime.complete(token, output)
                    self.scene.complete(record.id, output)
                else:
                    await runtime.fail(token, "it did not work")
        if not all_ and chance.random() < 0.3:
            for record in (await runtime.unknown(limit=20)).items:
                await runtime.resolve(record.id, happened=chance.random() < 0.5, by="p0", thread=record.thread)

    def complete(self, id: str) -> None:
        """Another system reports the result of an external call."""
        if (member := self._cluster.up()) is not None:
            self.do(member, self._complete(member.runtime, id), f"complete {id}")

    async def _complete(self, runtime: Any, id: str) -> None:
        output = self._result_of(id)
        await runtime.complete(self.scene.tokens[id], output)
        self.scene.complete(id, output)

    def _result_of(self, id: str) -> dict[str, Any]:
        """What another system completes a call with: it did what the attempt asked for whose token it has."""
        return {"id": id, "attempt": self.scene.token_of.get(self.scene.tokens[id], 1)}

    async def _decide_one(self, runtime: Any, record: Any) -> None:
        by, thread = f"p{self._world.chance.randint(1, 1_000_000)}", record.thread
        verb, given = self.decision(record.tool, record.id, record.approval or {}, by)
        asked = record.approval or {}
        if asked.get("purpose") == "input" or self._world.chance.random() < 0.5:
            given["seen"] = asked["hash"]
        took = await getattr(runtime, verb)(record.id, by=by, thread=thread, reason=by, **given)
        if took and "seen" in given:
            self.scene.decided[record.id, by] = asked["hash"]
        self._world.tell("person", f"{by} decides on {record.id}: {verb} {took}")
        self.scene.acks.append(Ack(did="decide", id=record.id, took=took, text=by))

    def decision(self, tool: str, id: str, approval: dict[str, Any], reason: str) -> tuple[str, dict[str, Any]]:
        """What a person decides: the name of the method, or of the route, and what is given with it."""
        dice = self._world.chance.random()
        if approval.get("purpose") == "input":
            if dice < 0.2:
                return "deny", {}
            name = f"{approval['question']['key']} {reason}"
            self.scene.answered.setdefault(id, set()).add(name)
            return "respond", {"output": {"name": name}}
        if tool == "raise_budget" and dice < 0.1:
            return "deny", {}
        if dice < 0.6 or tool == "raise_budget":
            if tool == "approved" and self._cluster.features.grants and self._world.chance.random() < 0.6:
                return "approve", {"grant": self._cluster.granters.terms(reason, id)}
            return "approve", {}
        if dice < 0.75 and tool == "approved":
            return "approve", {"arguments": {"before": EDITED, "after": EDITED}}
        if dice < 0.85 and tool == "approved":
            return "respond", {"output": {"id": id, "attempt": 0}}
        return "deny", {}
