"""A tool of another MCP server as a tool of the runtime: the server's schema, and its hints as options."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clicket.errors import ClicketError
from clicket.mcp.caller_connections import CallerConnections
from clicket.mcp.connection import Connection, Unreachable
from clicket.mcp.content import MARK, reply
from clicket.mcp.transports import KEY_META
from clicket.tools import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options, make_options
from clicket.tools.response import OutcomeUnknown

__all__ = ["ImportedTool", "RemoteError", "local_name"]

logger = logging.getLogger("clicket.mcp")

_SESSION_LOST = ("session not found", "session terminated", "session has been terminated")


class RemoteError(ClicketError):
    """The server answered that the tool failed, or that it cannot be called."""

    code = "tool_error"


class BadParameters(RemoteError):
    """The server refuses the arguments. That does not count against the tool."""

    blames_tool = False


class Gone(ConnectionError):
    """The connection broke during a call that may be repeated."""


def local_name(prefix: str, name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", f"{prefix}{name}")[:128]


class ImportedTool(ToolDefaults):
    """`name` is the name in the runtime, `remote_name` the server's. Cancelling the call cancels the request to the server."""

    is_async = True

    def __init__(
        self,
        connection: Connection,
        definition: types.Tool,
        *,
        prefix: str,
        options: Mapping[str, Any],
        trust_hints: bool,
        connections: CallerConnections | None = None,
    ) -> None:
        self.connection = connection
        self._connections = connections
        self.remote_name = definition.name
        self.name = local_name(prefix, definition.name)
        self.offered = True
        self.update(definition, options, trust_hints=trust_hints)

    def update(self, definition: types.Tool, options: Mapping[str, Any], *, trust_hints: bool) -> bool:
        """Take over the server's definition of the tool. False: nothing changed."""
        known = (getattr(self, "description", None), getattr(self, "input_schema", None), self.offered)
        hints = definition.annotations if trust_hints else None
        hinted = {
            "read_only": bool(hints and hints.read_only_hint),
            "idempotent": bool(hints and hints.idempotent_hint),
        }
        tags = {"mcp", f"mcp-server:{self.connection.name}", *options.get("tags", ())}
        self.description: str = definition.description or definition.title or ""
        self.input_schema: Mapping[str, Any] = definition.input_schema
        self.output_schema: Mapping[str, Any] | None = definition.output_schema
        self.options: Options = make_options(f"tool {self.name!r}", {**hinted, **options, "tags": tags})
        self.offered = True
        return known != (self.description, self.input_schema, self.offered)

    def __repr__(self) -> str:
        return f"<tool {self.name} of MCP server {self.connection.name}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        if not self.offered:
            raise RemoteError(f"MCP server {self.connection.name!r} does not offer {self.remote_name!r} any more.")
        if self._connections is None:
            return await self._call(self.connection, bound, ctx)
        async with self._connections.borrowed(ctx) as connection:
            return await self._call(connection, bound, ctx)

    async def _call(self, connection: Connection, bound: dict[str, Any], ctx: ToolContext) -> Any:
        client = await connection.client()
        connection.sent.discard(ctx.idempotency_key)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            ctx.progress(progress, total, message or "")

        try:
            result = await client.call_tool(
                self.remote_name,
                bound,
                progress_callback=report,
                meta=cast("types.RequestParamsMeta", {KEY_META: ctx.idempotency_key}),
            )
        except MCPError as error:
            raise self._translate(connection, client, error, ctx.idempotency_key) from None
        except (ValidationError, RuntimeError) as error:  # a response that breaks the protocol or the output schema
            raise RemoteError(
                f"MCP server {self.connection.name!r} gave an answer that cannot be used: {error}"
            ) from None
        finally:
            connection.sent.discard(ctx.idempotency_key)
        if result.is_error:
            raise RemoteError(_text(result) or f"tool {self.remote_name!r} failed and did not say why.")
        return _output(result)

    async def close(self) -> None:
        await self.connection.close()
        if self._connections is not None:
            await self._connections.close()

    def _translate(self, connection: Connection, client: Client, error: MCPError, key: str) -> Exception:
        name = connection.name
        if error.code == types.CONNECTION_CLOSED:
            connection.lose(client)
            if key not in connection.sent:
                return Unreachable(f"MCP server {name!r} is not there.")
            if self.options.repeatable:
                return Gone(f"the connection to MCP server {name!r} broke during the call.")
            return OutcomeUnknown(
                f"the connection to MCP server {name!r} broke during the call; it may have been done. "
                "Look there before you call again."
            )
        if any(text in error.message.lower() for text in _SESSION_LOST):
            connection.lose(client)
            return Gone(f"MCP server {name!r} has forgotten our session.")  # the server did not run the request
        kind = BadParameters if error.code == types.INVALID_PARAMS else RemoteError
        return kind(f"MCP server {name!r} refused the call: {error.message} ({error.code})")


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
    return reply(*_blocks(result), structured=structured)


def _blocks(result: types.CallToolResult) -> list[dict[str, Any]]:
    return [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
