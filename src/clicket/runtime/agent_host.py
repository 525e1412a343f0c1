"""The runtime as agents use it: offered tools, calls by id, and turns, which are calls themselves."""

from __future__ import annotations

import logging
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol, Unpack

import msgspec

from clicket.engine import CallHandle, Engine
from clicket.engine.executors import CallerDocuments, allow_reading, entries_in, keep_files, name_of, read_artifact
from clicket.engine.hub import ThreadHub
from clicket.engine.journal import Entry, Fenced
from clicket.engine.live_call import Call, Origin
from clicket.engine.records.stored_calls import Closed
from clicket.engine.spend import SpendBook
from clicket.errors import ClicketError, NotFound, UsageError
from clicket.model import Arguments, CallOptions, Event, Record, ToolCall, ToolResult, fold, read
from clicket.model.chat import ToolOffer
from clicket.model.deps import NO_DEPS, RunDeps
from clicket.model.files import File, FileRef
from clicket.model.names import AGENT_PART, AGENT_TAG, shown_name
from clicket.model.ports import Clock, Duplicate, Query, Records, Store, Stored, agree
from clicket.model.ports.host import Taken, Watch
from clicket.model.replayed import Replay
from clicket.model.request import checked
from clicket.model.undo import UndoReport
from clicket.model.waits import PEOPLE
from clicket.runtime.calls.undo import Undoing
from clicket.tools import Registry, Tool
from clicket.tools.search import FIND_TOOLS, FindTools

__all__ = ["Host", "has_turn", "sweep_idle_threads", "take_up_put_away", "work_off_queues"]

logger = logging.getLogger("clicket.hub")
_NOTHING: frozenset[str] = frozenset()
_MAX_OPEN = 100
"""Open calls of one thread that are looked at."""


class _Runtime(Protocol):
    """The part of a runtime that a host uses."""

    _caller: str | None
    _origin: Origin
    _registry: Registry
    settings: Any

    _engine: Engine | None

    @property
    def _opened(self) -> Engine: ...
    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]: ...
    def _call(self, request: ToolCall, *, is_new: bool = False) -> Coroutine[Any, Any, ToolResult]: ...
    async def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle: ...
    async def _submit(self, request: ToolCall) -> CallHandle: ...
    async def handle(self, id: str, *, thread: str | None = None) -> CallHandle: ...
    async def recover(self) -> Any: ...
    def hub(self, thread: str = "default") -> ThreadHub: ...
    def acting_for(self, caller: str, scopes: Any = (), requesters: Any = ()) -> Any: ...
    def _from(self, origin: Origin) -> Any: ...


class Host:
    """Implements `ports.AgentHost`. It may be made before its runtime is open."""

    def __init__(self, runtime: _Runtime, offers: dict[Tool, ToolOffer] | None = None) -> None:
        self._runtime = runtime
        self._offers: dict[Tool, ToolOffer] = {} if offers is None else offers
        self._last_hub: tuple[Engine, str, ThreadHub] | None = None
        self.call = runtime.call

    @property
    def _engine(self) -> Engine:
        return self._runtime._opened

    @property
    def caller(self) -> str:
        return self._runtime._caller or ""

    @property
    def scopes(self) -> frozenset[str]:
        return self._runtime._origin.scopes

    @property
    def requesters(self) -> frozenset[str]:
        return self._runtime._origin.requesters

    @property
    def clock(self) -> Clock:
        return self._engine.clock

    @property
    def records(self) -> Records:
        return self._engine.store

    @property
    def spending(self) -> SpendBook:
        return self._engine.book

    @property
    def closing(self) -> bool:
        engine = self._runtime._engine
        return engine is None or engine.is_closing

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self._engine.tasks.spawn(work)

    @property
    def is_stuck(self) -> bool:
        return self._engine.journal.trouble is not None

    @contextmanager
    def while_open(self) -> Iterator[None]:
        engine = self._engine
        try:
            yield
        except UsageError as error:  # the runtime is not open any more; only a view of it has the engine still
            if not engine.is_closing:
                raise
            raise Closed(
                "the runtime was closed; a durable store keeps the thread, and the next runtime continues it."
            ) from error

    def acting_for(self, caller: str, scopes: frozenset[str], requesters: frozenset[str] = frozenset()) -> Host:
        """A host for another caller. It uses the runtime that is open now, also while that one closes."""
        return Host(self._runtime.acting_for(caller, scopes, requesters), self._offers)

    def asking(self, why: str) -> Host:
        return Host(self._runtime._from(msgspec.structs.replace(self._runtime._origin, asks=why)), self._offers)

    def within(self, tool: str, maker: Entry | None = None) -> Host:
        origin = msgspec.structs.replace(self._runtime._origin, within=tool, maker=maker)
        return Host(self._runtime._from(origin), self._offers)

    # Deps.

    def makes_dep(self, name: str) -> bool:
        return name in self._engine.deps.factories

    def lacking_dep(self, tools: Collection[str] | None, brought: Collection[str]) -> str:
        registry = self._runtime._registry
        if not registry.with_deps or self._engine.gives_away:
            return ""
        named = registry.with_deps if tools is None else registry.with_deps & frozenset(tools)
        return self._engine.deps.lacking((registry.tools[name].tool for name in sorted(named)), brought)

    def with_deps(self, deps: RunDeps, thread: str, mark: str) -> Host:
        self._engine.deps.enter(self.caller, thread, mark, deps)
        return Host(self._runtime._from(msgspec.structs.replace(self._runtime._origin, deps=deps)), self._offers)

    def drop_deps(self, thread: str, mark: str) -> None:
        self._engine.deps.leave(self.caller, thread, mark)

    async def deps(self) -> Mapping[str, Any]:
        own = self._runtime._origin.deps or NO_DEPS
        return await self._engine.deps.of_run(own.values)

    def for_parts(self) -> Host:
        return Host(
            self._runtime._from(msgspec.structs.replace(self._runtime._origin, within=AGENT_PART)), self._offers
        )

    # Tools that every caller may call.

    def refuse_unknown(self, names: Iterable[str]) -> None:
        if not self._runtime.settings.mcp:  # else tools of other servers may join later
            self._runtime._registry.refuse_unknown(names)

    async def offers(self, thread: str) -> tuple[ToolOffer, ...]:
        hub = self._hub_of(thread)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("thread %s: %s", thread, await hub.summary())
        tools = hub.offered_now(True)
        if tools is None:
            tools = await hub.offered(lately=True)
        offers = self._offers
        found = []
        for tool in tools:
            offer = offers.get(tool)
            if offer is None or offer.description is not tool.description:  # one that lists other tools may change
                offer = offers[tool] = ToolOffer(
                    name=tool.name, description=tool.description, input_schema=tool.input_schema
                )
            found.append(offer)
        return tuple(found)

    def offer(self, name: str) -> ToolOffer | None:
        tool = self._runtime._registry.get(name)
        if tool is None:
            return None
        shown = shown_name(name) if tool.traits.part_of == AGENT_PART else name
        return ToolOffer(name=shown, description=tool.description, input_schema=tool.input_schema)

    def _hub_of(self, thread: str) -> ThreadHub:
        """The steps of a turn ask for the hub of one thread again and again."""
        last = self._last_hub
        if last is None or last[0] is not self._runtime._engine or last[1] != thread:
            last = self._last_hub = (self._engine, thread, self._runtime.hub(thread))
        return last[2]

    async def ranked_tools(self, query: str, among: Collection[str], limit: int) -> list[str]:
        found = self._runtime._registry.get(FIND_TOOLS)
        return await found.ranked(query, among, limit) if isinstance(found, FindTools) else []

    def call_new(self, tool: str, arguments: Arguments, id: str, thread: str) -> Coroutine[Any, Any, ToolResult]:
        return self._runtime._call(ToolCall(tool, arguments, id=id, thread=thread), is_new=True)

    def sensitive(self, tool: str) -> frozenset[str]:
        found = self._runtime._registry.get(tool)
        return _NOTHING if found is None else found.options.sensitive

    def is_background(self, tool: str) -> bool:
        found = self._runtime._registry.get(tool)
        return found is not None and found.options.background

    async def start(self, tool: str, arguments: Arguments, *, id: str, thread: str) -> ToolResult | None:
        call = (await self._runtime.submit(tool, arguments, id=id, thread=thread)).call
        return call.result if isinstance(call, Call) else None

    async def refuse(self, tool: str, arguments: Arguments, *, id: str, thread: str, why: str) -> ToolResult:
        engine = self._engine
        request = checked(ToolCall(tool, arguments, id=id, thread=thread))
        call = engine.admission.take(request, self._runtime._origin, in_callers_task=True, denied=why)
        return await engine.running.run(call)

    async def replay(
        self, tool: str, arguments: Arguments, *, id: str, thread: str, replay: Replay, internal: bool = False
    ) -> ToolResult:
        admission, origin = self._engine.admission, self._runtime._origin
        request = checked(ToolCall(tool, arguments, id=id, thread=thread))
        if internal:
            call = admission.take(request, origin, in_callers_task=True, internal=True, replay=replay)
        else:
            call = await admission.accept(request, origin, in_callers_task=True, replay=replay)
        return await self._engine.running.run(call)

    async def made(self, id: str, thread: str) -> CallHandle | None:
        try:
            return await self._runtime.handle(id, thread=thread)
        except NotFound:
            return None

    async def waiting(self, thread: str, waiting_for: str = "approval") -> list[str]:
        query = Query(thread=thread, caller=self.caller, waiting_for=waiting_for, limit=100)
        return [stored.id for stored in await self._engine.store.history(query)]

    async def open_calls(self, thread: str) -> list[Record]:
        query = Query(thread=thread, caller=self.caller, active=True, limit=_MAX_OPEN)
        found = await self._engine.store.history(query)
        return [read(each.id, each.events) for each in found if each.damaged is None]

    async def waits_for_people(self, thread: str) -> list[tuple[str, str]]:
        from clicket.agents.task_threads import thread_of_task  # a runtime without agents does not load them

        registry = self._runtime._registry
        found = []
        threads = [thread]
        for place in threads:  # grows by the threads of called agents
            for record in await self.open_calls(place):
                tool = registry.get(record.tool)
                if record.waiting_for in PEOPLE:
                    found.append((place, record.id))
                elif tool is not None and AGENT_TAG in tool.options.tags:
                    threads.append(thread_of_task(place, record.id))
        return found

    async def keep(self, data: bytes) -> str:
        engine = self._engine
        name, pieces, _ = await name_of(data)
        await engine.store.put_artifact(name, pieces, keep_until=engine.clock.now() + engine.retention.memory)
        await allow_reading(engine.store, self.caller, name)
        return name

    async def keep_files(self, files: Sequence[File]) -> list[FileRef]:
        engine = self._engine
        until = engine.clock.now() + engine.retention.memory
        return await keep_files(engine.store, self.caller, files, keep_until=until)

    async def read_file(self, artifact: str, most: int) -> bytes:
        return await read_artifact(self._engine.store, self.caller, artifact, 0, most)

    async def release_calls(self, thread: str) -> None:
        await self._engine.store.release(self.caller, thread)

    @property
    def documents(self) -> CallerDocuments:
        engine = self._engine
        return CallerDocuments(engine.store, engine.vault, self.caller, engine.clock)

    def protect(self, kind: str, key: str, body: bytes) -> bytes:
        return self.documents.protect(kind, key, body)

    def reveal(self, kind: str, key: str, body: bytes) -> bytes | None:
        return self.documents.reveal(kind, key, body)

    async def allow(self, artifact: str) -> None:
        engine = self._engine
        with suppress(NotFound):
            await engine.store.read_artifact(artifact, 0, 1)  # a removed artifact must not be created again, and empty
            until = engine.clock.now() + engine.retention.memory
            await engine.store.put_artifact(artifact, (), keep_until=until)
        await allow_reading(engine.store, self.caller, artifact)

    def tools(self) -> Sequence[Tool]:
        return self._runtime._registry.listed()

    def lend(self, tool: Tool) -> None:
        registry = self._runtime._registry
        if not tool.traits.part_of:
            registry.lend(tool)
        elif registry.known(tool.name) is None:  # else another agent has the same workspace
            registry.add_part(tool)

    def lend_to(self, agent: str, tool: Any) -> str:
        if isinstance(tool, Tool) and tool.traits.part_of:  # every turn whose middleware brings it can call it
            self.lend(tool)
            return tool.name
        return self._runtime._registry.lend_to(f"agent:{agent}", tool)

    def watch(self, watch: Watch) -> None:
        self._engine.journal.observers.listeners.append(_Listener(watch))

    def unwatch(self, watch: Watch) -> None:
        if self._runtime._engine is None:  # the runtime is closed, and its listeners are removed
            return
        listeners = self._engine.journal.observers.listeners
        for listener in [each for each in listeners if isinstance(each, _Listener) and each.watch == watch]:
            listeners.remove(listener)

    # Turns.

    def install(self, inner: Tool) -> None:
        self._runtime._registry.add_inner(inner)

    def installed(self, name: str) -> Tool | None:
        return self._runtime._registry.get(name)

    def _accept(self, tool: str, arguments: Mapping[str, Any], id: str, thread: str, *, in_callers_task: bool) -> Call:
        if self.lives(id, thread):
            raise Taken(f"call {id} runs in this process.")
        request = checked(ToolCall(tool, arguments, id=id, thread=thread))
        return self._engine.admission.take(
            request, self._runtime._origin, in_callers_task=in_callers_task, internal=True
        )

    async def conduct(self, tool: str, arguments: Mapping[str, Any], *, id: str, thread: str) -> ToolResult:
        # When many turns begin at once, other tasks of the loop run in between.
        await self._engine.share.yield_to_loop()
        call = self._accept(tool, arguments, id, thread, in_callers_task=True)
        try:
            return await self._engine.running.run(call)
        except (Duplicate, Fenced) as taken:
            raise Taken(f"call {id} is made already.") from taken

    async def begin(self, tool: str, arguments: Mapping[str, Any], *, id: str, thread: str) -> None:
        call = self._accept(tool, arguments, id, thread, in_callers_task=False)
        try:
            await self._engine.ending.created(call)
        except (Duplicate, Fenced) as taken:
            raise Taken(f"call {id} is made already.") from taken

    async def outcome(self, id: str, thread: str) -> ToolResult:
        return await (await self._runtime.handle(id, thread=thread)).result()

    async def _live(self, id: str, thread: str) -> Call | None:
        """The call, if this process runs it and it is durable; a first commit that is under way is awaited."""
        live = self._engine.live.find(id, thread, self.caller)
        if live is not None and not live.entry.durable:
            with suppress(ClicketError):
                await self._engine.journal.flush(live.entry)
        return live if live is not None and live.entry.durable else None

    async def record(self, id: str, thread: str) -> Record | None:
        live = await self._live(id, thread)
        if live is not None:
            return fold(live.entry.events)
        try:
            return read(id, (await self._engine.stored_calls.find(id, thread, self.caller)).events)
        except NotFound:
            return None

    def entries(self, events: Sequence[Event], id: str, thread: str) -> list[dict[str, Any]]:
        return entries_in(events, self._engine.vault, (self.caller, thread, id), for_readers=True)

    def lives(self, id: str, thread: str) -> bool:
        return self._engine.live.find(id, thread, self.caller) is not None

    async def claim(self, id: str, thread: str) -> bool:
        try:
            stored = await self._engine.stored_calls.find(id, thread, self.caller)
        except NotFound:
            return False
        await self._engine.handover.take(stored.key)
        return self.lives(id, thread)

    async def is_unattended(self, id: str, thread: str) -> bool:
        call = self._engine.live.find(id, thread, self.caller)
        if call is not None:
            return call.entry.fence > 1 and not call.attending
        try:
            return (await self._engine.stored_calls.find(id, thread, self.caller)).fence > 1
        except NotFound:
            return False

    def attend(self, id: str, thread: str) -> None:
        call = self._engine.live.find(id, thread, self.caller)
        if call is not None:
            call.attend()

    def leave(self, id: str, thread: str) -> None:
        if self._runtime._engine is None:  # closed: an error would take the place of the caller's cancellation
            return
        call = self._engine.live.find(id, thread, self.caller)
        if call is not None:
            call.leave()

    async def recover(self) -> None:
        await self._runtime.recover()

    async def cancel(self, id: str, thread: str, reason: str) -> bool:
        await self._live(id, thread)
        return await self._engine.cancels.cancel(id, thread, self.caller, reason)

    async def undo_turn(self, agent: str, thread: str, turn: int) -> UndoReport:
        return await Undoing(self._runtime, waits=True).of_turn(thread, turn, agent, is_own=True)


class _Listener:
    """A watch as a listener of the journal."""

    __slots__ = ("watch",)

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        self.watch(entry.caller, entry.thread, entry.id, events)


_SWEEP_EVERY = 300.0


def sweep_idle_threads(engine: Engine) -> None:
    """Add a background task to the engine that removes threads of agents which were idle for too long, and let sweeps of calls keep the
    calls of turns as long as their threads.

    A thread stays at least as long as other calls, because a new turn must not get the id of a stored one.
    """
    store = engine.store
    step = None
    engine.sweeps.keeps = partial(_calls_of_threads, engine)

    async def forget() -> None:
        nonlocal step
        if step is None:  # a runtime without agents does not load them to start
            from clicket.agents.thread_retention import ThreadSweep

            step = ThreadSweep().step
        await agree(engine.clock)  # a date that was moved ahead must not remove threads before their time
        before = _idle_before(engine)
        await step(store, before, partial(has_turn, store, before))

    engine.background.every(_SWEEP_EVERY, "threads", forget)


_QUEUES_EVERY = 5.0
_MAX_QUEUED = 200


def work_off_queues(engine: Engine, registry: Registry) -> None:
    """Add a background task that begins the turns of messages whose sender died before it could."""
    store = engine.store
    after = ""
    """The last message that was looked at: each time the next ones are, so that queues which are held do not keep others waiting."""

    async def begin() -> None:
        nonlocal after
        if not registry.inner_tools("agent:"):  # a runtime without agents does not load them
            return
        from clicket.agents.memory import QUEUE

        waiting = await store.documents(QUEUE, after=after, limit=_MAX_QUEUED)
        after = waiting[-1].key if len(waiting) == _MAX_QUEUED else ""
        threads = {document.key.rpartition("/")[0]: document for document in waiting}
        for key, document in threads.items():
            tool = registry.get(f"agent:{key.split('/')[1]}")
            if tool is None or document.updated_at >= engine.clock.now() - _QUEUES_EVERY:
                continue
            try:
                await tool.work_off_of(document)  # type: ignore[attr-defined]  # it is the tool of an agent
            except ClicketError as error:  # one thread's trouble must not keep the others waiting
                logger.warning("the queue of %s is looked at again later: %s", key, error.message)

    engine.background.every(_QUEUES_EVERY, "queues", begin)


def take_up_put_away(engine: Engine, registry: Registry) -> None:
    """Add a background task that continues turns, and calls of turns, which their processes have put away for want of a dep or a model,
    if this one has it."""
    store, made = engine.store, engine.deps.factories.keys()
    last: dict[str, int | None] = {}
    """The last call that was looked at, by what it waits for: each time the next ones are, so that those which wait for more than this
    process has do not keep others waiting."""

    async def take() -> None:
        tools: dict[str, Any] = {tool.name: tool for tool in registry.inner_tools("agent:")}
        names = {f"dep:{name}" for name in made} | ({"dep"} if made else set())
        for tool in tools.values():
            names |= await tool.has()
        for name in sorted(names):
            waiting = await store.history(Query(waiting_for=name, limit=_MAX_QUEUED, before=last.get(name)))
            last[name] = waiting[-1].key if len(waiting) == _MAX_QUEUED else None
            for stored in waiting:
                if stored.owner is not None or stored.damaged is not None:
                    continue
                record = read(stored.id, stored.events)
                tool = tools.get(record.tool)
                has_all = made >= set(stored.events[0].data.get("deps") or ()) if tool is None else tool.has_all(record)
                if has_all:
                    await engine.handover.take(stored.key)

    engine.background.every(_QUEUES_EVERY, "put away", take)


async def _calls_of_threads(engine: Engine, calls: Sequence[Stored]) -> Collection[int]:
    """See `kept_by_threads`."""
    if not any(_may_be_of_turn(stored) for stored in calls):  # a runtime without agents does not load them
        return ()
    from clicket.agents.memory import HEAD
    from clicket.agents.thread_retention import kept_by_threads

    store = engine.store

    def reveal(caller: str, key: str, body: bytes) -> bytes | None:
        return CallerDocuments(store, engine.vault, caller, engine.clock).reveal(HEAD, key, body)

    before = _idle_before(engine)
    return await kept_by_threads(store, before, reveal, partial(has_turn, store, before), calls)


def _idle_before(engine: Engine) -> float:
    """Threads that were not written since then are removed."""
    return engine.clock.now() - max(engine.retention.memory, engine.retention.age)


def _may_be_of_turn(stored: Stored) -> bool:
    return "~" in stored.id or stored.id.startswith("turn-")


async def has_turn(store: Store, since: float, caller: str, agent: str, thread: str) -> bool:
    """Does a turn of the thread run, in any process, or did its last one end after `since`? Its document may not be written yet."""
    from clicket.agents.threads import inner_thread

    turns = await store.history(Query(thread=inner_thread(agent, thread), caller=caller, limit=1))
    last = turns[0].events[-1] if turns and turns[0].damaged is None else None
    return last is not None and (not last.state.is_terminal or last.at >= since)
