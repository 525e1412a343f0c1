"""MCP, both ways: a runtime as an MCP server, and the tools of other MCP servers in a runtime. The code is in `clicket.adapters.mcp`."""

from clicket.adapters.mcp import *  # noqa: F403
from clicket.adapters.mcp import __all__ as __all__  # noqa: PLC0414
