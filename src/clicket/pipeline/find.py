"""Stage 1: is there such a tool?"""

from __future__ import annotations

from clicket.journal import LiveCall
from clicket.tools import Registry

__all__ = ["Find"]


class Find:
    name = "find"

    def __init__(self, registry: Registry) -> None:
        self._find = registry.find

    def __call__(self, call: LiveCall) -> None:
        call.tool, call.check = self._find(call.request.tool)
