"""What is on record of a turn, wherever it is: in the events of its call, or among what its thread took along as a fork."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.agents.past_entries import past_entries
from clicket.agents.threads import Threads

__all__ = ["FoundTurn", "turn_on_record"]


class FoundTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record of a turn. `arguments`: of its call; empty if that is not kept any more."""

    entries: list[dict[str, Any]]
    arguments: dict[str, Any]


async def turn_on_record(threads: Threads, thread: str, number: int) -> FoundTurn | None:
    """The entries of a turn, as readers get them: of its call, or those that its thread took along as a fork."""
    record = await threads.record(thread, number)
    if record is not None:
        given = record.arguments if isinstance(record.arguments, dict) else {}
        return FoundTurn(entries=threads.entries(record.events, thread, number), arguments=given)
    head, _ = await threads.memory.head(threads.host, thread)
    past = await past_entries(threads.host, threads.agent, thread, head, number)
    return None if past is None else FoundTurn(entries=past.entries, arguments=past.arguments)
