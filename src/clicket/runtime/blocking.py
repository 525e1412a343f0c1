"""`Runtime`, and what it gives: the async classes for programs without an event loop.

Written by `scripts/blocking.py`: change the async classes, then run `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from clicket.engine import Progress, Recovered
from clicket.engine.actions.handles import CallHandle as AsyncCallHandle
from clicket.engine.executors import ArtifactSource
from clicket.engine.hub.hub import Change
from clicket.engine.hub.judge import ToolState, ToolView
from clicket.engine.hub.thread import ThreadHub as AsyncThreadHub
from clicket.engine.journal import Observers
from clicket.engine.people.audit import AuditEntry
from clicket.engine.spend import OnBudgetReached
from clicket.engine.stages import Policy
from clicket.kernel import State, ToolStatus
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult
from clicket.model.credential import Credential, CredentialLink
from clicket.model.fact import Fact
from clicket.model.forgotten import Forgotten
from clicket.model.grant import Grant, GrantState, GrantTerms
from clicket.model.notice import Notice, NoticePage
from clicket.model.ports import CacheStats, Store
from clicket.model.queue import QueueReport
from clicket.model.spend import BudgetStatus, By, SpendReport
from clicket.model.undo import UndoReport
from clicket.model.worker import WorkerInfo, WorkerState
from clicket.runtime.blocking_base import BlockingPart, BlockingRuntime, BlockingSubscription, SyncFirstRuntime
from clicket.runtime.calls.bulk import MAX_CALLS, BulkAction, BulkResult, CallName
from clicket.runtime.calls.dead_letters import DeadPage
from clicket.runtime.calls.effects import Effect
from clicket.runtime.calls.history import HistoryOptions
from clicket.runtime.calls.subscription import CallEvent, EventFilter, Gap
from clicket.runtime.calls.subscription import Subscription as AsyncSubscription
from clicket.runtime.calls.unknown_outcomes import UnknownOptions
from clicket.runtime.runtime import Runtime as AsyncRuntime
from clicket.runtime.schedules.schedule import Schedule
from clicket.runtime.schedules.view import ScheduleOptions
from clicket.runtime.schedules.view import Schedules as AsyncSchedules
from clicket.runtime.settings import RuntimeOptions, Settings
from clicket.runtime.views.audit import Audit as AsyncAudit
from clicket.runtime.views.cache import Cache as AsyncCache
from clicket.runtime.views.cache import CachePage
from clicket.runtime.views.credentials import Credentials as AsyncCredentials
from clicket.runtime.views.grants import Grants as AsyncGrants
from clicket.runtime.views.memory import MemoryView as AsyncMemoryView
from clicket.runtime.views.notices import Notices as AsyncNotices
from clicket.runtime.views.spend import SpendView as AsyncSpendView
from clicket.runtime.views.threads import ThreadPage
from clicket.runtime.views.tools import ToolInfo
from clicket.runtime.views.workers import Workers as AsyncWorkers
from clicket.telemetry import Anomaly, Report
from clicket.telemetry.series import Series
from clicket.telemetry.series_rows import Metric
from clicket.tools import Registry, Tool
from clicket.tools.deps import Factory

__all__ = [
    "Audit",
    "Cache",
    "CallHandle",
    "Credentials",
    "Grants",
    "MemoryView",
    "Notices",
    "Runtime",
    "Schedules",
    "SpendView",
    "Subscription",
    "ThreadHub",
    "Workers",
]


class Runtime(BlockingRuntime[AsyncRuntime]):
    """`with Runtime(tools=[...]) as rt: result = rt.call("name", {...}, thread="t1")`.

    `store` is a URL (`memory://`, `sqlite:///path`, `redis://…`, `postgresql://…`) or a store of your own; the default is the file
    `.clicket/clicket.db`. With `engine="workers"` calls are accepted here and run by other runtimes over the same store. `deps`: makes
    values for tools, by name: `{"db": connect}`. A factory has no arguments, may be async, and is called when a tool needs the value
    first, once in this process and once in each child process of tools; the value is closed when the runtime closes. `options` are
    settings: `max_concurrency=20`, `retention=3600`.
    """

    _name = "clicket.sync.Runtime"
    _twin = "clicket.Runtime"

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
        super().__init__(
            SyncFirstRuntime(
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
        )

    @property
    def settings(self) -> Settings:
        return self._async.settings

    @property
    def observers(self) -> Observers:
        return self._async.observers

    def acting_for(self, caller: str, scopes: Iterable[str] = (), requesters: Iterable[str] = ()) -> Runtime:
        """This runtime for one caller: it makes calls as that caller, and finds only that caller's calls.

        `scopes`: what the caller may do, for the policy's rules. `requesters`: names of a person who makes calls in the caller's name,
        and may not approve them. An empty name of the caller means the program's own calls.
        """
        return self._over(self._loop.run(lambda: self._async.acting_for(caller, scopes, requesters)))

    def add(self, tool: Any) -> Tool:
        """Register one more tool."""
        return self._async.add(tool)

    def remove(self, name: str) -> bool:
        """Remove a tool: running calls go on, new ones do not find it. False: there is no such tool."""
        return self._async.remove(name)

    def call(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> ToolResult:
        """Run a tool and wait for its outcome. A call that failed is returned, not raised."""
        return self._loop.call(self._async.call(tool, arguments, **options))

    def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Submit a call; returns as soon as it is durable."""
        return CallHandle(self, self._loop.call(self._async.submit(tool, arguments, **options)))

    def stream(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> Iterator[Event]:
        """Run a tool and watch it: its events as they become durable, the outcome last."""
        return self._loop.iterate(self._async.stream(tool, arguments, **options))

    def call_many(
        self, calls: Iterable[ToolCall | tuple[str, Any] | Mapping[str, Any]], *, max_concurrency: int = 5
    ) -> list[ToolResult]:
        """Run calls side by side, `max_concurrency` at once. Results are in the order of the calls; a failure affects no other call."""
        return self._loop.call(self._async.call_many(calls, max_concurrency=max_concurrency))

    def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        """End a call. True: it took effect or is on record for the process that runs it; False: it had ended."""
        return self._loop.call(self._async.cancel(id, thread=thread, reason=reason))

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
        """Let a call run that waits for approval. False: it is not waiting (any more).

        With other `arguments` it runs with those, if they fit: else `InvalidInput` or `PermissionDenied` is raised, and the
        call goes on waiting. Both versions stay on record. `seen`: `record.approval["hash"]` of what was looked at; if the call
        waits for another decision than that, `Conflict` is raised.

        `grant`: later calls of the same tool, for which the same rule of the policy asks, run without a person: `{"uses": 10,
        "seconds": 3600, "thread": "t1", "arguments": {JSON Schema}}`, each key optional. `rt.grants` lists and revokes grants.

        `PermissionDenied`: `by` made the call, and the policy does not allow `self_approval`. If the policy wants several `approvers`,
        the call goes on waiting until this many different people have approved it.
        """
        return self._loop.call(
            self._async.approve(id, thread=thread, by=by, reason=reason, arguments=arguments, seen=seen, grant=grant)
        )

    def deny(self, id: str, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = "") -> bool:
        """Refuse a call that waits for approval; `seen` as in `approve`. False: it is not waiting (any more).

        A question of the call's tool (`record.approval["purpose"] == "input"`) is declined, and the tool goes on without an answer.
        """
        return self._loop.call(self._async.deny(id, thread=thread, by=by, reason=reason, seen=seen))

    def respond(
        self, id: str, output: Any, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = ""
    ) -> bool:
        """Answer in the tool's place: a call that waits for approval completes with `output`, and its tool does not run. False: it is not
        waiting (any more).

        The output is processed like the tool's, and never cached; `metadata["answered_by"]` is the person. `InvalidInput`: it does not
        fit the tool's output schema, and the call goes on waiting. The person who made the call may not answer it, as in `approve`.

        If the tool itself asks (`record.approval["question"]`), `output` is the answer to its question: an object that fits
        `question["schema"]`. The tool goes on with it, and the person who made the call may answer.
        """
        return self._loop.call(self._async.respond(id, output, thread=thread, by=by, reason=reason, seen=seen))

    def schedule(
        self,
        name: str,
        cron: str,
        tool: str,
        arguments: Arguments = None,
        *,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Call a tool again and again: `rt.schedule("nightly", "30 2 * * *", "report", {...}, timezone="Europe/Berlin")`.

        `overlap`: while the call before has not ended, a due time is skipped ("skip"), waits ("queue") or runs beside it ("allow").
        `catch_up`: of the times that were missed while no process was there, "none" run, only the "last", or "all". `jitter`: seconds
        by which each call waits longer at most.

        A schedule of that name is changed; if nothing is different, nothing is written, so a program may do this at each start. It runs
        in the name of its caller, in processes that have the tool.
        """
        return self._loop.call(self._async.schedule(name, cron, tool, arguments, by=by, **options))

    def again(
        self, id: str, arguments: Arguments = None, *, thread: str | None = None, new_id: str | None = None
    ) -> CallHandle:
        """Run a call again: a new call of the same tool, thread, caller, time limits and metadata, with the old arguments or with these.
        Its `metadata["again_of"]` is the id of the old one. Returns as soon as it is durable.

        All rules of `submit` apply to it. `new_id`: its id; the same id with the same arguments makes no second call. A mask in
        `arguments` stands for the value that it hides in the old call. `UsageError`: the old arguments are not known; pass new ones.
        """
        return CallHandle(self, self._loop.call(self._async.again(id, arguments, thread=thread, new_id=new_id)))

    def effects(self, id: str, *, thread: str | None = None) -> list[Effect]:
        """The effects that `again` of this call would repeat, in the order in which they were asked for: those of the call itself, of its
        program's uses of tools, and of agents that it called. Read-only tools have none, and a call that never started had none.

        They are those on record: the new call may do something else. A call of which no tool is registered here counts as an effect.
        """
        return self._loop.call(self._async.effects(id, thread=thread))

    def bulk(
        self,
        action: BulkAction,
        ids: Iterable[str | Mapping[str, Any] | CallName] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        reason: str = "",
        by: str = "",
        dry: bool = False,
        limit: int = MAX_CALLS,
        cursor: str | None = None,
    ) -> BulkResult:
        """Cancel, run again, approve or deny many calls: up to 1,000 `ids`, or those that a `filter` finds (keywords of `history`, and
        `caller`). Failures are collected in the result.

        A filter finds only calls to which the action applies: active ones for `cancel`, ended ones for `again`, waiting ones for
        `approve` and `deny`. At most `limit` of them are acted on, the newest first; pass the result's `cursor` to go on. `dry`: only
        count them.
        """
        return self._loop.call(
            self._async.bulk(action, ids, filter=filter, reason=reason, by=by, dry=dry, limit=limit, cursor=cursor)
        )

    def dead(
        self,
        *,
        tool: str | None = None,
        thread: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        requeued: bool = False,
    ) -> DeadPage:
        """Calls that were given up, newest first: failed for good, out of time, of unknown outcome, or damaged. `requeued`: also those
        that run again already. `cursor` of one page fetches the next.
        """
        return self._loop.call(
            self._async.dead(tool=tool, thread=thread, limit=limit, cursor=cursor, requeued=requeued)
        )

    def requeue(self, id: str, *, thread: str | None = None) -> CallHandle:
        """Run a dead call again, as a new call whose `metadata["again_of"]` is the id of the old one. A second request for the same call
        makes no second one. Raises `Conflict` if the call is not dead.
        """
        return CallHandle(self, self._loop.call(self._async.requeue(id, thread=thread)))

    def unknown(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[UnknownOptions]) -> Page:
        """Calls whose outcome is unknown and not settled, the oldest first, in pages of up to 1,000; `cursor` of one page fetches the
        next. `resolve` settles one. A page that looked at 10,000 calls before it was full says in `searched_to` how far it got.
        """
        return self._loop.call(self._async.unknown(limit=limit, cursor=cursor, **which))

    def resolve(
        self,
        id: str,
        *,
        happened: bool,
        output: Any = None,
        by: str = "",
        note: str = "",
        thread: str | None = None,
        rerun: bool = False,
    ) -> Record:
        """Settle a call whose outcome is unknown: a person says whether its effect happened, and with what `output`.

        The settlement is an event of the call and `record.resolution`; the outcome on record stays as it is. `rerun`: it did not
        happen, so run it again, as a new call whose `metadata["again_of"]` is the id of the old one and whose id is
        `resolution["rerun_as"]`.

        A call that waits for a person to decide (`recovery="ask"`) has no outcome yet: the settlement is the decision, under the rules
        of `approve`. It happened: the call completes with `output`. It did not: the call runs again with `rerun`, and else is denied.
        The agent's turn that waits for it goes on.

        `Conflict`: the outcome is known, or a person settled it already. If the process ended between the settlement and the new call,
        the same request of the same person makes that call. Returns the record.
        """
        return self._loop.call(
            self._async.resolve(id, happened=happened, output=output, by=by, note=note, thread=thread, rerun=rerun)
        )

    def undo(
        self,
        id: str | None = None,
        *,
        thread: str | None = None,
        turn: int | None = None,
        agent: str | None = None,
        strict: bool = True,
        retry: bool = False,
        dry: bool = False,
    ) -> UndoReport:
        """Undo a call, or all calls of a turn of an agent: `undo(id)`, `undo(thread="t1", turn=3)`. Waits until it is done.

        A call is undone if it completed, or if its tool's check or a person says that it happened, by the function of `@tool(undo=…)`.
        Of a turn these are its calls, those in the background and those of the agents that it called; the one that ended last is undone
        first. The first undo that fails stops the rest. A call of which it is not known whether it happened is in `unknown`, and
        earlier ones wait for it: settle it with `resolve`, or go on without it (`strict=False`). `impossible` says what cannot be
        undone, and why.

        The undo of a call is one call: asked again, it has the outcome that is on record. `retry`: run those again that failed. `dry`:
        change nothing; `waiting` says what would be undone. `agent`: whose turn it is, if several agents use the thread. `Conflict`:
        the turn, or a call of it, has not ended.
        """
        return self._loop.call(
            self._async.undo(id, thread=thread, turn=turn, agent=agent, strict=strict, retry=retry, dry=dry)
        )

    def complete(self, token: str, output: Any = None) -> str:
        """Complete the call of a token with this output; returns the call's id. None after `emit`: what was emitted is the output.

        The output is on record when this returns, and passes the stages that the tool's own would. `Conflict`: the call has a result,
        was cancelled, or ended. `NotFound`: no call has such a token.
        """
        return self._loop.call(self._async.complete(token, output))

    def fail(self, token: str, error: str, *, type: str = "ExternalError") -> str:
        """Fail the call of a token; returns the call's id. `error` is for the caller and the model. It counts as a failure of the tool."""
        return self._loop.call(self._async.fail(token, error, type=type))

    def emit(self, token: str, output: Any) -> str:
        """Stream a piece of output into the call of a token; returns the call's id. At most 1,000 pieces, and 1 MiB in all."""
        return self._loop.call(self._async.emit(token, output))

    def heartbeat(self, token: str) -> str:
        """Say that the work on the call of a token goes on; returns the call's id. It holds off the tool's `idle_timeout`."""
        return self._loop.call(self._async.heartbeat(token))

    def report_progress(self, token: str, step: float, total: float | None = None, text: str = "") -> str:
        """Report progress of the call of a token; returns the call's id. Reports within a second of the last one are not recorded."""
        return self._loop.call(self._async.report_progress(token, step, total, text))

    def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Take over, now, what dead owners left in the store. `progress` is called with the report so far."""
        return self._loop.call(self._async.recover(progress=progress))

    def get(self, id: str, *, thread: str | None = None) -> Record:
        """Everything known about a call."""
        return self._loop.call(self._async.get(id, thread=thread))

    def state(self, id: str, *, thread: str | None = None) -> State:
        return self._loop.call(self._async.state(id, thread=thread))

    def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        """A handle of a call that was submitted earlier, here or in another process."""
        return CallHandle(self, self._loop.call(self._async.handle(id, thread=thread)))

    def history(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]) -> Page:
        """Calls, newest first or (`order="asc"`) oldest first, in pages of up to 1,000; `cursor` of one page fetches the next.

        The store finds calls by an index of thread, tool, state, time, caller, error code and request id. For what it has no index for
        (`metadata`, `id_contains`, most pairs) a page looks at up to 10,000 calls; if it is not full then, `searched_to` says how far
        it got, and `cursor` continues there.
        """
        return self._loop.call(self._async.history(limit=limit, cursor=cursor, **which))

    @property
    def registry(self) -> Registry:
        return self._async.registry

    @property
    def audit(self) -> Audit:
        """The audit log: `rt.audit.list(limit=100)`, `rt.audit.record("key.created", by="me", key=id)`."""
        return Audit(self, self._loop.run(lambda: self._async.audit))

    def subscribe(self, filter: EventFilter | None = None, *, max_pending: int = 1000) -> Subscription:
        """The durable events of all calls of this process, as they come: `for event in rt.subscribe(...)`. A reader that is
        `max_pending` events behind misses some, and gets a `Gap` in their place. A runtime for one caller (`acting_for`) yields only
        that caller's events.
        """
        return Subscription(self, self._loop.run(lambda: self._async.subscribe(filter, max_pending=max_pending)))

    @property
    def workers(self) -> Workers:
        """The runtimes over the store: `rt.workers.list()`, `rt.workers.drain(id)`, `cordon(id)`, `uncordon(id)`."""
        return Workers(self, self._loop.run(lambda: self._async.workers))

    @property
    def grants(self) -> Grants:
        """Approvals that also let later calls run: `rt.grants.list()`, `rt.grants.revoke(id)`."""
        return Grants(self, self._loop.run(lambda: self._async.grants))

    def hub(self, thread: str = "default", *, registry: Registry | None = None) -> ThreadHub:
        """Which tools a thread may use now, and why not the others: `rt.hub("t1").available()`.

        `registry`: other tools than the runtime's own, to read their status without running them.
        """
        return ThreadHub(self, self._loop.run(lambda: self._async.hub(thread, registry=registry)))

    @property
    def cache(self) -> Cache:
        """Cached results: `rt.cache.stats()`, `rt.cache.list()`, `rt.cache.clear(tag="tool:weather")`."""
        return Cache(self, self._loop.run(lambda: self._async.cache))

    def tools(self) -> Sequence[ToolInfo]:
        """The registered tools. For a caller (`acting_for`) without the scope `admin`: those of which the policy may allow a call."""
        return self._loop.call(self._async.tools())

    def report(self, tool: str | None = None, *, since: float | None = None) -> Report:
        """Counts and run times of ended calls by tool, of all processes over the store; unregistered tools are one, `(unknown)`.

        `since` (seconds since the epoch): of calls that were made since then, from the journal, so as far back as it is kept.
        """
        return self._loop.call(self._async.report(tool, since=since))

    def anomalies(self, tool: str | None = None, *, since: float | None = None) -> list[Anomaly]:
        """Tools under 80 % success or over 30 s on average, with at least 5 runs.

        Refused, cached and cancelled calls are no runs: they say nothing about the tool.
        """
        return self._loop.call(self._async.anomalies(tool, since=since))

    def queue(self, tool: str | None = None) -> QueueReport:
        """The calls that wait for a worker, of all tools or one, in the whole store. Read from the store, so the same in every process. A
        runtime for one caller (`acting_for`) may not read it.
        """
        return self._loop.call(self._async.queue(tool))

    def threads(self, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
        """Threads with their last activity, counts of calls by state, and the state of their agents; those with the newest call first.

        `limit` is up to 1,000; `cursor` of one page fetches the next.
        """
        return self._loop.call(self._async.threads(limit=limit, cursor=cursor))

    def series(
        self,
        metric: Metric = "calls",
        *,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        step: int = 60,
    ) -> Series:
        """How many calls ended, with which errors, how long they took, or how many waited, in steps of `step` seconds: of all processes
        over the store, also of those that have ended. `metric`: `calls`, `errors`, `latency` or `queue`; see `Series`.

        `since` and `until` are seconds since the epoch; the last hour if left out. The step is a multiple of 60, up to a day, and there
        are at most 2,000 steps. Times older than a day are kept by the hour, for `series_retention` seconds. Quantiles are exact to 9
        %.
        """
        return self._loop.call(self._async.series(metric, tool=tool, since=since, until=until, step=step))

    @property
    def spend(self) -> SpendView:
        """What was spent, and what is left of the budgets: `rt.spend.report(by="thread")`, `rt.spend.budgets()`."""
        return SpendView(self, self._loop.run(lambda: self._async.spend))

    @property
    def notices(self) -> Notices:
        """What webhooks get: `rt.notices.list()`, `get(id)`, `replay(id)`."""
        return Notices(self, self._loop.run(lambda: self._async.notices))

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: `rt.schedules.list()`, `get(name)`, `next(name)`, `pause(name)`, `resume(name)`, `remove(name)`."""
        return Schedules(self, self._loop.run(lambda: self._async.schedules))

    @property
    def credentials(self) -> Credentials:
        """Credentials of callers: `rt.credentials.put("github", token)`, `list()`, `revoke("github")`, `link("github")`."""
        return Credentials(self, self._loop.run(lambda: self._async.credentials))

    @property
    def memory(self) -> MemoryView:
        """What agents remember about a caller: `rt.memory.list(caller="u1")`, `add(text)`, `edit(id, text)`, `forget(id)`."""
        return MemoryView(self, self._loop.run(lambda: self._async.memory))

    def forget(self, *, caller: str | None = None, by: str = "") -> Forgotten:
        """Remove the threads of a caller, its calls and their outcomes, its artifacts, what agents remember about it, and its queued
        messages.

        `AgentBusy`, or `Conflict`: a turn or a call of it has not ended, and nothing was removed. May be run again at any time, also
        after a kill. The runtime of one caller (`acting_for`) forgets that caller. Credentials, grants, schedules and API keys stay,
        and so do the audit log and what was spent.
        """
        return self._loop.call(self._async.forget(caller=caller, by=by))

    def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an artifact, or a range of them, if the runtime's caller may read it: `NotFound` otherwise."""
        return self._loop.call(self._async.artifact(name, start, end))

    def artifact_stream(self, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of an artifact, or a range of them, in chunks of up to 256 KiB: `for chunk in rt.artifact_stream(name)`. An
        artifact of any size is read without being whole in memory.
        """
        return self._loop.iterate(self._async.artifact_stream(name, start, end))

    def put_artifact(self, data: ArtifactSource) -> str:
        """Store a file and return its name, which is passed to tools. It stays for `retention` seconds, or as long as a call names it.

        `data`: bytes, a `pathlib.Path`, an open binary file, or an iterable or async iterable of bytes. All but bytes are taken in
        chunks, and are never whole in memory (but for `memory://`). Equal content is stored once, under one name; storing it again
        restarts the time.
        """
        return self._loop.call(self._async.put_artifact(data))


class CallHandle(BlockingPart[AsyncCallHandle]):
    """A call that was accepted: durable, and running, waiting or ended somewhere."""

    @property
    def id(self) -> str:
        return self._async.id

    @property
    def thread(self) -> str:
        return self._async.thread

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return self._loop.iterate(self._async.events(after))

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self._async.call_id

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the outcome; after `timeout` seconds `TimeoutError` is raised, and the call goes on."""
        return self._loop.call(self._async.result(timeout))

    def cancel(self, reason: str = "") -> bool:
        """Ask the call to end. True: it took effect or is on record; False: it had ended already."""
        return self._loop.call(self._async.cancel(reason))

    def __repr__(self) -> str:
        return repr(self._async)


class Subscription(BlockingSubscription[AsyncSubscription, CallEvent | Gap]):
    pass


class ThreadHub(BlockingPart[AsyncThreadHub]):
    """`hub = rt.hub("t1")`. Every method reads the store, so all processes see the same state."""

    @property
    def thread(self) -> str:
        return self._async.thread

    def tools(self) -> list[ToolView]:
        """Every registered tool: is it available, if not why, and which tools to call first."""
        return self._loop.call(self._async.tools())

    def available(self) -> list[str]:
        """The names of the tools that a model may be offered now."""
        return self._loop.call(self._async.available())

    def status(self, name: str) -> ToolState:
        return self._loop.call(self._async.status(name))

    def states(self) -> dict[str, ToolState]:
        """The status of every registered tool."""
        return self._loop.call(self._async.states())

    def summary(self) -> str:
        """One line for a log: totals, what is available, what failed, what waits for what."""
        return self._loop.call(self._async.summary())

    def prompt(self) -> str:
        """Text for a model: what it can call now, what it cannot, and why."""
        return self._loop.call(self._async.prompt())

    def watch(self) -> Iterator[Change]:
        """Changes of status from now on, of this process and of others."""
        return self._loop.iterate(self._async.watch())

    def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Set a tool's status as an operator; `available` does what `reset` does. Raises on a transition that the table lacks."""
        return self._loop.call(self._async.set(name, status, reason, by=by))

    def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all tools, available again. Returns the names of those that were not available, or had failures.

        The tools need not be registered here: what the thread has on record is enough.
        """
        return self._loop.call(self._async.reset(name, by=by))

    def report(self, name: str, *, ok: bool, error: str = "") -> ToolState:
        """Report how a run of the tool ended that clicket did not make, such as one in a browser or in another program.

        It counts as the outcome of a call: for the tool's health, its breaker, and the tools that depend on it. No call is recorded.
        """
        return self._loop.call(self._async.report(name, ok=ok, error=error))

    def snapshot(self) -> str:
        """The health of every registered tool as JSON, for `restore` in this store or another."""
        return self._loop.call(self._async.snapshot())

    def restore(self, text: str | bytes, *, by: str = "") -> bool:
        """Replace the recorded health by that of a snapshot. False: the snapshot does not load; a warning is logged, and nothing
        changes.
        """
        return self._loop.call(self._async.restore(text, by=by))


class Audit(BlockingPart[AsyncAudit]):
    """The append-only log of what people and policies decided."""

    def list(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """Entries, the newest first; `before`: the number of an entry. A runtime for one caller (`acting_for`) may not read the log."""
        return self._loop.call(self._async.list(limit=limit, before=before))

    def __call__(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        return self._loop.call(self._async.__call__(limit=limit, before=before))

    def record(self, what: str, *, by: str = "", **details: Any) -> None:
        """Add an entry. `by`: the default is the runtime's caller. `what`: a noun and a past tense, such as `key.created`."""
        self._loop.call(self._async.record(what, by=by, **details))


class Cache(BlockingPart[AsyncCache]):
    """The cached results of a runtime's store, shared by all processes over it."""

    def stats(self) -> CacheStats:
        return self._loop.call(self._async.stats())

    def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, in the order in which they expire; `cursor` of one page fetches the next.

        Results are shared by all callers, so a runtime for one caller (`acting_for`) may not list them.
        """
        return self._loop.call(self._async.list(tag=tag, limit=limit, cursor=cursor))

    def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only results that are older than this many seconds.
        """
        return self._loop.call(self._async.clear(tag, max_age=max_age))


class Credentials(BlockingPart[AsyncCredentials]):
    """`rt.credentials.put("github", token)`. The runtime of one caller (`acting_for`) has that caller's; the program's own runtime
    names the caller, and means itself without one. Only `token` returns a secret.
    """

    def put(
        self,
        provider: str,
        secret: str,
        *,
        caller: str | None = None,
        scopes: Sequence[str] = (),
        expires_at: float | None = None,
        by: str = "",
    ) -> Credential:
        """Keep a token for a provider, encrypted, in place of the one before. Calls that wait for it go on. `expires_at`: seconds since
        the epoch, if it is known.
        """
        return self._loop.call(
            self._async.put(provider, secret, caller=caller, scopes=scopes, expires_at=expires_at, by=by)
        )

    def list(self, *, caller: str | None = None) -> Sequence[Credential]:
        """The credentials without their secrets: of this caller; for the program's own runtime of all callers, or of one."""
        return self._loop.call(self._async.list(caller=caller))

    def revoke(self, provider: str, *, caller: str | None = None, by: str = "") -> Credential:
        """Delete the secret. Calls that run keep what they have; the next call waits. `NotFound`: there is no such credential."""
        return self._loop.call(self._async.revoke(provider, caller=caller, by=by))

    def link(self, provider: str, *, caller: str | None = None) -> CredentialLink:
        """A page on which a person connects an account, or writes a token, for this caller. Each link works once. Give it to that person
        alone: the account that is connected with it is used by this caller's calls. The runtime of one caller makes links for providers
        that the settings or a tool name, and raises `UsageError` for others.
        """
        return self._loop.call(self._async.link(provider, caller=caller))

    def token(self, provider: str) -> str:
        """The secret of this caller, refreshed if need be, for code of this process. `CredentialMissing`: there is none."""
        return self._loop.call(self._async.token(provider))

    def check_secret(self, secret: str) -> None:
        """Raise `UsageError` if `put` would refuse the secret."""
        self._loop.run(lambda: self._async.check_secret(secret))


class Grants(BlockingPart[AsyncGrants]):
    """The grants in a store, shared by all processes over it. `rt.approve(id, grant={…})` gives one."""

    def list(self, *, tool: str | None = None, state: GrantState | None = None) -> Sequence[Grant]:
        """The grants, the newest first: active ones, and for the retention of calls also those that were used up, expired or revoked.
        The runtime of one caller lists those that hold for it.
        """
        return self._loop.call(self._async.list(tool=tool, state=state))

    def revoke(self, id: str, *, by: str = "") -> Grant:
        """From now on the grant lets no call run, in any process. Calls that it has approved go on. `NotFound`: there is none."""
        return self._loop.call(self._async.revoke(id, by=by))


class MemoryView(BlockingPart[AsyncMemoryView]):
    """`rt.memory.list(caller="u1")`. The runtime of one caller (`acting_for`) has that caller's; the program's own runtime names
    the caller, and means itself without one.
    """

    def list(self, *, caller: str | None = None, agent: str | None = None) -> Sequence[Fact]:
        """The facts: those that all agents read first, then those of single agents. `agent`: those of one agent alone; empty: those that
        all agents read.
        """
        return self._loop.call(self._async.list(caller=caller, agent=agent))

    def add(self, text: str, *, caller: str | None = None, agent: str = "", by: str = "") -> Fact:
        """Remember a fact for all agents of the caller, or for one. Their next turns read it."""
        return self._loop.call(self._async.add(text, caller=caller, agent=agent, by=by))

    def edit(self, id: str, text: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Replace the text of a fact. `NotFound`: no fact has this id."""
        return self._loop.call(self._async.edit(id, text, caller=caller, by=by))

    def forget(self, id: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Remove a fact; returns it. Turns that have begun still know it, and threads in which it was said. `NotFound`: there is none."""
        return self._loop.call(self._async.forget(id, caller=caller, by=by))


class Notices(BlockingPart[AsyncNotices]):
    """Notices that were delivered or given up are kept for `notice_retention` seconds."""

    def list(
        self, *, state: str | None = None, type: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NoticePage:
        """Notices without their payloads, the newest first, in pages of up to 1,000; `cursor` of one page fetches the next. `state`:
        "pending", "delivered" or "failed". `type`: such as "call.ended".
        """
        return self._loop.call(self._async.list(state=state, type=type, limit=limit, cursor=cursor))

    def get(self, id: str) -> Notice:
        """One notice, with its payload and its last attempts. `NotFound`: there is none."""
        return self._loop.call(self._async.get(id))

    def replay(self, id: str, *, by: str = "") -> Notice:
        """Send a notice again that was delivered or given up, under the same id, also to an endpoint that is disabled. `Conflict`: it
        is not over yet.
        """
        return self._loop.call(self._async.replay(id, by=by))


class Schedules(BlockingPart[AsyncSchedules]):
    """The schedules of a store; of one caller, for a runtime that acts for one."""

    def put(
        self,
        name: str,
        cron: str,
        tool: str,
        arguments: Arguments = None,
        *,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Make or change a schedule; as `Runtime.schedule`."""
        return self._loop.call(self._async.put(name, cron, tool, arguments, by=by, **options))

    def list(self) -> Sequence[Schedule]:
        """Every schedule, in the order of their names."""
        return self._loop.call(self._async.list())

    def get(self, name: str, *, caller: str | None = None) -> Schedule:
        """One schedule; `NotFound`. `caller`: if callers of this runtime have schedules of the same name."""
        return self._loop.call(self._async.get(name, caller=caller))

    def next(self, name: str, count: int = 5, *, caller: str | None = None) -> Sequence[float]:
        """The next times, in seconds since the epoch, without jitter; also of a paused schedule."""
        return self._loop.call(self._async.next(name, count, caller=caller))

    def pause(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed. Calls that it made go on."""
        return self._loop.call(self._async.pause(name, by=by, caller=caller))

    def resume(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a paused schedule fire again, from the next time on: what was due meanwhile was not missed."""
        return self._loop.call(self._async.resume(name, by=by, caller=caller))

    def remove(self, name: str, *, by: str = "", caller: str | None = None) -> bool:
        """Remove a schedule; its calls stay. False: there is none."""
        return self._loop.call(self._async.remove(name, by=by, caller=caller))


class SpendView(BlockingPart[AsyncSpendView]):
    """`report = rt.spend.report(by="thread")`. A runtime for one caller (`acting_for`) sees that caller's spend alone."""

    def report(
        self,
        by: By = "day",
        *,
        since: float | None = None,
        until: float | None = None,
        caller: str | None = None,
        thread: str | None = None,
        agent: str | None = None,
    ) -> SpendReport:
        """Tokens and money by `run`, `thread`, `agent`, `caller`, `day`, `month` (UTC) or `model`, of all processes over the store, and
        the budgets.

        `since` and `until`: seconds since the epoch. `thread` and `agent`: only what was spent for them, by the agents that they
        called, too. Entries of other processes may be a second late. The ledger is read for it: `since` bounds the time that takes.
        """
        return self._loop.call(
            self._async.report(by, since=since, until=until, caller=caller, thread=thread, agent=agent)
        )

    def budgets(self) -> list[BudgetStatus]:
        """Every budget in its current period, for each scope that has spent; for one caller: those of this caller."""
        return self._loop.call(self._async.budgets())

    @property
    def reached(self) -> Mapping[str, int]:
        """How often each budget was reached, in this process."""
        return self._async.reached

    def on_budget_reached(self, listener: OnBudgetReached) -> None:
        """Await `listener(BudgetReached)` when a budget is reached, in this process: at least once for each budget, scope, period and
        limit. It is called again, with the same id, if it raised or the process died in it.
        """
        self._loop.run(lambda: self._async.on_budget_reached(listener))


class Workers(BlockingPart[AsyncWorkers]):
    """The workers of a store: those that are alive, and for an hour those that were lost. `id`: this runtime's own."""

    @property
    def id(self) -> str:
        return self._async.id

    @property
    def state(self) -> WorkerState:
        """The state of this runtime, as it knows it."""
        return self._async.state

    def list(self) -> Sequence[WorkerInfo]:
        """Every worker, the one that started first before the others."""
        return self._loop.call(self._async.list())

    def drain(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker finish what runs there. What waits there goes to other workers, and it takes nothing new. A worker process
        ends then; any other runtime stays open. The worker finds it within a third of its lease. `Conflict`: it is lost.
        """
        return self._loop.call(self._async.drain(id, by=by))

    def cordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take no new calls; those that it holds go on there. `Conflict`: it is lost, or ends."""
        return self._loop.call(self._async.cordon(id, by=by))

    def uncordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take calls again. `Conflict`: it is lost, or ends."""
        return self._loop.call(self._async.uncordon(id, by=by))

    def until_drained(self) -> None:
        """Wait until an operator has drained this runtime, and none of its calls runs any more. Then it may be closed."""
        self._loop.call(self._async.until_drained())

    def until_idle(self) -> None:
        """Wait until no call runs in this runtime, and none waits that it could take."""
        self._loop.call(self._async.until_idle())
