"""What another server may ask of us: a person's answer, a model's reply, the folders that it may work in.

A question to a person is asked as one of the call that it belongs to. A model's reply and folders are given only if the settings of the
server say so; else the capability is not declared, and a server that asks all the same is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext
from pydantic import FileUrl

from clicket.adapters.mcp.client_tasks import TaskFollowers, TasksExtension
from clicket.adapters.mcp.elicitation import BadQuestion, elicit_result, question_from
from clicket.adapters.mcp.open_calls import OpenCalls
from clicket.adapters.mcp.remote_logs import RemoteLogs
from clicket.errors import ClicketError, UsageError
from clicket.tools.question import InputAnswer, InputQuestion

__all__ = ["RemoteRequests", "Sampler"]

logger = logging.getLogger("clicket.mcp")

Sampler = Callable[[types.CreateMessageRequestParams], Awaitable[types.CreateMessageResult]]
"""Answers `sampling/createMessage`: takes the server's request, and returns the model's reply."""
Refused = types.ErrorData


class RemoteRequests:
    """For one server. `questions`: people are asked; each has `question_timeout` seconds, None: no limit."""

    def __init__(
        self,
        server: str,
        *,
        questions: bool,
        question_timeout: float | None,
        sampling: Sampler | None,
        roots: Sequence[str],
    ) -> None:
        if question_timeout is not None and not (isinstance(question_timeout, int | float) and question_timeout > 0):
            raise UsageError(
                f"MCP server {server!r}: question_timeout is a number of seconds, not {question_timeout!r}."
            )
        self._server = server
        self._questions = questions
        self.question_timeout = question_timeout
        self._sampling = sampling
        self._roots = [types.Root(uri=FileUrl(Path(root).resolve().as_uri())) for root in roots]
        self._logs = RemoteLogs(server)
        self.calls = OpenCalls()
        self.tasks = TaskFollowers()

    def client_options(self) -> dict[str, Any]:
        """Arguments of the SDK's client. Only what is given here is declared as a capability."""
        return {
            "elicitation_callback": self._elicit if self._questions else None,
            "sampling_callback": None if self._sampling is None else self._sample,
            "list_roots_callback": self._list_roots if self._roots else None,
            "logging_callback": self._logs,
            "extensions": [TasksExtension(self.tasks)],
        }

    # While our request is open (2025-11-25).

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | Refused:
        call = self.calls.asking(context.session)
        if call is None:
            return self._refuse("it belongs to no call that is under way here, or to one of several callers")
        key = call.next_key()
        if key is None:
            return self._refuse("there are too many during one call")
        try:
            question = question_from(self._server, key, params)
        except BadQuestion as error:
            return self._refuse(error.message)
        return elicit_result(question, await call.ask(question, self.question_timeout))

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | Refused:
        call = self.calls.asking(context.session)
        if call is None:
            return self._refuse("it belongs to no call that is under way here")
        if not call.may_sample():
            return self._refuse("there are too many during one call")
        return await self._reply(params)

    async def _reply(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult | Refused:
        assert self._sampling is not None, "it is declared only then"
        try:
            return await self._sampling(params)
        except Exception as error:
            logger.warning("a model's reply for MCP server %s failed: %s", self._server, error)
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the model could not be asked")

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=self._roots)

    def _refuse(self, why: str) -> Refused:
        logger.warning("a question of MCP server %s is refused: %s", self._server, why)
        return types.ErrorData(code=types.INVALID_REQUEST, message=f"The question is refused: {why}.")

    # In a result, or in a task (2026-07-28).

    def question(self, key: str, asked: types.ElicitRequest) -> InputQuestion:
        """Raises `ClicketError` if no person can be asked."""
        if not self._questions:
            raise NotConfigured(
                f"MCP server {self._server!r} asks the user, and its settings do not allow that (questions = false)."
            )
        try:
            return question_from(self._server, key, asked.params)
        except BadQuestion as error:
            raise BadQuestion(
                f"MCP server {self._server!r} asks a question that is refused: {error.message}."
            ) from None

    def response(self, question: InputQuestion, answer: InputAnswer) -> types.ElicitResult:
        return elicit_result(question, answer)

    async def without_person(self, asked: types.InputRequest) -> types.InputResponse:
        """The answer to a request that needs no person. Raises `ClicketError` if the settings do not allow it."""
        if isinstance(asked, types.ListRootsRequest) and self._roots:
            return types.ListRootsResult(roots=self._roots)
        if isinstance(asked, types.CreateMessageRequest) and self._sampling is not None:
            reply = await self._reply(asked.params)
            if isinstance(reply, types.CreateMessageResult):
                return reply
            raise NotConfigured(f"MCP server {self._server!r} asked for a model's reply, and {reply.message}.")
        what, option = _OPTIONS[asked.method]
        raise NotConfigured(
            f"MCP server {self._server!r} asks for {what}, which is declined: its settings give no {option}."
        )


class NotConfigured(ClicketError):
    """The server needs something that its settings do not give it."""

    code = "tool_error"


_OPTIONS: Mapping[str, tuple[str, str]] = {
    "sampling/createMessage": ("a model's reply", "sampling"),
    "roots/list": ("folders to work in", "roots"),
    "elicitation/create": ("a person's answer", "questions"),
}
