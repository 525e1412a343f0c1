"""Every request comes through here, in this order: host and origin, draining, key. What it refuses is never routed."""

from __future__ import annotations

import logging
import time
from typing import Any

from clicket.errors import ClicketError
from clicket.server import access
from clicket.server.context import Context
from clicket.server.hosts import Hosts
from clicket.server.problems import Refused, problem_of_error
from clicket.server.replies import Reply

__all__ = ["Door"]

_PUBLIC = frozenset({"/", "/healthz", "/readyz"})
_ALIVE = frozenset({"/healthz", "/readyz"})
_CORS = (
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, x-api-key, content-type, idempotency-key, last-event-id"),
    (b"access-control-max-age", b"600"),
)
logger = logging.getLogger("clicket.server")


class Door:
    """ASGI middleware, the only one."""

    def __init__(self, app: Any, context: Context) -> None:
        self.app = app
        self.context = context
        options = context.options
        self._hosts = Hosts(options.host, options.allowed_hosts, options.allowed_origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        options = self.context.options
        if not (options.access_log and (options.access_lines or access.logger.isEnabledFor(logging.INFO))):
            await self._enter(scope, receive, send)
            return
        started, status = time.perf_counter(), 499  # the client left before there was an answer

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._enter(scope, receive, watched)
        finally:
            access.note(scope, status, started, options.access_lines)

    async def _enter(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            origin = self._hosts.check(scope)
            if origin is not None:
                send = _telling(send, origin)
                if scope["method"] == "OPTIONS":
                    await Reply(204, b"", None, *_CORS)(scope, receive, send)
                    return
            path = scope["path"]
            raw = scope.get("raw_path") or b""
            if b"%2f" in raw or b"%2F" in raw:  # a slash inside a name: split first, then decode
                scope["path"], scope["clicket.quoted"] = raw.decode("ascii"), True
            context = self.context
            if context.draining and path not in _ALIVE:
                text = "the server is shutting down. Try again in a moment."
                raise Refused("shutting_down", text, (b"connection", b"close"))
            if path in _PUBLIC:
                scope["clicket.who"] = context.doorkeeper.everybody()
            else:
                # Metrics must be able to say that the store is down.
                patient = path == "/metrics"
                scope["clicket.who"] = await context.doorkeeper.admit(
                    scope["headers"], scope.get("client"), patient=patient
                )
        except ClicketError as error:
            await problem_of_error(error)(scope, receive, send)
            return
        # A path without names in it needs no router.
        app = context.straight.get((scope["method"], scope["path"]), self.app)
        await app(scope, receive, send)


def _telling(send: Any, origin: bytes) -> Any:
    """Answers to a page of another origin that is allowed: its browser must be told so."""

    async def told(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message["headers"] if name != b"cross-origin-resource-policy"]
            allowed = (b"access-control-allow-origin", origin)
            exposed = (b"access-control-expose-headers", b"location, retry-after, content-range")
            message = {**message, "headers": [*headers, allowed, exposed, (b"vary", b"origin")]}
        await send(message)

    return told
