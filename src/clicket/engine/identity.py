"""Same id, same tool and arguments: the same call. Same id and anything else: a conflict."""

from __future__ import annotations

from clicket.engine.unsealing import identity_of
from clicket.errors import ClicketError, Conflict
from clicket.model import Event, ToolCall
from clicket.model.arguments import parse_arguments
from clicket.model.codec import canonical
from clicket.vault import Vault

__all__ = ["same_or_conflict"]


def same_or_conflict(request: ToolCall, first: Event, vault: Vault, *, max_size: int) -> None:
    """Compare a request with the first event of the call that has its id; raise `Conflict` unless they are the same.

    Arguments with secrets are compared by a keyed hash. Who has not its key compares what is shown of them.
    """
    same = first.data["tool"] == request.tool
    if same and "arguments" in first.data:
        try:
            given = parse_arguments(request.arguments, max_size=max_size)
            shown, kept = first.data["arguments"], first.data.get("arguments_hash")
            if kept is None:
                same = canonical(given) == canonical(shown)
            else:
                same = vault.equal(identity_of(first.call_id, first.data), kept, shown, given)
        except ClicketError:
            same = False
    elif same:
        same = vault.same_refused(request.arguments, first.data["refused"])
    if not same:
        raise Conflict(
            f"the id {request.id!r} is taken in thread {request.thread!r} by a call with another tool or other arguments. "
            "Use a new id, or send the same call to get its result."
        )
