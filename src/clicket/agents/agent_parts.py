"""Tools that only turns of agents can call, each under the mark of what it belongs to, so that several of one name stand side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.model.names import AGENT_PART, agent_part
from clicket.tools import Tool
from clicket.tools.function import function_tool

__all__ = ["part_of_agents"]


def part_of_agents(function: Callable[..., Any], mark: str, **options: Any) -> Tool:
    """A sync function as such a tool. What goes wrong in it is for the model to read: it is not tried again."""
    name = agent_part(function.__name__.lstrip("_"), mark)
    given = {"max_retries": 0, "isolation": "thread", **options}
    return function_tool(function, name=name, options=given, listed=False, part_of=AGENT_PART)
