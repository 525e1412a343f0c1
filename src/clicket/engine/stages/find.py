"""Stage 1: is there such a tool, and may its thread use it now?"""

from __future__ import annotations

from collections.abc import Callable

from clicket.engine.live_call import Call
from clicket.tools import Registry, Tool

__all__ = ["Find"]


class Find:
    """`check` raises if the call's thread may not use the tool now."""

    name = "find"

    def __init__(self, registry: Registry, check: Callable[[Call, Tool], None]) -> None:
        self.tools = registry.tools
        self._find = registry.find
        self._find_any = registry.inner
        self.known = registry.known
        self._check = check

    def __call__(self, call: Call) -> None:
        entry = call.entry
        if entry.internal:
            self.registered(call)
            return
        found = self.tools.get(entry.tool) or self._find(entry.tool, call.origin.within)
        call.tool, call.check = found.tool, found.check
        if not call.hub_checked:
            self._check(call, found.tool)

    def registered(self, call: Call) -> None:
        """For a call that was admitted before: only checks that the tool is registered, not its health."""
        found = self._find_any(call.entry.tool)
        call.tool, call.check = found.tool, found.check

    def identify(self, call: Call, registry: Registry) -> None:
        """Set the tool of a call that this process took over, if it is registered: stats and health need it in every outcome."""
        call.tool = registry.get(call.entry.tool)
