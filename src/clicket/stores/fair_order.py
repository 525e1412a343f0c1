"""Callers are served in a fair order when waiting calls are claimed, so that one caller's many calls do not delay another's first.

The order itself is in each store: `memory_queues.py`, `sqlite/queues.py`, `redis/lua/fair_order.lua`, and `next_in_fair_order` in
`postgres/functions/claims.sql`. Here is what they share. Each store object remembers the caller that it served last, and goes on
after it in the order of names. An index leads from caller to caller, so that a claim costs the same however many calls of one wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from clicket.model.ports import Stored

__all__ = ["last_caller"]


def last_caller(claimed: Sequence[Stored], before: str) -> str:
    """The caller of the last of these calls; `before`, if there is none."""
    if not claimed or not claimed[-1].events:
        return before
    caller = claimed[-1].events[0].data.get("caller", "")
    return caller if isinstance(caller, str) else before
