"""`/tools`: the tools, their schemas, figures, and status in a thread. A key without `admin` sees no tool of which the policy denies it
every call."""

from __future__ import annotations

import msgspec

from clicket.engine.hub import ToolView
from clicket.errors import ToolNotFound, did_you_mean
from clicket.runtime.views.tools import ToolInfo
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.request import Request
from clicket.server.responses import Response, json_response
from clicket.telemetry import ToolReport

__all__ = ["OPERATIONS"]

_THREAD = Parameter(name="thread", description="Also the status of the tools in this thread.")


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ToolInfo]
    standings: list[ToolView] | None = None
    """With `thread`: which tools it may use now, and why not the others."""


class OneTool(msgspec.Struct, frozen=True, kw_only=True):
    tool: ToolInfo
    standing: ToolView | None = None
    figures: ToolReport | None = None
    """Figures of the key's calls of this tool, if there were any."""


async def listing(request: Request) -> Response:
    own = request.principal.own
    thread = request.query("thread")
    tools = list(await own.tools())
    views = None
    if thread is not None:
        shown = {tool.name for tool in tools}
        views = [view for view in await own.hub(thread).tools() if view.name in shown]
    return json_response(ToolList(items=tools, standings=views))


async def show(request: Request) -> Response:
    own = request.principal.own
    name = request.path("name")
    thread = request.query("thread")
    tools = {tool.name: tool for tool in await own.tools()}
    found = tools.get(name)
    if found is None:
        raise ToolNotFound(f"there is no tool {name[:200]!r}.{did_you_mean(name, tools)} `GET /tools` lists them.")
    view = None
    if thread is not None:
        view = next((each for each in await own.hub(thread).tools() if each.name == name), None)
    report = await request.principal.sees.report(name)
    return json_response(OneTool(tool=found, standing=view, figures=report.tools.get(name)))


OPERATIONS = tagged(
    "tools",
    Operation(
        route="GET /tools",
        description="Every tool that the key may call, with its schema; with `thread`, also its status there.",
        handler=listing,
        scopes=("read", "call"),
        parameters=(_THREAD,),
        responses={200: ResponseSpec(description="The tools.", schema=ToolList)},
    ),
    Operation(
        route="GET /tools/{name}",
        description="One tool: its schema, its figures, and with `thread` its status there.",
        handler=show,
        scopes=("read", "call"),
        parameters=(_THREAD,),
        responses={200: ResponseSpec(description="The tool.", schema=OneTool)},
        problems=(404,),
    ),
)
