"""How far a call of another server's tool has come, as a checkpoint of the call: what the next attempt, in any process, continues from.

| phase | what the server did | after a crash |
|---|---|---|
| none | it got the request, or did not | unknown |
| `asked` | it answered with questions, and waits for our next request | continue |
| `sent` | it got the next request, or did not | unknown |
| `task` | it goes on with a task | continue |
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clicket.tools import ToolContext

__all__ = ["CallState", "load_state"]

_KEY = "mcp"


class CallState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`asked`: the server's open input requests, as it wrote them. `round`: how often it has asked, in the task if there is one.
    `replies`: the model's replies to those of this round. `sampled`: how many replies there were in all rounds."""

    phase: Literal["asked", "sent", "task"]
    round: int = 0
    asked: dict[str, Any] = {}
    replies: dict[str, Any] = {}
    sampled: int = 0
    request_state: str | None = None
    task: str = ""
    poll: float | None = None
    """The server's wish for the seconds between two looks at the task."""
    answerable: bool = True
    """Does the server want the answers? Not if it only requested that links be opened and the call be tried again."""

    async def keep(self, ctx: ToolContext) -> None:
        """Durable when this returns."""
        await ctx.checkpoint(_KEY, msgspec.json.encode(self))


async def load_state(ctx: ToolContext) -> CallState | None:
    kept = (await ctx.checkpoints()).get(_KEY)
    if kept is None:
        return None
    try:
        return msgspec.json.decode(kept, type=CallState)
    except msgspec.MsgspecError:
        return None
