"""Runtimes over one store, what clients and people do with them, and what befalls them. One seed decides all of it."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextvars import Context
from functools import partial
from typing import Any

from tests.simulation.callers import Holders, with_key
from tests.simulation.clerks import Clerks, make_clerk
from tests.simulation.clients import Clients
from tests.simulation.conversations import Conversations
from tests.simulation.disk_faults import DiskFaults, log_length
from tests.simulation.features import Features
from tests.simulation.http_clients import HttpClients
from tests.simulation.lanes import SimulatedProcess
from tests.simulation.loop import Node
from tests.simulation.moments import Moments
from tests.simulation.money import PRICES, WHOLE, Books, budgets_of, costly
from tests.simulation.network import Network
from tests.simulation.operators import Operators
from tests.simulation.people import Granters, asking
from tests.simulation.places import ModelPlace, Place, Seen, SqlitePlace, disk_fails, store_of
from tests.simulation.receiver import WEBHOOKS, SimulatedSender
from tests.simulation.retention import RETENTION, Archive, sweep_every
from tests.simulation.scene import POLICY, TOOLS, Scene, deaf, guarded, order_twice, seldom
from tests.simulation.schedules import Timetable, lasting
from tests.simulation.servers import OPTIONS
from tests.simulation.team import HELP, Team, job
from tests.simulation.world import World

from clicket import Runtime
from clicket.engine.executors.processes import pool
from clicket.errors import StoreUnavailable
from clicket.runtime.settings import Settings
from clicket.server import create_app
from clicket.telemetry.webhooks import service

__all__ = ["AT_ONCE", "LEASE", "Cluster"]

LEASE, AT_ONCE = 3.0, 4
SECRET_KEY = "a-key-that-seals-the-credentials-of-a-simulation"
_STORM = 15.0
"""Seconds in which faults happen."""
_LONG_REST = 600.0
"""More of them for calls of a schedule, which run one after another."""
_REST = 240.0
"""Seconds after the faults in which everything must have ended."""
_STEP_OF_REST, _MORE_REST = 60.0, 900.0
"""After them each step must bring a body or a request to a model, for so long at most."""


_ASKED = re.compile(r"(?:^|:)(boss|helper|junior)\.(\d+)\.(\d+)\.(\d+)")
"""In the id of an agent's tool call: the agent, its turn, the step, the place in its reply."""
_OWN_QUESTIONS = 8000
"""Places from which on it is a question of the turn itself."""


class Member:
    """A process with a runtime."""

    def __init__(self, cluster: Cluster, place: int) -> None:
        world = cluster.world
        self.cluster, self.place = cluster, place
        self.node: Node = world.add_node(f"n{place}")
        world.tell(self.node, "starts")
        self.runtime: Runtime | None = None
        self.team: Team | None = None
        self.app: Any = None
        """Its HTTP server's ASGI application, if it has one."""
        self._leave: asyncio.Future[None] = world.loop.create_future()
        self.has_left = False
        """It closed, or could not be opened."""
        self.life = world.spawn(self.node, self._live())
        self.clients: list[asyncio.Task[None]] = []

    @property
    def is_up(self) -> bool:
        return self.node.is_alive and self.runtime is not None and self.runtime.is_open

    async def _live(self) -> None:
        cluster = self.cluster
        settings = Settings(
            store="memory://", lease=LEASE, cancel_grace=0.3, max_claims=3, close_timeout=2.0, open_timeout=30.0,
            queue_timeout=cluster.queue_timeout, max_concurrency=AT_ONCE,
            max_queue=3 if cluster.features.short_queue and not cluster.has_agents else 50_000,
            secret_key=SECRET_KEY, credential_timeout=15.0, budgets=cluster.budgets, prices=PRICES,
            webhooks=WEBHOOKS if cluster.has_webhooks else (), retention=RETENTION if cluster.features.sweeps else None,
        )  # fmt: skip
        gives_away = self.place == cluster.gives_away
        runtime = Runtime(
            [*dict.fromkeys(cluster.tools), *([lasting] if cluster.has_schedule else [])],
            store=cluster.place.open(self.node, cluster.world.moment),
            policy=POLICY,
            engine="workers" if gives_away else None,
            settings=settings,
        )
        team = Team(runtime, cluster.features) if cluster.has_agents else None
        if team is not None and cluster.features.clerks:
            team.clerk = make_clerk(runtime)
        agents = () if team is None else (team.boss, team.planner)
        app = create_app(runtime, OPTIONS, mcp=False, agents=agents) if self.place in cluster.serving else None
        try:
            async with runtime if app is None else app.lifespan():
                self.app = app
                self.runtime, self.team = runtime, team
                cluster.world.tell(self.node, "is open")
                await self._leave
        except StoreUnavailable:
            pass  # it could not be opened: another one is started
        self.has_left = True
        cluster.note_absence()

    def leave(self) -> None:
        """Close, as a deployment does."""
        if not self._leave.done():
            self._leave.set_result(None)


class Cluster:
    def __init__(self, world: World, *, members: int, calls: int, keep: Collection[int] | None = None) -> None:
        chance = world.chance
        self.world, self.scene = world, Scene(world)
        self.nobody_for = 0.0
        """Seconds in which no process was there, or none reached the store."""
        self._nobody_since: float | None = None
        self.away = (math.inf, math.inf)
        """When all processes began to leave, and when others were there."""
        self.features = Features(world.seed)
        focus = self.features.focus
        faults = chance.random() < 0.8 if focus.quiet is None else not focus.quiet
        bad = faults and chance.random() < 0.7
        worse = 5 if self.features.flaky else 1
        self.network = Network(
            world,
            lost=0.02 * bad * worse,
            unheard=0.03 * bad * worse,
            late=0.03 * bad,
            messages_lost=chance.choice((0.0, 0.1, 1.0)),
        )
        if faults and (focus.late or focus.unheard):
            self.network.late, self.network.unheard, self.network.was_bad = focus.late, focus.unheard, True
        self.place: Place
        self.disk_faults: DiskFaults | None = None
        if store_of(chance, focus.store) == "sqlite":
            durability = focus.durability or chance.choice(("process", "power"))
            if faults and disk_fails(chance, focus.store):
                self.disk_faults = DiskFaults(self, durability)
                self.features.sweeps = False  # the archive would have to forget what a power loss takes
                self.place = self.disk_faults.place
            else:
                log_length()
                self.place = SqlitePlace(durability)
        else:
            self.place = ModelPlace(self.network, bus=chance.random() < 0.7)
        self.gives_away = 0 if members > 1 and (chance.random() < 0.3 or focus.gives_away) else -1
        self.serving = {0, *range(2, members)} if self.features.servers else set[int]()
        """The places of members that serve HTTP."""
        self.scene.recorded, self.scene.is_on_record = self._recorded, self._is_on_record
        self.scene.is_asked_for = self._is_asked_for
        self.members: list[Member] = []
        self._size, self._calls, self._faults = members, calls, faults
        self._keep, self.planned = keep, 0
        """Of what was planned, the numbers that happen; None: all."""
        self.has_agents, self.has_schedule = chance.random() < 0.4, chance.random() < 0.025 or focus.schedule
        self.has_agents = self.has_agents if focus.agents is None else focus.agents
        self.queue_timeout = focus.queue_timeout
        self.has_small_budgets = self.has_agents and self.features.budgets
        self.scene.bills = self.has_small_budgets
        self.budgets = budgets_of(world.seed) if self.has_small_budgets else (WHOLE,)
        has = self.features
        self.tools = [*TOOLS, *([costly] if has.costs else []), *([asking] if has.questions else [])]
        self.tools += [with_key] if has.credentials else []
        self.tools += [deaf] * 3 if has.deaf else []  # often
        self.tools += [job] if self.has_agents and has.background else []
        self.tools += [each for each in (order_twice, seldom, guarded) if each.name in focus.tools]
        self.favourite = random.Random(f"favourite of {world.seed}").choice(self.tools).name
        self.is_quiet = not faults
        self.has_webhooks = chance.random() < 0.15
        self.people_away = not self.has_agents and (chance.random() < 0.2 or focus.people_away)
        """No person decides, and no other system answers: every wait ends by its limit."""
        self.clients, self.conversations = Clients(self), Conversations(self)
        self.http, self.granters = HttpClients(self), Granters(self)
        self.holders, self.timetable = Holders(self), Timetable(self)
        self.operators, self.archive = Operators(self), Archive(self)
        self.clerks = Clerks(self)
        self.scene.is_decided = self._is_decided
        self.moments = Moments(self)
        if has.moments or focus.arms:
            world.moment = self.scene.moment = self.moments.happens
        self.scene.script = focus.script
        if has.crossings:
            self.people_away = not self.has_agents
            self.scene.crosses = lambda call, left: self.moments.reports(partial(self.clients.complete, call), left)
        if has.refusals:
            refusing = random.Random(f"refusals of {world.seed}")
            self.scene.refuses = lambda who: (
                refusing.random() < {"job": 0.4, "executor": 0.35, "again": 0.4, HELP: 0.1}.get(who, 0.0)
            )
        self.scene.kill = self._kill
        self.faults = Counter[str]()
        self.stored_calls = 0
        self.is_slow = bool(world.loop.slow)
        self.known_tokens = 0
        """Of the ledger, without what is only assumed."""
        self.all_tokens = 0
        self.books: Books | None = None
        self.came_to_rest = False
        self.storm_ended = 0.0

    # The story.

    async def run(self) -> None:
        world, chance = self.world, self.world.chance
        service.HttpSender = SimulatedSender  # type: ignore[misc, assignment]
        pool.ToolProcess = SimulatedProcess  # type: ignore[misc, assignment]
        sweep_every(5.0 if self.features.sweeps else 300.0)
        if self.features.sweeps:
            self._archiving = world.loop.create_task(self.archive.watch())
        self.members = [Member(self, place) for place in range(self._size)]
        plan = self._plan(chance)
        self.planned = len(plan)
        for number, (at, act) in enumerate(sorted(plan, key=lambda each: each[0])):
            if self._keep is None or number in self._keep:
                await asyncio.sleep(max(at - world.now, 0))
                chance.seed(f"{world.seed} {number}")  # or what is left out would change what comes after it
                act()
        await asyncio.sleep(max(_STORM - world.now, 0))
        await self.rest()
        await self.close()

    def _plan(self, chance: random.Random) -> list[tuple[float, Callable[[], None]]]:
        """What happens by itself, and when."""
        plan: list[tuple[float, Callable[[], None]]] = [
            (chance.uniform(0, 10), partial(self.clients.make_call, number)) for number in range(self._calls)
        ]
        if not self.people_away:
            plan += [(chance.uniform(0.5, _STORM), self.clients.ask_a_person) for _ in range(self._calls)]
        if self.has_agents:
            plan += [
                (chance.uniform(0, 10), partial(self.conversations.send, number)) for number in range(self._calls // 2)
            ]
        if self.has_agents and self.features.clerks:
            plan += [(chance.uniform(0, 10), partial(self.clerks.send, number)) for number in range(self._calls)]
            plan += [(chance.uniform(2, _STORM), self.clerks.stop) for _ in range(3 if self.features.stops else 0)]
        if self.features.credentials:
            plan += [(chance.uniform(0, _STORM), self.holders.change) for _ in range(4)]
        if self.features.again:
            plan += [(chance.uniform(2, _STORM), self.holders.send_again) for _ in range(self._calls // 2)]
        if self.has_agents and self.features.stops:
            plan += [(chance.uniform(2, _STORM), self.conversations.stop) for _ in range(5)]
        if self.features.grants and not self.people_away:
            plan += [(chance.uniform(2, _STORM), self.granters.revoke) for _ in range(2)]
        if self.features.operators:
            plan += [(chance.uniform(0, _STORM), self.operators.look) for _ in range(self._calls)]
            plan += [(chance.uniform(2, 10), self.operators.steer) for _ in range(3)]
            plan += [(chance.uniform(0, _STORM), self.operators.report) for _ in range(self._calls)]
            plan += [(chance.uniform(0, _STORM), self.operators.forge) for _ in range(4)]
        if self.has_schedule:
            plan.append((chance.uniform(0, 10), self.timetable.make))
        if self.features.bursts:
            plan += [(1.5 + 3 * number, partial(self.clients.make_equal_calls, 100 * number)) for number in (1, 2, 3)]
        if self.features.moments or self.features.focus.arms:
            plan += self.moments.planned(_STORM)
            if self.has_schedule:  # the first due times
                firing = self.moments.arm_one if self.features.focus.arms else self.moments.arm
                plan += [
                    (at - 0.01, firing)
                    for at in (60, 60, 60, 120, 120, *((60, 60, 120) * bool(self.features.focus.arms)))
                ]
                plan += [(125.0, self.replace_the_dead)] if self.features.focus.arms else []
        if self._faults:
            plan += [(chance.uniform(0.2, _STORM), self.fault) for _ in range(chance.randint(1, 6))]
            plan += self.disk_faults.planned(_STORM) if self.disk_faults is not None else []
        return plan

    async def rest(self) -> None:
        """The faults are over: everything ends."""
        self.world.tell("world", "the faults are over")
        self.network.calm()
        self.scene.is_storm = False
        self.storm_ended = self.world.now
        if self.disk_faults is not None:
            self.disk_faults.calm()
        self.world.loop.on_step = None
        self.world.loop.slow = 0.0  # else leases are lost for ever
        for member in self.members:
            member.node.skew = 0.0
        self.gives_away = -1
        if self.scene.scheduled_at is not None:
            await self.outage()
        began = self.world.now
        until = began + _REST + (_LONG_REST if self.has_schedule else 0.0)
        most, done = until + _MORE_REST, -1
        while self.world.now < until:
            self._wind_up(began)
            await asyncio.sleep(1.0)
            if self.is_at_rest(began):
                self.came_to_rest = True
                await self.read_books()
                if self.is_at_rest(began):  # a schedule may have made a call meanwhile
                    return
            if self.world.now >= until and done != (done := len(self.scene.bodies) + len(self.scene.requests)):
                until = min(self.world.now + _STEP_OF_REST, most)  # turns of one thread follow one another
        self._judge_unrest()

    def _judge_unrest(self) -> None:
        """What goes on for ever."""
        for call in self.place.calls():
            if call.ended_at is None:
                self.world.wrong(
                    "everything ends",
                    f"call {call.id} of {call.tool} is {call.state} for ever, waiting for {call.waiting_for}",
                )
            elif not self.was_told(call):
                self.world.wrong(
                    "webhooks arrive", f"call {call.id} of {call.tool} has ended, and the other system was not told"
                )
        for name, held in self.place.slots().items():  # a runtime that closes gives back what it has
            self.world.wrong("slots return", f"{name}: {held} held for ever")
        for member in self.members:
            for client in member.clients:
                if member.node.is_alive and not client.done():
                    self.world.wrong(
                        "every waiter is answered", f"a client of {member.node} waits for ever: {client.get_name()}"
                    )
        for message in self.clerks.sent:
            if not self.clerks.is_taken(message):
                self.world.wrong(
                    "each message is in one turn", f"{message.id} in {message.thread} is taken by no turn for ever"
                )
        for task in self.http.open:
            if not task.done():
                self.world.wrong("every waiter is answered", f"a client waits for ever: {task.get_name()}")

    def _wind_up(self, began: float) -> None:
        """At rest people decide what is open, and whoever has no answer asks again."""
        self.replace_the_dead()
        if not self.people_away:
            self.clients.ask_all_people()
            if self.features.credentials:
                self.holders.put_for_all()
        self.conversations.send_unanswered()
        self.clerks.send_untaken()
        if self.features.operators:
            self.operators.free_all()
        if self.features.sweeps and began + 10 < self.world.now < began + 2 * RETENTION:
            self.holders.send_again()
        if self.has_schedule and self.world.now > began + 130:
            self.timetable.show()

    async def outage(self) -> None:
        """No process is there for a while."""
        if not self.timetable.outage:
            return
        self.world.tell("world", "all processes leave")
        self.replace_the_dead()
        began = self.world.now
        for member in self.members:
            member.leave()
        await asyncio.wait([member.life for member in self.members if member.node.is_alive], timeout=60.0)
        await asyncio.sleep(self.timetable.outage)
        self.away = (began, self.world.now)

    def is_at_rest(self, began: float) -> bool:
        waiting = any(not client.done() for member in self.members if member.node.is_alive for client in member.clients)
        up = all(member.is_up for member in self.members)
        answered = all(message.answers for message in self.conversations.messages)
        # A schedule must not make a call while the runtimes close.
        scheduled = not self.has_schedule or (self.world.now > began + 131 and self.world.now % 60 < 50)
        scheduled = scheduled and (not self.features.sweeps or self.world.now > began + 2 * RETENTION + 6)
        waiting = waiting or any(not task.done() for task in self.http.open)
        if not (up and answered and scheduled and self.clerks.is_done()) or waiting:
            return False
        if self.place.slots():  # those of a process that has just died return when its lease is over
            return False
        return all(call.ended_at is not None and self.was_told(call) for call in self.place.calls())

    def was_told(self, call: Seen) -> bool:
        """Does the other system know that it has ended, if there is one?"""
        return not self.has_webhooks or any(
            told[:3] == ("call.ended", call.thread, call.id) for told in self.scene.webhooks
        )

    def _is_on_record(self, id: str, attempt: int) -> bool:
        return any(
            event.type == "attempt_started" and event.data["attempt"] == attempt
            for call in self.place.calls(id)
            for event in call.events()
        )

    def _is_asked_for(self, id: str) -> bool:
        asked, call = _ASKED.search(id), self.find(id)
        if asked is None or call is None:
            return True
        agent, turn, step, place = asked[1], *map(int, asked.groups()[1:])
        for record in self.place.calls():
            if (
                record.tool == f"agent:{agent}"
                and (events := record.events())[0].data["arguments"]["thread"] == call.thread
            ):
                entries = [
                    event.data.get("entry") or {} for event in events if events[0].data["arguments"]["turn"] == turn
                ]
                replies = (entry for entry in entries if entry.get("e") == "reply" and entry["step"] == step)
                if any(len(reply["uses"]) >= place or place >= _OWN_QUESTIONS for reply in replies):
                    return True
        return False

    def _is_decided(self, place: tuple[str, int, int, str, str, str]) -> bool:
        """Is this decision of middleware on record?"""
        thread, turn, step, on, by, use = place
        for call in self.place.calls():
            if call.tool == "agent:clerk" and (events := call.events())[0].data["arguments"]["thread"] == thread:
                entries = (event.data.get("entry") or {} for event in events)
                if events[0].data["arguments"]["turn"] == turn and any(
                    entry.get("e") == "decision"
                    and (entry["step"], entry["on"], entry["by"], entry.get("use", "")) == (step, on, by, use)
                    for entry in entries
                ):
                    return True
        return False

    def _recorded(self) -> Iterator[tuple[str, int, str]]:
        for call in self.place.calls():
            if call.tool in ("agent:boss", "agent:helper", "agent:junior"):
                events = call.events()
                message = events[0].data["arguments"]["message"]
                owner = [event.data["host"] for event in events if event.type == "attempt_started"][-1:]
                for event in events:
                    entry = event.data.get("entry") or {}
                    if entry.get("e") == "reply":
                        yield message, entry["step"], "".join(owner)

    @property
    def may_forget(self) -> bool:
        """The newest acknowledged commits may be lost: the power is lost, and nothing waits for the disk."""
        return self.disk_faults is not None and self.disk_faults.place.durability == "process"

    def up(self) -> Member | None:
        members = [member for member in self.members if member.is_up]
        return self.world.chance.choice(members) if members else None

    def find(self, id: str) -> Seen | None:
        return next(self.place.calls(id), None)

    async def read_books(self) -> None:
        """What is reserved by dead processes is settled by a sweep."""
        if self.books is not None or not (self.has_agents or self.features.costs):
            return
        await asyncio.sleep(3 * LEASE)
        while self.books is None and self.world.now < _STORM + 2 * _REST:
            self.replace_the_dead()  # the tool of a last call may have killed its process
            if (member := self.up()) is not None:
                await asyncio.wait([self.world.spawn(member.node, self._read_books(member))], timeout=30.0)
            await asyncio.sleep(1.0)

    async def _read_books(self, member: Member) -> None:
        assert member.runtime is not None
        book = member.runtime.engine.book
        await book.sweep(1e9)
        entries = [entry async for page in book.ledger.pages() for entry in page.entries.values()]
        self.known_tokens = sum(entry.all_tokens for entry in entries if not entry.assumed)
        self.all_tokens = sum(entry.all_tokens for entry in entries)
        self.books = await Books.read(self, member)

    async def close(self) -> None:
        for member in self.members:
            member.leave()
        lives = [member.life for member in self.members if member.node.is_alive]
        done, open_ = await asyncio.wait(lives, timeout=60.0)
        for member in self.members:
            if member.life in open_:
                self.world.wrong("a runtime closes", f"{member.node} is not closed after a minute")
            elif member.life in done and (error := member.life.exception()) is not None:
                self.world.wrong("a runtime lives", f"{member.node}: {error!r}")

    # Faults.

    def fault(self) -> None:
        chance = self.world.chance
        member = chance.choice(self.members)
        kind = chance.choice(("crash", "crash", "crash", "pause", "pause", "leave", "cut", "cut", "skew"))
        if kind == "skew" and self.features.sweeps:
            kind = "cut"  # a process whose date is ahead removes what is not old
        self.befall(kind, member, chance)

    def befall(self, kind: str, member: Member, chance: random.Random) -> None:
        world = self.world
        self.faults[kind] += 1
        world.tell(member.node, kind)
        if kind == "crash":
            self.crash(member, chance.choice((0, 1, 3, 10, 30, 100)))
        elif kind == "pause":
            member.node.paused_until = world.now + chance.uniform(0.5, 3 * LEASE)
            member.node.was_away = True
        elif kind == "leave":
            member.leave()
        elif kind == "cut":
            self.network.cut[member.node] = world.now + chance.uniform(0.5, 4 * LEASE)
            member.node.was_away = True
        else:
            member.node.skew = chance.uniform(-100, 100)
            member.node.skewed = True
        world.loop.call_later(chance.uniform(0, 4), self.replace_the_dead)

    def _kill(self, node: Node | None) -> None:
        for member in self.members:
            if member.node is node:
                self.faults["killed by its tool"] += 1
                self.crash(member, self.world.chance.choice((0, 1, 3, 10, 30, 100)))
                self.world.loop.call_later(self.world.chance.uniform(0, 3), self.replace_the_dead, context=Context())

    def crash(self, member: Member, steps: int) -> None:
        """After so many callbacks, whichever processes they are of."""

        def die() -> None:
            member.node.is_alive = False
            self.world.tell(member.node, "is dead")
            self.place.forget(member.node)
            self.note_absence()

        self.after_steps(steps, die)

    def note_absence(self) -> None:
        """A process died, or left: is any still there?"""
        if self._nobody_since is None and not any(each.node.is_alive and not each.has_left for each in self.members):
            self._nobody_since = self.world.now

    def after_steps(self, steps: int, act: Callable[[], None]) -> None:
        at = self.world.loop.steps + steps
        before = self.world.loop.on_step

        def on_step() -> None:
            if self.world.loop.steps >= at:
                self.world.loop.on_step = before
                act()

        self.world.loop.on_step = on_step

    def replace_the_dead(self) -> None:
        if self._nobody_since is not None:
            self.nobody_for += self.world.now - self._nobody_since
            self._nobody_since = None
        for index, member in enumerate(self.members):
            if not member.node.is_alive or member.life.done():
                if (
                    member.node.is_alive
                    and not member.life.cancelled()
                    and (error := member.life.exception()) is not None
                ):
                    self.world.wrong("a runtime lives", f"{member.node}: {error!r}")
                self.members[index] = Member(self, member.place)
