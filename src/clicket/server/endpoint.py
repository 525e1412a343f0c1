"""An operation as an ASGI application, as the router calls it."""

from __future__ import annotations

import logging
from typing import Any

from clicket.errors import ClicketError
from clicket.server.operations import Operation
from clicket.server.problems import Refused, problem_of_error
from clicket.server.replies import Reply
from clicket.server.request import Request
from clicket.server.shutdown import Shutdown

__all__ = ["Endpoint"]

logger = logging.getLogger("clicket.server")


class Endpoint:
    """Checks the scope and the query, calls the handler, and turns whatever it raises into a problem."""

    def __init__(self, operation: Operation, shutdown: Shutdown) -> None:
        self.operation = operation
        self._shutdown = shutdown
        self._scopes = frozenset(operation.scopes) | {"admin"}
        self._open = operation.public or not operation.scopes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        operation = self.operation
        scope["clicket.route"] = operation.path
        try:
            request = Request(operation.parameters, scope, receive, send)
            may = self._open or bool(self._scopes & request.principal.scopes)
            if scope["query_string"] and (may or operation.unscoped is not None):
                request.check_query()
            if may:
                reply: Any = await operation.handler(request)
            else:
                if operation.unscoped is not None:
                    await operation.unscoped(request)
                reply = self._refusal()
        except ClicketError as error:
            reply = self._problem(error)
        except Exception:
            if scope.get("clicket.started"):
                raise
            logger.exception("%s %s failed", operation.method, operation.path)
            reply = problem_of_error(Refused("internal", "the server failed on this request; its log says how."))
        await reply(scope, receive, send)

    def _refusal(self) -> Reply:
        wanted = " or ".join(self.operation.scopes)
        return problem_of_error(Refused("missing_scope", f"the key lacks the scope {wanted}. Use one that has it."))

    def _problem(self, error: ClicketError) -> Reply:
        reply = problem_of_error(error)
        if reply.status >= 500 and reply.status != 503:
            logger.error("%s %s failed", self.operation.method, self.operation.path, exc_info=error)
        if self._shutdown.begun and error.code in ("usage", "closed"):
            return problem_of_error(Refused("shutting_down", "the server is shutting down. Try again in a moment."))
        return reply
