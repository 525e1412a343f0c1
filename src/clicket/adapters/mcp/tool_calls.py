"""`tools/call`: each request is a call of the runtime. The call is durable before the client hears anything about it.

A client cancels its call with `notifications/cancelled` or, since 2026-07-28, by closing the response stream. Under 2025-11-25
a lost connection cancels nothing. A call that became a task goes on whatever the client does.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Any, Literal

import anyio
import mcp_types as types
import msgspec
from mcp.server.connection import allowed_log_levels
from mcp.shared.exceptions import MCPError

from clicket.adapters.mcp.credential_requests import credential_requests, waits_for_credential
from clicket.adapters.mcp.file_content import files_of, with_data
from clicket.adapters.mcp.input_requests import Round, ask_on_connection, input_required, read_round
from clicket.adapters.mcp.log_levels import LogLevels
from clicket.adapters.mcp.request_context import (
    TASKS,
    AccessFor,
    RequestContext,
    SdkContext,
    missing_capability,
    read_context,
)
from clicket.adapters.mcp.results import input_requests_of, protocol_error, refusal, tool_result
from clicket.adapters.mcp.tasks import task_created
from clicket.adapters.mcp.tool_definitions import task_mode
from clicket.errors import ClicketError
from clicket.model import Event, ToolResult
from clicket.model.ports.caller import Handle

__all__ = ["ToolCallHandler"]

logger = logging.getLogger("clicket.mcp")

_MAX_ROUNDS = 32
_MAX_CHUNK = 4_000
_CANCEL_TIMEOUT = 10.0
"""Seconds that cancelling a call may take after its client has left."""
Response = types.CallToolResult | types.InputRequiredResult | dict[str, Any]


class CredentialAsked(Exception):
    """A call waits for a credential, and its client opens links."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__("a credential is missing")
        self.asked = asked


class ToolCallHandler:
    """The handler of `tools/call`. For a client that supports tasks, a call that takes longer than `task_after` seconds becomes one."""

    def __init__(self, access_for: AccessFor, levels: LogLevels, *, task_after: float) -> None:
        self._access_for = access_for
        self._levels = levels
        self._task_after = task_after
        self.closing = False
        """Is the server shutting down? Then a broken request does not cancel its call: the client did not ask for that."""

    async def __call__(self, ctx: SdkContext, params: types.CallToolRequestParams) -> Response:
        request = read_context(ctx, self._access_for)
        tool = request.runtime.registry.get(params.name)
        mode = task_mode(tool)
        if mode == "required" and not request.has_tasks:
            raise missing_capability(
                {"extensions": {TASKS: {}}}, f"Tool {params.name!r} runs as a task; declare the extension {TASKS}."
            )
        round = read_round(ctx.params)
        try:
            while True:
                handle = await self._submit(request, params, round)
                if request.has_tasks and mode in ("always", "required"):
                    return await task_created(request, handle)
                wait = None if mode == "never" else self._task_after
                needs = tool is not None and bool(tool.options.credentials)
                result = await self._follow(ctx, request, handle, wait=wait, may_wait=needs)
                if result is None:
                    return await task_created(request, handle)
                wanted = input_requests_of(result, tool)
                if not wanted:
                    break
                if request.modern:
                    return input_required(request, round, wanted)
                if round.number >= _MAX_ROUNDS:
                    raise MCPError(types.INTERNAL_ERROR, f"Tool {params.name!r} asked {_MAX_ROUNDS} times; giving up.")
                round = round.answered(await ask_on_connection(ctx, request, wanted), wanted)
        except CredentialAsked as waiting:
            return input_required(request, round, waiting.asked)
        except ClicketError as error:
            return refusal(error)
        if mode == "after-input" and request.has_tasks:
            return await task_created(request, handle)
        wrong = protocol_error(result, tool)
        if wrong is not None:
            raise wrong
        files = await files_of(request.runtime, result)
        result = await with_data(request.runtime, result)
        return tool_result(result, tool, modern=request.modern, files=files)

    async def _submit(self, request: RequestContext, params: types.CallToolRequestParams, round: Round) -> Handle:
        return await request.runtime.submit(
            params.name,
            params.arguments or {},
            thread=request.thread,
            id=None if request.id is None else round.call_id(request.id),
            metadata=round.metadata,
        )

    async def _follow(
        self, ctx: SdkContext, request: RequestContext, handle: Handle, *, wait: float | None, may_wait: bool
    ) -> ToolResult | None:
        """Forward the call's events and wait for its outcome. None: the call takes long, or waits for a person, and can be a task.
        `may_wait`: it may have to wait for a credential."""
        timeout = wait if request.has_tasks and wait is not None else float("inf")
        try:
            with anyio.move_on_after(timeout):
                ended = await self._forward_events(ctx, request, handle, may_wait=may_wait)
                return await handle.result() if ended else None
            return None
        except BaseException as error:
            # Cancelled: the client withdrew its request, or is gone.
            if isinstance(error, anyio.get_cancelled_exc_class()) and not self.closing:
                with anyio.move_on_after(_CANCEL_TIMEOUT, shield=True):
                    await _cancel(handle)
            raise

    async def _forward_events(
        self, ctx: SdkContext, request: RequestContext, handle: Handle, *, may_wait: bool
    ) -> bool:
        """Forward progress and notes. True: the call has ended; False: it waits for a person and can be a task."""
        legacy = not request.modern
        logs = self._levels.allowed(ctx) if legacy else allowed_log_levels(ctx.protocol_version, ctx.meta)
        if not logs and not request.has_tasks and not may_wait and (ctx.meta or {}).get("progress_token") is None:
            return True  # nothing to forward: the caller only waits for the outcome
        progress, chunks = float("-inf"), 0
        async with aclosing(handle.events()) as events:  # type: ignore[type-var]  # it is an async generator
            async for event in events:
                if event.type == "progress" and chunks == 0:
                    progress = await _send_progress(ctx, event, progress)
                elif event.type == "progress":  # chunks are being counted, and the numbers have to grow
                    chunks += 1
                    await ctx.session.report_progress(chunks, None, event.data.get("status") or None)
                elif event.type == "output" and progress == float("-inf"):
                    chunks += 1
                    await _send_chunk(ctx, event, chunks)
                elif event.type == "note" and event.data.get("waiting_for") == "credential" and may_wait:
                    if request.has_tasks:
                        return False
                    await self._ask_for_credential(ctx, request, handle)
                elif event.type == "note" and _level(event) in logs:
                    await _send_note(ctx, event)
                elif event.type == "approval_requested" and request.has_tasks:
                    record = await request.runtime.get(handle.id, thread=handle.thread)
                    if record.waiting_for == "approval":  # no grant has answered it
                        return False
        return True

    async def _ask_for_credential(self, ctx: SdkContext, request: RequestContext, handle: Handle) -> None:
        """Show the client the link. 2025-11-25: while the request is open, and the call goes on. 2026-07-28: as a result, and the client
        repeats its request; the call that waited is cancelled."""
        record = await request.runtime.get(handle.id, thread=handle.thread)
        asked = await credential_requests(request, record) if waits_for_credential(record) else {}
        if not asked:
            return  # the call waits; the credential can be put in another way
        if request.modern:
            await _cancel(handle)
            raise CredentialAsked(asked)
        answers = await ask_on_connection(ctx, request, asked)
        if any(answer.get("action") != "accept" for answer in answers.values()):
            await _cancel(handle)


async def _send_progress(ctx: SdkContext, event: Event, sent: float) -> float:
    """Returns the number that was sent last. The protocol wants growing numbers, so others are left out."""
    step = event.data.get("step")
    if not isinstance(step, int | float) or step <= sent:
        return sent
    await ctx.session.report_progress(step, event.data.get("total_steps"), event.data.get("status") or None)
    return step


async def _send_chunk(ctx: SdkContext, event: Event, number: int) -> None:
    """Streamed output of a tool that reports no progress of its own: each chunk counts as a step."""
    content = event.data.get("content")
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    await ctx.session.report_progress(number, None, text[:_MAX_CHUNK])


def _level(event: Event) -> Any:
    """The level of `ctx.note("text", level="warning")`, by default info. Notes of clicket itself have a reason and are not sent."""
    return "none" if "reason" in event.data else event.data.get("level", "info")


async def _send_note(ctx: SdkContext, event: Event) -> None:
    more = {key: value for key, value in event.data.items() if key not in ("text", "level")}
    text = event.data.get("text", "")
    level: Literal["info"] = _level(event)
    await ctx.session.send_notification(
        types.LoggingMessageNotification(
            params=types.LoggingMessageNotificationParams(level=level, data={"text": text, **more} if more else text)
        ),
        related_request_id=ctx.request_id,
    )


async def _cancel(handle: Handle) -> None:
    try:
        await handle.cancel("the client took its request back")
    except ClicketError as error:
        logger.warning("call %s could not be cancelled after its client left: %s", handle.id, error)
