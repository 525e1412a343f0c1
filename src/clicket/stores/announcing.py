"""Which notices an append causes, once it is durable."""

from __future__ import annotations

from msgspec import Raw
from msgspec.json import encode

from clicket.ports import Append, Notices

__all__ = ["announce"]


def announce(notices: Notices, change: Append, body: bytes, giver: int) -> None:
    """Post what others want to know of a unit that was just written. `giver`: the process that left the call to others; 0: none."""
    key, ends = change.key, change.ended_at is not None
    if not change.owned and not ends:
        to = change.to
        if to > 0 and change.expect == 0:
            call = change.call
            offer = encode((call.id, change.fence, call.created_at, Raw(body)))
            notices.post("work", key, to, offer)
        else:
            notices.post("work", 0 if to else key, abs(to), soon=to == 0)
    elif giver and giver != notices.me and change.unit is not None:
        notices.post("events", key, giver, encode((change.id, Raw(body))), soon=ends)
    if change.request:
        notices.post("request", key)
    if change.stats is not None and change.stats.effect == "failed":
        notices.post("health", 0)
