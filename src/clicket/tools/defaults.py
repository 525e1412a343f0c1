"""Defaults for the parts of the tool contract that most tools do not need. A tool's class assigns them as its methods:

class MyTool:
    traits = Traits()
    run_sync = None
    output_schema = None
    bind_plain = never_plain
    data_version = no_data_version
    is_cacheable = always_cacheable
    sweep = no_sessions
    close = nothing_to_close
    owned_by = shared_by_owners
"""

from __future__ import annotations

from typing import Any, TypeVar

from clicket.tools.protocol import SessionKey

__all__ = ["always_cacheable", "never_plain", "no_data_version", "no_sessions", "nothing_to_close", "shared_by_owners"]

AnyTool = TypeVar("AnyTool")


def never_plain(_tool: object, _arguments: dict[Any, Any]) -> None:
    """Arguments are always judged by the schema."""


def no_data_version(_tool: object) -> str:
    """Answers depend on the arguments and the tool's `version` option alone."""
    return ""


def always_cacheable(_tool: object, output: Any) -> bool:
    """Every output of a completed call may be cached."""
    return True


async def no_sessions(_tool: object, busy: frozenset[SessionKey]) -> int:
    """There are no sessions to close."""
    return 0


async def nothing_to_close(_tool: object) -> None:
    """The tool holds nothing."""


def shared_by_owners(tool: AnyTool, owner: object) -> AnyTool:
    """Several runtimes may use the same object, because it has no sessions."""
    return tool
