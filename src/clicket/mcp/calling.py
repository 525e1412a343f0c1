"""`tools/call`: each request is a call of the runtime, durable before anything is told about it.

A client that takes its request back ends the call: by `notifications/cancelled`, or, since 2026-07-28, by closing the response
stream. Under 2025-11-25 a lost connection ends nothing. A call that became a task goes on whatever the client does.
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

from clicket.errors import ClicketError
from clicket.mcp.listing import find_tool, task_mode
from clicket.mcp.logs import Levels
from clicket.mcp.pictures import pictures_of
from clicket.mcp.questions import Round, ask_now, input_required, read_round
from clicket.mcp.results import protocol_error, questions_of, refusal, tool_result
from clicket.mcp.tasks import created
from clicket.mcp.visit import TASKS, Access, Context, Visit, missing_capability, visit
from clicket.model import Event, ToolResult
from clicket.ports.caller import Handle

__all__ = ["Calling"]

logger = logging.getLogger("clicket.mcp")

_MAX_ROUNDS = 32
_MAX_CHUNK = 4_000
_GOODBYE = 10.0
"""Seconds that ending a call for a client that left may take."""
Answer = types.CallToolResult | types.InputRequiredResult | dict[str, Any]


class Calling:
    """The handler of `tools/call`. A call that takes longer than `task_after` seconds becomes a task, if the client knows tasks."""

    def __init__(self, access: Access, levels: Levels, *, task_after: float) -> None:
        self._access = access
        self._levels = levels
        self._task_after = task_after
        self.closing = False
        """Is the server on its way out? Then a request that breaks off is not its client's doing, and its call is not ended."""

    async def __call__(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        who = visit(ctx, self._access)
        tool = find_tool(who.runtime, params.name)
        mode = task_mode(tool)
        if mode == "required" and not who.has_tasks:
            raise missing_capability(
                {"extensions": {TASKS: {}}}, f"Tool {params.name!r} runs as a task; declare the extension {TASKS}."
            )
        at = read_round(ctx.params)
        try:
            while True:
                handle = await self._submit(who, params, at)
                if who.has_tasks and mode in ("always", "required"):
                    return created(await who.runtime.get(handle.id, thread=handle.thread), who)
                result = await self._follow(ctx, who, handle, wait=None if mode == "never" else self._task_after)
                if result is None:
                    return created(await who.runtime.get(handle.id, thread=handle.thread), who)
                asked = questions_of(result, tool)
                if not asked:
                    break
                if who.modern:
                    return input_required(who, at, asked)
                if at.number >= _MAX_ROUNDS:
                    raise MCPError(types.INTERNAL_ERROR, f"Tool {params.name!r} asked {_MAX_ROUNDS} times; giving up.")
                at = at.answered(await ask_now(ctx, who, asked), asked)
        except ClicketError as error:
            return refusal(error)
        if mode == "after-input" and who.has_tasks:
            return created(await who.runtime.get(handle.id, thread=handle.thread), who)
        wrong = protocol_error(result, tool)
        if wrong is not None:
            raise wrong
        pictures = await pictures_of(who.runtime, result, tool)
        return tool_result(result, tool, modern=who.modern, pictures=pictures)

    async def _submit(self, who: Visit, params: types.CallToolRequestParams, at: Round) -> Handle:
        return await who.runtime.submit(
            params.name,
            params.arguments or {},
            thread=who.thread,
            id=None if who.id is None else at.call_id(who.id),
            metadata=at.metadata,
        )

    async def _follow(self, ctx: Context, who: Visit, handle: Handle, *, wait: float | None) -> ToolResult | None:
        """Wait for the outcome and tell how it goes. None: it takes long, or waits for a person, and can be a task."""
        patience = wait if who.has_tasks and wait is not None else float("inf")
        try:
            with anyio.move_on_after(patience):
                ended = await self._tell(ctx, who, handle)
                return await handle.result() if ended else None
            return None
        except BaseException as error:
            # Cancelled: the client took its request back, or is gone. Whoever hears of it later finds the call ended.
            if isinstance(error, anyio.get_cancelled_exc_class()) and not self.closing:
                with anyio.move_on_after(_GOODBYE, shield=True):
                    await _end(handle)
            raise

    async def _tell(self, ctx: Context, who: Visit, handle: Handle) -> bool:
        """Forward progress and remarks. True: the call has ended; False: it waits for approval and can be a task."""
        logs = self._levels.allowed(ctx) if not who.modern else allowed_log_levels(ctx.protocol_version, ctx.meta)
        if not logs and not who.has_tasks and (ctx.meta or {}).get("progress_token") is None:
            return True  # nothing to tell: the outcome alone is waited for
        told, chunks = float("-inf"), 0
        async with aclosing(handle.events()) as events:  # type: ignore[type-var]  # it is an async generator
            async for event in events:
                if event.type == "progress" and chunks == 0:
                    told = await _progress(ctx, event, told)
                elif event.type == "progress":  # the pieces are being counted, and numbers have to grow
                    chunks += 1
                    await ctx.session.report_progress(chunks, None, event.data.get("status") or None)
                elif event.type == "output" and told == float("-inf"):
                    chunks += 1
                    await _chunk(ctx, event, chunks)
                elif event.type == "note" and _level(event) in logs:
                    await _remark(ctx, event)
                elif event.type == "approval_requested" and who.has_tasks:
                    return False
        return True


async def _progress(ctx: Context, event: Event, told: float) -> float:
    """The protocol wants numbers that grow; a report that says nothing new is left out."""
    step = event.data.get("step")
    if not isinstance(step, int | float) or step <= told:
        return told
    await ctx.session.report_progress(step, event.data.get("total_steps"), event.data.get("status") or None)
    return step


async def _chunk(ctx: Context, event: Event, number: int) -> None:
    """Output that comes piece by piece, of a tool that reports no progress of its own: each piece is a step."""
    content = event.data.get("content")
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    await ctx.session.report_progress(number, None, text[:_MAX_CHUNK])


def _level(event: Event) -> Any:
    """`ctx.note("text", level="warning")`; notes without a level are of level info, and our own are nobody's business."""
    return "none" if "reason" in event.data else event.data.get("level", "info")


async def _remark(ctx: Context, event: Event) -> None:
    more = {key: value for key, value in event.data.items() if key not in ("text", "level")}
    text = event.data.get("text", "")
    level: Literal["info"] = _level(event)
    await ctx.session.send_notification(
        types.LoggingMessageNotification(
            params=types.LoggingMessageNotificationParams(level=level, data={"text": text, **more} if more else text)
        ),
        related_request_id=ctx.request_id,
    )


async def _end(handle: Handle) -> None:
    try:
        await handle.cancel("the client took its request back")
    except ClicketError as error:
        logger.warning("call %s could not be ended for a client that left: %s", handle.id, error)
