"""The ASGI application of one operation, which the router calls."""

from __future__ import annotations

import logging
from typing import Any

from clicket.errors import ClicketError
from clicket.server.authentication import with_challenge
from clicket.server.challenges import Challenges
from clicket.server.operations import Operation
from clicket.server.problems import Refused, problem_of_error
from clicket.server.request import Request
from clicket.server.responses import Response
from clicket.server.shutdown import Shutdown

__all__ = ["Endpoint"]

logger = logging.getLogger("clicket.server")


class Endpoint:
    """Checks the scope and the query, calls the handler, and answers errors with a problem."""

    def __init__(self, operation: Operation, shutdown: Shutdown, challenges: Challenges) -> None:
        self.operation = operation
        self._challenges = challenges
        self._path = operation.path
        self._shutdown = shutdown
        self._scopes = frozenset(operation.scopes) | {"admin"}
        self._open = operation.public

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        operation = self.operation
        scope["clicket.route"] = self._path
        try:
            request = Request(operation.parameters, scope, receive, send)
            may = self._open or bool(self._scopes & request.principal.scopes)
            if scope["query_string"] and not operation.any_query and (may or operation.unscoped is not None):
                request.check_query()
            if may:
                response: Any = await operation.handler(request)
            else:
                if operation.unscoped is not None:
                    await operation.unscoped(request)
                raise self._refusal()
        except ClicketError as error:
            response = self._problem(with_challenge(error, scope, self._challenges, self._path))
        except Exception:
            if scope.get("clicket.started"):
                raise
            logger.exception("%s failed", operation.route)
            response = problem_of_error(Refused("internal", "the server failed on this request; its log says how."))
        await response(scope, receive, send)

    def _refusal(self) -> Refused:
        needed = self.operation.scopes
        return Refused(
            "missing_scope", f"the key lacks the scope {' or '.join(needed)}. Use one that has it.", needed=needed
        )

    def _problem(self, error: ClicketError) -> Response:
        response = problem_of_error(error)
        if response.status >= 500 and response.status != 503:
            logger.error("%s failed", self.operation.route, exc_info=error)
        if self._shutdown.begun and error.code in ("usage", "closed"):
            return problem_of_error(Refused("shutting_down", "the server is shutting down. Try again in a moment."))
        return response
