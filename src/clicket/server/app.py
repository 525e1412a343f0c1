"""The application: every operation on its path, behind one door. A runtime that is not open is opened and closed with it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache as cache_forever
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route

from clicket.agents import Agent
from clicket.errors import UsageError
from clicket.model.version import version
from clicket.roster import Declared, declared_agents
from clicket.runtime import Runtime
from clicket.server import agents as conversations
from clicket.server import artifacts, cache, calls, decisions, front, health, openapi, report, threads, tools
from clicket.server import events as streams
from clicket.server.artifacts import Sizes
from clicket.server.auth import Doorkeeper
from clicket.server.context import Context
from clicket.server.door import Door
from clicket.server.grants import Grants
from clicket.server.mcp import Mcp, mcp_endpoint
from clicket.server.operations import Endpoint, Operation
from clicket.server.options import Options
from clicket.server.problems import Refused, problem_of_error
from clicket.server.readers import Readers
from clicket.server.ring import Ring
from clicket.server.watch import Watch
from clicket.telemetry.turns import TurnCounts

__all__ = ["create_app", "is_open"]


def create_app(
    runtime: Runtime,
    options: Options | None = None,
    *,
    mcp: bool | Mapping[str, Any] | None = None,
    agents: Iterable[Agent] | None = None,
) -> FastAPI:
    """`uvicorn.run(create_app(Runtime(tools=[...])))`; `serve` does that with bounds on connections and heads, too.

    `mcp`: serve it at `/mcp`, too; None: if its extra is installed; a mapping: with these options of `McpEndpoint`.
    `agents`: those that can be talked to at `/agents`; None: those that the settings declare.
    """
    options = options or Options()
    if runtime.settings.mcp:
        from clicket.mcp import declared_servers

        declared_servers(runtime.settings.mcp)  # a mistake in them is told before anything starts
    declared = declared_agents(runtime) if agents is None else {}  # and so is one in these
    context = Context(runtime, options)
    context.agents = {agent.name: agent for agent in agents or ()}
    context.doorkeeper = Doorkeeper(context)
    context.readers = Readers(heartbeat=options.heartbeat, stall=options.stall_timeout)
    context.ring = Ring(context)
    context.grants = Grants(context)
    context.sizes = Sizes()
    context.watch = Watch(context)
    endpoint = mcp_endpoint(mcp)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with _running(context, endpoint, declared):
            yield

    app = FastAPI(
        title="clicket", version=version(), openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan,
        redirect_slashes=False, **_quiet(),
    )  # fmt: skip

    @cache_forever
    def draw(keyed: bool) -> dict[str, Any]:
        return openapi.document(table, version(), keyed=keyed)

    table = _table(draw)
    app.openapi = lambda: draw(False)  # type: ignore[method-assign]  # how FastAPI is told
    app.state.clicket = context
    context.operations = table
    for operation in table:
        app.router.routes.append(_route(operation, context))
    if endpoint is not None:
        app.router.routes.append(_only(Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"])))
    context.straight = _straight(app)
    app.add_exception_handler(HTTPException, _http_problem)  # type: ignore[arg-type]  # it is called with nothing else
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Door, context=context)
    return app


def _table(draw: Callable[[bool], dict[str, Any]]) -> tuple[Operation, ...]:
    """Every operation, those that are used most first."""
    return (
        *calls.OPERATIONS,
        *streams.operations(streams.Streams()),
        *conversations.OPERATIONS,
        *decisions.OPERATIONS,
        *artifacts.OPERATIONS,
        *tools.OPERATIONS,
        *threads.OPERATIONS,
        *cache.OPERATIONS,
        *report.OPERATIONS,
        *health.OPERATIONS,
        *front.OPERATIONS,
        *openapi.operations(draw),
    )


def _straight(app: FastAPI) -> dict[tuple[str, str], Any]:
    """What answers to a method on a path that has no names in braces."""
    routes = [route for route in app.router.routes if isinstance(route, Route) and not route.param_convertors]
    return {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}


def _route(operation: Operation, context: Context) -> Route:
    route = Route(operation.path, Endpoint(operation, context), methods=[operation.method], name=operation.name)
    return route if operation.head else _only(route)


def _only(route: Route) -> Route:
    """For the methods that were named: Starlette adds HEAD to GET."""
    if route.methods is not None:
        route.methods.discard("HEAD")
    return route


@asynccontextmanager
async def _running(context: Context, endpoint: Mcp | None, declared: Mapping[str, Declared]) -> AsyncIterator[None]:
    """What lives as long as the application does."""
    runtime = context.runtime
    async with AsyncExitStack() as stack:
        if not is_open(runtime):
            await stack.enter_async_context(runtime)
        if runtime.settings.mcp:
            from clicket.mcp import join_declared

            await join_declared(runtime)
        TurnCounts.over(runtime.engine)
        if declared:  # once all tools are there: a turn that a crash cut off may want any of them
            context.agents = {name: each.on(runtime) for name, each in declared.items()}
            await runtime.recover()
        if endpoint is not None:
            await stack.enter_async_context(endpoint.running(context))
        context.grants.start()
        context.ring.start()
        try:
            yield
        finally:
            context.drain()
            context.readers.stop()
            await context.ring.stop()
            await context.watch.stop()
            await context.grants.stop()


def is_open(runtime: Runtime) -> bool:
    try:
        return runtime.engine is not None
    except UsageError:
        return False


# What the router refuses.


async def _http_problem(request: Any, error: HTTPException) -> Any:
    if error.status_code == 405:
        methods = ", ".join(sorted(_methods(request.app, request.scope["path"])))
        text = f"{request.method} is not for this path; it takes {methods}."
        return problem_of_error(Refused("method_not_allowed", text, (b"allow", methods.encode())))
    if error.status_code == 404:
        text = f"there is nothing at {request.url.path[:200]}. `GET /openapi.json` lists every route."
        return problem_of_error(Refused("not_found", text))
    return problem_of_error(Refused("usage" if error.status_code < 500 else "internal", str(error.detail)))


def _methods(app: FastAPI, path: str) -> set[str]:
    """Every method that a path takes. A path without names in braces comes before one that has them."""
    routes = [route for route in app.router.routes if isinstance(route, Route) and route.path_regex.match(path)]
    plainest = min(routes, key=lambda route: route.path.count("{")).path
    return {method for route in routes if route.path == plainest for method in route.methods or ()}


async def _broken(request: Any, error: Exception) -> Any:
    return problem_of_error(Refused("internal", "the server failed on this request; its log says how."))


def _quiet() -> dict[str, Any]:
    """FastAPI's own spans are not made: ours say more, and its have the query in them. Older versions make none."""
    off = {"tracing": False, "metrics": False, "logs": False}
    return {"telemetry": off} if "telemetry" in inspect.signature(FastAPI).parameters else {}
