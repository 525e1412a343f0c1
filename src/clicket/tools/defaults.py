"""Defaults for the parts of the tool contract that most tools do not need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from clicket.tools.protocol import SessionKey, Traits

__all__ = ["ToolDefaults"]

AnyTool = TypeVar("AnyTool")


class ToolDefaults:
    """A class of tools may inherit it, and write only what is special about its tools."""

    traits: Traits = Traits()
    run_sync: Callable[[Any, Any], Any] | None = None
    output_schema: Mapping[str, Any] | None = None

    def bind_plain(self, arguments: dict[Any, Any]) -> dict[str, Any] | None:
        """Arguments are always judged by the schema."""
        return None

    def data_version(self) -> str:
        """Answers depend on the arguments and the tool's `version` option alone."""
        return ""

    def is_cacheable(self, output: Any) -> bool:
        """Every output of a completed call may be cached."""
        return True

    async def sweep(self, busy: frozenset[SessionKey]) -> int:
        """There are no sessions to close."""
        return 0

    async def close(self) -> None:
        """The tool holds nothing."""

    def owned_by(self, owner: object) -> Self:
        """Several runtimes may use the same object, because it has no sessions."""
        return self
