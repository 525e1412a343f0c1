"""`Client.undo`: undo a call of the server, or the calls of a turn."""

from __future__ import annotations

from typing import Any, Protocol

from clicket.client.connection import Connection, ProblemResponse, decoded, path_segment
from clicket.errors import UsageError
from clicket.model.undo import UndoReport

__all__ = ["undo"]

_WAIT = 30.0


class _Client(Protocol):
    _connection: Connection


async def undo(
    client: _Client,
    id: str | None = None,
    *,
    thread: str | None = None,
    turn: int | None = None,
    agent: str | None = None,
    strict: bool = True,
    retry: bool = False,
    dry: bool = False,
) -> UndoReport:
    """Undo a call, or all calls of a turn of an agent, and wait until it is done; as in `clicket.Runtime.undo`."""
    if (id is None) is (turn is None) or (turn is not None and thread is None):
        raise UsageError('undo takes the id of a call, undo(id), or a turn of a thread, undo(thread="t1", turn=3).')
    body: dict[str, Any] = {"strict": strict, "retry": retry, "dry": dry, "wait": _WAIT}
    query: dict[str, Any] = {}
    if id is not None:
        path, query = f"/calls/{path_segment(id)}/undo", {"thread": thread}
    else:
        path = f"/agents/{path_segment(str(thread))}/undo"
        body |= {"turn": turn} | ({} if agent is None else {"agent": agent})
    while True:
        try:
            answer = await client._connection.request("POST", path, query=query, body=body)
        except ProblemResponse as refused:
            raise refused.problem.error() from None
        if answer.status_code != 202:
            return decoded(answer.content, UndoReport)
        body["retry"] = False  # what is under way now is waited for
