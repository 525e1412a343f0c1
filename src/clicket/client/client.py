"""The client of a server, with the methods of `clicket.Runtime`.

Every call has an id before it is sent. So a request whose response was lost can be sent again, and the call still runs once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakSet

import msgspec

from clicket.client.agent import AgentInfo, RemoteAgent, agents_at
from clicket.client.approvals import Grants, approve, deny, respond
from clicket.client.audit import Audit
from clicket.client.cache import Cache
from clicket.client.connection import Connection, Problem, ProblemResponse, decoded, path_segment
from clicket.client.credentials import Credentials
from clicket.client.evals import Evals
from clicket.client.external_calls import complete, emit, fail, heartbeat, report_progress
from clicket.client.files import upload
from clicket.client.handle import CallHandle, result_of_record
from clicket.client.hub import ThreadHub, ToolList
from clicket.client.memory import Memory
from clicket.client.notices import Notices
from clicket.client.request_body import MAX_ARGUMENTS, body_of, written_arguments
from clicket.client.schedules import Schedules
from clicket.client.spend import Spend
from clicket.client.subscription import Subscription
from clicket.client.undo import undo
from clicket.client.unknown_outcomes import resolve, unknown
from clicket.client.workers import Workers
from clicket.engine import Progress, Recovered
from clicket.engine.executors import ArtifactSource
from clicket.errors import ClicketError, NotFound, UsageError
from clicket.kernel import State
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolError, ToolResult
from clicket.model.arguments import parse_arguments
from clicket.model.forgotten import Forgotten
from clicket.model.ids import new_id as new_id_of_call
from clicket.model.queue import QueueReport
from clicket.model.request import checked, request_of
from clicket.runtime.calls.batch import as_request, in_order
from clicket.runtime.calls.bulk import MAX_CALLS, BulkAction, BulkResult, CallName, order_of
from clicket.runtime.calls.dead_letters import DeadPage
from clicket.runtime.calls.effects import Effect
from clicket.runtime.calls.history import HistoryOptions
from clicket.runtime.calls.subscription import EventFilter
from clicket.runtime.schedules import Schedule, ScheduleOptions
from clicket.runtime.views.threads import ThreadPage
from clicket.runtime.views.tools import ToolInfo
from clicket.safety.vault import hide_text
from clicket.system.bridge import enter_with
from clicket.telemetry import Anomaly, Report
from clicket.telemetry.series import Series
from clicket.telemetry.series_rows import Metric

__all__ = ["Client"]

_WAIT = 20.0
"""Seconds that one request waits for an outcome. Then the client sends another with the same id."""
_TRIES = 6
_PAGE = 100


class _Accepted(msgspec.Struct):
    id: str
    thread: str


class Client:
    """`async with Client("http://127.0.0.1:8000", key="ck_…") as rt: result = await rt.call("add", {"a": 1, "b": 2})`.

    Without `key`, the environment variable `CLICKET_API_KEY` is used. All methods of `Runtime` for callers are here under the same
    names. What needs the runtime itself (its tools, settings and listeners) is only in the server's process.
    """

    def __init__(self, url: str, *, key: str | None = None, transport: Any = None) -> None:
        self._connection = Connection(url, key, transport=transport)
        self.url: str = self._connection.url
        self._subscriptions: WeakSet[Subscription] = WeakSet()

    def __repr__(self) -> str:
        return f"<Client {hide_text(self.url)}>"

    async def open(self) -> Self:
        """Nothing is sent before the first call."""
        return self

    async def close(self, *, patience: float | None = None) -> None:
        """Close the connections. Calls go on in the server."""
        for subscription in list(self._subscriptions):
            await subscription.close()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:  # type checkers refuse `with Client(...)` by themselves
        __enter__ = __exit__ = enter_with("async with", "clicket.client.Client", "with", "clicket.client.SyncClient")

    # Calling.

    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a tool and wait for its outcome. A call that failed is returned, not raised."""
        return self._call(request_of(tool, arguments, options))

    async def _call(self, request: ToolCall) -> ToolResult:
        request = _with_id(request)
        try:
            while True:
                answer = await self._post(request, wait=_WAIT)
                if isinstance(answer, ToolResult):
                    return await self._whole(answer, request)
        except asyncio.CancelledError:  # as in a runtime: cancelling the caller cancels its call
            with suppress(ClicketError, asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(5):
                    await CallHandle(self._connection, request.id or "", request.thread).cancel(
                        "its caller was cancelled"
                    )
            raise

    async def _post(self, request: ToolCall, wait: float | None) -> ToolResult | _Accepted:
        """Send a call until the server answers. The id makes it the same call, however often it is sent."""
        try:
            response = await self._connection.post_until_answered("/calls", body_of(request, wait), tries=_TRIES)
        except ProblemResponse as refused:
            return _refused(refused.problem, request)
        if response.status_code == 200:
            return decoded(response.content, ToolResult)
        return decoded(response.content, _Accepted)

    async def _whole(self, result: ToolResult, request: ToolCall) -> ToolResult:
        if not result.truncated:
            return result
        path = f"/calls/{path_segment(request.id or '')}"
        try:
            record = await self._connection.get(path, Record, query={"thread": request.thread})
        except NotFound:  # retention has removed it
            return result
        return await result_of_record(self._connection, record)

    async def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Submit a call; returns as soon as it is durable in the server's store."""
        request = _with_id(request_of(tool, arguments, options))
        answer = await self._post(request, wait=None)
        outcome = answer if isinstance(answer, ToolResult) else None
        return CallHandle(self._connection, request.id or "", request.thread, outcome)

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
        """Run calls concurrently. Results are in the order of the calls; a failure does not affect the other calls."""
        return await in_order([as_request(each) for each in calls], self._call, max_concurrency)

    # Steering.

    async def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        """Cancel a call. True: it was cancelled, or the request is on record for the process that runs it; False: it had ended."""
        path = f"/calls/{path_segment(id)}/cancel"
        query = {"thread": thread}
        return await self._connection.read_field("POST", path, "cancelled", bool, query=query, body={"reason": reason})

    approve, deny, respond = approve, deny, respond

    async def dead(
        self,
        *,
        tool: str | None = None,
        thread: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        requeued: bool = False,
    ) -> DeadPage:
        """Calls that were given up, newest first; as in `clicket.Runtime.dead`."""
        query = {"tool": tool, "thread": thread, "limit": limit, "cursor": cursor, "requeued": requeued or None}
        return await self._connection.get("/dead", DeadPage, query=query)

    async def requeue(self, id: str, *, thread: str | None = None) -> CallHandle:
        """Run a call that was given up again, as a new call; as in `clicket.Runtime.requeue`."""
        path = f"/calls/{path_segment(id)}/requeue"
        made = decoded(await self._connection.send("POST", path, query={"thread": thread}), _Accepted)
        return CallHandle(self._connection, made.id, made.thread)

    unknown, resolve, undo = unknown, resolve, undo
    complete, fail, emit, heartbeat, report_progress = complete, fail, emit, heartbeat, report_progress

    async def again(
        self, id: str, arguments: Arguments = None, *, thread: str | None = None, new_id: str | None = None
    ) -> CallHandle:
        """Run a call again, as a new call whose `metadata["again_of"]` is the id of the old one; as in `clicket.Runtime.again`."""
        body: dict[str, Any] = {"id": new_id or new_id_of_call()}
        if arguments is not None:
            body["arguments"] = parse_arguments(arguments, max_size=MAX_ARGUMENTS)
        path = f"/calls/{path_segment(id)}/again"
        try:
            response = await self._connection.post_until_answered(path, body, tries=_TRIES, query={"thread": thread})
        except ProblemResponse as refused:
            if refused.problem.call_id is None:
                raise refused.problem.error() from None
            return CallHandle(self._connection, refused.problem.call_id, thread or (await self.get(id)).thread)
        made = decoded(response.content, _Accepted)
        return CallHandle(self._connection, made.id, made.thread)

    async def effects(self, id: str, *, thread: str | None = None) -> list[Effect]:
        """The effects that `again` of this call would repeat; as in `clicket.Runtime.effects`."""
        path = f"/calls/{path_segment(id)}/effects"
        return await self._connection.read_field("GET", path, "items", list[Effect], query={"thread": thread})

    async def bulk(
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
        order = order_of(action, ids, filter, reason=reason, dry=dry, limit=limit, cursor=cursor)
        body = {name: value for name, value in msgspec.to_builtins(order).items() if value is not None}
        return await self._connection.read("POST", "/bulk", BulkResult, body=body)

    async def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Always raises `UsageError`: the server recovers calls by itself, when it starts and every few seconds."""
        raise UsageError(
            "a client cannot start recovery: the server does it by itself; on its machine, `clicket recover` does it now."
        )

    # Looking.

    async def get(self, id: str, *, thread: str | None = None) -> Record:
        """Everything known about a call."""
        return await self._connection.get(f"/calls/{path_segment(id)}", Record, query={"thread": thread})

    async def state(self, id: str, *, thread: str | None = None) -> State:
        return (await self.get(id, thread=thread)).state

    async def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        """A handle of a call that was submitted earlier."""
        record = await self.get(id, thread=thread)
        return CallHandle(self._connection, record.id, record.thread)

    async def history(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]) -> Page:
        """Calls, newest first or (`order="asc"`) oldest first, in pages of up to 1,000; `cursor` of one page fetches the next.

        Keywords as those of `Runtime.history`.
        """
        if type(limit) is not int or not 1 <= limit <= 1_000:
            raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
        query: dict[str, Any] = {**which, "full": True, "active": which.get("active") or None}
        query.update({f"metadata.{name}": value for name, value in (query.pop("metadata", None) or {}).items()})
        state = query.get("state")
        if state is not None:
            query["state"] = str(state) if isinstance(state, str) else ",".join(str(each) for each in state)
        items: list[Record] = []
        while True:
            step = min(limit - len(items), _PAGE)
            page = await self._connection.get("/calls", Page, query={**query, "limit": step, "cursor": cursor})
            items += page.items
            cursor = page.cursor
            if cursor is None or len(items) >= limit or page.searched_to is not None:
                return Page(items=items, cursor=cursor, searched_to=page.searched_to)

    async def threads(self, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
        """Threads with their last activity, counts and agents: of this key, or of all for an admin; as in `clicket.Runtime.threads`."""
        return await self._connection.get("/threads", ThreadPage, query={"limit": limit, "cursor": cursor})

    def hub(self, thread: str = "default") -> ThreadHub:
        """Which tools a thread may use now, and why not the others."""
        return ThreadHub(self._connection, thread)

    def agent(self, name: str | None = None) -> RemoteAgent:
        """An agent of the server, by its name, or the default one: `await rt.agent().run("question", thread="t1")`."""
        return RemoteAgent(self._connection, name)

    async def agents(self) -> list[AgentInfo]:
        """The agents of the server."""
        return await agents_at(self._connection)

    @property
    def cache(self) -> Cache:
        """Cached results: `await rt.cache.stats()`, `await rt.cache.clear(tag="tool:weather")`."""
        return Cache(self._connection)

    @property
    def grants(self) -> Grants:
        """Approvals that also let later calls run: `await rt.grants.list()`, `await rt.grants.revoke(id)`; scope `approve`."""
        return Grants(self._connection)

    @property
    def credentials(self) -> Credentials:
        """Credentials of this key: `await rt.credentials.put("github", token)`, `list()`, `revoke("github")`, `link("github")`."""
        return Credentials(self._connection)

    @property
    def memory(self) -> Memory:
        """What agents remember about this key: `await rt.memory.list()`, `add(text)`, `edit(id, text)`, `forget(id)`."""
        return Memory(self._connection)

    async def forget(self, *, caller: str | None = None, by: str = "") -> Forgotten:
        """Remove everything that the server keeps of this key, or, with the scope `admin`, of another caller. `by` is not sent: the key's
        name is recorded."""
        return await self._connection.read("POST", "/forget", Forgotten, query={"caller": caller})

    @property
    def spend(self) -> Spend:
        """What was spent, and what is left of the budgets: `await rt.spend.report(by="thread")`, `await rt.spend.budgets()`."""
        return Spend(self._connection)

    @property
    def workers(self) -> Workers:
        """The workers over the server's store: `await rt.workers.list()`, `drain(id)`, `cordon(id)`, `uncordon(id)`; scope `admin`."""
        return Workers(self._connection)

    @property
    def notices(self) -> Notices:
        """What the server's webhooks got: `await rt.notices.list()`, `get(id)`, `replay(id)`; scope `admin`."""
        return Notices(self._connection)

    @property
    def evals(self) -> Evals:
        """Evaluations in the server's store: `await rt.evals.list()`, `report(name, run)`; scope `admin`."""
        return Evals(self._connection)

    @property
    def schedules(self) -> Schedules:
        """Schedules of this key, or of all for an admin: `await rt.schedules.list()`, `get(name)`, `next(name)`, `pause(name)`,
        `resume(name)`, `remove(name)`."""
        return Schedules(self._connection)

    async def schedule(
        self, name: str, cron: str, tool: str, arguments: Arguments = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Let the server call a tool again and again; as in `clicket.Runtime.schedule`."""
        return await self.schedules.put(name, cron, tool, arguments, **options)

    def subscribe(self, filter: EventFilter | None = None, *, after: str | None = None) -> Subscription:
        """The durable events of all calls that the key may see, of all processes over the server's store:
        `async with rt.subscribe(EventFilter(tool="add")) as events: async for event in events: ...`.

        A stream that breaks is opened again after the last event. A `Gap` takes the place of events that the server no longer keeps.
        `after`: the `cursor` of an earlier subscription, to go on where it ended.
        """
        subscription = Subscription(self._connection, filter or EventFilter(), after)
        self._subscriptions.add(subscription)
        return subscription

    async def tools(self) -> Sequence[ToolInfo]:
        """The server's tools."""
        return (await self._connection.get("/tools", ToolList)).items

    async def report(self, tool: str | None = None, *, since: float | None = None) -> Report:
        """Counts and run times of ended calls by tool: of this key's calls, or of all for an admin."""
        return await self._connection.get("/report", Report, query={"tool": tool, "since": since})

    async def series(
        self,
        metric: Metric = "calls",
        *,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        step: int = 60,
    ) -> Series:
        """Time series of calls, errors, run times or queue lengths: of this key's calls, or of all for an admin; as in
        `clicket.Runtime.series`."""
        query = {"metric": metric, "tool": tool, "since": since, "until": until, "step": step}
        return await self._connection.get("/series", Series, query=query)

    async def queue(self, tool: str | None = None) -> QueueReport:
        """The calls that wait for a worker, of all tools or one; for an admin."""
        return await self._connection.get("/queue", QueueReport, query={"tool": tool})

    async def anomalies(self, tool: str | None = None, *, since: float | None = None) -> list[Anomaly]:
        """Tools under 80 % success or over 30 s on average, with at least 5 runs."""
        return await self._connection.read_field(
            "GET", "/anomalies", "items", list[Anomaly], query={"tool": tool, "since": since}
        )

    @property
    def audit(self) -> Audit:
        """The audit log: `await rt.audit.list(limit=100)`; needs the scope `admin`."""
        return Audit(self._connection)

    async def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an artifact, or a range of them."""
        if start < 0 or (end is not None and end < start):
            raise UsageError(f"a range starts at 0 or later and ends after its start, not {start}:{end}.")
        if end == start:
            return b""
        headers = {"range": f"bytes={start}-{'' if end is None else end - 1}"} if start or end is not None else {}
        try:
            return bytes(
                (await self._connection.request("GET", f"/artifacts/{path_segment(name)}", headers=headers)).content
            )
        except ProblemResponse as refused:
            if refused.problem.status == 416:  # the range starts after the last byte
                return b""
            raise refused.problem.error() from None

    async def artifact_stream(self, name: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of an artifact, or a range of them, in chunks as they arrive: an artifact of any size is never whole in memory."""
        if start < 0 or (end is not None and end < start):
            raise UsageError(f"a range starts at 0 or later and ends after its start, not {start}:{end}.")
        if end == start:
            return
        headers = {"range": f"bytes={start}-{'' if end is None else end - 1}"} if start or end is not None else {}
        try:
            async for chunk in self._connection.chunks(f"/artifacts/{path_segment(name)}", headers=headers):
                yield chunk
        except ProblemResponse as refused:
            if refused.problem.status != 416:  # else the range starts after the last byte
                raise refused.problem.error() from None

    async def put_artifact(self, data: ArtifactSource) -> str:
        """Store a file on the server and return its name, which is passed to tools. `data`: bytes, a `pathlib.Path`, an open binary file,
        or an iterable or async iterable of bytes; all but bytes are sent in chunks, as they come."""
        return await upload(self._connection, data)


def _with_id(request: ToolCall) -> ToolCall:
    request = checked(request)
    return request if request.id is not None else msgspec.structs.replace(request, id=new_id_of_call())


def _refused(problem: Problem, request: ToolCall) -> ToolResult:
    """The result of a call that the server recorded as failed; raises the error if no call was made."""
    error = problem.error()
    if problem.call_id is None:
        raise error
    wrong = (
        None
        if problem.code != "invalid_input" or request.arguments is None
        else written_arguments(request.arguments)[1]
    )
    message, problems = (problem.detail, problem.errors) if wrong is None else (wrong.message, wrong.problems)
    details = {"problems": problems} if problems else {}
    failure = ToolError(code=problem.code, message=message, type=type(error).__name__, details=details)
    return ToolResult(
        call_id=problem.call_id, tool=request.tool, state=State.FAILED, error=failure, content=str(failure)
    )
