"""The public API: one object that runs tools and records every call."""

from __future__ import annotations

import os
from asyncio import CancelledError, _get_running_loop
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import msgspec

from clicket.engine import Activity, CallHandle, Engine, HeldCall, Progress, Recovered
from clicket.engine.actions.repeated_calls import MOST_TRIES
from clicket.engine.executors import PREPARED, factories_for
from clicket.engine.hub import ThreadHub
from clicket.engine.journal import Fenced, Observers
from clicket.engine.live_call import Call, Origin
from clicket.engine.stages import Policy
from clicket.errors import NotFound, UsageError
from clicket.kernel import State
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult, fold, read
from clicket.model.ports import AgentHost, Clock, Duplicate, Keep, Store, Sweep
from clicket.model.request import checked, request_of, unknown_keyword
from clicket.model.worker import WorkerRole
from clicket.runtime.agent_host import Host, sweep_idle_threads, take_up_put_away, work_off_queues
from clicket.runtime.calls.again import again
from clicket.runtime.calls.approvals import approve, deny, respond
from clicket.runtime.calls.batch import as_request, in_order
from clicket.runtime.calls.bulk import bulk
from clicket.runtime.calls.dead_letters import dead, requeue
from clicket.runtime.calls.effects import effects
from clicket.runtime.calls.external_calls import check_token, complete, emit, fail, heartbeat, report_progress
from clicket.runtime.calls.history import HistoryOptions, find_calls
from clicket.runtime.calls.subscription import EventFilter, Subscription
from clicket.runtime.calls.undo import undo
from clicket.runtime.calls.unknown_outcomes import resolve, unknown
from clicket.runtime.compose import compose, wait_for_store
from clicket.runtime.forget import forget
from clicket.runtime.schedules import Scheduler, schedule, schedules, start_schedules
from clicket.runtime.settings import RuntimeOptions, Settings
from clicket.runtime.views.artifacts import artifact, artifact_stream, put_artifact
from clicket.runtime.views.audit import Audit
from clicket.runtime.views.cache import Cache, cache_settings
from clicket.runtime.views.credentials import credentials
from clicket.runtime.views.grants import Grants
from clicket.runtime.views.memory import memory
from clicket.runtime.views.notices import notices
from clicket.runtime.views.queue import queue
from clicket.runtime.views.report import anomalies, report
from clicket.runtime.views.series import series
from clicket.runtime.views.spend import spend
from clicket.runtime.views.threads import threads
from clicket.runtime.views.tools import ToolInfo, info
from clicket.runtime.views.workers import Workers
from clicket.safety.vault import Vault
from clicket.system.bridge import enter_with, refuse_forked, refuse_other_loop
from clicket.tools import FunctionTool, Registry, Tool
from clicket.tools.deps import Factory, check_factories

__all__ = ["Cache", "Runtime", "ToolInfo"]


class Runtime:
    """`async with Runtime(tools=[...]) as rt: result = await rt.call("name", {...}, thread="t1")`.

    `store` is a URL (`memory://`, `sqlite:///path`, `redis://…`, `postgresql://…`) or a store of your own; the default is the file
    `.clicket/clicket.db`. With `engine="workers"` calls are accepted here and run by other runtimes over the same store. `deps`: makes
    values for tools, by name: `{"db": connect}`. A factory has no arguments, may be async, and is called when a tool needs the value
    first, once in this process and once in each child process of tools; the value is closed when the runtime closes. `options` are
    settings: `max_concurrency=20`, `retention=3600`.
    """

    _clock: Clock | None = None
    _chance: Random | None = None  # `clicket.testing` sets both
    _caller: str | None = None  # calls are made and found in this name; None: the program's own, which sees all calls
    _origin: Origin = Origin()
    _scheduler: Scheduler | None = None  # set by `open`
    role: WorkerRole = "runtime"  # how it is listed among the workers; set before it is opened

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        store: str | Store | None = None,
        durability: str | None = None,
        engine: str | None = None,
        policy: Policy | None = None,
        cache: bool | Mapping[str, Any] | None = None,
        deps: Mapping[str, Factory] | None = None,
        settings: Settings | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        self._store = None if store is None or isinstance(store, str) else store
        url = store if isinstance(store, str) or store is None else store.url
        given = {"store": url, "durability": durability, "engine": engine, **cache_settings(cache)}
        self.settings: Settings = Settings.of_runtime(given, settings, options)
        self.policy: Policy | None = policy
        self._registry = Registry(tools)
        self._deps = check_factories(deps)
        for tool in self._registry:
            self._check_deps(tool)
        self._engine: Engine | None = None
        self.observers: Observers = Observers()

    def __repr__(self) -> str:
        whose = "" if self._caller is None else f", for {self._caller!r}"
        state = "not open" if self._engine is None else "open"
        return f"<Runtime {self.settings.shown_store} with {len([*self._registry])} tools, {state}{whose}>"

    # Opening and closing.

    async def open(self) -> Self:
        """Open the store, and wait up to `open_timeout` for its server; recover what dead owners left. `async with` does it."""
        if self._engine is not None:
            raise UsageError("the runtime is open already.")
        self._engine = await compose(
            self._registry,
            self.settings,
            store=self._store,
            policy=self.policy,
            clock=self._clock,
            chance=self._chance,
            observers=self.observers,
            role=self.role,
            deps=self._deps,
        )
        sweep_idle_threads(self._engine)
        work_off_queues(self._engine, self._registry)
        take_up_put_away(self._engine, self._registry)
        self._scheduler = start_schedules(self)
        try:
            await wait_for_store(self._engine.recovery.recover, self.settings.open_timeout)
        except BaseException:
            await self.close(patience=0)
            raise
        await self._engine.start()
        return self

    async def close(self, *, patience: float | None = None) -> None:
        """Take no new calls; running ones get `patience` seconds (`close_timeout`) to finish, then they are stopped."""
        if (
            self._engine is None or self._engine.process != os.getpid()
        ):  # a forked process forgets it: it belongs to its parent
            self._engine = None
            return
        engine = self._opened
        self._engine = None
        try:
            await engine.close(patience=self.settings.limits.close_timeout if patience is None else patience)
        finally:
            self.observers.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A program that exits because of an error should not wait for its tools.
        await self.close(patience=0 if kind is not None else None)

    if not TYPE_CHECKING:  # type checkers refuse `with Runtime(...)` by themselves
        __enter__ = __exit__ = enter_with("async with", "clicket.Runtime", "with", "clicket.sync.Runtime")

    @property
    def engine(self) -> Engine:
        """What runs inside, for tests of it. No part of the contract: it may change any time."""
        return self._opened

    @property
    def _opened(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise UsageError("the runtime is not open; use it inside `async with Runtime(...) as rt:`.")
        if _get_running_loop() is not engine.loop:
            refuse_forked(engine.process)
            refuse_other_loop(engine.loop)
        return engine

    @property
    def host(self) -> AgentHost:
        """What agents use of the runtime."""
        return Host(self)

    def on_close(self, callback: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Await something when the open runtime closes, after its calls have ended and before its store closes."""
        self._opened.closing.on_close.append(callback)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; the runtime waits for it when it closes."""
        self._opened.tasks.spawn(work)

    def acting_for(self, caller: str, scopes: Iterable[str] = (), requesters: Iterable[str] = ()) -> Runtime:
        """This runtime for one caller: it makes calls as that caller, and finds only that caller's calls.

        `scopes`: what the caller may do, for the policy's rules. `requesters`: names of a person who makes calls in the caller's name,
        and may not approve them. An empty name of the caller means the program's own calls.
        """
        own = self._origin
        return self._from(Origin(caller, frozenset(scopes), own.prefer_sync, own.requesters | frozenset(requesters)))

    def _from(self, origin: Origin) -> Runtime:
        """This runtime for calls that come from `origin`."""
        view = object.__new__(type(self))
        for name, value in vars(
            self
        ).items():  # `copy.copy` would make its `__dict__`: attributes are read from that at half the speed
            setattr(view, name, value)
        view._engine = self._opened
        view._caller = origin.caller
        view._origin = origin
        return view

    def add(self, tool: Any) -> Tool:
        """Register one more tool."""
        if isinstance(tool, FunctionTool):  # no other kind runs in another process
            self._check_deps(tool)
        added = self._registry.add(tool)
        if self._engine is not None:
            self._engine.on_tool_added(added)
        return added

    def _check_deps(self, tool: Tool) -> None:
        """`UsageError`: it runs in another process, which cannot find the factory of a dep that it needs."""
        if tool.traits.deps and tool.options.isolation in PREPARED:
            factories_for(tool, self._deps)

    def remove(self, name: str) -> bool:
        """Remove a tool: running calls go on, new ones do not find it. False: there is no such tool."""
        removed = self._registry.remove(name)
        if removed and self._engine is not None:
            self._engine.worker_entry.renew_soon()
        return removed

    # Calling.

    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a tool and wait for its outcome. A call that failed is returned, not raised."""
        try:
            return self._call(ToolCall(tool, arguments, **options))
        except TypeError:
            raise unknown_keyword(tool, options) from None

    async def _call(self, request: ToolCall, *, is_new: bool = False) -> ToolResult:
        """`is_new`: this process has just made the request's id, so no earlier call can have it."""
        request = checked(request)
        if request.not_before is not None:
            return await (await self._submit(request)).result()
        engine = self._engine
        if engine is None or _get_running_loop() is not engine.loop:
            engine = self._opened
        if is_new or request.id is None:
            call: Call | None = engine.admission.accept_now(request, self._origin, True)
            if call is None:
                call = await engine.admission.accept(request, self._origin, in_callers_task=True)
        else:
            accepted = await self._accept(request, in_callers_task=True)
            if not isinstance(accepted, Call):
                return await accepted.result()
            call = accepted
        try:
            rest = engine.running.run_first_step(call)
            result = call.result if rest is None else await rest
            if result is not None:
                return result
            handle = engine.handles.of(call)  # another process has the call
        except Fenced:  # it was taken over
            handle = engine.handles.of(call)
        except Duplicate:  # another call has the id
            handle = await self._known(msgspec.structs.replace(request, id=call.id), MOST_TRIES)
        try:
            return await handle.result()
        except CancelledError:
            if engine.gives_away and not engine.is_closing:  # the process that runs it would not notice
                engine.handles.of(call).leave("its caller was cancelled")
            raise

    async def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Submit a call; returns as soon as it is durable."""
        return await self._submit(request_of(tool, arguments, options))

    async def _submit(self, request: ToolCall, tries: int = MOST_TRIES) -> CallHandle:
        call = await self._accept(checked(request))
        if not isinstance(call, Call):
            return call
        try:
            await self._opened.ending.created(call)
        except Fenced:
            return await self._known(msgspec.structs.replace(request, id=call.id), 0)
        except Duplicate:
            return await self._known(msgspec.structs.replace(request, id=call.id), tries)
        return self._opened.handles.of(call)

    async def stream(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event]:
        """Run a tool and watch it: its events as they become durable, the outcome last."""
        handle = await self.submit(tool, arguments, **options)
        async with aclosing(handle.events()) as events:  # type: ignore[type-var]  # it is an async generator
            async for event in events:
                yield event

    async def call_many(
        self, calls: Iterable[ToolCall | tuple[str, Any] | Mapping[str, Any]], *, max_concurrency: int = 5
    ) -> list[ToolResult]:
        """Run calls side by side, `max_concurrency` at once. Results are in the order of the calls; a failure affects no other call."""
        return await in_order([as_request(each) for each in calls], self._call, max_concurrency)

    async def _accept(self, request: ToolCall, *, in_callers_task: bool = False) -> Call | CallHandle:
        """A new call, or a handle of the one that has the request's id."""
        engine = self._opened
        if request.id is not None:
            known = await engine.repeated_calls.running(request, self._origin.caller)
            if known is not None:
                return known
        return await engine.admission.accept(
            request, self._origin, in_callers_task=in_callers_task, may_repeat=request.id is not None
        )

    async def _known(self, request: ToolCall, tries: int) -> CallHandle:
        """The id was in use: the handle if it is the same call, else raise `Conflict`. If it has become free, the call is made, after so
        many `tries` at most."""
        try:
            return await self._opened.repeated_calls.taken(request, self._origin.caller)
        except NotFound:
            if not tries:
                raise
        return await self._submit(request, tries - 1)

    # Controlling calls.

    async def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        """End a call. True: it took effect or is on record for the process that runs it; False: it had ended."""
        return await self._opened.cancels.cancel(id, thread, self._caller, reason)

    approve, deny, respond, schedule = approve, deny, respond, schedule
    again, effects, bulk, dead, requeue = again, effects, bulk, dead, requeue
    unknown, resolve, undo = unknown, resolve, undo
    complete, fail, emit, heartbeat, report_progress = complete, fail, emit, heartbeat, report_progress
    check_token = check_token

    def stop_claiming(self) -> None:
        """Leave calls that wait for a worker to other processes. `recover` still takes over what dead owners left."""
        self._opened.claimer.stopped = True

    async def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Take over, now, what dead owners left in the store. `progress` is called with the report so far."""
        # Calls that are claimed must be resumed, also if the caller is cancelled meanwhile.
        return cast("Recovered", await self._opened.tasks.shielded(self._opened.recovery.recover(progress)))

    # Reading.

    async def get(self, id: str, *, thread: str | None = None) -> Record:
        """Everything known about a call."""
        live = await self._opened.cancels.find_live(id, thread, self._caller)
        if live is not None:
            return fold(live.entry.events)
        return read(id, (await self._opened.stored_calls.find_named(id, thread, self._caller)).events)

    async def state(self, id: str, *, thread: str | None = None) -> State:
        live = await self._opened.cancels.find_live(id, thread, self._caller)
        if live is not None:
            return live.entry.visible_state
        return (await self._opened.stored_calls.find_named(id, thread, self._caller)).events[-1].state

    async def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        """A handle of a call that was submitted earlier, here or in another process."""
        return await self._opened.handles.find(id, thread, self._caller)

    async def history(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]) -> Page:
        """Calls, newest first or (`order="asc"`) oldest first, in pages of up to 1,000; `cursor` of one page fetches the next.

        The store finds calls by an index of thread, tool, state, time, caller, error code and request id. For what it has no index for
        (`metadata`, `id_contains`, most pairs) a page looks at up to 10,000 calls; if it is not full then, `searched_to` says how far it
        got, and `cursor` continues there.
        """
        return await find_calls(self._opened.store, self._caller, limit, cursor, **which)

    # For servers, commands and telemetry.

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    @property
    def caller(self) -> str | None:
        """The caller of this runtime's calls (`acting_for`); None: the program's own runtime, which sees all calls."""
        return self._caller

    @property
    def store(self) -> Store:
        """The open store. It does not check callers: code that uses it sees all calls."""
        return self._opened.store

    @property
    def is_shared(self) -> bool:
        """May other processes use the same store?"""
        return self._opened.shares

    @property
    def clock(self) -> Clock:
        return self._opened.clock

    @property
    def vault(self) -> Vault:
        return self._opened.vault

    @property
    def registry(self) -> Registry:
        return self._registry

    @property
    def audit(self) -> Audit:
        """The audit log: `await rt.audit.list(limit=100)`, `await rt.audit.record("key.created", by="me", key=id)`."""
        return Audit(self._opened.audit, self._opened.store, self._caller)

    def subscribe(self, filter: EventFilter | None = None, *, max_pending: int = 1_000) -> Subscription:
        """The durable events of all calls of this process, as they come: `async for event in rt.subscribe(...)`. A reader that is
        `max_pending` events behind misses some, and gets a `Gap` in their place. A runtime for one caller (`acting_for`) yields only
        that caller's events."""
        return Subscription(self.observers, filter or EventFilter(), self._caller, max_pending)

    @property
    def workers(self) -> Workers:
        """The runtimes over the store: `await rt.workers.list()`, `await rt.workers.drain(id)`, `cordon(id)`, `uncordon(id)`."""
        engine = self._opened
        return Workers(engine.store, engine.worker_entry, engine.draining, self._caller, self.audit.record)

    @property
    def grants(self) -> Grants:
        """Approvals that also let later calls run: `await rt.grants.list()`, `await rt.grants.revoke(id)`."""
        return Grants(self._opened.grants, self._caller)

    def activity(self) -> Activity:
        """What this process is doing now."""
        return self._opened.activity()

    def held_calls(self) -> list[HeldCall]:
        """The calls that this process holds: running, queued, or waiting for a person."""
        return self._opened.held_calls()

    def is_held(self, id: str, thread: str | None = None, caller: str | None = None) -> bool:
        """Does this process hold the call?"""
        return self._opened.live.find(id, thread, self._caller if caller is None else caller) is not None

    def retention(self, since: float | None = None) -> Keep:
        """The bounds of what is kept, as the settings have them; `since` in place of their age."""
        return self._opened.sweeps.keep(since)

    async def sweep(self, keep: Keep | None = None, *, progress: Callable[[Sweep], None] | None = None) -> Sweep:
        """Remove, now, ended calls that break a bound."""
        return await self._opened.sweeps.sweep(keep, progress)

    def pin_until(self) -> float:
        """Until when an artifact is kept that is stored now and that no call names: as long as a call that ended now."""
        return self._opened.clock.now() + self._opened.retention.age

    def arguments_of(self, record: Record) -> tuple[Any, Any, bool]:
        """The arguments and the metadata that a call runs with, unsealed; and whether either is lost."""
        return self._opened.arguments.in_force(record.id, record.events)

    def examine(self, record: Record, arguments: Arguments, *, registry: Registry | None = None) -> None:
        """Raise `InvalidInput` or `PermissionDenied` if a waiting call cannot run with these arguments (and tools of `registry`)."""
        self._opened.decision_checks.examined(record, arguments, registry=registry)

    def hub(self, thread: str = "default", *, registry: Registry | None = None) -> ThreadHub:
        """Which tools a thread may use now, and why not the others: `await rt.hub("t1").available()`.

        `registry`: other tools than the runtime's own, to read their status without running them.
        """
        engine = self._opened
        caller = self._origin.caller
        scopes = self._origin.scopes
        hub = engine.hub if registry is None else engine.hub.of(registry)
        authorize = engine.pipeline.authorize
        return ThreadHub(
            hub,
            thread,
            caller,
            self.audit.record,
            resets_shared=not caller or "admin" in scopes,
            forbids=authorize.forbidding(thread, caller, scopes),
        )

    @property
    def cache(self) -> Cache:
        """Cached results: `await rt.cache.stats()`, `await rt.cache.list()`, `await rt.cache.clear(tag="tool:weather")`."""
        return Cache(self._opened.store, self._opened.audit, self._caller, self._opened.clock.now)

    async def tools(self) -> Sequence[ToolInfo]:
        """The registered tools. For a caller (`acting_for`) without the scope `admin`: those of which the policy may allow a call."""
        origin = self._origin
        forbids = None
        if origin.caller and "admin" not in origin.scopes:
            forbids = self._opened.pipeline.authorize.forbidding(None, origin.caller, origin.scopes)
        return [info(tool) for tool in self._registry if forbids is None or forbids(tool) is None]

    report, anomalies, queue, threads, series = report, anomalies, queue, threads, series
    spend, notices, schedules, credentials, memory = spend, notices, schedules, credentials, memory
    forget = forget
    artifact, artifact_stream, put_artifact = artifact, artifact_stream, put_artifact
