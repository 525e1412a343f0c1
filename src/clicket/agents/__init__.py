"""Agents: a deterministic loop around a model that is not. A turn always ends, is never lost, leaves no tool call without its
result, and can be watched, stopped, and taken up after a crash.

    agent = ReActAgent(rt, model, max_steps=20, system="…")
    r = await agent.run("question", thread="t1")                     # r.text r.state r.stopped r.steps r.usage r.messages
    async for event in agent.stream("next question", thread="t1"): ...

An agent of your own is `Agent` with a drive: a coroutine function that takes a `Turn` and returns how it ended.
"""

from __future__ import annotations

from clicket.agents.acting import Actor
from clicket.agents.agent import Agent
from clicket.agents.limits import Limits, Stopped
from clicket.agents.loop import Loop
from clicket.agents.memory import Page, TurnDocument
from clicket.agents.plan import Plan, Step
from clicket.agents.planning import PlanExecuteAgent
from clicket.agents.react import ReActAgent
from clicket.agents.thinking import Thinker
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_lifecycle import Drive
from clicket.agents.values import AgentEvent, AgentResult, ThreadView
from clicket.agents.window import ContextWindow
from clicket.errors import AgentBusy
from clicket.kernel import AgentState

__all__ = [
    "Actor",
    "Agent",
    "AgentBusy",
    "AgentEvent",
    "AgentResult",
    "AgentState",
    "ContextWindow",
    "Drive",
    "Limits",
    "Loop",
    "Page",
    "Plan",
    "PlanExecuteAgent",
    "ReActAgent",
    "Step",
    "Stopped",
    "Thinker",
    "ThreadView",
    "Turn",
    "TurnDocument",
    "TurnStopped",
]
