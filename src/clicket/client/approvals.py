"""`Client.approve`, `Client.deny`, `Client.respond` and `Client.grants`: decisions about calls of the server that wait for approval.

The key needs the scope `approve`. Its name is recorded as the approver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clicket.client.connection import Connection, ProblemResponse, decoded, path_segment
from clicket.client.request_body import MAX_ARGUMENTS
from clicket.errors import ResultUnserializable, UsageError
from clicket.model import Arguments
from clicket.model.arguments import parse_arguments
from clicket.model.grant import Grant, GrantState, GrantTerms, read_terms
from clicket.model.output import plain_output

__all__ = ["Grants", "approve", "deny", "respond"]


class _Client(Protocol):
    _connection: Connection


async def approve(
    client: _Client,
    id: str,
    *,
    thread: str | None = None,
    by: str = "",
    reason: str = "",
    arguments: Arguments = None,
    seen: str = "",
    grant: GrantTerms | None = None,
) -> bool:
    """Let a call run that waits for approval, also with other arguments. False: it is not waiting (any more).

    The key's name is recorded as the approver; `by` is not sent. `seen` and `grant`: as in `clicket.Runtime.approve`. With several
    approvers, True may mean that another person must approve it, too.
    """
    body: dict[str, Any] = {"reason": reason}
    if seen:
        body["seen"] = seen
    if arguments is not None:
        body["arguments"] = parse_arguments(arguments, max_size=MAX_ARGUMENTS)
    if grant is not None:
        body["grant"] = read_terms(grant)
    return await _decide(client._connection, id, "approve", thread, body)


async def deny(
    client: _Client, id: str, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = ""
) -> bool:
    """Refuse a call that waits for approval. False: it is not waiting (any more)."""
    return await _decide(client._connection, id, "deny", thread, {"reason": reason, **({"seen": seen} if seen else {})})


async def respond(
    client: _Client,
    id: str,
    output: Any,
    *,
    thread: str | None = None,
    by: str = "",
    reason: str = "",
    seen: str = "",
) -> bool:
    """Answer in the tool's place: the call completes with `output`; as in `clicket.Runtime.respond`. False: it is not waiting (any
    more). `by` is not sent."""
    try:
        body: dict[str, Any] = {"output": plain_output(output)[0], "reason": reason}
    except ResultUnserializable as error:
        raise UsageError(f"the output cannot be recorded: {error.message}") from None
    if seen:
        body["seen"] = seen
    return await _decide(client._connection, id, "respond", thread, body)


async def _decide(connection: Connection, id: str, decision: str, thread: str | None, body: dict[str, Any]) -> bool:
    try:
        await connection.request("POST", f"/calls/{path_segment(id)}/{decision}", query={"thread": thread}, body=body)
    except ProblemResponse as refused:
        if refused.problem.code == "not_waiting":
            return False
        raise refused.problem.error() from None
    return True


class Grants:
    """The same methods as `Runtime.grants`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, tool: str | None = None, state: GrantState | None = None) -> Sequence[Grant]:
        """The grants, the newest first: those that hold for the key's own calls; with scope `approve` all."""
        query = {"tool": tool, "state": state}
        return await self._connection.read_field("GET", "/grants", "items", list[Grant], query=query)

    async def revoke(self, id: str, *, by: str = "") -> Grant:
        """From now on the grant lets no call run. `by` is not sent: the key's name is recorded."""
        return decoded(await self._connection.send("DELETE", f"/grants/{path_segment(id)}"), Grant)
