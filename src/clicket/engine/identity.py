"""Same id, same tool and arguments: the same call. Same id and anything else: a conflict."""

from __future__ import annotations

from clicket.errors import ClicketError, Conflict
from clicket.model import Event, ToolCall
from clicket.model.arguments import fingerprint, parse_arguments
from clicket.model.codec import canonical

__all__ = ["same_or_conflict"]


def same_or_conflict(request: ToolCall, first: Event, *, max_size: int) -> None:
    """Compare a request with the first event of the call that has its id; raise `Conflict` unless they are the same."""
    same = first.data["tool"] == request.tool
    if same and "arguments" in first.data:
        try:
            given = parse_arguments(request.arguments, max_size=max_size)
            same = canonical(given) == canonical(first.data["arguments"])
        except ClicketError:
            same = False
    elif same:
        kept = first.data["refused"]
        same = kept["sha256"] is not None and fingerprint(request.arguments)["sha256"] == kept["sha256"]
    if not same:
        raise Conflict(
            f"the id {request.id!r} is taken in thread {request.thread!r} by a call with another tool or other arguments. "
            "Use a new id, or send the same call to get its result."
        )
