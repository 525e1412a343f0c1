"""What can be called: tools, their schemas and options, and the context they run in."""

from __future__ import annotations

from clicket.tools.check import Check, compile_schema
from clicket.tools.completed import CompletedTool
from clicket.tools.context import STREAMED, Sink, Streamed, ToolContext
from clicket.tools.depends import Group, names_of
from clicket.tools.function import FunctionTool, tool
from clicket.tools.native import NativeTool, Session, SessionKey, SessionTool, session_key
from clicket.tools.options import Isolation, Options, Recovery, make_options
from clicket.tools.protocol import BasicTool, Tool, Traits
from clicket.tools.registry import Registered, Registry, as_tool

__all__ = [
    "STREAMED",
    "BasicTool",
    "Check",
    "CompletedTool",
    "FunctionTool",
    "Group",
    "Isolation",
    "NativeTool",
    "Options",
    "Recovery",
    "Registered",
    "Registry",
    "Session",
    "SessionKey",
    "SessionTool",
    "Sink",
    "Streamed",
    "Tool",
    "ToolContext",
    "Traits",
    "as_tool",
    "compile_schema",
    "make_options",
    "names_of",
    "session_key",
    "tool",
]
