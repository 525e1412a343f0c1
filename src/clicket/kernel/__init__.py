"""State tables as data. This package imports nothing but `clicket.errors`.

- `table`: `Table`: states, allowed transitions, `advance`; and `to_mermaid`, which draws one
- `call`: the states of a call, from accepted to its outcome
- `tool_status`: whether a thread may use a tool
- `agent`, `plan_step`: an agent in a thread; one step of a plan
- `search`: deep search
- `code`: the code interpreter
"""

from __future__ import annotations

from typing import Any

from clicket.kernel.agent import AGENT, AgentState
from clicket.kernel.call import CALL, State
from clicket.kernel.code import CODE, CodeState
from clicket.kernel.plan_step import PLAN_STEP, PlanStep
from clicket.kernel.search import SEARCH, SearchState
from clicket.kernel.table import StrEnum, Table, to_mermaid
from clicket.kernel.tool_status import TOOL_STATUS, ToolStatus

__all__ = [
    "AGENT",
    "CALL",
    "CODE",
    "PLAN_STEP",
    "SEARCH",
    "TABLES",
    "TOOL_STATUS",
    "AgentState",
    "CodeState",
    "PlanStep",
    "SearchState",
    "State",
    "StrEnum",
    "Table",
    "ToolStatus",
    "to_mermaid",
]

TABLES: tuple[Table[Any], ...] = (CALL, AGENT, CODE, SEARCH, TOOL_STATUS, PLAN_STEP)
