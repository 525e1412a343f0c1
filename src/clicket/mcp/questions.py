"""Questions of tools to the client, in the way of each protocol version.

A tool that returned `need(...)` has ended. Its questions go out, and when answers come in, the tool is called again with all
answers so far. Nothing waits inside the tool, so questions survive everything that calls survive. 2026-07-28: the client gets
the questions as a result and repeats its request with the answers; answers of earlier rounds travel in `requestState`, sealed
by the SDK. 2025-11-25: the server asks while the request is open. In a task: `tasks/get` shows them, `tasks/update` answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from clicket.errors import UsageError
from clicket.mcp.visit import Context, Visit, missing_capability
from clicket.tools.check import compile_schema

__all__ = ["Round", "ask_now", "fits", "input_required", "read_round"]

_RESULTS: dict[str, tuple[type[Any], type[Any]]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


class Round(msgspec.Struct, frozen=True):
    """How far the questions of a request are: its number, all answers so far, and what was asked last."""

    number: int = 1
    answers: dict[str, Any] = {}
    asked: dict[str, Any] = {}

    @property
    def metadata(self) -> dict[str, Any]:
        """What the call carries, for `answers(ctx)`."""
        return {"mcp": {"answers": self.answers}} if self.answers else {}

    def call_id(self, first: str) -> str:
        """The id of this round's call, where the first one's is given."""
        return first if self.number == 1 else f"{first}.{self.number}"

    def answered(self, given: Mapping[str, Any], asked: Mapping[str, Any]) -> Round:
        """The next round: answers that fit their question are taken, the others are asked for again."""
        taken = {key: value for key, value in given.items() if key not in asked or fits(value, asked[key])}
        return Round(self.number + 1, {**self.answers, **taken})


def read_round(params: Mapping[str, Any] | None) -> Round:
    """The round that a request is, from its `requestState` (which the SDK has verified) and its `inputResponses`."""
    state, given = (params or {}).get("requestState"), (params or {}).get("inputResponses")
    before = Round()
    if isinstance(state, str):
        try:
            before = msgspec.json.decode(state, type=Round)
        except msgspec.MsgspecError:
            raise MCPError(types.INVALID_PARAMS, "requestState is not one that this server gave.") from None
    if not isinstance(given, Mapping):
        return before
    return before.answered(given, before.asked)


def fits(answer: Any, question: Mapping[str, Any]) -> bool:
    """Is it an answer to the question? A form that was accepted must be filled in as its schema says."""
    if not isinstance(answer, Mapping):
        return False
    if question.get("method") != "elicitation/create" or answer.get("action") != "accept":
        return True
    schema = question.get("params", {}).get("requestedSchema")
    if not isinstance(schema, Mapping):
        return True
    try:
        # A client may send more than was asked for.
        return not compile_schema({"additionalProperties": True, **schema}, "a form")(answer.get("content"))
    except UsageError:
        return True


def input_required(visit: Visit, at: Round, asked: dict[str, Any]) -> types.InputRequiredResult:
    """The questions as a result (2026-07-28): those that the client can answer."""
    able = {key: request for key, request in asked.items() if visit.can_answer(request)}
    if not able:
        raise _unable(asked)
    state = msgspec.json.encode(Round(at.number, at.answers, able)).decode()
    try:
        return types.InputRequiredResult.model_validate({"inputRequests": able, "requestState": state}, by_name=False)
    except ValidationError as error:
        raise MCPError(types.INTERNAL_ERROR, f"the tool's question cannot be asked: {_first(error)}") from None


async def ask_now(ctx: Context, visit: Visit, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask over the open connection (2025-11-25), one question after the other."""
    if not all(visit.can_answer(request) for request in asked.values()):
        raise _unable({key: request for key, request in asked.items() if not visit.can_answer(request)})
    given = {}
    for key, request in asked.items():
        kind, answer = _RESULTS[request["method"]]
        try:
            question = kind.model_validate(request, by_name=False)
        except ValidationError as error:
            raise MCPError(types.INTERNAL_ERROR, f"the tool's question cannot be asked: {_first(error)}") from None
        told = await ctx.session.send_request(question, answer, metadata=ServerMessageMetadata(ctx.request_id))
        given[key] = told.model_dump(by_alias=True, mode="json", exclude_none=True)
    return given


def _unable(asked: Mapping[str, Any]) -> MCPError:
    methods = {str(request.get("method")) for request in asked.values() if isinstance(request, Mapping)}
    known = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
    needed: dict[str, Any] = {known[method]: {} for method in sorted(methods) if method in known}
    return missing_capability(
        needed,
        f"The tool has a question that this client cannot answer: it declared no {' or '.join(needed) or 'such'} capability.",
    )


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
