"""The Claude Agent SDK over clicket: an MCP server in the program, whose calls are calls of the runtime.

    server = as_sdk_server(rt, thread)
    options = ClaudeAgentOptions(mcp_servers={"clicket": server}, allowed_tools=["mcp__clicket__pay"])

A failed call is an error result, and the run continues. With Claude's id of a call it runs once, also if it is asked for again.
"""

from __future__ import annotations

from typing import Any

from clicket.adapters.response_run import Answer, answer
from clicket.adapters.runtime_access import ToolCatalog, caller_of, loop_of, offers
from clicket.adapters.tool_request import ToolRequest, local_key, response_id_of
from clicket.errors import UsageError
from clicket.model.version import version
from clicket.system.bridge import on_loop
from clicket.tools.provider_schema import shown

try:
    from mcp.server import Server
    from mcp.types import CallToolResult, ImageContent, ListToolsResult, TextContent, Tool
except ImportError as missing:
    raise UsageError(
        "clicket.adapters.claude_agent needs the package mcp, which the SDK brings: pip install claude-agent-sdk."
    ) from missing

__all__ = ["as_sdk_server"]

_TOOL_USE = "claudecode/toolUseId"
"""Claude's id of a call, in the request's `_meta`."""


def as_sdk_server(rt: Any, thread: str, *, name: str = "clicket") -> Any:
    """A value of `mcp_servers`, with the tools that the thread may use when Claude lists them."""
    caller, loop = caller_of(rt), loop_of(rt)

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        found = await on_loop(loop, lambda: offers(caller, thread))
        return ListToolsResult(
            tools=[
                Tool(name=offer.wire, description=offer.description or None, input_schema=shown(offer.input_schema))
                for offer in found
            ]
        )

    async def call_tool(_context: Any, params: Any) -> CallToolResult:
        id = (params.meta or {}).get(_TOOL_USE)
        request = ToolRequest(id=id if isinstance(id, str) else "", name=params.name, arguments=params.arguments or {})

        async def work() -> Answer:
            catalog = await ToolCatalog.of(caller)
            response_id, key = response_id_of(request), local_key(request, 0)
            return await answer(caller, catalog, request, thread=thread, response_id=response_id, key=key)

        made = await on_loop(loop, work)
        shown = [ImageContent(type="image", data=each.base64, mime_type=each.media_type) for each in made.pictures]
        return CallToolResult(content=[TextContent(type="text", text=made.text), *shown], is_error=made.failed)

    server = Server(name, version=version(), on_list_tools=list_tools, on_call_tool=call_tool)
    return {"type": "sdk", "name": name, "instance": server}
