"""`Client.unknown` and `Client.resolve`: calls of the server whose outcome is unknown, and settling one."""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from clicket.client.connection import Connection, path_segment
from clicket.errors import ResultUnserializable, UsageError
from clicket.model import Page, Record
from clicket.model.output import plain_output
from clicket.runtime.calls.unknown_outcomes import UnknownOptions, check_resolution

__all__ = ["resolve", "unknown"]

_PAGE = 100


class _Client(Protocol):
    _connection: Connection


async def unknown(
    client: _Client, *, limit: int = 100, cursor: str | None = None, **which: Unpack[UnknownOptions]
) -> Page:
    """Calls whose outcome is unknown and not settled, the oldest first; as in `clicket.Runtime.unknown`. Of the key's own calls; with
    scope `approve` of all callers'."""
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    items: list[Record] = []
    while True:
        query = {**which, "full": True, "limit": min(limit - len(items), _PAGE), "cursor": cursor}
        page = await client._connection.get("/unknown", Page, query=query)
        items += page.items
        cursor = page.cursor
        if cursor is None or len(items) >= limit or page.searched_to is not None:
            return Page(items=items, cursor=cursor, searched_to=page.searched_to)


async def resolve(
    client: _Client,
    id: str,
    *,
    happened: bool,
    output: Any = None,
    by: str = "",
    note: str = "",
    thread: str | None = None,
    rerun: bool = False,
) -> Record:
    """Settle a call whose outcome is unknown; as in `clicket.Runtime.resolve`. Needs scope `approve`, and `call` with `rerun`.

    The key's name is recorded with the settlement; `by` is not sent.
    """
    check_resolution(happened, output, rerun)
    body: dict[str, Any] = {"happened": happened, "note": note}
    if output is not None:
        try:
            body["output"] = plain_output(output)[0]
        except ResultUnserializable as error:
            raise UsageError(f"the output cannot be recorded: {error.message}") from None
    if rerun:
        body["rerun"] = True
    path = f"/calls/{path_segment(id)}/resolve"
    return await client._connection.read("POST", path, Record, query={"thread": thread}, body=body)
