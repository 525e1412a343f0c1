"""The events of a task: the task as it is, then each change, until it has ended.

Only recorded events of the turn become events of the task, so every reader gets the same ones in the same order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from clicket.agents import Agent, AgentEvent, AgentState
from clicket.agents.event_stream import position_of
from clicket.model.time_text import utc_text
from clicket.runtime.runtime import Runtime
from clicket.server.a2a.tasks import (
    TERMINAL,
    Json,
    agent_message,
    answer_artifact,
    asked_of,
    last_id,
    questions,
    task_id,
    task_state,
)
from clicket.server.turn_follower import Blocked, TurnFollower
from clicket.server.turn_requests import ThreadRequests

__all__ = ["TaskEvents", "until_settled"]


async def until_settled(agent: Agent, runtime: Runtime, thread: str, turn: int) -> None:
    """Wait until the turn has ended, or waits for an answer."""
    items: Any = TurnFollower(agent, runtime, thread, turn).items()
    async with aclosing(items):
        async for item in items:
            if isinstance(item, Blocked):
                return


class TaskEvents:
    """`to_the_end`: a task that waits for an answer is followed further; else its events end there."""

    def __init__(
        self, agent: Agent, runtime: Runtime, requests: ThreadRequests, thread: str, turn: int, *, to_the_end: bool
    ) -> None:
        self._agent = agent
        self._runtime = runtime
        self._requests = requests
        self._thread = thread
        self._turn = turn
        self._to_the_end = to_the_end
        self._task = task_id(thread, turn)
        self._text = ""

    async def position(self) -> str:
        """The last event that is on record now."""
        return last_id(await self._agent.recorded(self._thread, self._turn))

    async def events(self, task: Json, after: str) -> AsyncIterator[Json]:
        """`task`: as it is now. `after`: the position before the task was read, so that no change is missed."""
        known = position_of(after)
        yield {"task": task}
        state = task["status"]["state"]
        asked = state in ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED")
        if state in TERMINAL or (asked and not self._to_the_end):
            return
        items: Any = TurnFollower(self._agent, self._runtime, self._thread, self._turn).items()
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Blocked):
                    state, message = questions(item.waiting, self._task, self._thread)
                    if not asked or message != task["status"].get("message"):
                        await self._requests.report(self._turn, asked_of(item.waiting))
                        yield self._status(state, item.waiting[0].record.updated_at, message)
                    asked = True
                    if not self._to_the_end:
                        return
                elif item.task is None and item.event.id and position_of(item.event.id) > known:
                    for event in self._taken(item.event):
                        yield event
                elif item.task is None and item.event.type in ("final", "error"):
                    for event in self._taken(item.event):  # it ended between the look at the task and at its events
                        yield event

    def _taken(self, event: AgentEvent) -> list[Json]:
        data, at = event.data, event.at
        before, self._text = self._text, ""
        made = [self._status("TASK_STATE_WORKING", at, self._said(event, before))] if before else []
        match event.type:
            case "message" if data["role"] == "assistant" and not data.get("branch"):
                self._text = data["text"]  # the answer, if nothing follows it
                return made
            case "tool_started":
                message = self._said(event, f"Calls {data['tool']}.")
                return [*made, self._status("TASK_STATE_WORKING", at, message)]
            case "plan":
                artifact = {"artifactId": "plan", "name": "plan", "parts": [{"data": data}]}
                return [*made, self._artifact(artifact)]
            case "state":
                self._text = before
                return []
            case "final":
                return self._final(event)
            case "error":
                return [*made, self._status("TASK_STATE_FAILED", at, self._said(event, data["message"]))]
        return made

    def _final(self, event: AgentEvent) -> list[Json]:
        data = event.data
        state = task_state(AgentState(data["state"]), data["stopped"])
        if state == "TASK_STATE_COMPLETED":
            return [self._artifact(answer_artifact(data["text"])), self._status(state, event.at)]
        return [self._status(state, event.at, self._said(event, data["text"]) if data["text"] else None)]

    def _said(self, event: AgentEvent, text: str) -> Json:
        return agent_message(self._task, self._thread, event.id or "end", {"text": text})

    def _status(self, state: str, at: float, message: Json | None = None) -> Json:
        status: Json = {"state": state, "timestamp": utc_text(at)}
        if message is not None:
            status["message"] = message
        return {"statusUpdate": {"taskId": self._task, "contextId": self._thread, "status": status}}

    def _artifact(self, artifact: Json) -> Json:
        update = {"taskId": self._task, "contextId": self._thread, "artifact": artifact, "lastChunk": True}
        return {"artifactUpdate": update}
