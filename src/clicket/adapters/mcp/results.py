"""A call's outcome as a `tools/call` result. A tool's failure is a result with `isError`, never a protocol error."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from clicket.adapters.mcp.content import MARK, may_return_mcp_content
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import ToolResult
from clicket.model.codec import without_notes
from clicket.tools import Tool, output_check

__all__ = ["client_message", "input_requests_of", "protocol_error", "refusal", "tool_result"]

logger = logging.getLogger("clicket.mcp")

CALL_META = "io.clicket/callId"
ERROR_META = "io.clicket/error"
ARTIFACT_META = "io.clicket/artifact"
_blocks: TypeAdapter[list[types.ContentBlock]] = TypeAdapter(list[types.ContentBlock])


def input_requests_of(result: ToolResult, tool: Tool | None) -> dict[str, Any]:
    """The input requests of a call that ended with `need(...)`, by name; empty for every other result."""
    output = result.output
    if tool is None or not result.success or not isinstance(output, Mapping) or output.get(MARK) != "input_required":
        return {}
    asked = output.get("inputRequests")
    return dict(asked) if may_return_mcp_content(tool.options.tags) and isinstance(asked, Mapping) else {}


def protocol_error(result: ToolResult, tool: Tool | None) -> MCPError | None:
    """The JSON-RPC error of an outcome: the tool is unknown, or raised `ProtocolError`. None for other outcomes."""
    error = result.error
    if error is None:
        return None
    if error.code == "tool_not_found":
        return MCPError(types.INVALID_PARAMS, error.message)
    number = error.details.get("jsonrpc")
    if (
        error.type == "ProtocolError"
        and type(number) is int
        and tool is not None
        and may_return_mcp_content(tool.options.tags)
    ):
        return MCPError(number, error.message)
    return None


def tool_result(
    result: ToolResult, tool: Tool | None, *, modern: bool, files: Sequence[types.ContentBlock] = ()
) -> types.CallToolResult:
    meta: dict[str, Any] = {CALL_META: result.call_id}
    if result.artifact is not None:
        meta[ARTIFACT_META] = result.artifact
    error = result.error
    if error is not None:
        meta[ERROR_META] = {"code": error.code, "type": error.type, "retryable": error.retryable}
        return _failed(error.message, meta)
    output = result.output
    if tool is not None and isinstance(output, Mapping) and output.get(MARK) == "content":
        made = _content(output, tool, meta, modern=modern)
        if made is not None:
            return made
    structured = None if result.truncated or isinstance(output, str) else output
    if tool is not None and not result.truncated:
        violation = _schema_violation(tool, structured)
        if violation is not None:
            return _failed(violation, meta)
    return types.CallToolResult(
        content=[types.TextContent(text=result.content), *files],
        structured_content=structured if modern or isinstance(structured, dict) else None,
        _meta=meta,
    )


def _content(
    output: Mapping[str, Any], tool: Tool, meta: dict[str, Any], *, modern: bool
) -> types.CallToolResult | None:
    if not may_return_mcp_content(tool.options.tags):
        return None
    try:
        blocks = _blocks.validate_python(output.get("content"), by_name=False)
    except ValidationError:
        return None  # not made by `reply`, and not valid content: plain data
    structured = output.get("structured")
    violation = _schema_violation(tool, structured)
    if violation is not None:
        return _failed(violation, meta)
    fits = modern or isinstance(structured, dict)
    return types.CallToolResult(content=blocks, structured_content=structured if fits else None, _meta=meta)


def _schema_violation(tool: Tool, structured: Any) -> str | None:
    """Why an output does not fit the output schema of its tool. Clients check that too, so it must not reach them as a success."""
    check = output_check(tool)
    problems = check(structured) if check is not None else []
    if not problems:
        return None
    first = problems[0]
    where = first["path"] or "the whole"
    return (
        f"tool {tool.name!r} ran, but its output is not what its return type promises ({where}: {first['message']}). "
        "Its author should correct the type or the output."
    )


def refusal(error: ClicketError) -> types.CallToolResult:
    """The result for a call that was not accepted: the queue is full, the id is taken, the store does not answer."""
    return _failed(client_message(error), {ERROR_META: {"code": error.code, "type": type(error).__name__}})


def client_message(error: ClicketError) -> str:
    """The message for a client. The address of the store goes only into the log."""
    if not isinstance(error, StoreUnavailable):
        return error.message
    logger.warning("the store is not available: %s", error.message)
    return "the store is not reachable now; the server's log says why. Try again in a moment."


def _failed(message: str, meta: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=without_notes(message))], is_error=True, _meta=meta)
