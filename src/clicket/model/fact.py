"""What an agent remembers about a caller."""

from __future__ import annotations

import msgspec

__all__ = ["Fact"]


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`agent`: the only agent that reads it; empty: all agents of the caller do. `by`: `model`, or the person who wrote or edited it.
    Times are seconds since the epoch."""

    id: str
    text: str
    agent: str = ""
    by: str = "model"
    created_at: float
    edited_at: float | None = None
