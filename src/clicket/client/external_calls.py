"""`Client.complete`, `fail`, `emit`, `heartbeat` and `report_progress`: ending calls of the server from outside, with a token.

The token alone authorises these, so a client without a key may use them.
"""

from __future__ import annotations

from typing import Any, Protocol

from clicket.client.connection import Connection, path_segment
from clicket.errors import NotFound, ResultUnserializable, UsageError
from clicket.model.output import plain_output
from clicket.tools.pending import id_in

__all__ = ["complete", "emit", "fail", "heartbeat", "report_progress"]


class _Client(Protocol):
    _connection: Connection


async def complete(client: _Client, token: str, output: Any = None) -> str:
    """Complete the call of a token; as in `clicket.Runtime.complete`."""
    return await _send(client, token, "complete", {"output": _plain(output)})


async def fail(client: _Client, token: str, error: str, *, type: str = "ExternalError") -> str:
    """Fail the call of a token; as in `clicket.Runtime.fail`."""
    return await _send(client, token, "fail", {"error": error, "type": type})


async def emit(client: _Client, token: str, output: Any) -> str:
    """Stream a piece of output into the call of a token; as in `clicket.Runtime.emit`."""
    return await _send(client, token, "output", {"output": _plain(output)})


async def heartbeat(client: _Client, token: str) -> str:
    """Say that the work on the call of a token goes on; as in `clicket.Runtime.heartbeat`."""
    return await _send(client, token, "heartbeat", {})


async def report_progress(client: _Client, token: str, step: float, total: float | None = None, text: str = "") -> str:
    """Report progress of the call of a token; as in `clicket.Runtime.report_progress`."""
    return await _send(client, token, "heartbeat", {"step": step, "total": total, "text": text})


async def _send(client: _Client, token: str, action: str, body: dict[str, Any]) -> str:
    if id_in(token) is None:  # it must not be sent elsewhere in the path
        raise NotFound("no call waits with this token. Check that it was copied whole.")
    path = f"/external/{path_segment(token)}/{action}"
    id: str = await client._connection.read_field("POST", path, "id", str, body=body)
    return id


def _plain(output: Any) -> Any:
    try:
        return plain_output(output)[0]
    except ResultUnserializable as error:
        raise UsageError(f"the output cannot be recorded: {error.message}") from None
