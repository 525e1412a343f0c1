"""State tables as data. This folder imports nothing but the error tree."""

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
