"""A tool of another MCP server as a tool of the runtime: the server's schema, and its hints as options."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clicket.adapters.mcp.call_state import CallState, load_state
from clicket.adapters.mcp.caller_connections import CallerConnections
from clicket.adapters.mcp.client_tasks import cancel_task, get_task
from clicket.adapters.mcp.connection import Connection
from clicket.adapters.mcp.content import ARTIFACT, MARK, reply
from clicket.adapters.mcp.elicitation import explained
from clicket.adapters.mcp.parked_tasks import ParkedTasks
from clicket.adapters.mcp.remote_call import BadParameters, Gone, RemoteCall, RemoteError, task_result
from clicket.adapters.mcp.remote_requests import RemoteRequests
from clicket.engine.executors import MAX_FILES
from clicket.engine.executors.sink import questions
from clicket.errors import CredentialMissing
from clicket.model.codec import canonical, encode
from clicket.model.files import File, WithFiles, name_of_bytes
from clicket.tools import CallInDoubt, Continues, Happened, ToolContext, Unknown, output_check
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options, make_options
from clicket.tools.response import OutcomeUnknown

__all__ = ["BadParameters", "Gone", "ImportedTool", "RemoteError", "local_name"]

_LOOKS, _LOOK_EVERY = 20, 0.25
_MAX_SHOWN = 5
_Refused = Callable[[], CredentialMissing | None]


def local_name(prefix: str, name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", f"{prefix}{name}")[:128]


class ImportedTool(ToolDefaults):
    """`name` is the name in the runtime, `remote_name` the server's. Cancelling the call cancels the request to the server, or the task
    that the server made of it. The tool's version is a hash of its definition, unless the options name one: a tool whose description or
    schema changed is another version, which starts with a clean health and an empty cache."""

    is_async = True

    def __init__(
        self,
        connection: Connection,
        requests: RemoteRequests,
        parked: ParkedTasks,
        definition: types.Tool,
        *,
        prefix: str,
        options: Mapping[str, Any],
        trust_hints: bool,
        connections: CallerConnections | None = None,
    ) -> None:
        self.connection = connection
        self._requests = requests
        self._parked = parked
        self._connections = connections
        self.remote_name = definition.name
        self.name = local_name(prefix, definition.name)
        self.offered = True
        self.update(definition, options, trust_hints=trust_hints)

    def update(self, definition: types.Tool, options: Mapping[str, Any], *, trust_hints: bool) -> bool:
        """Take over the server's definition of the tool. False: nothing changed."""
        known = (getattr(self, "_digest", None), self.offered)
        hints = definition.annotations if trust_hints else None
        hinted = {
            "read_only": bool(hints and hints.read_only_hint),
            "idempotent": bool(hints and hints.idempotent_hint),
        }
        tags = {"mcp", f"mcp-server:{self.connection.name}", *options.get("tags", ())}
        self.description: str = definition.description or definition.title or ""
        self.input_schema: Mapping[str, Any] = definition.input_schema
        self.output_schema: Mapping[str, Any] | None = definition.output_schema
        self._digest = _digest(definition)
        own = {"version": self._digest, "reconcile": self._check}
        self.options: Options = make_options(f"tool {self.name!r}", {**own, **hinted, **options, "tags": tags})
        self.offered = True
        return known != (self._digest, self.offered)

    def __repr__(self) -> str:
        return f"<tool {self.name} of MCP server {self.connection.name}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        state = await load_state(ctx) if ctx.attempt > 1 else None
        if state is None:
            if not self.offered:
                raise RemoteError(f"MCP server {self.connection.name!r} does not offer {self.remote_name!r} any more.")
            if ctx.attempt > 1 and questions(ctx).has_asked and not self.options.repeatable:
                raise OutcomeUnknown(
                    "what the call was doing at the server is known to another process alone: it holds a secret, and there is no "
                    "key to seal it with (CLICKET_SECRET_KEY)."
                )
        async with self._connected(ctx) as (connection, refused):
            call = RemoteCall(
                connection,
                self._requests,
                self._parked,
                self.remote_name,
                bound,
                ctx,
                repeatable=self.options.repeatable,
                refused=refused,
            )
            result = await call.run(state)
        if result.is_error:
            raise RemoteError(explained(_text(result)) or f"tool {self.remote_name!r} failed and did not say why.")
        self._check_result(result)
        return _output(result)

    def _check_result(self, result: types.CallToolResult) -> None:
        check = output_check(self)
        if check is None:
            return
        unusable = f"MCP server {self.connection.name!r} gave an answer that cannot be used: the output schema of {self.remote_name!r}"
        if result.structured_content is None and "structured_content" not in result.model_fields_set:
            raise RemoteError(f"{unusable} asks for structured content, and there is none.")
        problems = check(result.structured_content)
        if problems:
            listed = "; ".join(f"{each['path'] or '(whole)'}: {each['message']}" for each in problems[:_MAX_SHOWN])
            raise RemoteError(f"{unusable} does not allow it: {listed}.")

    async def close(self) -> None:
        await self.connection.close()
        if self._connections is not None:
            await self._connections.close()

    @asynccontextmanager
    async def _connected(self, ctx: ToolContext) -> AsyncIterator[tuple[Connection, _Refused]]:
        """The connection of the call's caller, if the server knows callers by their tokens; and whether it refused the token."""
        if self._connections is None:
            yield self.connection, lambda: None
        else:
            async with self._connections.borrowed(ctx) as used:
                yield used.connection, used.bearer.refused

    async def _check(self, call: CallInDoubt, ctx: ToolContext) -> Happened | Continues | Unknown:
        """What became of an attempt that has no outcome. A task is known by its id, also to another process."""
        name = self.connection.name
        state = await load_state(ctx)
        if state is None or state.phase == "sent":
            return Unknown(f"MCP server {name!r} made no task of it that could be asked about")
        if not state.task:
            return (
                Continues() if not call.cause else Unknown(f"MCP server {name!r} has a question that is not answered")
            )
        if not call.cause and not call.cancel_requested:
            return Continues()
        async with self._connected(ctx) as (connection, _):
            return await self._ask_about_task(await connection.client(), state, call)

    async def _ask_about_task(
        self, client: Client, state: CallState, call: CallInDoubt
    ) -> Happened | Continues | Unknown:
        name = self.connection.name
        try:
            if call.cancel_requested:
                await cancel_task(client, state.task)
            task = await get_task(client, state.task)
            for _ in range(_LOOKS if call.cancel_requested else 0):  # the server cancels when it gets to it
                if task.status not in ("working", "input_required"):
                    break
                await asyncio.sleep(_LOOK_EVERY)
                task = await get_task(client, state.task)
        except (MCPError, ValidationError) as error:
            return Unknown(f"MCP server {name!r} does not say what became of task {state.task[:100]!r}: {error}")
        if task.task_id == state.task and task.status == "completed":
            result = task_result(task, name)
            if not result.is_error:
                return Happened(_output(result))
        if call.cancel_requested and task.status == "cancelled":
            return Continues()  # into the end of a cancelled call
        return Unknown(f"task {state.task[:100]!r} of MCP server {name!r} is {task.status}")


def _digest(definition: types.Tool) -> str:
    """Of all that a model and a caller see of the tool."""
    shown = definition.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"})
    return sha256(canonical(shown)).hexdigest()[:16]


def _output(result: types.CallToolResult) -> Any:
    """Structured content if there is some; text as text; anything else as content blocks, for clients that can show them."""
    plain = all(isinstance(block, types.TextContent) for block in result.content)
    structured = result.structured_content
    if (
        isinstance(structured, Mapping) and MARK in structured
    ):  # data of another server must not pass for content that clicket made
        return reply(_text(result), structured=structured) if plain else reply(*_blocks(result), structured=structured)
    if result.structured_content is not None and plain:
        return result.structured_content
    if plain:
        return _text(result)
    return _with_files(reply(*_blocks(result), structured=structured), _text(result))


def _blocks(result: types.CallToolResult) -> list[dict[str, Any]]:
    return [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]


def _with_files(output: dict[str, Any], text: str) -> Any:
    """The output without the bytes of its images and files, which are kept beside it."""
    files: list[File] = []
    content: list[dict[str, Any]] = []
    for block in output["content"]:
        place = block.get("resource") if block["type"] == "resource" else block
        key = "blob" if block["type"] == "resource" else "data"
        data = _bytes(place.get(key)) if isinstance(place, dict) and len(files) < MAX_FILES else b""
        if not data:
            content.append(block)
            continue
        files.append(
            File(data, place.get("mimeType") or None, name=str(place.get("uri") or "").rpartition("/")[2] or None)
        )
        short = {**{name: value for name, value in place.items() if name != key}, ARTIFACT: name_of_bytes(data)}
        content.append({**block, "resource": short} if block["type"] == "resource" else short)
    if not files:
        return output
    shown = text if "structured" not in output else f"{text}\n{encode(output['structured']).decode()}".lstrip()
    return WithFiles({**output, "content": content}, files, shown)


def _bytes(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:  # another server may send anything
        return b""


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
