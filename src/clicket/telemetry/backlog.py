"""Queues of a store, added up by tool."""

from __future__ import annotations

from collections.abc import Iterable

from clicket.model.ports import LATER, Backlog, QueueName

__all__ = ["by_tool"]


def by_tool(backlog: Iterable[Backlog], tools: Iterable[str] = ()) -> dict[str, tuple[int, float]]:
    """How many calls of each tool wait, and when the oldest was made. `tools` are listed also if none waits."""
    found: dict[str, tuple[int, float]] = {tool: (0, float("inf")) for tool in tools}
    for each in backlog:
        tool, _, holder = QueueName.of(each.queue)
        if holder == LATER:  # no worker could run them now
            continue
        count, oldest = found.get(tool, (0, float("inf")))
        found[tool] = (count + each.count, min(oldest, each.oldest_at))
    return dict(sorted(found.items()))
