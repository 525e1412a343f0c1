"""Checks every request before the router: host and origin, then shutdown, then key or access token. Writes the access log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from clicket import system
from clicket.errors import ClicketError
from clicket.server import access_log
from clicket.server.access_log import AccessLog
from clicket.server.authentication import UNAUTHENTICATED, Authenticator, with_challenge
from clicket.server.challenges import MCP, Challenges
from clicket.server.cors import preflight_headers, with_cors
from clicket.server.host_check import HostCheck
from clicket.server.operations import PublicPaths
from clicket.server.problems import Refused, problem_of_error
from clicket.server.request import route_path
from clicket.server.responses import Response
from clicket.server.shutdown import Shutdown

__all__ = ["AccessMiddleware"]

_ALIVE = frozenset({"/healthz", "/readyz"})
_NOT_STARTED = (
    "clicket's application was not started. Frameworks do not start an application that is mounted in another: give the outer one its "
    "lifespan, `FastAPI(lifespan=app.lifespan)` with `app = create_app(…)`, or enter `async with app.lifespan():` in your own."
)
logger = logging.getLogger("clicket.server")


class AccessMiddleware:
    """The only ASGI middleware. `routes` are the endpoints of paths without parameters, by method and path: they are called without
    the router. `public`: the paths that need no key. `log` writes the access log; None: the logger `clicket.access` does."""

    def __init__(
        self,
        app: Any,
        *,
        hosts: HostCheck,
        authenticator: Authenticator,
        challenges: Challenges,
        shutdown: Shutdown,
        routes: Mapping[tuple[str, str], Any],
        public: PublicPaths,
        logs: bool = True,
        log: AccessLog | None = None,
    ) -> None:
        self.app = app
        self._hosts = hosts
        self._authenticator = authenticator
        self._challenges = challenges
        self._shutdown = shutdown
        self._routes = routes
        self._public = public
        self._logs = logs
        self._log = log

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        if not (self._logs and (self._log or access_log.logger.isEnabledFor(logging.INFO))):
            await self._check_and_route(scope, receive, send)
            return
        started, status = system.monotonic(), 499  # if the client disconnects before the response

        async def send_noting_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._check_and_route(scope, receive, send_noting_status)
        finally:
            access_log.log_request(scope, status, started, self._log)

    async def _check_and_route(self, scope: Any, receive: Any, send: Any) -> None:
        path = ""
        try:
            origin = self._hosts.check(scope)
            if origin is not None:
                send = with_cors(send, origin)
                if scope["method"] == "OPTIONS":
                    await Response(204, b"", None, *preflight_headers(scope["headers"]))(scope, receive, send)
                    return
            path = route_path(scope)
            raw = scope.get("raw_path") or b""
            if (
                b"%2f" in raw or b"%2F" in raw
            ):  # a name contains a slash: the router must split the path before it is decoded
                scope["path"], scope["clicket.quoted"] = raw.decode("ascii"), True
            if not self._shutdown.started and path not in _ALIVE:
                raise Refused("not_started", _NOT_STARTED)
            if self._shutdown.begun and path not in _ALIVE:
                text = "the server is shutting down. Try again in a moment."
                raise Refused("shutting_down", text, (b"connection", b"close"))
            if path in self._public:
                scope["clicket.principal"] = UNAUTHENTICATED
            else:
                if self._challenges.config is not None and b"access_token=" in scope["query_string"]:
                    text = "a token in the address ends up in logs. Send it as `Authorization: Bearer …`, and get a new one."
                    raise Refused("usage", text, challenge="invalid_request")
                # Metrics must report that the store is down.
                patient = path == "/metrics"
                scope["clicket.principal"] = await self._authenticator.authenticate(
                    scope["headers"], scope.get("client"), path=path, patient=patient
                )
        except ClicketError as error:
            error = self._challenged(error, scope, path)
            await problem_of_error(error)(scope, receive, send)
            return
        app = self._routes.get((scope["method"], path), self.app)
        await app(scope, receive, send)

    def _challenged(self, error: ClicketError, scope: Any, path: str) -> ClicketError:
        if path == MCP and isinstance(error, Refused):
            error.needed = ("call",)
        return with_challenge(error, scope, self._challenges, path)
