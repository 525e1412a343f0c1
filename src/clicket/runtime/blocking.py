"""The blocking API: the same names, for programs without an event loop. Each runtime has one loop in one thread."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from clicket.engine import Progress, Recovered
from clicket.engine.executors import ArtifactSource
from clicket.engine.journal import Observers
from clicket.engine.live_call import Origin
from clicket.engine.stages import Policy
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult
from clicket.model.forgotten import Forgotten
from clicket.model.grant import GrantTerms
from clicket.model.ports import Handle
from clicket.model.queue import QueueReport
from clicket.runtime.blocking_views import Audit, Cache, ThreadHub
from clicket.runtime.calls.bulk import BulkAction, BulkResult
from clicket.runtime.calls.dead_letters import DeadPage
from clicket.runtime.calls.subscription import CallEvent, EventFilter, Gap
from clicket.runtime.runtime import Runtime as AsyncRuntime
from clicket.runtime.runtime import ToolInfo
from clicket.runtime.schedules import BlockingSchedules, Schedule
from clicket.runtime.settings import RuntimeOptions, Settings
from clicket.runtime.views.credentials import BlockingCredentials
from clicket.runtime.views.grants import BlockingGrants
from clicket.runtime.views.memory import BlockingMemory
from clicket.runtime.views.notices import BlockingNotices
from clicket.runtime.views.spend import BlockingSpend
from clicket.runtime.views.threads import ThreadPage
from clicket.runtime.views.workers import BlockingWorkers
from clicket.system.bridge import LoopThread, enter_with, refuse_running_loop
from clicket.telemetry import Anomaly, Report
from clicket.telemetry.series import Series
from clicket.telemetry.series_rows import Metric
from clicket.tools import Registry, Tool
from clicket.tools.deps import Factory

__all__ = ["Audit", "Cache", "CallHandle", "Runtime", "ThreadHub"]


class CallHandle:
    """A call that was accepted."""

    def __init__(self, runtime: Runtime, handle: Handle) -> None:
        self._runtime = runtime
        self._handle = handle
        self.id: str = handle.id
        self.thread: str = handle.thread

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return self._runtime._iterate(self._handle.events(after))

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self.id

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the outcome; after `timeout` seconds `TimeoutError` is raised, and the call goes on."""
        result: ToolResult = self._runtime._wait(self._handle.result(timeout))
        return result

    def cancel(self, reason: str = "") -> bool:
        return bool(self._runtime._wait(self._handle.cancel(reason)))

    def __repr__(self) -> str:
        return f"<call {self.id}>"


class Runtime:
    """`with clicket.sync.Runtime(tools=[...]) as rt: result = rt.call("name", {...})`."""

    _name = "clicket.sync.Runtime"

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        store: str | None = None,
        durability: str | None = None,
        engine: str | None = None,
        policy: Policy | None = None,
        cache: bool | Mapping[str, Any] | None = None,
        deps: Mapping[str, Factory] | None = None,
        settings: Settings | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        runtime = AsyncRuntime(
            tools,
            store=store,
            durability=durability,
            engine=engine,
            policy=policy,
            cache=cache,
            deps=deps,
            settings=settings,
            **options,
        )
        runtime._origin = Origin(prefer_sync=True)
        self._face(runtime)

    def _face(self, runtime: Any) -> None:
        """A blocking API over a runtime, or over an object with its methods."""
        self._runtime: AsyncRuntime = runtime
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<sync.{repr(self._runtime)[1:-1]}>"

    @property
    def settings(self) -> Settings:
        return self._runtime.settings

    @property
    def observers(self) -> Observers:
        """As in `clicket.Runtime`: listeners to durable events; they are called in the loop's thread."""
        return self._runtime.observers

    @property
    def registry(self) -> Registry:
        return self._runtime.registry

    def open(self) -> Self:
        """Start the loop's thread and open the store. `with` does it."""
        refuse_running_loop(self._name)
        if self._thread is not None:
            raise UsageError("the runtime is open already.")
        self._thread = LoopThread()
        try:
            self._wait(self._runtime.open())
        except BaseException:
            self._end_thread()
            raise
        return self

    def close(self, *, patience: float | None = None) -> None:
        """Take no new calls; running ones get `patience` seconds to finish, then they are stopped."""
        if self._thread is not None and self._thread.process != os.getpid():
            self._thread = None  # a forked process forgets it: it belongs to its parent
        if self._thread is not None:
            try:
                self._wait(self._runtime.close(patience=patience))
            finally:
                self._end_thread()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(patience=0 if kind is not None else None)

    if not TYPE_CHECKING:  # type checkers refuse `async with` by themselves
        __aenter__ = __aexit__ = enter_with("with", "clicket.sync.Runtime", "async with", "clicket.Runtime")

    def _wait(self, coroutine: Any) -> Any:
        try:
            thread = self._refuse_unless_open()
        except UsageError:
            coroutine.close()
            raise
        return thread.call(coroutine)

    def _iterate(self, iterator: Any) -> Iterator[Any]:
        return self._refuse_unless_open().iterate(iterator)

    def _refuse_unless_open(self) -> LoopThread:
        refuse_running_loop(self._name)
        if self._thread is None:
            raise UsageError("the runtime is not open; use it inside `with clicket.sync.Runtime(...) as rt:`.")
        return self._thread

    def acting_for(self, caller: str, scopes: Iterable[str] = (), requesters: Iterable[str] = ()) -> Runtime:
        """This runtime for one caller; as in `clicket.Runtime.acting_for`."""
        self._refuse_unless_open()
        view = copy.copy(self)
        view._runtime = self._runtime.acting_for(caller, scopes, requesters)
        return view

    def hub(self, thread: str = "default") -> ThreadHub:
        """Which tools a thread may use now, and why not the others: `rt.hub("t1").available()`."""
        return ThreadHub(self, thread)

    def add(self, tool: Any) -> Tool:
        """Register one more tool."""
        return self._runtime.add(tool)

    def remove(self, name: str) -> bool:
        """Remove a tool: running calls go on, new ones do not find it. False: there is no such tool."""
        return self._runtime.remove(name)

    def call(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> ToolResult:
        """Run a tool and wait for its outcome; `options` are the keywords of `ToolCall`."""
        result: ToolResult = self._wait(self._runtime.call(tool, arguments, **options))
        return result

    def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Submit a call; returns as soon as it is durable."""
        return CallHandle(self, self._wait(self._runtime.submit(tool, arguments, **options)))

    def stream(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> Iterator[Event]:
        """Run a tool and watch it: its events as they become durable, the outcome last."""
        return self._iterate(self._runtime.stream(tool, arguments, **options))

    def call_many(
        self, calls: Iterable[ToolCall | tuple[str, Any] | Mapping[str, Any]], *, max_concurrency: int = 5
    ) -> list[ToolResult]:
        """Run calls concurrently. Results are in the order of the calls; a failure does not affect the other calls."""
        results: list[ToolResult] = self._wait(self._runtime.call_many(calls, max_concurrency=max_concurrency))
        return results

    def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        return bool(self._wait(self._runtime.cancel(id, thread=thread, reason=reason)))

    def approve(
        self,
        id: str,
        *,
        thread: str | None = None,
        by: str = "",
        reason: str = "",
        arguments: Arguments = None,
        seen: str = "",
        grant: GrantTerms | None = None,
    ) -> bool:
        """Let a call run that waits for approval, also with other arguments; as in `clicket.Runtime.approve`."""
        work = self._runtime.approve(
            id, thread=thread, by=by, reason=reason, arguments=arguments, seen=seen, grant=grant
        )
        return bool(self._wait(work))

    def respond(
        self, id: str, output: Any, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = ""
    ) -> bool:
        """Answer in the tool's place: the call completes with `output`; as in `clicket.Runtime.respond`."""
        return bool(self._wait(self._runtime.respond(id, output, thread=thread, by=by, reason=reason, seen=seen)))

    @property
    def grants(self) -> BlockingGrants:
        """Approvals that also let later calls run: `rt.grants.list()`, `rt.grants.revoke(id)`."""
        return BlockingGrants(lambda: self._runtime.grants, self._wait)

    def again(
        self, id: str, arguments: Arguments = None, *, thread: str | None = None, new_id: str | None = None
    ) -> CallHandle:
        """Run a call again, as a new call; see `clicket.Runtime.again`."""
        return CallHandle(self, self._wait(self._runtime.again(id, arguments, thread=thread, new_id=new_id)))

    def bulk(self, action: BulkAction, ids: Iterable[Any] | None = None, **options: Any) -> BulkResult:
        """Cancel, run again, approve or deny many calls; keywords as those of `clicket.Runtime.bulk`."""
        result: BulkResult = self._wait(self._runtime.bulk(action, ids, **options))
        return result

    def deny(self, id: str, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = "") -> bool:
        return bool(self._wait(self._runtime.deny(id, thread=thread, by=by, reason=reason, seen=seen)))

    @property
    def audit(self) -> Audit:
        """The audit log: `rt.audit.list(limit=100)`, `rt.audit.record("key.created", by="me", key=id)`."""
        return Audit(self)

    def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Take over, now, what dead owners left in the store. `progress` is called, in the loop's thread, with the report
        so far."""
        report: Recovered = self._wait(self._runtime.recover(progress=progress))
        return report

    @property
    def cache(self) -> Cache:
        """Cached results: `rt.cache.stats()`, `rt.cache.clear(tag="tool:weather")`."""
        return Cache(self)

    def dead(self, **which: Any) -> DeadPage:
        """Calls that were given up, newest first; keywords as in `clicket.Runtime.dead`."""
        page: DeadPage = self._wait(self._runtime.dead(**which))
        return page

    def requeue(self, id: str, *, thread: str | None = None) -> CallHandle:
        """Run a call that was given up again, as a new call; see `clicket.Runtime.requeue`."""
        return CallHandle(self, self._wait(self._runtime.requeue(id, thread=thread)))

    def unknown(self, **which: Any) -> Page:
        """Calls whose outcome is unknown and not settled, the oldest first; keywords as in `clicket.Runtime.unknown`."""
        page: Page = self._wait(self._runtime.unknown(**which))
        return page

    def resolve(self, id: str, *, happened: bool, **settlement: Any) -> Record:
        """Settle a call whose outcome is unknown; keywords as in `clicket.Runtime.resolve`."""
        record: Record = self._wait(self._runtime.resolve(id, happened=happened, **settlement))
        return record

    def complete(self, token: str, output: Any = None) -> str:
        """Complete the call of a token; see `clicket.Runtime.complete`."""
        return str(self._wait(self._runtime.complete(token, output)))

    def fail(self, token: str, error: str, *, type: str = "ExternalError") -> str:
        """Fail the call of a token; see `clicket.Runtime.fail`."""
        return str(self._wait(self._runtime.fail(token, error, type=type)))

    def emit(self, token: str, output: Any) -> str:
        """Stream a piece of output into the call of a token; see `clicket.Runtime.emit`."""
        return str(self._wait(self._runtime.emit(token, output)))

    def heartbeat(self, token: str) -> str:
        """Say that the work on the call of a token goes on; see `clicket.Runtime.heartbeat`."""
        return str(self._wait(self._runtime.heartbeat(token)))

    def report_progress(self, token: str, step: float, total: float | None = None, text: str = "") -> str:
        """Report progress of the call of a token; see `clicket.Runtime.report_progress`."""
        return str(self._wait(self._runtime.report_progress(token, step, total, text)))

    @property
    def credentials(self) -> BlockingCredentials:
        """Credentials of callers: `rt.credentials.put("github", token)`, `list()`, `revoke("github")`, `link("github")`."""
        return BlockingCredentials(lambda: self._runtime.credentials, self._wait)

    def forget(self, *, caller: str | None = None, by: str = "") -> Forgotten:
        """Remove what the store has of one caller; see `clicket.Runtime.forget`."""
        report: Forgotten = self._wait(self._runtime.forget(caller=caller, by=by))
        return report

    @property
    def memory(self) -> BlockingMemory:
        """What agents remember about a caller: `rt.memory.list(caller="u1")`, `add(text)`, `edit(id, text)`, `forget(id)`."""
        return BlockingMemory(lambda: self._runtime.memory, self._wait)

    @property
    def spend(self) -> BlockingSpend:
        """What agents and tools spent, and what is left of the budgets: `rt.spend.report(by="thread")`, `rt.spend.budgets()`."""
        return BlockingSpend(lambda: self._runtime.spend, self._wait)

    @property
    def workers(self) -> BlockingWorkers:
        """The runtimes over the store: `rt.workers.list()`, `rt.workers.drain(id)`, `cordon(id)`, `uncordon(id)`."""
        return BlockingWorkers(lambda: self._runtime.workers, self._wait)

    @property
    def notices(self) -> BlockingNotices:
        """What webhooks get: `rt.notices.list()`, `get(id)`, `replay(id)`."""
        return BlockingNotices(lambda: self._runtime.notices, self._wait)

    def schedule(self, name: str, cron: str, tool: str, arguments: Arguments = None, **options: Any) -> Schedule:
        """Call a tool again and again, at times of a cron form; keywords as in `clicket.Runtime.schedule`."""
        made: Schedule = self._wait(self._runtime.schedule(name, cron, tool, arguments, **options))
        return made

    @property
    def schedules(self) -> BlockingSchedules:
        """The schedules of the store: `rt.schedules.list()`, `get(name)`, `next(name)`, `pause(name)`, `resume(name)`, `remove(name)`."""
        return BlockingSchedules(lambda: self._runtime.schedules, self._wait)

    def get(self, id: str, *, thread: str | None = None) -> Record:
        record: Record = self._wait(self._runtime.get(id, thread=thread))
        return record

    def state(self, id: str, *, thread: str | None = None) -> State:
        state: State = self._wait(self._runtime.state(id, thread=thread))
        return state

    def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        return CallHandle(self, self._wait(self._runtime.handle(id, thread=thread)))

    def subscribe(self, filter: EventFilter | None = None) -> Iterator[CallEvent | Gap]:
        """The durable events of all calls from now on; as `clicket.Runtime.subscribe`. Waits for the next one, without an end."""
        return self._iterate(_events(self._wait(_begun(self._runtime, filter))))

    def history(self, **query: Any) -> Page:
        """Calls, newest first; keywords as in `clicket.Runtime.history`."""
        page: Page = self._wait(self._runtime.history(**query))
        return page

    def threads(self, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
        """Threads with their last activity, counts and agents; see `clicket.Runtime.threads`."""
        page: ThreadPage = self._wait(self._runtime.threads(limit=limit, cursor=cursor))
        return page

    def series(self, metric: Metric = "calls", **options: Any) -> Series:
        """Time series of calls, errors, run times or queue lengths; keywords as those of `clicket.Runtime.series`."""
        found: Series = self._wait(self._runtime.series(metric, **options))
        return found

    def tools(self) -> Sequence[ToolInfo]:
        listed: Sequence[ToolInfo] = self._wait(self._runtime.tools())
        return listed

    def report(self, tool: str | None = None, *, since: float | None = None) -> Report:
        """Counts and run times of ended calls by tool; see `clicket.Runtime.report`."""
        found: Report = self._wait(self._runtime.report(tool, since=since))
        return found

    def queue(self, tool: str | None = None) -> QueueReport:
        """The calls that wait for a worker; see `clicket.Runtime.queue`."""
        found: QueueReport = self._wait(self._runtime.queue(tool))
        return found

    def anomalies(self, tool: str | None = None, *, since: float | None = None) -> list[Anomaly]:
        """Tools that fail often or are slow; see `clicket.Runtime.anomalies`."""
        found: list[Anomaly] = self._wait(self._runtime.anomalies(tool, since=since))
        return found

    def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        data: bytes = self._wait(self._runtime.artifact(name, start, end))
        return data

    def artifact_stream(self, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of an artifact, or a range of them, in chunks; see `clicket.Runtime.artifact_stream`."""
        return self._iterate(self._runtime.artifact_stream(name, start, end))

    def put_artifact(self, data: ArtifactSource) -> str:
        """Store a file and return its name, which is passed to tools. See `clicket.Runtime.put_artifact`."""
        return str(self._wait(self._runtime.put_artifact(data)))


async def _begun(runtime: Any, filter: EventFilter | None) -> Any:
    return await runtime.subscribe(filter).__aenter__()


async def _events(subscription: Any) -> AsyncIterator[CallEvent | Gap]:
    try:
        async for event in subscription:
            yield event
    finally:
        await subscription.__aexit__(None, None, None)
