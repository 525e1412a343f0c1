"""One attempt of a call of another server's tool: the request, the server's questions, and the task that the server may make of it.

What the attempt depends on is kept before it goes on (`call_state.py`). So an attempt in another process continues a task by its id, and
gives answers to questions that the process before has asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clicket.adapters.mcp.call_state import CallState
from clicket.adapters.mcp.client_tasks import (
    CreatedTask,
    TaskDetail,
    cancel_task,
    get_task,
    listen_to_task,
    read_requests,
    update_task,
)
from clicket.adapters.mcp.connection import Connection, Unreachable
from clicket.adapters.mcp.elicitation import explained
from clicket.adapters.mcp.open_calls import MAX_REPLIES
from clicket.adapters.mcp.parked_tasks import ParkedTasks
from clicket.adapters.mcp.remote_requests import RemoteRequests
from clicket.adapters.mcp.transports import KEY_META
from clicket.engine.executors.sink import CallSink, questions
from clicket.errors import ClicketError, CredentialMissing
from clicket.tools import ToolContext
from clicket.tools.question import InputNeeded
from clicket.tools.response import OutcomeUnknown

__all__ = ["BadParameters", "Gone", "RemoteCall", "RemoteError", "task_result"]

_SESSION_LOST = ("session not found", "session terminated", "session has been terminated")
_MAX_ROUNDS = 20
"""How often a server may ask before it has to give a result."""
_MAX_STATE = 64 * 1024
_POLL, _MIN_POLL, _MAX_POLL = 1.0, 0.2, 30.0
_MAX_FAILED_LOOKS = 20
_CANCEL_TIMEOUT = 2.0
_RELIST_PAGES = 100
_STATE_ONLY = 0.25
"""Seconds before a request that the server asked us to repeat without an answer."""


class RemoteError(ClicketError):
    """The server answered that the tool failed, or that it cannot be called."""

    code = "tool_error"


class BadParameters(RemoteError):
    """The server refuses the arguments. That does not count against the tool."""

    blames_tool = False


class Gone(ConnectionError):
    """The connection broke during a call that may be repeated."""


class RemoteCall:
    """`repeatable`: the tool may be called again after a broken connection. `refused`: why the caller has no token that the server takes,
    if it refused the one that the connection sends."""

    def __init__(
        self,
        connection: Connection,
        requests: RemoteRequests,
        parked: ParkedTasks,
        name: str,
        arguments: dict[str, Any],
        ctx: ToolContext,
        *,
        repeatable: bool,
        refused: Callable[[], CredentialMissing | None],
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._parked = parked
        self._name = name
        self._arguments = arguments
        self._ctx = ctx
        self._repeatable = repeatable
        self._refused = refused
        self._reported = False
        self._status = ""

    async def run(self, state: CallState | None) -> types.CallToolResult:
        """The tool's result, from the beginning or from where an earlier attempt left off. `InputNeeded`: a person must answer first."""
        while True:
            if state is not None and state.phase == "task":
                return await self._follow(state)
            responses = None
            if state is not None and state.asked:
                state = await self._with_replies(state)
                responses = await self._responses(state)
            if state is not None:
                if not state.answerable and any(each.action != "accept" for each in (responses or {}).values()):
                    raise RemoteError(
                        f"MCP server {self._connection.name!r} needs a link to be opened, and it was not."
                    )
                await _replaced(state, phase="sent").keep(self._ctx)
            result = await self._send(state, responses)
            if isinstance(result, types.CallToolResult):
                return result
            if isinstance(result, CreatedTask):
                sampled = 0 if state is None else state.sampled
                poll = _seconds(result.poll_interval_ms)
                state = CallState(phase="task", task=result.task_id, poll=poll, sampled=sampled)
            else:
                state = self._next_round(state, result)
                if not state.asked:
                    await asyncio.sleep(_STATE_ONLY)
            await state.keep(self._ctx)

    # The request.

    async def _send(self, state: CallState | None, responses: dict[str, Any] | None) -> Any:
        client = await self._connection.client()
        number = 0 if state is None else state.round
        key = self._ctx.idempotency_key if number == 0 else f"{self._ctx.idempotency_key}.{number}"
        self._connection.sent.discard(key)

        async def send() -> Any:
            return await client.session.call_tool(
                self._name,
                self._arguments,
                progress_callback=self._report,
                input_responses=responses if state is None or state.answerable else None,
                request_state=None if state is None else state.request_state,
                meta=cast("types.RequestParamsMeta", {KEY_META: key}),
                allow_input_required=True,
                allow_claimed=True,
            )

        try:
            async with self._requests.calls.open(self._ctx, client.session):
                return await self._with_headers(client, key, send)
        except MCPError as error:
            if key not in self._connection.sent:
                self._check_token()
            if error.code == types.URL_ELICITATION_REQUIRED:
                return _links(error, self._connection.name)
            raise self._translate(client, error, key) from None
        except (ValidationError, RuntimeError) as error:  # a response that breaks the protocol or the output schema
            raise self._unusable(error) from None
        finally:
            self._connection.sent.discard(key)

    async def _with_headers(self, client: Client, key: str, send: Callable[[], Awaitable[Any]]) -> Any:
        """Send; once more, after its definition was read, if the server wants arguments in headers that we do not know of."""
        try:
            return await send()
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            self._connection.sent.discard(key)  # it was refused
            cursor: str | None = None
            for _ in range(_RELIST_PAGES):
                page = await client.list_tools(cursor=cursor)
                cursor = page.next_cursor
                if cursor is None or any(tool.name == self._name for tool in page.tools):
                    break
            return await send()

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        self._reported = True
        self._ctx.progress(progress, total, message or "")

    def _translate(self, client: Client, error: MCPError, key: str) -> Exception:
        name = self._connection.name
        if error.code == types.CONNECTION_CLOSED:
            self._connection.lose(client)
            if key not in self._connection.sent:
                return Unreachable(f"MCP server {name!r} is not there.")
            if self._repeatable:
                return Gone(f"the connection to MCP server {name!r} broke during the call.")
            return OutcomeUnknown(
                f"the connection to MCP server {name!r} broke during the call; it may have been done. "
                "Look there before you call again."
            )
        if _is_session_lost(error):
            self._connection.lose(client)
            return Gone(f"MCP server {name!r} has forgotten our session.")  # the server did not run the request
        kind = BadParameters if error.code == types.INVALID_PARAMS else RemoteError
        return kind(f"MCP server {name!r} refused the call: {explained(error.message)} ({error.code})")

    def _check_token(self) -> None:
        """Wait for a credential if the server refused ours. Only where nothing is lost by that: other calls of the caller send the same
        token, so the refusal may not be this call's."""
        missing = self._refused()
        if missing is not None:
            raise missing

    def _unusable(self, error: object) -> RemoteError:
        return RemoteError(f"MCP server {self._connection.name!r} gave an answer that cannot be used: {error}")

    # Questions.

    def _next_round(self, state: CallState | None, result: types.InputRequiredResult) -> CallState:
        number = 1 if state is None else state.round + 1
        self._check_round(number)
        asked = {} if result.input_requests is None else _plain(result.input_requests)
        if len(result.request_state or "") > _MAX_STATE:
            raise self._unusable(f"its requestState is longer than {_MAX_STATE} characters")
        return CallState(
            phase="asked",
            round=number,
            asked=asked,
            sampled=0 if state is None else state.sampled,
            request_state=result.request_state,
            answerable=not isinstance(result, _LinksRequired),
        )

    def _check_round(self, number: int) -> None:
        if number > _MAX_ROUNDS:
            raise RemoteError(f"MCP server {self._connection.name!r} asked {_MAX_ROUNDS} times and gave no result.")

    def _read(self, asked: dict[str, Any]) -> dict[str, types.InputRequest]:
        try:
            return read_requests(asked)
        except ValueError as error:
            raise self._unusable(error) from None

    async def _with_replies(self, state: CallState) -> CallState:
        """Ask the model for what this round lacks, and keep it: a server that repeats its requests gets the same replies again."""
        missing = {
            key: each
            for key, each in self._read(state.asked).items()
            if isinstance(each, types.CreateMessageRequest) and key not in state.replies
        }
        if not missing:
            return state
        sampled = state.sampled + len(missing)
        if sampled > MAX_REPLIES:
            name = self._connection.name
            raise RemoteError(f"MCP server {name!r} asked for more than {MAX_REPLIES} replies of a model in one call.")
        replies = {key: await self._requests.without_person(each) for key, each in missing.items()}
        state = _replaced(state, replies={**state.replies, **_plain(replies)}, sampled=sampled)
        await state.keep(self._ctx)
        return state

    async def _responses(self, state: CallState) -> dict[str, Any]:
        """The answers to all that the server asks. People are asked one question after the other."""
        asked = self._read(state.asked)
        responses: dict[str, types.InputResponse] = {}
        for key, each in asked.items():
            if isinstance(each, types.CreateMessageRequest):
                responses[key] = types.CreateMessageResult.model_validate(state.replies[key], by_name=False)
            elif not isinstance(each, types.ElicitRequest):
                responses[key] = await self._requests.without_person(each)
        for key, each in asked.items():
            if isinstance(each, types.ElicitRequest):
                question = self._requests.question(f"{state.task[:100]}.{state.round}.{key}", each)
                answer = questions(self._ctx).ask(question, self._requests.question_timeout)
                responses[key] = self._requests.response(question, answer)
        return cast("dict[str, Any]", responses)

    # The task.

    async def _follow(self, state: CallState) -> types.CallToolResult:
        """Read the task until it has ended, over broken connections and restarts of the server. Stopping the call cancels the task."""
        id = state.task
        tasks = self._requests.tasks
        changed = tasks.follow(id)
        self._parked.forget(self._ctx)
        failed = 0
        poll = state.poll
        listening = _Listening()
        try:
            while True:
                changed.clear()
                try:
                    client = await self._connection.client()
                    listening.start(client, id)
                    task = await self._look(client, id)
                    failed = 0
                except Unreachable as error:
                    self._check_token()
                    await asyncio.sleep(min(error.retry_after or _POLL, _MAX_POLL))
                    continue
                except _LookFailed as error:
                    self._check_token()
                    failed += 1
                    if failed >= _MAX_FAILED_LOOKS:
                        raise OutcomeUnknown(
                            f"MCP server {self._connection.name!r} does not say what became of task {id!r}: {error}"
                        ) from None
                    await asyncio.sleep(min(_POLL * failed, _MAX_POLL))
                    continue
                if task.status == "input_required" and task.asked:
                    state = await self._answer(client, state, task)
                    continue
                if task.status not in ("working", "input_required"):
                    return task_result(task, self._connection.name)
                self._report_status(task)
                poll = _seconds(task.poll_interval_ms) or poll
                await _until(changed, min(max(poll or _POLL, _MIN_POLL), _MAX_POLL))
        except (InputNeeded, CredentialMissing):
            self._parked.park(self._ctx, id)
            raise
        except asyncio.CancelledError:
            await self._cancel(id)
            raise
        finally:
            await listening.stop()
            tasks.leave(id)

    async def _look(self, client: Client, id: str) -> TaskDetail:
        try:
            task = await get_task(client, id)
        except MCPError as error:
            if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
                raise OutcomeUnknown(
                    f"MCP server {self._connection.name!r} does not know task {id!r} any more: {error.message} Look there before you "
                    "call again."
                ) from None
            if error.code == types.CONNECTION_CLOSED or _is_session_lost(error):
                self._connection.lose(client)
            raise _LookFailed(error.message) from None
        except (ValidationError, RuntimeError) as error:
            raise _LookFailed(str(error)) from None
        if task.task_id != id:
            raise _LookFailed(f"it answered with another task, {task.task_id[:100]!r}")
        return task

    async def _answer(self, client: Client, state: CallState, task: TaskDetail) -> CallState:
        """Answer what the task asks; its questions and the round are kept first, so that each answer is given once."""
        if task.asked != state.asked:
            self._check_round(state.round + 1)
            state = _replaced(state, round=state.round + 1, asked=task.asked, replies={})
            await state.keep(self._ctx)
        state = await self._with_replies(state)
        responses = await self._responses(state)
        try:
            await update_task(client, state.task, _plain(responses))
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                self._connection.lose(client)
        await asyncio.sleep(_MIN_POLL)  # until the server has taken the answers, it shows the same questions
        return state

    def _report_status(self, task: TaskDetail) -> None:
        """The server's own progress counts more than its status."""
        message = (task.status_message or "")[:1_000]
        if message != self._status and not self._reported:
            self._status = message
            self._ctx.progress(0, None, message)
        else:
            self._ctx.heartbeat()

    async def _cancel(self, id: str) -> None:
        """The call is stopped: so is the task, unless the runtime closes and the next process continues it."""
        sink = self._ctx.sink
        if isinstance(sink, CallSink) and sink.stop_reason == "shutdown":
            return
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await cancel_task(await self._connection.client(), id)
        except (MCPError, ClicketError, ValidationError, RuntimeError, TimeoutError):
            pass  # it could not be reached: the task ends by its time to live


class _LookFailed(Exception):
    """A task could not be read just now."""


class _LinksRequired(types.InputRequiredResult):
    """The server refused the request until a person has opened some links (2025-11-25)."""


class _Listening:
    """The subscription to notifications about a task, on the connection that is open now."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, client: Client, id: str) -> None:
        if self._client is not client:
            if self._task is not None:
                self._task.cancel()
            self._client, self._task = client, asyncio.create_task(listen_to_task(client, id))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def task_result(task: TaskDetail, server: str) -> types.CallToolResult:
    """The result of a task that has ended; `RemoteError` if it has none."""
    if task.status == "completed":
        try:
            return types.CallToolResult.model_validate(task.result, by_name=False)
        except ValidationError as error:
            raise RemoteError(f"MCP server {server!r} gave a task's result that cannot be used: {error}") from None
    if task.status == "cancelled":
        raise RemoteError(f"MCP server {server!r} cancelled the task. {task.status_message or ''}".rstrip())
    why = (task.error or {}).get("message", "it did not say why")
    raise RemoteError(f"MCP server {server!r} failed the task: {why}")


def _links(error: MCPError, server: str) -> _LinksRequired:
    """The links of a `URL_ELICITATION_REQUIRED` error as a round of questions."""
    listed = (error.error.data or {}).get("elicitations") if isinstance(error.error.data, dict) else None
    try:
        asked = read_requests(
            {
                str(number): {"method": "elicitation/create", "params": {**each, "mode": "url"}}
                for number, each in enumerate(listed or [])
            }
        )
    except (ValueError, TypeError):
        asked = {}
    if not asked:
        raise RemoteError(f"MCP server {server!r} refused the call: {error.message} ({error.code})")
    return _LinksRequired(input_requests=asked)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in values.items()}


def _replaced(state: CallState, **changes: Any) -> CallState:
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return CallState(**{**fields, **changes})


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None or not milliseconds > 0 else min(milliseconds / 1_000, _MAX_POLL)


def _is_session_lost(error: MCPError) -> bool:
    return any(text in error.message.lower() for text in _SESSION_LOST)


async def _until(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass
