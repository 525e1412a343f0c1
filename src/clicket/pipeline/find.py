"""Stage 1: is there such a tool, and may its thread use it now?"""

from __future__ import annotations

from collections.abc import Callable

from clicket.journal import LiveCall
from clicket.tools import Registry, Tool

__all__ = ["Find"]


class Find:
    name = "find"

    def __init__(self, registry: Registry, check: Callable[[LiveCall, Tool], None]) -> None:
        self._find = registry.find
        self._inner = registry.inner
        self._check = check

    def __call__(self, call: LiveCall) -> None:
        if call.inner:
            self.registered(call)
            return
        call.tool, call.check = tool, _ = self._find(call.request.tool)
        if not call.vouched:
            self._check(call, tool)

    def registered(self, call: LiveCall) -> None:
        """For a call that was let in before: what has changed since does not shut it out."""
        call.tool, call.check = self._inner(call.request.tool)
