"""A tool of another MCP server as a tool of ours: its schema, its hints as options, each use of it a call."""

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
from clicket.mcp.content import MARK, reply
from clicket.mcp.link import Link, Unreachable
from clicket.mcp.wires import KEY_META
from clicket.tools import ToolContext, Traits, defaults
from clicket.tools.options import Options, make_options
from clicket.tools.response import OutcomeUnknown

__all__ = ["ImportedTool", "RemoteError", "local_name"]

logger = logging.getLogger("clicket.mcp")

_SESSION_GONE = ("session not found", "session terminated", "session has been terminated")


class RemoteError(ClicketError):
    """The server answered that the tool failed, or that it cannot be called."""

    code = "tool_error"


class BadParameters(RemoteError):
    """The server works, and refuses the arguments."""

    blames_tool = False


class Gone(ConnectionError):
    """The connection broke during a call that may be repeated."""


def local_name(prefix: str, name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", f"{prefix}{name}")[:128]


class ImportedTool:
    """`name` is ours, `remote_name` the server's. `run` sends; a call that is cancelled here is cancelled there."""

    is_async = True
    traits = Traits()
    run_sync = None
    bind_plain = defaults.never_plain
    data_version = defaults.no_data_version
    is_cacheable = defaults.always_cacheable
    sweep = defaults.no_sessions
    owned_by = defaults.shared_by_owners

    def __init__(
        self, link: Link, told: types.Tool, *, prefix: str, options: Mapping[str, Any], trust_hints: bool
    ) -> None:
        self._link = link
        self.remote_name = told.name
        self.name = local_name(prefix, told.name)
        self.offered = True
        self.learn(told, options, trust_hints=trust_hints)

    def learn(self, told: types.Tool, options: Mapping[str, Any], *, trust_hints: bool) -> bool:
        """Take over what the server says of the tool. False: it is what was known."""
        known = (getattr(self, "description", None), getattr(self, "input_schema", None), self.offered)
        hints = told.annotations if trust_hints else None
        said = {
            "read_only": bool(hints and hints.read_only_hint),
            "idempotent": bool(hints and hints.idempotent_hint),
        }
        tags = {"mcp", f"mcp-server:{self._link.name}", *options.get("tags", ())}
        self.description: str = told.description or told.title or ""
        self.input_schema: Mapping[str, Any] = told.input_schema
        self.output_schema: Mapping[str, Any] | None = told.output_schema
        self.options: Options = make_options(f"tool {self.name!r}", {**said, **options, "tags": tags})
        self.offered = True
        return known != (self.description, self.input_schema, self.offered)

    def __repr__(self) -> str:
        return f"<tool {self.name} of MCP server {self._link.name}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        if not self.offered:
            raise RemoteError(f"MCP server {self._link.name!r} does not offer {self.remote_name!r} any more.")
        client = await self._link.client()
        self._link.sent.discard(ctx.idempotency_key)

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            ctx.progress(progress, total, message or "")

        try:
            result = await client.call_tool(
                self.remote_name,
                bound,
                progress_callback=tell,
                meta=cast("types.RequestParamsMeta", {KEY_META: ctx.idempotency_key}),
            )
        except MCPError as error:
            raise self._translated(client, error, ctx.idempotency_key) from None
        except (ValidationError, RuntimeError) as error:  # an answer that is not what the protocol, or its schema, says
            raise RemoteError(f"MCP server {self._link.name!r} gave an answer that cannot be used: {error}") from None
        finally:
            self._link.sent.discard(ctx.idempotency_key)
        if result.is_error:
            raise RemoteError(_text(result) or f"tool {self.remote_name!r} failed and did not say why.")
        return _output(result)

    async def close(self) -> None:
        """The runtime closes, and its tools with it."""
        await self._link.close()

    def _translated(self, client: Client, error: MCPError, key: str) -> Exception:
        name = self._link.name
        if error.code == types.CONNECTION_CLOSED:
            self._link.lose(client)
            if key not in self._link.sent:
                return Unreachable(f"MCP server {name!r} is not there.")
            if self.options.repeatable:
                return Gone(f"the connection to MCP server {name!r} broke during the call.")
            return OutcomeUnknown(
                f"the connection to MCP server {name!r} broke during the call; it may have been done. "
                "Look there before you call again."
            )
        if any(said in error.message.lower() for said in _SESSION_GONE):
            self._link.lose(client)
            return Gone(f"MCP server {name!r} has forgotten our session.")  # the request was turned away
        kind = BadParameters if error.code == types.INVALID_PARAMS else RemoteError
        return kind(f"MCP server {name!r} refused the call: {error.message} ({error.code})")


def _output(result: types.CallToolResult) -> Any:
    """Structured content if there is some; text as text; anything else stays content, for clients that can show it."""
    plain = all(isinstance(block, types.TextContent) for block in result.content)
    structured = result.structured_content
    if isinstance(structured, Mapping) and MARK in structured:  # a stranger's data is never a word of ours
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
