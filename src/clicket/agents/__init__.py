"""Agents: a deterministic loop around a model that is not. A turn always ends, is never lost, leaves no tool call without its
result, and can be watched, stopped, and taken up after a crash.

    agent = ReActAgent(rt, model, max_steps=20, system="…")
    r = await agent.run("question", thread="t1")                     # r.text r.state r.stopped r.steps r.usage r.messages
    async for event in agent.stream("next question", thread="t1"): ...
"""

from __future__ import annotations

from clicket.agents.agent import Agent
from clicket.agents.limits import Limits
from clicket.agents.memory import Page, TurnDocument
from clicket.agents.plan import Plan, Step
from clicket.agents.planning import PlanExecuteAgent
from clicket.agents.react import ReActAgent
from clicket.agents.values import AgentEvent, AgentResult, ThreadView
from clicket.agents.window import ContextWindow
from clicket.errors import AgentBusy
from clicket.kernel import AgentState

__all__ = [
    "Agent",
    "AgentBusy",
    "AgentEvent",
    "AgentResult",
    "AgentState",
    "ContextWindow",
    "Limits",
    "Page",
    "Plan",
    "PlanExecuteAgent",
    "ReActAgent",
    "Step",
    "ThreadView",
    "TurnDocument",
]
