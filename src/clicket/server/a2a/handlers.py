"""`/a2a/{agent}`: an agent for other agents, over A2A 1.0 with JSON-RPC. A task is a turn of the agent; a context is one of its threads.

Tasks belong to the key that made them: another key's tasks are not found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket.agents import Agent
from clicket.errors import ClicketError
from clicket.model import Record
from clicket.model.ports import Store
from clicket.model.record import is_seen
from clicket.runtime.agent_config import chosen
from clicket.runtime.calls.approvals import approve_as, deny_as, respond_as
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.server.a2a import rpc
from clicket.server.a2a.card import PROTOCOL_VERSION, card_of
from clicket.server.a2a.messages import Answer, SendMessage, answers_in, parts_of
from clicket.server.a2a.rpc import A2AError, RpcRequest
from clicket.server.a2a.task_stream import TaskEvents, until_settled
from clicket.server.a2a.tasks import STATES, TERMINAL, Json, Tasks, asked_of, task_id, task_place
from clicket.server.authentication import Principal
from clicket.server.call_lookup import CALLER, own_runtime
from clicket.server.event_feeds import FrameFeed, client_error
from clicket.server.event_stream import EventStreams
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import AlreadySent, Response, json_response
from clicket.server.turn_follower import WaitingCall, waiting_now
from clicket.server.turn_requests import Asked, ThreadRequests
from clicket.tools.question import question_of

__all__ = ["A2AHandlers"]

_CANCEL_WAIT = 5.0
_PUSH = "TaskPushNotificationConfig"
_VERSION = Parameter(
    name="A2A-Version",
    description="The version of A2A that the client speaks; this server speaks 1.0.",
    source="header",
    schema={"type": "string"},
)
Count = Annotated[int, Meta(ge=0)]


class TaskName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    history_length: Count | None = None


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    context_id: str = ""
    status: str = ""
    page_size: Annotated[int, Meta(ge=1, le=100)] = 50
    page_token: str = ""
    history_length: Count | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False


class A2AHandlers:
    """`needs_key()`: does the server need a key now? The card says so."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        settings: Settings,
        body_reader: BodyReader,
        streams: EventStreams,
        store: Callable[[], Store],
        *,
        needs_key: Callable[[], Awaitable[bool]],
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._body_reader = body_reader
        self._streams = streams
        self._store = store
        self._needs_key = needs_key

    # Cards.

    async def card(self, request: Request) -> Response:
        return await self._card(request, request.path("agent"))

    async def default_card(self, request: Request) -> Response:
        return await self._card(request, None)

    async def _card(self, request: Request, name: str | None) -> Response:
        agent = chosen(self._agents, self._settings, name)
        url = f"{self._base(request)}/a2a/{agent.name}"
        return json_response(card_of(agent, url, needs_key=await self._needs_key()))

    def _base(self, request: Request) -> str:
        """The address of the server as the client knows it."""
        if self._settings.server.public_url is not None:
            return self._settings.server.public_url.rstrip("/")
        scope = request.scope
        host = request.header(b"host") or "localhost"
        return f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}"

    # Operations.

    async def call(self, request: Request) -> Response | AlreadySent:
        agent = chosen(self._agents, self._settings, request.path("agent"))
        body = await self._body_reader.read(request)
        id: Any = None
        try:
            asked = rpc.read_request(body)
            id = asked.id
            _check_version(request)
            runtime = own_runtime(request)
            with in_trace(request.headers):
                operation = _Operations(agent.acting_for(runtime), runtime, request.principal, self._store)
                done = await operation.perform(asked)
        except ClicketError as error:
            return Response(200, rpc.error_response(error.details.get("rpc_id", id), rpc.translated(error)))
        if isinstance(done, _Streamed):
            return await self._send(request, id, done)
        return Response(200, rpc.response(id, done))

    async def _send(self, request: Request, id: Any, streamed: _Streamed) -> AlreadySent:
        feed = FrameFeed(
            streamed.events.events(streamed.task, streamed.after), partial(_frame, id), partial(_broken, id)
        )
        gone = A2AError("INTERNAL_ERROR", "the server shuts down. Subscribe to the task again (SubscribeToTask).")
        revoked = A2AError("PERMISSION_DENIED", "the key was revoked, or its time is over.")
        try:
            return await self._streams.send(
                request,
                feed,
                on_shutdown=_data(rpc.error_response(id, gone)),
                on_unauthorized=_data(rpc.error_response(id, revoked)),
            )
        finally:
            await feed.close()

    def operations(self) -> tuple[Operation, ...]:
        card = ResponseSpec(
            description="The card: where the agent is reached, what it can do, how a client authenticates."
        )
        return tagged(
            "agents",
            Operation(
                route="POST /a2a/{agent}",
                description="An agent for other agents: A2A 1.0 over JSON-RPC. `SendMessage`, `SendStreamingMessage`, `GetTask`, "
                "`ListTasks`, `CancelTask` and `SubscribeToTask`; errors are JSON-RPC errors with status 200. A task is a turn of the "
                "agent, and goes on if the client leaves. Reading needs the scope `read`, the others need `call`.",
                handler=self.call,
                scopes=("call", "read"),
                parameters=(_VERSION, CALLER),
                body=BodySpec(schema=dict),
                responses={
                    200: ResponseSpec(
                        description="The result, an error, or a stream of results.", schema=dict, stream=True
                    )
                },
                problems=(404,),
            ),
            Operation(
                route="GET /a2a/{agent}/.well-known/agent-card.json",
                description="The A2A card of an agent.",
                handler=self.card,
                scopes=("read", "call"),
                responses={200: card},
                problems=(404,),
            ),
            Operation(
                route="GET /.well-known/agent-card.json",
                description="The A2A card of the default agent.",
                handler=self.default_card,
                scopes=("read", "call"),
                responses={200: card},
                problems=(404,),
            ),
        )


class _Streamed(msgspec.Struct, frozen=True):
    events: TaskEvents
    task: Json
    after: str


class _Operations:
    """The operations of the protocol, for one caller."""

    def __init__(self, agent: Agent, runtime: Runtime, principal: Principal, store: Callable[[], Store]) -> None:
        self._agent = agent
        self._runtime = runtime
        self._principal = principal
        self._store = store
        self._tasks = Tasks(agent, runtime)

    async def perform(self, asked: RpcRequest) -> Any:
        method = asked.method
        if method.endswith((_PUSH, f"{_PUSH}s")):
            text = "this server sends no push notifications over A2A. Subscribe to the task, or ask for it again."
            raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", text)
        match method:
            case "SendMessage" | "SendStreamingMessage":
                self._need("call")
                return await self._send(rpc.params_of(asked, SendMessage), streams=method == "SendStreamingMessage")
            case "GetTask":
                self._need("read")
                named = rpc.params_of(asked, TaskName)
                return await self._task(named.id, named.history_length)
            case "ListTasks":
                self._need("read")
                return await self._list(rpc.params_of(asked, TaskQuery))
            case "CancelTask":
                self._need("call")
                return await self._cancel(rpc.params_of(asked, TaskName).id)
            case "SubscribeToTask":
                self._need("read")
                return await self._subscribe(rpc.params_of(asked, TaskName).id)
            case "GetExtendedAgentCard":
                raise A2AError("UNSUPPORTED_OPERATION", "the card of this agent is the same for all clients.")
        known = "SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask"
        raise A2AError("METHOD_NOT_FOUND", f"there is no operation {method[:100]!r}. Known: {known}.")

    def _need(self, scope: str) -> None:
        if not self._principal.may(scope):
            raise A2AError("PERMISSION_DENIED", f"the key lacks the scope {scope}. Use one that has it.")

    def _requests(self, thread: str) -> ThreadRequests:
        return ThreadRequests(self._store, "a2a", self._agent, self._runtime.host.caller, thread)

    async def _task(self, id: str, history_length: int | None = None, *, told: bool = True) -> Json:
        return await self._tasks.get(id, self._requests(task_place(id)[0]), history_length, told=told)

    def _events(self, thread: str, turn: int, *, to_the_end: bool) -> TaskEvents:
        return TaskEvents(self._agent, self._runtime, self._requests(thread), thread, turn, to_the_end=to_the_end)

    async def _send(self, given: SendMessage, *, streams: bool) -> Any:
        message, configuration = given.message, given.configuration
        if configuration.task_push_notification_config is not None:
            raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "this server sends no push notifications over A2A.")
        if message.task_id:
            thread, turn = await self._continue(given)
        else:
            thread = message.context_id or self._new_context(message.message_id)
            if len(thread) > 512:
                raise A2AError("INVALID_PARAMS", "contextId has at most 512 characters.")
            said = await self._agent.keep_files(parts_of(message))
            begun = await self._requests(thread).begin(message.message_id, said, message.message_id)
            turn = begun.turn
        id = task_id(thread, turn)
        if streams:
            events = self._events(thread, turn, to_the_end=False)
            after = await events.position()
            return _Streamed(events, await self._task(id, configuration.history_length), after)
        if not configuration.return_immediately:
            await until_settled(self._agent, self._runtime, thread, turn)
        return {"task": await self._task(id, configuration.history_length)}

    def _new_context(self, message_id: str) -> str:
        """The context of a message that names none: the same if the message is sent again."""
        name = f"a2a\n{self._runtime.host.caller}\n{self._agent.name}\n{message_id}"
        return f"a2a-{sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"

    async def _continue(self, given: SendMessage) -> tuple[str, int]:
        """A message to a task that exists: an answer to what it waits for.

        It is written down before it is applied, and counts once: one that comes again, or twice at a time, only shows the task.
        """
        message = given.message
        thread, turn = task_place(message.task_id)
        task = await self._task(message.task_id, 0, told=False)
        if message.context_id and message.context_id != thread:
            raise A2AError("INVALID_PARAMS", "taskId and contextId do not belong together. Leave contextId out.")
        requests = self._requests(thread)
        if await requests.find(message.message_id) is not None:  # it came before, and was answered or applied
            return thread, turn
        if task["status"]["state"] in TERMINAL:
            raise A2AError(
                "UNSUPPORTED_OPERATION",
                "the task has ended. Send a message with its contextId and without taskId for a new one.",
            )
        if not await requests.claim(message.message_id, turn):
            return thread, turn
        told = await requests.reported(turn)
        waiting = await waiting_now(self._agent, self._runtime, thread, turn)
        if not waiting:
            raise A2AError(
                "UNSUPPORTED_OPERATION", "the task works, and waits for no answer. Wait for it, or cancel it."
            )
        await self._answer(answers_in(message), waiting, told)
        return thread, turn

    async def _answer(self, answers: list[Answer], waiting: tuple[WaitingCall, ...], reported: list[Asked]) -> None:
        """Apply a person's answers. The rules of approvals hold: the scope, and that a caller cannot approve its own calls.

        An answer is about the question with its hash; one without, about the questions that were reported to the client last
        (`reported`). If others wait by now nothing is decided, and the client gets the task with these.
        """
        asked = {each.record.id: each.record for each in waiting if each.record.waiting_for == "approval"}
        if not asked:
            raise A2AError("UNSUPPORTED_OPERATION", "the task does not wait for a decision that can be sent here.")
        hashes = {id: (record.approval or {}).get("hash", "") for id, record in asked.items()}
        about: list[tuple[Answer, str]] = []
        for answer in answers:
            found = [id for id, hash in hashes.items() if not answer.hash or is_seen(hash, answer.hash)]
            if not found or answer.call not in ("", *found):
                text = "the task waits for no decision about this question, or call. GetTask shows what it waits for."
                raise A2AError("INVALID_PARAMS", text)
            about += [(answer, id) for id in found]
        self._need("approve")
        for answer, id in about:
            _check_input(answer, asked[id])
        if asked_of(waiting) != reported and not all(answer.hash for answer in answers):
            return
        approver = self._principal.approver
        for answer, id in about:
            record = asked[id]
            place: dict[str, Any] = {"thread": record.thread, "reason": answer.reason, "seen": hashes[id]}
            if answer.response is not msgspec.UNSET:
                await respond_as(self._runtime, record.id, answer.response, approver, **place)
            elif answer.approved:
                await approve_as(self._runtime, record.id, approver, arguments=answer.arguments, **place)
            else:
                await deny_as(self._runtime, record.id, approver, **place)

    async def _list(self, query: TaskQuery) -> Json:
        status = "" if query.status == "TASK_STATE_UNSPECIFIED" else query.status
        if status and status not in STATES:
            raise A2AError("INVALID_PARAMS", f"status must be one of {', '.join(sorted(STATES))}.")
        after = _instant(query.status_timestamp_after) if query.status_timestamp_after else None
        ids, token, total = await self._tasks.listed(query.context_id, status, after, query.page_size, query.page_token)
        tasks: list[Json] = []
        for id in ids:
            try:
                task = await self._task(id, query.history_length)
            except A2AError:  # it was removed in between
                continue
            if not query.include_artifacts:
                task.pop("artifacts", None)
            tasks.append(task)
        return {"tasks": tasks, "nextPageToken": token, "pageSize": query.page_size, "totalSize": total}

    async def _cancel(self, id: str) -> Json:
        thread, turn = task_place(id)
        task = await self._task(id, 0, told=False)
        if task["status"]["state"] in TERMINAL:
            raise A2AError("TASK_NOT_CANCELABLE", f"the task has ended as {task['status']['state']}.")
        await self._agent.stop(thread, "the client cancelled the task")
        try:
            async with asyncio.timeout(_CANCEL_WAIT):
                await self._agent.wait(thread, turn)
        except (TimeoutError, ClicketError):  # the task says how it stands
            pass
        return await self._task(id)

    async def _subscribe(self, id: str) -> _Streamed:
        thread, turn = task_place(id)
        events = self._events(thread, turn, to_the_end=True)
        after = await events.position()
        task = await self._task(id)
        if task["status"]["state"] in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", "the task has ended. GetTask shows how.")
        return _Streamed(events, task, after)


def _check_input(answer: Answer, record: Record) -> None:
    """Refuse an approval without an answer where a tool asks with a form, before any of the answers is applied."""
    question = question_of(record.approval)
    if question is None or not answer.approved:
        return
    if question.schema is not None and answer.response is msgspec.UNSET:
        raise A2AError(
            "INVALID_PARAMS",
            f"call {record.id!r} waits for an answer to its tool's question, not for an approval. Send a data part with "
            '"callId", "approved": true and "response": an object that fits question.schema of the status message.',
        )


def _check_version(request: Request) -> None:
    """A request without the header speaks 0.3, says the protocol."""
    asked = (request.header(b"a2a-version") or "0.3").strip()
    if asked.partition(".")[0] != PROTOCOL_VERSION.partition(".")[0]:
        raise A2AError(
            "VERSION_NOT_SUPPORTED",
            f"this server speaks A2A {PROTOCOL_VERSION}, not {asked[:20]}. Send the header A2A-Version: {PROTOCOL_VERSION}.",
        )


def _instant(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise A2AError("INVALID_PARAMS", "statusTimestampAfter must be a time, such as 2026-11-16T02:00:00Z.") from None


def _frame(id: Any, event: Json) -> bytes:
    return _data(rpc.response(id, event))


def _data(body: bytes) -> bytes:
    return b"data: %s\n\n" % body


def _broken(id: Any, error: Exception) -> bytes:
    if isinstance(error, ClicketError):
        return _data(rpc.error_response(id, rpc.translated(error)))
    return _data(rpc.error_response(id, A2AError("INTERNAL_ERROR", client_error(error)[1])))
