"""Makes the ASGI application: the parts, what each part needs, and one route for each operation.

A runtime that is not open is opened and closed with the application.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache as cache_forever
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from clicket.agents import Agent
from clicket.model.ports import Store
from clicket.model.version import version
from clicket.runtime.agent_config import Declared, declared_agents
from clicket.runtime.runtime import Runtime
from clicket.safety.oauth.resource_server import ResourceServer
from clicket.safety.vault import hide_text
from clicket.server import cache, evals, notices, openapi, report, spend, threads, tools, workers
from clicket.server.a2a import A2AHandlers
from clicket.server.access_tokens import AccessTokens
from clicket.server.ag_ui import AgUiHandlers
from clicket.server.agents import AgentHandlers
from clicket.server.ai_sdk import AiSdkHandlers
from clicket.server.approval_page import ApprovalPageHandlers
from clicket.server.approvals import ApprovalHandlers
from clicket.server.artifact_access import ArtifactAccess
from clicket.server.artifacts import ArtifactHandlers
from clicket.server.authentication import Authenticator
from clicket.server.call_actions import CallActionHandlers
from clicket.server.call_lookup import CallLookup
from clicket.server.calls import CallHandlers
from clicket.server.challenges import Challenges
from clicket.server.connect_page import ConnectPageHandlers
from clicket.server.console import ConsoleHandlers
from clicket.server.credentials import CredentialHandlers
from clicket.server.dead_letters import DeadLetterHandlers
from clicket.server.endpoint import Endpoint
from clicket.server.event_log import EventLog
from clicket.server.event_stream import EventStreams
from clicket.server.events import EventHandlers
from clicket.server.external_calls import ExternalCallHandlers
from clicket.server.grants import GrantHandlers
from clicket.server.health import HealthHandlers
from clicket.server.host_check import HostCheck
from clicket.server.mcp import McpRoute, mcp_route
from clicket.server.memory import MemoryHandlers
from clicket.server.middleware import AccessMiddleware
from clicket.server.operations import Operation, PublicPaths
from clicket.server.options import Options, with_settings
from clicket.server.problems import Refused, problem_of_error
from clicket.server.protected_resource import ProtectedResourceHandlers
from clicket.server.request import route_path
from clicket.server.request_body import BodyReader
from clicket.server.revocation import RevocationWatch
from clicket.server.schedules import ScheduleHandlers
from clicket.server.shutdown import Shutdown
from clicket.server.tool_states import ToolStateHandlers
from clicket.server.undo import UndoHandlers
from clicket.server.unknown_outcomes import UnknownOutcomeHandlers
from clicket.telemetry.turns import TurnCounts

__all__ = ["Parts", "create_app"]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one application. `http_server` and tests read them from `app.state.clicket`; no part gets all of them."""

    runtime: Runtime
    options: Options
    shutdown: Shutdown
    authenticator: Authenticator
    access_tokens: AccessTokens | None
    challenges: Challenges
    revocation: RevocationWatch
    event_streams: EventStreams
    event_log: EventLog
    artifact_access: ArtifactAccess
    health: HealthHandlers
    mcp: McpRoute | None
    agents: dict[str, Agent]
    """By name; those that the settings declare are there while the application runs."""
    operations: tuple[Operation, ...]


class Application(Starlette):
    """The ASGI application that `create_app` makes. It runs alone, or mounted in another ASGI application that runs its `lifespan`."""

    @asynccontextmanager
    async def lifespan(self, outer: object = None) -> AsyncIterator[None]:
        """Starts the application, and stops it at the end; opens and closes a runtime that is not open.

        The ASGI server does it for an application that runs alone. Frameworks do not do it for one that is mounted in another:
        `FastAPI(lifespan=app.lifespan)`, or `async with app.lifespan():` in the outer application's own lifespan."""
        async with self.router.lifespan_context(self):
            yield

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, as `GET /openapi.json` shows it while no API key exists."""
        parts: Parts = self.state.clicket
        return openapi.document(parts.operations, version(), keyed=False)


def create_app(
    runtime: Runtime,
    options: Options | None = None,
    *,
    mcp: bool | Mapping[str, Any] | None = None,
    agents: Iterable[Agent] | None = None,
) -> Application:
    """`uvicorn.run(create_app(Runtime(tools=[...])))`. `serve` also limits connections and the size of headers.

    Keys, hosts and origins of the runtime's settings are added to those of `options`.
    `mcp`: serve MCP at `/mcp`; None: if its extra is installed; a mapping: with these options of `McpEndpoint`.
    `agents`: the agents at `/agents`; None: those that the settings declare.
    """
    options = with_settings(options, runtime.settings)
    if runtime.settings.mcp:
        from clicket.adapters.mcp import declared_servers

        declared_servers(runtime.settings.mcp)  # raises errors in them before anything starts
    declared = declared_agents(runtime) if agents is None else {}  # the same for agents
    parts = _parts(runtime, options, mcp, {agent.name: agent for agent in agents or ()})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with _lifespan(parts, declared):
            yield

    routes = [_route(operation, parts.shutdown, parts.challenges) for operation in parts.operations]
    if parts.mcp is not None:
        routes.append(_without_head(Route("/mcp", parts.mcp, methods=["GET", "POST", "DELETE"])))
    access = Middleware(
        AccessMiddleware,
        hosts=HostCheck(options.host, options.allowed_hosts, options.allowed_origins),
        authenticator=parts.authenticator,
        challenges=parts.challenges,
        shutdown=parts.shutdown,
        routes=_fixed_routes(routes),
        public=PublicPaths(parts.operations),
        logs=options.access_log,
        log=options.access_lines,
    )
    handlers: dict[Any, Any] = {HTTPException: _http_problem, Exception: _internal_error}
    app = Application(routes=routes, middleware=[access], exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.clicket = parts
    return app


def _parts(runtime: Runtime, options: Options, mcp: bool | Mapping[str, Any] | None, agents: dict[str, Agent]) -> Parts:
    def store() -> Store:  # a runtime has its store while it is open
        return runtime.store

    shutdown = Shutdown()
    oauth = runtime.settings.oauth
    challenges = Challenges(oauth, runtime.settings.server.public_url)
    access_tokens = None if oauth is None else AccessTokens(ResourceServer(oauth), challenges)
    authenticator = Authenticator(runtime, store, options.api_keys, access_tokens)
    revocation = RevocationWatch(authenticator)
    streams = EventStreams(revocation, heartbeat=options.heartbeat, stall=options.stall_timeout)
    shutdown.on_begin(streams.wake_all)
    event_log = EventLog(
        runtime.observers,
        store,
        is_shared=lambda: runtime.is_shared,
        is_held=runtime.is_held,
        shutdown=shutdown,
        max_events=options.event_log_events,
        max_bytes=options.event_log_bytes,
    )
    artifact_access = ArtifactAccess(store, shutdown)
    lookup = CallLookup(runtime.acting_for, store)
    body_reader = BodyReader(max_size=options.max_body_size, timeout=options.body_timeout)
    artifacts = ArtifactHandlers(
        runtime,
        lookup,
        body_reader,
        artifact_access,
        max_upload_size=options.max_upload_size,
        stall_timeout=options.stall_timeout,
    )
    health = HealthHandlers(store, shutdown)

    async def needs_key() -> bool:
        return not await authenticator.is_off()

    @cache_forever
    def document_for(keyed: bool) -> dict[str, Any]:
        return openapi.document(operations, version(), keyed=keyed)

    route = mcp_route(
        mcp,
        revocation,
        shutdown,
        challenges,
        secret_key=runtime.settings.secret_key,
        max_body_size=options.max_body_size,
        body_timeout=options.body_timeout,
    )
    operations = (  # the router tries them in this order
        *CallHandlers(runtime, lookup, body_reader).operations(),
        *CallActionHandlers(runtime, lookup, body_reader).operations(),
        *DeadLetterHandlers(runtime, lookup).operations(),
        *UndoHandlers(runtime, lookup, body_reader).operations(),
        *UnknownOutcomeHandlers(runtime, lookup, body_reader).operations(),
        *ExternalCallHandlers(runtime, body_reader).operations(),
        *EventHandlers(lookup, event_log, streams).operations(),
        *AgentHandlers(agents, runtime.settings, body_reader, streams).operations(),
        *AgUiHandlers(agents, runtime.settings, body_reader, streams, store).operations(),
        *AiSdkHandlers(agents, runtime.settings, body_reader, streams, store).operations(),
        *A2AHandlers(agents, runtime.settings, body_reader, streams, store, needs_key=needs_key).operations(),
        *ApprovalHandlers(lookup, body_reader).operations(),
        *ApprovalPageHandlers(runtime, body_reader).operations(),
        *GrantHandlers(runtime).operations(),
        *CredentialHandlers(body_reader).operations(),
        *MemoryHandlers(body_reader).operations(),
        *ConnectPageHandlers(runtime, body_reader).operations(),
        *artifacts.operations(),
        *threads.OPERATIONS,
        *tools.OPERATIONS,
        *ToolStateHandlers(body_reader).operations(),
        *cache.OPERATIONS,
        *report.OPERATIONS,
        *spend.OPERATIONS,
        *workers.OPERATIONS,
        *notices.OPERATIONS,
        *evals.OPERATIONS,
        *ScheduleHandlers(body_reader).operations(),
        *health.operations(),
        *ConsoleHandlers(authenticator, runtime.settings).operations(),
        *ProtectedResourceHandlers(challenges, mcp=route is not None).operations(),
        *openapi.operations(document_for, needs_key),
    )
    return Parts(
        runtime=runtime,
        options=options,
        shutdown=shutdown,
        authenticator=authenticator,
        access_tokens=access_tokens,
        challenges=challenges,
        revocation=revocation,
        event_streams=streams,
        event_log=event_log,
        artifact_access=artifact_access,
        health=health,
        mcp=route,
        agents=agents,
        operations=operations,
    )


@asynccontextmanager
async def _lifespan(parts: Parts, declared: Mapping[str, Declared]) -> AsyncIterator[None]:
    """Start the parts that run as long as the application, and stop them at its end."""
    runtime = parts.runtime
    async with AsyncExitStack() as stack:
        if not runtime.is_open:
            runtime.role = "server"
            await stack.enter_async_context(runtime)
        if runtime.settings.mcp:
            from clicket.adapters.mcp import join_declared

            await join_declared(runtime)
        TurnCounts.over(runtime.observers)
        if declared:  # after all tools: a recovered turn may need any of them
            parts.agents.clear()
            parts.agents.update({name: each.on(runtime) for name, each in declared.items()})
            await runtime.recover()
        if parts.mcp is not None:
            await stack.enter_async_context(parts.mcp.running())
        parts.artifact_access.start()
        parts.event_log.start()
        parts.shutdown.start()
        try:
            yield
        finally:
            parts.shutdown.begin()
            parts.event_streams.stop()
            await parts.event_log.stop()
            await parts.revocation.stop()
            await parts.artifact_access.stop()
            if parts.access_tokens is not None:
                await parts.access_tokens.close()


# Routing.


def _route(operation: Operation, shutdown: Shutdown, challenges: Challenges) -> Route:
    endpoint = Endpoint(operation, shutdown, challenges)
    route = Route(operation.path, endpoint, methods=[operation.method], name=operation.name)
    return route if operation.head else _without_head(route)


def _without_head(route: Route) -> Route:
    """Starlette adds HEAD to every GET; this removes it."""
    if route.methods is not None:
        route.methods.discard("HEAD")
    return route


def _fixed_routes(routes: Iterable[Route]) -> dict[tuple[str, str], Any]:
    """The endpoints of paths that have no parameters, by method and path."""
    fixed = [route for route in routes if not route.param_convertors]
    return {(method, route.path): route.endpoint for route in fixed for method in route.methods or ()}


async def _http_problem(request: Any, error: HTTPException) -> Any:
    if error.status_code == 405:
        methods = ", ".join(sorted(_methods(request.app, route_path(request.scope))))
        text = f"{request.method} is not for this path; it takes {methods}."
        return problem_of_error(Refused("method_not_allowed", text, (b"allow", methods.encode())))
    if error.status_code == 404:
        text = f"there is nothing at {hide_text(request.url.path)[:200]}. `GET /openapi.json` lists every route."
        return problem_of_error(Refused("not_found", text))
    return problem_of_error(Refused("usage" if error.status_code < 500 else "internal", str(error.detail)))


def _methods(app: Starlette, path: str) -> set[str]:
    """The methods of a path. If several routes match, those of the one with the fewest parameters."""
    routes = [route for route in app.router.routes if isinstance(route, Route) and route.path_regex.match(path)]
    plainest = min(routes, key=lambda route: route.path.count("{")).path
    return {method for route in routes if route.path == plainest for method in route.methods or ()}


async def _internal_error(request: Any, error: Exception) -> Any:
    return problem_of_error(Refused("internal", "the server failed on this request; its log says how."))
