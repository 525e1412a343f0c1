"""The shape of a tool. A tool is what has these attributes; nothing needs to be inherited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from clicket.tools.options import Options

__all__ = ["Tool"]


@runtime_checkable
class Tool(Protocol):
    """One capability. `run` is a coroutine function when `is_async`, else a plain function that may block."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...
    @property
    def options(self) -> Options: ...
    @property
    def is_async(self) -> bool: ...

    def bind(self, arguments: dict[str, Any]) -> Any:
        """Turn arguments that fit the schema into what `run` takes, or raise `InvalidInput`."""
        ...

    @property
    def run(self) -> Any:
        """`run(bound, ctx)`: the output, or an awaitable of it."""
        ...
