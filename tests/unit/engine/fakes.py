"""Small fakes of the parts around the one under test: a memory store that looks shared, and parts that record their
calls. The layers below the engine (journal, limiter, stages) are the real ones."""

from __future__ import annotations

import asyncio
import dis
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from clicket.engine.cache.caching import Caching
from clicket.engine.cache.single_flight import SingleFlight
from clicket.engine.core import Core
from clicket.engine.executors import Deps, Limiter
from clicket.engine.fleet.capacity import Capacity
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.fleet.queues import Queues
from clicket.engine.hub import Hub
from clicket.engine.inputs import Inputs
from clicket.engine.journal import Entry, Journal
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call, Origin
from clicket.engine.local.live_calls import LiveCalls
from clicket.engine.local.timers import WaitTimers
from clicket.engine.people.audit import AuditLog
from clicket.engine.people.grants import Grants
from clicket.engine.phase import Phase
from clicket.engine.records.arguments import ArgumentsOnRecord
from clicket.engine.records.signals import Signals
from clicket.engine.records.stored_calls import StoredCalls
from clicket.engine.records.tool_costs import ToolCosts
from clicket.engine.slots.gate import SharedSlotGate
from clicket.engine.slots.plans import Plans
from clicket.engine.slots.rates import Rates
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.engine.stages import Authorize, Execute, Find, Persist, Pipeline, Policy, Process, Validate
from clicket.errors import ClicketError
from clicket.model import Event, Record, ToolCall, fold, rows_of
from clicket.model.config import Limits
from clicket.model.worker import WorkerInfo
from clicket.ports import Append, Done, NoBus, Owner, Stored
from clicket.runtime.settings import Settings
from clicket.safety.vault import Vault
from clicket.stores.memory import MemoryStore
from clicket.system.bridge import ThreadPool
from clicket.testing import StepClock
from clicket.tools import Registry

__all__ = ["Lower", "Recorder", "SharedStore", "around"]

_OWNER = Owner(host="h", boot="", pid=1, started="", lease=60.0)


class SharedStore(MemoryStore):
    """Looks like a store that other processes use. It can refuse appends, or hold them until the test releases them."""

    def __init__(self) -> None:
        super().__init__()
        self.durability = "commit"
        self.refusal: ClicketError | None = None
        self.holding = False
        self.held: list[tuple[Append, Done]] = []
        self._owner = _OWNER

    def append(self, change: Append, done: Done) -> None:
        if self.holding:
            self.held.append((change, done))
        elif self.refusal is not None:
            done(change, self.refusal)
        else:
            super().append(change, done)

    def let_through(self) -> None:
        """Write the held appends, and hold no more."""
        self.holding, held = False, self.held
        self.held = []
        for change, done in held:
            self.append(change, done)

    def of(self, call: Call) -> Stored:
        return self._calls[call.entry.key].stored()

    def events_of(self, call: Call) -> list[Event]:
        return self.events_of_key(call.entry.key)

    def events_of_key(self, key: int) -> list[Event]:
        return self._calls[key].events

    def record(self, call: Call) -> Record:
        return fold(self.events_of(call))

    def is_owned(self, call: Call) -> bool:
        return self._calls[call.entry.key].owned

    def steal(self, call: Call) -> Stored:
        """Another process claims the call: a new fence, one more claim."""
        stored = self._calls[call.entry.key].claimed()
        stored.taken_from = 7
        return stored

    def disown(self, call: Call) -> None:
        """This process does not own the call any more."""
        self._calls[call.entry.key].owned = False

    def remove(self, call: Call) -> None:
        """Another process's sweep removes the call."""
        self._remove(call.entry.key)

    def shut(self) -> None:
        """Refuse every request from now on, as a closed store does."""
        self._owner = None

    def waiting_for(self, call: Call) -> str | None:
        return self._calls[call.entry.key].waiting_for

    def write_at_once(self, change: Append) -> None:
        """Another process's append, also while appends are held."""
        errors: list[ClicketError | None] = []
        super().append(change, lambda _, error: errors.append(error))
        assert errors == [None]

    def write(self, call: Call, kind: Any, **data: Any) -> None:
        """Another process writes a request into the call."""
        last = self.events_of(call)[-1]
        event = Event(call.id, last.seq + 1, last.at, kind, last.state, data)
        self.write_at_once(
            Append(call.entry, last.seq, -1, rows_of([event]), last.state, key=call.entry.key, signal=True)
        )


class Recorder:
    """A stand-in for a part. It records its calls as (method, first argument), and has the methods and attributes of the part alone: what a
    part lost or renamed, or does not take, fails the test. `answers`: methods and attributes that the test brings."""

    def __init__(self, part: type, **answers: Any) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._part = part
        for name, answer in answers.items():
            setattr(self, name, answer)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "calls" and not name.startswith("_"):
            self._look_up(name)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        takes = inspect.signature(self._look_up(name))

        def method(*given: Any, **named: Any) -> None:
            takes.bind(self, *given, **named)
            self.calls.append((name, given[0] if given else None))

        return method

    def _look_up(self, name: str) -> Any:
        """What the part has under this name; raises `AttributeError` if it has nothing."""
        if name in _attributes_of(self._part):
            return getattr(self._part, name, None)
        raise AttributeError(f"{self._part.__name__} has no {name!r}")

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@functools.cache
def _attributes_of(part: type) -> frozenset[str]:
    """Names that the class declares, and those that its `__init__` sets."""
    made = (each.argval for each in dis.get_instructions(part.__init__) if each.opname == "STORE_ATTR")  # type: ignore[misc]
    declared = (name for each in part.__mro__ for name in inspect.get_annotations(each))
    return frozenset((*dir(part), *made, *declared))


def around(rooms: Callable[[], dict[str, int]], claimed: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """What a claimer has around it: the room here, tools without rates, and what gets the claimed calls."""

    async def allowed(rooms: dict[str, int], **_: Any) -> dict[str, int]:
        return rooms

    capacity = Recorder(Capacity, rooms=rooms, room=lambda tool: rooms().get(tool, 0), queues_of=frozenset)
    return capacity, Recorder(Rates, allowed=allowed), Recorder(Inputs, claimed_from_queue=claimed)


class Lower:
    """The layers below the engine's parts, and `ending`, which most of them need. `log` has what `ending` did with the others."""

    def __init__(
        self,
        *tools: Any,
        policy: Policy | None = None,
        limits: Limits | None = None,
        max_queue: int = 10,
        vault: Vault | None = None,
        store: SharedStore | None = None,
    ) -> None:
        self.clock, self.store, self.vault = StepClock(), store or SharedStore(), vault or Vault()
        self.spawned: list[asyncio.Task[Any]] = []
        self.log: list[tuple[str, Any]] = []
        self.limits = limits or Settings().limits
        self.policy = policy or Policy()
        self.registry = Registry(tools)
        self.on_signal: Callable[[Entry, list[Event]], None] = lambda entry, events: None
        """What handles signals that another process wrote into a call."""
        self.journal = Journal(
            self.store,
            self.clock,
            self.spawn,
            on_signal=lambda entry, events: self.on_signal(entry, events),  # noqa: PLW0108  # a test may set another
            on_not_created=self._on_not_created,
        )
        self.body: Callable[[Call], Any] = lambda call: None
        """The execute stage: sets the output of a call, or returns something to await."""
        self.pipeline = Pipeline(
            Find(self.registry, lambda call, tool: None),
            Authorize(self.policy),
            Validate(max_size=10_000),
            Execute(lambda call: self.body(call)),  # noqa: PLW0108  # a test may set another body
            Process(self.store, self.journal, None),  # type: ignore[arg-type]  # outputs are small: no thread is needed
            Persist(self.journal, lambda call: None),
            journal=self.journal,
            vault=self.vault,
            thread_pool=None,  # type: ignore[arg-type]  # arguments are small, too
            uncounted={},
        )
        self.live = LiveCalls()
        self.workers: list[WorkerInfo] = []
        """The living workers, from their entries."""

        async def living() -> list[WorkerInfo]:
            return self.workers

        self.queues = Queues(
            self.store, self.registry, worker="me", living=living, labels=frozenset(), gives_away=False, shares=True
        )
        self.plans = Plans(self.limits)
        self.limiter = Limiter(max_queue=max_queue, start=lambda call: self.log.append(("start", call)))
        self._give_back, self.limiter.release = self.limiter.release, self.release  # type: ignore[method-assign]
        self.timers = WaitTimers(self.clock, lambda call, reason: self.log.append((reason, call)))
        self.signals = Signals(self.store, self.journal)
        self.phase = Phase()
        self.inputs: Any = Recorder(Inputs)
        """What the parts report. A test may set a method of it."""
        self.core = Core(
            store=self.store, clock=self.clock, spawn=self.spawn, registry=self.registry, policy=self.policy, limits=self.limits,
            retention=Settings().retention,
            phase=self.phase, shares=True, gives_away=False, inputs=self.inputs, journal=self.journal, pipeline=self.pipeline,
            live=self.live, limiter=self.limiter, timers=self.timers, plans=self.plans, queues=self.queues,
            hub=Recorder(Hub, ended=lambda call: self.log.append(("ended", call)), degraded={"a thread"}),  # type: ignore[arg-type]
            slots=Recorder(SharedSlots, give=lambda name: self.log.append(("slot", name))),  # type: ignore[arg-type]
            gate=Recorder(SharedSlotGate, release=self.release),  # type: ignore[arg-type]
            caching=Recorder(Caching), flights=Recorder(SingleFlight, left=lambda call: self.log.append(("left", call))),  # type: ignore[arg-type]
            signals=self.signals,
            stored_calls=StoredCalls(self.store, self.clock, self.phase, NoBus(), spawn=asyncio.ensure_future),
            claimer=Recorder(WorkClaimer), arguments=ArgumentsOnRecord(self.vault, self.registry, max_size=10_000),
            audit=Recorder(AuditLog), grants=Recorder(Grants), costs=Recorder(ToolCosts, writing={}), deps=Deps({}, Recorder(ThreadPool)),  # type: ignore[arg-type]
        )  # fmt: skip
        """The stand-ins in it record what they are asked; `with_core` replaces some."""
        self.ending = Ending(self.core)
        self.external = External(self.core, self.ending)

    def with_core(self, **parts: Any) -> Core:
        self.core = msgspec.structs.replace(self.core, **parts)
        return self.core

    def stopping_part(self) -> Stopping:
        """Of calls that no person was asked about."""
        approvals: Any = Recorder(Approvals)
        return Stopping(self.core, self.ending, approvals, self.external)

    def _on_not_created(self, entry: Entry, error: ClicketError) -> None:
        for call in self.live.named(entry.id):
            if call.entry is entry:
                self.ending.on_created(call, error)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self.spawned.append(asyncio.get_running_loop().create_task(work))

    async def settle(self) -> None:
        """Run the spawned tasks; an error in one fails the test."""
        await self.clock.settle()
        for task in self.spawned:
            if task.done():
                task.result()
        self.spawned = [task for task in self.spawned if not task.done()]

    def release(self, call: Call) -> None:
        self.log.append(("release", call))
        self._give_back(call)

    def logged(self, what: str) -> list[Any]:
        return [subject for name, subject in self.log if name == what]

    # Calls in each state.

    def made(self, tool: str, arguments: Any = None, *, id: str = "a", caller: str = "", **more: Any) -> Call:
        """A call that was created and not checked yet."""
        in_callers_task = more.pop("in_callers_task", False)
        scopes = frozenset(more.pop("scopes", ()))
        request = ToolCall(tool, arguments or {}, id=id, thread=more.pop("thread", "t"), **more)
        entry = Entry(id, request.thread, caller, tool, self.clock.now(), request.priority)
        origin, now = Origin(caller, scopes), self.clock.monotonic()
        return Call(entry, request, origin, now, f"key-{id}", request.arguments, in_callers_task)

    def admitted(self, tool: str, arguments: Any = None, **more: Any) -> Call:
        """A call that passed the first three stages; nothing of it is stored."""
        call = self.made(tool, arguments, **more)
        assert self.pipeline.admit(call), call.error
        self.plans.fit(call)
        return call

    def pending(self, tool: str, arguments: Any = None, **more: Any) -> Call:
        """A call that is durable and has no slot."""
        call = self.admitted(tool, arguments, **more)
        self.journal.commit(call.entry)
        self.live.add(call)
        return call

    def queued(self, tool: str, arguments: Any = None, **more: Any) -> Call:
        """A call that is durable and waits for a slot; every slot is taken."""
        call = self.pending(tool, arguments, **more)
        ((*_, slots), *_) = call.plan.needs
        self.limiter.used[call.plan.needs[0]] = slots
        assert not self.limiter.take(call, force=True)
        return call

    def running(self, tool: str, arguments: Any = None, **more: Any) -> Call:
        """A call with a slot, whose first attempt has started."""
        call = self.admitted(tool, arguments, **more)
        assert self.limiter.take(call)
        self.journal.start(call.entry)
        self.journal.commit(call.entry)
        self.live.add(call)
        return call

    def finish(self, call: Call, output: Any = "done") -> None:
        """The body returned: process, and persist the outcome."""
        self.body = lambda each: setattr(each, "output", output)
        assert self.pipeline.perform(call) is None
        self.pipeline.finish(call, self.ending.on_outcome_durable)
