"""Input requests of tools to the client (elicitation, sampling, roots), as each protocol version carries them.

A tool that returned `need(...)` has ended. The server sends its input requests, and calls the tool again with all answers so far.
Nothing waits inside the tool, so input requests survive everything that calls survive. 2026-07-28: the client gets them as a
result and repeats its request with the answers; answers of earlier rounds travel in `requestState`, sealed by the SDK.
2025-11-25: the server asks while the request is open. In a task: `tasks/get` shows them, `tasks/update` answers.

Approvals are not asked here: `approvals.py` asks for them, for `tasks.py`, because the call waits for them before its tool runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from clicket.adapters.mcp.request_context import CAPABILITY_OF, RequestContext, SdkContext, missing_capability
from clicket.errors import UsageError
from clicket.tools.check import compile_schema

__all__ = ["Round", "ask_on_connection", "fits", "input_required", "read_round"]

T = TypeVar("T", bound=BaseModel)
_TYPES: dict[str, tuple[type[Any], type[Any]]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


class Round(msgspec.Struct, frozen=True):
    """One round of a request: its number, all answers so far, and the input requests that were sent last."""

    number: int = 1
    answers: dict[str, Any] = {}
    asked: dict[str, Any] = {}

    @property
    def metadata(self) -> dict[str, Any]:
        """The call's metadata, which `answers(ctx)` reads."""
        return {"mcp": {"answers": self.answers}} if self.answers else {}

    def call_id(self, first: str) -> str:
        """The id of this round's call, given the id of the first round's."""
        return first if self.number == 1 else f"{first}.{self.number}"

    def answered(self, given: Mapping[str, Any], asked: Mapping[str, Any]) -> Round:
        """The next round, with the answers that fit. The tool asks again for those that do not."""
        taken = {key: value for key, value in given.items() if key not in asked or fits(value, asked[key])}
        return Round(self.number + 1, {**self.answers, **taken})


def read_round(params: Mapping[str, Any] | None) -> Round:
    """The round of a request, from its `requestState` (which the SDK has verified) and its `inputResponses`."""
    state, given = (params or {}).get("requestState"), (params or {}).get("inputResponses")
    before = Round()
    if isinstance(state, str):
        try:
            before = msgspec.json.decode(state, type=Round)
        except msgspec.MsgspecError:
            raise MCPError(types.INVALID_PARAMS, "requestState is not one that this server gave.") from None
    return before.answered(given, before.asked) if isinstance(given, Mapping) else before


def fits(answer: Any, asked: Mapping[str, Any]) -> bool:
    """Does the answer fit the input request? An accepted form must match its schema."""
    if not isinstance(answer, Mapping):
        return False
    if asked.get("method") != "elicitation/create" or answer.get("action") != "accept":
        return True
    schema = asked.get("params", {}).get("requestedSchema")
    if not isinstance(schema, Mapping):
        return True
    try:
        # A client may send more than was asked for.
        return not compile_schema({"additionalProperties": True, **schema}, "a form")(answer.get("content"))
    except UsageError:
        return True


def input_required(request: RequestContext, round: Round, asked: dict[str, Any]) -> types.InputRequiredResult:
    """The input requests as a result (2026-07-28): those that the client can answer."""
    able = {key: each for key, each in asked.items() if request.can_answer(each)}
    if not able:
        raise _unable(asked)
    state = msgspec.json.encode(Round(round.number, round.answers, able)).decode()
    return _valid(types.InputRequiredResult, {"inputRequests": able, "requestState": state})


async def ask_on_connection(ctx: SdkContext, request: RequestContext, asked: dict[str, Any]) -> dict[str, Any]:
    """Send the input requests over the open connection (2025-11-25), one after the other."""
    unable = {key: each for key, each in asked.items() if not request.can_answer(each)}
    if unable:
        raise _unable(unable)
    given = {}
    for key, each in asked.items():
        kind, answer_type = _TYPES[each["method"]]
        metadata = ServerMessageMetadata(ctx.request_id)
        answer = await ctx.session.send_request(_valid(kind, each), answer_type, metadata=metadata)
        given[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return given


def _unable(asked: Mapping[str, Any]) -> MCPError:
    methods = sorted({str(each.get("method")) for each in asked.values() if isinstance(each, Mapping)})
    needed: dict[str, Any] = {CAPABILITY_OF[method]: {} for method in methods if method in CAPABILITY_OF}
    return missing_capability(
        needed,
        f"The tool has a question that this client cannot answer: it declared no {' or '.join(needed) or 'such'} capability.",
    )


def _valid(kind: type[T], value: Any) -> T:
    try:
        return kind.model_validate(value, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise MCPError(types.INTERNAL_ERROR, f"the tool's question cannot be asked: {why}") from None
