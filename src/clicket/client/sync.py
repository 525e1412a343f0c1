"""`SyncClient`, and what it gives: the async classes for programs without an event loop.

Written by `scripts/blocking.py`: change the async classes, then run `make docs`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from clicket.client.agent import AgentInfo
from clicket.client.approvals import Grants as AsyncGrants
from clicket.client.audit import Audit as AsyncAudit
from clicket.client.cache import Cache as AsyncCache
from clicket.client.client import Client as AsyncClient
from clicket.client.credentials import Credentials as AsyncCredentials
from clicket.client.evals import Evals as AsyncEvals
from clicket.client.handle import CallHandle as AsyncCallHandle
from clicket.client.hub import ThreadHub as AsyncThreadHub
from clicket.client.memory import Memory as AsyncMemory
from clicket.client.notices import Notices as AsyncNotices
from clicket.client.schedules import Schedules as AsyncSchedules
from clicket.client.spend import Spend as AsyncSpend
from clicket.client.subscription import Subscription as AsyncSubscription
from clicket.client.sync_agent import SyncAgent
from clicket.client.workers import Workers as AsyncWorkers
from clicket.engine import Progress, Recovered
from clicket.engine.executors import ArtifactSource
from clicket.engine.hub import Change, ToolState, ToolView
from clicket.engine.people.audit import AuditEntry
from clicket.kernel import State, ToolStatus
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult
from clicket.model.credential import Credential, CredentialLink
from clicket.model.evaluation import EvalReport, EvalRunPage, Outcome
from clicket.model.fact import Fact
from clicket.model.forgotten import Forgotten
from clicket.model.grant import Grant, GrantState, GrantTerms
from clicket.model.notice import Notice, NoticePage
from clicket.model.ports import CacheStats
from clicket.model.queue import QueueReport
from clicket.model.spend import BudgetStatus, By, SpendReport
from clicket.model.undo import UndoReport
from clicket.model.worker import WorkerInfo
from clicket.runtime.blocking_base import BlockingPart, BlockingRuntime, BlockingSubscription
from clicket.runtime.calls.bulk import MAX_CALLS, BulkAction, BulkResult, CallName
from clicket.runtime.calls.dead_letters import DeadPage
from clicket.runtime.calls.effects import Effect
from clicket.runtime.calls.history import HistoryOptions
from clicket.runtime.calls.subscription import CallEvent, EventFilter, Gap
from clicket.runtime.calls.unknown_outcomes import UnknownOptions
from clicket.runtime.schedules import Schedule, ScheduleOptions
from clicket.runtime.views.cache import CachePage
from clicket.runtime.views.threads import ThreadPage
from clicket.runtime.views.tools import ToolInfo
from clicket.telemetry import Anomaly, Report
from clicket.telemetry.series import Series
from clicket.telemetry.series_rows import Metric

__all__ = [
    "Audit",
    "Cache",
    "CallHandle",
    "Credentials",
    "Evals",
    "Grants",
    "Memory",
    "Notices",
    "Schedules",
    "Spend",
    "Subscription",
    "SyncClient",
    "ThreadHub",
    "Workers",
]


class SyncClient(BlockingRuntime[AsyncClient]):
    """`with SyncClient("http://127.0.0.1:8000", key="ck_…") as rt: result = rt.call("add", {"a": 1, "b": 2})`.

    Without `key`, the environment variable `CLICKET_API_KEY` is used. All methods of `Runtime` for callers are here under the same
    names. What needs the runtime itself (its tools, settings and listeners) is only in the server's process.
    """

    _name = "clicket.client.SyncClient"
    _twin = "clicket.client.Client"

    def __init__(self, url: str, *, key: str | None = None) -> None:
        super().__init__(AsyncClient(url, key=key))

    @property
    def url(self) -> str:
        return self._async.url

    def call(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> ToolResult:
        """Run a tool and wait for its outcome. A call that failed is returned, not raised."""
        return self._loop.call(self._async.call(tool, arguments, **options))

    def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Submit a call; returns as soon as it is durable in the server's store."""
        return CallHandle(self, self._loop.call(self._async.submit(tool, arguments, **options)))

    def stream(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> Iterator[Event]:
        """Run a tool and watch it: its events as they become durable, the outcome last."""
        return self._loop.iterate(self._async.stream(tool, arguments, **options))

    def call_many(
        self, calls: Iterable[ToolCall | tuple[str, Any] | Mapping[str, Any]], *, max_concurrency: int = 5
    ) -> list[ToolResult]:
        """Run calls concurrently. Results are in the order of the calls; a failure does not affect the other calls."""
        return self._loop.call(self._async.call_many(calls, max_concurrency=max_concurrency))

    def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        """Cancel a call. True: it was cancelled, or the request is on record for the process that runs it; False: it had ended."""
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
        """Let a call run that waits for approval, also with other arguments. False: it is not waiting (any more).

        The key's name is recorded as the approver; `by` is not sent. `seen` and `grant`: as in `clicket.Runtime.approve`. With several
        approvers, True may mean that another person must approve it, too.
        """
        return self._loop.call(
            self._async.approve(id, thread=thread, by=by, reason=reason, arguments=arguments, seen=seen, grant=grant)
        )

    def deny(self, id: str, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = "") -> bool:
        """Refuse a call that waits for approval. False: it is not waiting (any more)."""
        return self._loop.call(self._async.deny(id, thread=thread, by=by, reason=reason, seen=seen))

    def respond(
        self, id: str, output: Any, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = ""
    ) -> bool:
        """Answer in the tool's place: the call completes with `output`; as in `clicket.Runtime.respond`. False: it is not waiting (any
        more). `by` is not sent.
        """
        return self._loop.call(self._async.respond(id, output, thread=thread, by=by, reason=reason, seen=seen))

    def dead(
        self,
        *,
        tool: str | None = None,
        thread: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        requeued: bool = False,
    ) -> DeadPage:
        """Calls that were given up, newest first; as in `clicket.Runtime.dead`."""
        return self._loop.call(
            self._async.dead(tool=tool, thread=thread, limit=limit, cursor=cursor, requeued=requeued)
        )

    def requeue(self, id: str, *, thread: str | None = None) -> CallHandle:
        """Run a call that was given up again, as a new call; as in `clicket.Runtime.requeue`."""
        return CallHandle(self, self._loop.call(self._async.requeue(id, thread=thread)))

    def unknown(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[UnknownOptions]) -> Page:
        """Calls whose outcome is unknown and not settled, the oldest first; as in `clicket.Runtime.unknown`. Of the key's own calls; with
        scope `approve` of all callers'.
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
        """Settle a call whose outcome is unknown; as in `clicket.Runtime.resolve`. Needs scope `approve`, and `call` with `rerun`.

        The key's name is recorded with the settlement; `by` is not sent.
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
        """Undo a call, or all calls of a turn of an agent, and wait until it is done; as in `clicket.Runtime.undo`."""
        return self._loop.call(
            self._async.undo(id, thread=thread, turn=turn, agent=agent, strict=strict, retry=retry, dry=dry)
        )

    def complete(self, token: str, output: Any = None) -> str:
        """Complete the call of a token; as in `clicket.Runtime.complete`."""
        return self._loop.call(self._async.complete(token, output))

    def fail(self, token: str, error: str, *, type: str = "ExternalError") -> str:
        """Fail the call of a token; as in `clicket.Runtime.fail`."""
        return self._loop.call(self._async.fail(token, error, type=type))

    def emit(self, token: str, output: Any) -> str:
        """Stream a piece of output into the call of a token; as in `clicket.Runtime.emit`."""
        return self._loop.call(self._async.emit(token, output))

    def heartbeat(self, token: str) -> str:
        """Say that the work on the call of a token goes on; as in `clicket.Runtime.heartbeat`."""
        return self._loop.call(self._async.heartbeat(token))

    def report_progress(self, token: str, step: float, total: float | None = None, text: str = "") -> str:
        """Report progress of the call of a token; as in `clicket.Runtime.report_progress`."""
        return self._loop.call(self._async.report_progress(token, step, total, text))

    def again(
        self, id: str, arguments: Arguments = None, *, thread: str | None = None, new_id: str | None = None
    ) -> CallHandle:
        """Run a call again, as a new call whose `metadata["again_of"]` is the id of the old one; as in `clicket.Runtime.again`."""
        return CallHandle(self, self._loop.call(self._async.again(id, arguments, thread=thread, new_id=new_id)))

    def effects(self, id: str, *, thread: str | None = None) -> list[Effect]:
        """The effects that `again` of this call would repeat; as in `clicket.Runtime.effects`."""
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
        """Cancel, run again, approve or deny many calls, by their ids or by a filter; as in `clicket.Runtime.bulk`.

        The key's name is recorded as the one who decides; `by` is not sent.
        """
        return self._loop.call(
            self._async.bulk(action, ids, filter=filter, reason=reason, by=by, dry=dry, limit=limit, cursor=cursor)
        )

    def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Always raises `UsageError`: the server recovers calls by itself, when it starts and every few seconds."""
        return self._loop.call(self._async.recover(progress=progress))

    def get(self, id: str, *, thread: str | None = None) -> Record:
        """Everything known about a call."""
        return self._loop.call(self._async.get(id, thread=thread))

    def state(self, id: str, *, thread: str | None = None) -> State:
        return self._loop.call(self._async.state(id, thread=thread))

    def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        """A handle of a call that was submitted earlier."""
        return CallHandle(self, self._loop.call(self._async.handle(id, thread=thread)))

    def history(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]) -> Page:
        """Calls, newest first or (`order="asc"`) oldest first, in pages of up to 1,000; `cursor` of one page fetches the next.

        Keywords as those of `Runtime.history`.
        """
        return self._loop.call(self._async.history(limit=limit, cursor=cursor, **which))

    def threads(self, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
        """Threads with their last activity, counts and agents: of this key, or of all for an admin; as in `clicket.Runtime.threads`."""
        return self._loop.call(self._async.threads(limit=limit, cursor=cursor))

    def hub(self, thread: str = "default") -> ThreadHub:
        """Which tools a thread may use now, and why not the others."""
        return ThreadHub(self, self._loop.run(lambda: self._async.hub(thread)))

    def agent(self, name: str | None = None) -> SyncAgent:
        """An agent of the server, by its name, or the default one: `rt.agent().run("question", thread="t1")`."""
        return SyncAgent(self, self._loop.run(lambda: self._async.agent(name)))

    def agents(self) -> list[AgentInfo]:
        """The agents of the server."""
        return self._loop.call(self._async.agents())

    @property
    def cache(self) -> Cache:
        """Cached results: `rt.cache.stats()`, `rt.cache.clear(tag="tool:weather")`."""
        return Cache(self, self._loop.run(lambda: self._async.cache))

    @property
    def grants(self) -> Grants:
        """Approvals that also let later calls run: `rt.grants.list()`, `rt.grants.revoke(id)`; scope `approve`."""
        return Grants(self, self._loop.run(lambda: self._async.grants))

    @property
    def credentials(self) -> Credentials:
        """Credentials of this key: `rt.credentials.put("github", token)`, `list()`, `revoke("github")`, `link("github")`."""
        return Credentials(self, self._loop.run(lambda: self._async.credentials))

    @property
    def memory(self) -> Memory:
        """What agents remember about this key: `rt.memory.list()`, `add(text)`, `edit(id, text)`, `forget(id)`."""
        return Memory(self, self._loop.run(lambda: self._async.memory))

    def forget(self, *, caller: str | None = None, by: str = "") -> Forgotten:
        """Remove everything that the server keeps of this key, or, with the scope `admin`, of another caller. `by` is not sent: the key's
        name is recorded.
        """
        return self._loop.call(self._async.forget(caller=caller, by=by))

    @property
    def spend(self) -> Spend:
        """What was spent, and what is left of the budgets: `rt.spend.report(by="thread")`, `rt.spend.budgets()`."""
        return Spend(self, self._loop.run(lambda: self._async.spend))

    @property
    def workers(self) -> Workers:
        """The workers over the server's store: `rt.workers.list()`, `drain(id)`, `cordon(id)`, `uncordon(id)`; scope `admin`."""
        return Workers(self, self._loop.run(lambda: self._async.workers))

    @property
    def notices(self) -> Notices:
        """What the server's webhooks got: `rt.notices.list()`, `get(id)`, `replay(id)`; scope `admin`."""
        return Notices(self, self._loop.run(lambda: self._async.notices))

    @property
    def evals(self) -> Evals:
        """Evaluations in the server's store: `rt.evals.list()`, `report(name, run)`; scope `admin`."""
        return Evals(self, self._loop.run(lambda: self._async.evals))

    @property
    def schedules(self) -> Schedules:
        """Schedules of this key, or of all for an admin: `rt.schedules.list()`, `get(name)`, `next(name)`, `pause(name)`,
        `resume(name)`, `remove(name)`.
        """
        return Schedules(self, self._loop.run(lambda: self._async.schedules))

    def schedule(
        self, name: str, cron: str, tool: str, arguments: Arguments = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Let the server call a tool again and again; as in `clicket.Runtime.schedule`."""
        return self._loop.call(self._async.schedule(name, cron, tool, arguments, **options))

    def subscribe(self, filter: EventFilter | None = None, *, after: str | None = None) -> Subscription:
        """The durable events of all calls that the key may see, of all processes over the server's store:
        `with rt.subscribe(EventFilter(tool="add")) as events: for event in events: ...`.

        A stream that breaks is opened again after the last event. A `Gap` takes the place of events that the server no longer keeps.
        `after`: the `cursor` of an earlier subscription, to go on where it ended.
        """
        return Subscription(self, self._loop.run(lambda: self._async.subscribe(filter, after=after)))

    def tools(self) -> Sequence[ToolInfo]:
        """The server's tools."""
        return self._loop.call(self._async.tools())

    def report(self, tool: str | None = None, *, since: float | None = None) -> Report:
        """Counts and run times of ended calls by tool: of this key's calls, or of all for an admin."""
        return self._loop.call(self._async.report(tool, since=since))

    def series(
        self,
        metric: Metric = "calls",
        *,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        step: int = 60,
    ) -> Series:
        """Time series of calls, errors, run times or queue lengths: of this key's calls, or of all for an admin; as in
        `clicket.Runtime.series`.
        """
        return self._loop.call(self._async.series(metric, tool=tool, since=since, until=until, step=step))

    def queue(self, tool: str | None = None) -> QueueReport:
        """The calls that wait for a worker, of all tools or one; for an admin."""
        return self._loop.call(self._async.queue(tool))

    def anomalies(self, tool: str | None = None, *, since: float | None = None) -> list[Anomaly]:
        """Tools under 80 % success or over 30 s on average, with at least 5 runs."""
        return self._loop.call(self._async.anomalies(tool, since=since))

    @property
    def audit(self) -> Audit:
        """The audit log: `rt.audit.list(limit=100)`; needs the scope `admin`."""
        return Audit(self, self._loop.run(lambda: self._async.audit))

    def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an artifact, or a range of them."""
        return self._loop.call(self._async.artifact(name, start, end))

    def artifact_stream(self, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of an artifact, or a range of them, in chunks as they arrive: an artifact of any size is never whole in memory."""
        return self._loop.iterate(self._async.artifact_stream(name, start, end))

    def put_artifact(self, data: ArtifactSource) -> str:
        """Store a file on the server and return its name, which is passed to tools. `data`: bytes, a `pathlib.Path`, an open binary file,
        or an iterable or async iterable of bytes; all but bytes are sent in chunks, as they come.
        """
        return self._loop.call(self._async.put_artifact(data))


class CallHandle(BlockingPart[AsyncCallHandle]):
    """A call that the server accepted."""

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
        """Cancel the call. True: it was cancelled, or the request is on record; False: it had ended already."""
        return self._loop.call(self._async.cancel(reason))

    def __repr__(self) -> str:
        return repr(self._async)


class Subscription(BlockingSubscription[AsyncSubscription, CallEvent | Gap]):
    @property
    def cursor(self) -> str | None:
        """What `Client.subscribe(after=…)` takes to go on after the last event that was read; None: nothing was read."""
        return self._async.cursor


class ThreadHub(BlockingPart[AsyncThreadHub]):
    @property
    def thread(self) -> str:
        return self._async.thread

    def tools(self) -> list[ToolView]:
        """Every registered tool: is it available, if not why, and which tools to call first."""
        return self._loop.call(self._async.tools())

    def available(self) -> list[str]:
        return self._loop.call(self._async.available())

    def states(self) -> dict[str, ToolState]:
        return self._loop.call(self._async.states())

    def status(self, name: str) -> ToolState:
        return self._loop.call(self._async.status(name))

    def summary(self) -> str:
        return self._loop.call(self._async.summary())

    def prompt(self) -> str:
        return self._loop.call(self._async.prompt())

    def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Set a tool's status as an operator. The key's name is recorded; `by` is not sent."""
        return self._loop.call(self._async.set(name, status, reason, by=by))

    def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all, available again; returns the names of those that were not, or had failures."""
        return self._loop.call(self._async.reset(name, by=by))

    def report(self, name: str, *, ok: bool, error: str = "") -> ToolState:
        """Report how a run of a tool ended that clicket did not make; as in `clicket.hub.ThreadHub.report`."""
        return self._loop.call(self._async.report(name, ok=ok, error=error))

    def snapshot(self) -> str:
        return self._loop.call(self._async.snapshot())

    def restore(self, text: str | bytes, *, by: str = "") -> bool:
        """Replace the states with a snapshot. False: it cannot be read, and nothing was changed."""
        return self._loop.call(self._async.restore(text, by=by))

    def watch(self) -> Iterator[Change]:
        """Changes of status from now on; the server is polled twice a second."""
        return self._loop.iterate(self._async.watch())


class Audit(BlockingPart[AsyncAudit]):
    """The append-only log of what people and policies decided. The server writes it; a client reads it."""

    def list(self, *, limit: int = 100, before: int | None = None) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `before`: the number of an entry."""
        return self._loop.call(self._async.list(limit=limit, before=before))

    def __call__(self, *, limit: int = 100, before: int | None = None) -> builtins.list[AuditEntry]:
        return self._loop.call(self._async.__call__(limit=limit, before=before))


class Cache(BlockingPart[AsyncCache]):
    """The cached results of the server's store."""

    def stats(self) -> CacheStats:
        return self._loop.call(self._async.stats())

    def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, in the order in which they expire; needs the scope `admin`."""
        return self._loop.call(self._async.list(tag=tag, limit=limit, cursor=cursor))

    def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only those that are older than this many seconds.
        """
        return self._loop.call(self._async.clear(tag, max_age=max_age))


class Credentials(BlockingPart[AsyncCredentials]):
    """The same methods as `Runtime.credentials`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

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
        """Keep a token for a provider on the server, encrypted; needs the scope `call`."""
        return self._loop.call(
            self._async.put(provider, secret, caller=caller, scopes=scopes, expires_at=expires_at, by=by)
        )

    def list(self, *, caller: str | None = None) -> Sequence[Credential]:
        """The credentials of this key, or of all callers for an admin, without their secrets."""
        return self._loop.call(self._async.list(caller=caller))

    def revoke(self, provider: str, *, caller: str | None = None, by: str = "") -> Credential:
        """Delete the secret. Calls that run keep what they have; the next call waits."""
        return self._loop.call(self._async.revoke(provider, caller=caller, by=by))

    def link(self, provider: str, *, caller: str | None = None) -> CredentialLink:
        """A page on which a person connects an account for this key. Each link works once."""
        return self._loop.call(self._async.link(provider, caller=caller))


class Grants(BlockingPart[AsyncGrants]):
    """The same methods as `Runtime.grants`."""

    def list(self, *, tool: str | None = None, state: GrantState | None = None) -> Sequence[Grant]:
        """The grants, the newest first: those that hold for the key's own calls; with scope `approve` all."""
        return self._loop.call(self._async.list(tool=tool, state=state))

    def revoke(self, id: str, *, by: str = "") -> Grant:
        """From now on the grant lets no call run. `by` is not sent: the key's name is recorded."""
        return self._loop.call(self._async.revoke(id, by=by))


class Memory(BlockingPart[AsyncMemory]):
    """The same methods as `Runtime.memory`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

    def list(self, *, caller: str | None = None, agent: str | None = None) -> Sequence[Fact]:
        """The facts: those that all agents read first, then those of single agents."""
        return self._loop.call(self._async.list(caller=caller, agent=agent))

    def add(self, text: str, *, caller: str | None = None, agent: str = "", by: str = "") -> Fact:
        """Remember a fact for all agents of the caller, or for one; needs the scope `call`."""
        return self._loop.call(self._async.add(text, caller=caller, agent=agent, by=by))

    def edit(self, id: str, text: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Replace the text of a fact."""
        return self._loop.call(self._async.edit(id, text, caller=caller, by=by))

    def forget(self, id: str, *, caller: str | None = None, by: str = "") -> Fact:
        """Remove a fact; returns it."""
        return self._loop.call(self._async.forget(id, caller=caller, by=by))


class Notices(BlockingPart[AsyncNotices]):
    """The same methods as `Runtime.notices`."""

    def list(
        self, *, state: str | None = None, type: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NoticePage:
        """Notices without their payloads, the newest first; `cursor` of one page fetches the next."""
        return self._loop.call(self._async.list(state=state, type=type, limit=limit, cursor=cursor))

    def get(self, id: str) -> Notice:
        """One notice, with its payload and its last attempts."""
        return self._loop.call(self._async.get(id))

    def replay(self, id: str, *, by: str = "") -> Notice:
        """Send a notice again, under the same id. `by` is not sent: the key's name is recorded."""
        return self._loop.call(self._async.replay(id, by=by))


class Evals(BlockingPart[AsyncEvals]):
    """What `runs_of` and `report_of` of `clicket.evals` read from a store."""

    def list(self, name: str | None = None, *, limit: int = 100, cursor: str | None = None) -> EvalRunPage:
        """Runs of an evaluation, or of all, the newest first, in pages of up to 1,000; `cursor` of one page fetches the next."""
        return self._loop.call(self._async.list(name, limit=limit, cursor=cursor))

    def report(
        self,
        name: str,
        run: str,
        *,
        case: str | None = None,
        agent: str | None = None,
        outcome: Outcome | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EvalReport:
        """One run: the figures of each agent, and a page of its trials, up to 1,000. `case`, `agent`, `outcome`: only these trials.
        `NotFound`: there is no such run.
        """
        return self._loop.call(
            self._async.report(name, run, case=case, agent=agent, outcome=outcome, limit=limit, cursor=cursor)
        )


class Schedules(BlockingPart[AsyncSchedules]):
    """The same methods as `Runtime.schedules`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

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
        """Make or change a schedule; needs the scope `call`."""
        return self._loop.call(self._async.put(name, cron, tool, arguments, by=by, **options))

    def list(self) -> Sequence[Schedule]:
        """Every schedule of the key, or of all keys for an admin, in the order of their names."""
        return self._loop.call(self._async.list())

    def get(self, name: str, *, caller: str | None = None) -> Schedule:
        return self._loop.call(self._async.get(name, caller=caller))

    def next(self, name: str, count: int = 5, *, caller: str | None = None) -> Sequence[float]:
        """The next times, in seconds since the epoch, without jitter."""
        return self._loop.call(self._async.next(name, count, caller=caller))

    def pause(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed."""
        return self._loop.call(self._async.pause(name, by=by, caller=caller))

    def resume(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a paused schedule fire again, from the next time on."""
        return self._loop.call(self._async.resume(name, by=by, caller=caller))

    def remove(self, name: str, *, by: str = "", caller: str | None = None) -> bool:
        """Remove a schedule; its calls stay. False: there is none."""
        return self._loop.call(self._async.remove(name, by=by, caller=caller))


class Spend(BlockingPart[AsyncSpend]):
    """The same methods as `Runtime.spend`, without `on_budget_reached`."""

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
        """Tokens and money by `run`, `thread`, `agent`, `caller`, `day`, `month` or `model`: of this key, or of all for an admin."""
        return self._loop.call(
            self._async.report(by, since=since, until=until, caller=caller, thread=thread, agent=agent)
        )

    def budgets(self) -> list[BudgetStatus]:
        """Every budget in its current period; for a key that is not an admin: those of this key."""
        return self._loop.call(self._async.budgets())


class Workers(BlockingPart[AsyncWorkers]):
    """The same methods as `Runtime.workers`."""

    def list(self) -> Sequence[WorkerInfo]:
        """Every worker, the one that started first before the others; for an hour also those that were lost."""
        return self._loop.call(self._async.list())

    def drain(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker finish what runs there, and take nothing new; a worker process ends then. `by` is not sent: the key's name
        is recorded.
        """
        return self._loop.call(self._async.drain(id, by=by))

    def cordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take no new calls."""
        return self._loop.call(self._async.cordon(id, by=by))

    def uncordon(self, id: str, *, by: str = "") -> WorkerInfo:
        """Let a worker take calls again."""
        return self._loop.call(self._async.uncordon(id, by=by))
