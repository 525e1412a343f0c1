"""A server of the official SDK: `python -m tests.mcp.sdk_server stdio|PORT FOLDER`.

It asks questions in both protocol versions, and makes tasks of calls. A task lives in the folder, so it survives the server's process.
It is done when the folder has the file `release`; `runs` counts how often a body ran.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

TASKS = "io.modelcontextprotocol/tasks"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
    },
    "required": ["name"],
}
LINK = "https://pay.example/7"
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()


class TaskParams(types.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


def text(value: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=value)])


def form(message: str = "Your name?") -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=FORM))


def shown(answer: Any) -> str:
    content = answer.content or {}
    return f"{answer.action} {content.get('name', '')} {content.get('size', '')}".strip()


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    names = "ask link links grow slow talk sample roots old_ask wrapped_old_ask".split()
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    return await globals()[f"run_{params.name}"](ctx, params, ctx.protocol_version in MODERN_PROTOCOL_VERSIONS)


async def run_ask(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    count("asked")
    if not modern:
        return text(shown(await ctx.session.elicit_form("Your name?", FORM, related_request_id=ctx.request_id)))
    if not params.input_responses:
        return types.InputRequiredResult(input_requests={"who": form()}, request_state="one")
    assert params.request_state == "one"
    return text(shown(params.input_responses["who"]))


async def run_old_ask(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    """Asks on the connection, whatever the version is, as `ctx.elicit` of the SDK's `MCPServer` does."""
    return text(shown(await ctx.session.elicit_form("Your name?", FORM, related_request_id=ctx.request_id)))


async def run_wrapped_old_ask(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    """A framework over the SDK makes a failed result of the error."""
    try:
        return await run_old_ask(ctx, params, modern)
    except MCPError as error:
        return types.CallToolResult(content=[types.TextContent(text=f"Error executing tool: {error}")], is_error=True)


async def run_link(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    if not modern:
        answer = await ctx.session.elicit_url("Pay, please.", LINK, "pay-7", related_request_id=ctx.request_id)
        return text(answer.action)
    if not params.input_responses:
        link = types.ElicitRequestURLParams(message="Pay, please.", url=LINK)
        return types.InputRequiredResult(input_requests={"pay": types.ElicitRequest(params=link)})
    return text(params.input_responses["pay"].action)


async def run_links(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    """Refuses until a link was opened (2025-11-25)."""
    if count("links") == 1:
        listed = [{"mode": "url", "message": "Log in.", "url": LINK, "elicitationId": "login"}]
        raise MCPError(types.URL_ELICITATION_REQUIRED, "a login is missing", {"elicitations": listed})
    return text("done")


async def run_grow(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    """A task: done after `release`, and after an answer if the arguments say `ask`."""
    number = count("runs")
    id = f"task-{number}"
    (FOLDER / id).write_text(json.dumps({"ask": bool((params.arguments or {}).get("ask")), "answers": None}))
    return {"resultType": "task", **task(id, "working")}


def task(id: str, status: str, **more: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    times = {"createdAt": now, "lastUpdatedAt": now, "ttlMs": 600_000, "pollIntervalMs": 200}
    return {"taskId": id, "status": status, **times, **more}


async def get_task(ctx: Any, params: TaskParams) -> dict[str, Any]:
    count("looks")
    kept = read_task(params.task_id)
    if kept.get("cancelled"):
        return task(params.task_id, "cancelled")
    if kept["ask"] and kept["answers"] is None:
        asked = form().model_dump(by_alias=True, mode="json", exclude_none=True)
        return task(params.task_id, "input_required", inputRequests={"who": asked})
    if not (FOLDER / "release").exists():
        return task(params.task_id, "working", statusMessage="growing")
    said = "grown" if kept["answers"] is None else f"grown for {kept['answers']['who']['content']['name']}"
    result = text(said).model_dump(by_alias=True, mode="json", exclude_none=True)
    return task(params.task_id, "completed", result=result)


async def update_task(ctx: Any, params: UpdateParams) -> dict[str, Any]:
    count("updates")
    kept = read_task(params.task_id)
    (FOLDER / params.task_id).write_text(json.dumps({**kept, "answers": params.input_responses}))
    return {}


async def cancel_task(ctx: Any, params: TaskParams) -> dict[str, Any]:
    count("cancels")
    (FOLDER / params.task_id).write_text(json.dumps({**read_task(params.task_id), "cancelled": True}))
    return {}


def read_task(id: str) -> dict[str, Any]:
    if not (FOLDER / Path(id).name).exists():
        raise MCPError(types.INVALID_PARAMS, f"no task {id}")
    kept: dict[str, Any] = json.loads((FOLDER / id).read_text())
    return kept


async def run_slow(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    await ctx.session.report_progress(1, 2, "half")
    try:
        while not (FOLDER / "release").exists():
            await asyncio.sleep(0.01)
    except BaseException:
        count("stopped")
        raise
    return text("slow")


async def run_talk(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    for number in range(100):
        await ctx.session.send_log_message("warning", f"line {number}\x1b[2J", related_request_id=ctx.request_id)
    return text("said")


async def run_sample(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="hello"))
    asked = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=9))
    if modern:
        given = params.input_responses
        return text(given["m"].content.text) if given else types.InputRequiredResult(input_requests={"m": asked})
    try:
        return text((await ctx.session.create_message([message], max_tokens=9)).content.text)
    except MCPError as error:
        return text(f"refused: {error.message}")


async def run_roots(ctx: Any, params: types.CallToolRequestParams, modern: bool) -> Any:
    if modern:
        given = params.input_responses
        asked = types.InputRequiredResult(input_requests={"r": types.ListRootsRequest()})
        return text(str(given["r"].roots[0].uri)) if given else asked
    try:
        return text(str((await ctx.session.list_roots()).roots[0].uri))
    except MCPError as error:
        return text(f"refused: {error.message}")


def count(name: str) -> int:
    """How often this happened, over all processes of the server."""
    with (FOLDER / name).open("a") as file:
        file.write("x")
    return (FOLDER / name).stat().st_size


def make_server() -> Server[Any]:
    server: Server[Any] = Server("far", on_list_tools=list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("tasks/get", TaskParams, get_task)
    server.add_request_handler("tasks/update", UpdateParams, update_task)
    server.add_request_handler("tasks/cancel", TaskParams, cancel_task)
    server.extensions[TASKS] = {}
    return server


async def over_stdio() -> None:
    async with stdio_server() as (incoming, outgoing):
        server = make_server()
        await server.run(incoming, outgoing, server.create_initialization_options())


def over_http(port: int) -> None:
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(app=make_server())

    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
    else:
        over_http(int(sys.argv[1]))
