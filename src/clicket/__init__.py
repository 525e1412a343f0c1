"""clicket runs AI agents' tool calls as durable, observable state machines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clicket.engine.stages import Condition, Policy, Rule
    from clicket.errors import (
        AgentBusy,
        ClicketError,
        Conflict,
        InvalidTransition,
        QueueFull,
        RetryableError,
        StoreUnavailable,
    )
    from clicket.kernel import State
    from clicket.model import Event, Record, ToolCall, ToolError, ToolResult
    from clicket.model.files import File, Image
    from clicket.runtime.runtime import Runtime
    from clicket.runtime.settings import Settings
    from clicket.tools import Depends, DidNotHappen, Happened, NativeTool, ToolContext, Undo, Unknown, tool
    from clicket.tools.rest import RestTool

__version__ = "0.1.0"

__all__ = [
    "AgentBusy",
    "ClicketError",
    "Condition",
    "Conflict",
    "Depends",
    "DidNotHappen",
    "Event",
    "File",
    "Happened",
    "Image",
    "InvalidTransition",
    "NativeTool",
    "Policy",
    "QueueFull",
    "Record",
    "RestTool",
    "RetryableError",
    "Rule",
    "Runtime",
    "Settings",
    "State",
    "StoreUnavailable",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Undo",
    "Unknown",
    "tool",
]

# Names are fetched when they are first used: the command line, and the children that run process tools, start in a
# fraction of the time that loading everything would take.
_HOMES = {
    "clicket.errors": "AgentBusy ClicketError Conflict InvalidTransition QueueFull RetryableError StoreUnavailable",
    "clicket.kernel": "State",
    "clicket.model": "Event Record ToolCall ToolError ToolResult",
    "clicket.model.files": "File Image",
    "clicket.engine.stages": "Condition Policy Rule",
    "clicket.runtime.runtime": "Runtime",
    "clicket.runtime.settings": "Settings",
    "clicket.tools": "Depends DidNotHappen Happened NativeTool ToolContext Undo Unknown tool",
    "clicket.tools.rest": "RestTool",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'clicket' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
