"""A tool from outside that has only the basic attributes, completed with defaults to the whole contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from clicket.errors import UsageError
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options
from clicket.tools.protocol import BasicTool, Traits

__all__ = ["CompletedTool"]

_OPTIONAL = ("traits", "run_sync", "output_schema", "data_version", "is_cacheable", "sweep", "close")
"""Without `owned_by`: a tool with sessions of its own implements the whole contract."""
_AWAITED = ("sweep", "close")


class CompletedTool(ToolDefaults):
    """`given` does the work. Where it has an optional part of the contract, that part takes the place of the default."""

    def __init__(self, given: BasicTool) -> None:
        self.given = given
        self.name: str = given.name
        self.is_async: bool = given.is_async
        self.bind: Callable[[dict[str, Any]], Any] = given.bind
        self.run: Callable[[Any, Any], Any] = given.run
        for part in _OPTIONAL:
            own = getattr(given, part, None)
            # A blocking `close` has another meaning than the contract's: it is for the tool's own users.
            if own is not None and (part not in _AWAITED or inspect.iscoroutinefunction(own)):
                setattr(self, part, own)
        if not isinstance(self.traits, Traits):
            raise UsageError(f"tool {given.name!r}: traits must be clicket.tools.Traits(…), not {self.traits!r}.")

    @property
    def description(self) -> str:
        return self.given.description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self.given.input_schema

    @property
    def options(self) -> Options:
        return self.given.options

    def __repr__(self) -> str:
        return repr(self.given)
