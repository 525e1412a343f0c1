"""Which tools a thread is offered when not all fit: those that it found with `find_tools` or used last.

They are computed from the thread's messages, which are on record. So a turn that continues after a crash, in this process or another, has
the same ones, and there is nothing else to store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage
from clicket.tools.search.find_tools import FIND_TOOLS, found_names

__all__ = ["MAX_OFFERED", "RecentTools", "chosen_limit"]

MAX_OFFERED = 20
_REMEMBERED = 10
"""As many names as this times the limit are remembered: some of them may not be available now."""


class RecentTools:
    """The tools of one thread, the least recently used first. `limit`: how many are offered at most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._names: dict[str, None] = {}
        self._searches: set[str] = set()
        self._read = 0

    def read(self, messages: Sequence[ChatMessage]) -> None:
        """Take in the messages that have come since the last time. They are those of one thread, which only grow."""
        for message in messages[self._read :]:
            for use in message.uses:
                if use.name == FIND_TOOLS:
                    self._searches.add(use.id)
                else:
                    self.used(use.name)
            if message.role == "tool" and message.use_id in self._searches and not message.failed:
                for name in reversed(found_names(message.content)):  # the best one was used last
                    self.used(name)
        self._read = len(messages)

    def used(self, name: str) -> None:
        self._names.pop(name, None)
        self._names[name] = None
        while len(self._names) > self._limit * _REMEMBERED:
            del self._names[next(iter(self._names))]

    def among(self, available: Iterable[str]) -> list[str]:
        """The most recent ones of the tools that are available, at most `limit`, the last used first."""
        there = set(available)
        return [name for name in reversed(self._names) if name in there][: self._limit]


def chosen_limit(tool_search: bool, max_offered: int | None) -> int | None:
    """The number of tools that are offered at most; None: all. `UsageError` if it is not a number."""
    if not isinstance(tool_search, bool):
        raise UsageError(f"tool_search is True or False, not {tool_search!r}. For the number of tools: max_offered=20.")
    if max_offered is None:
        return MAX_OFFERED if tool_search else None
    if type(max_offered) is not int or not 1 <= max_offered <= 1_000:
        raise UsageError(f"max_offered must be a whole number from 1 to 1,000, not {max_offered!r}.")
    return max_offered
