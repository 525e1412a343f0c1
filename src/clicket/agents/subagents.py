"""An agent as a tool of another agent: each call is a turn in its own thread. A call that runs again after a crash continues its turn."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol

from clicket.agents.agent_result import AgentEvent, ThreadView
from clicket.agents.turn_limits import Limits
from clicket.errors import ProgramFailed
from clicket.execution import turn_log_of
from clicket.model.ids import alias_of
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults
from clicket.tools.function import name_of

__all__ = ["AgentTool", "AskedAgent", "thread_of_task"]

_MAX_NAME = 512
_ASKING = re.compile(r"/([A-Za-z0-9_-]{1,64})\.\d+(?:\.\d+-\d+)*\.\d+\.\d+(?:\.u\d+)?(?=/|\Z)")
"""Finds the calling agents in the name of such a thread, which holds the ids of their calls."""
_SCHEMA = {
    "type": "object",
    "properties": {"task": {"type": "string", "minLength": 1, "description": "What is to be done, with all that is needed for it."}},
    "required": ["task"],
    "additionalProperties": False,
}  # fmt: skip


class AskedAgent(Protocol):
    """The part of an agent that the tool uses."""

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> Limits: ...

    def stream(self, message: str, *, thread: str, turn: int | None) -> AsyncIterator[AgentEvent]: ...
    async def stop(self, thread: str, reason: str) -> bool: ...
    async def look(self, thread: str) -> ThreadView: ...


def thread_of_task(thread: str, call_id: str) -> str:
    """The thread in which an agent works on the task of a call. `thread` is the calling agent's."""
    name = f"{thread}/{alias_of(call_id)}"  # short, because threads are nested
    if len(name) <= _MAX_NAME:
        return name
    # The shortened name still lists the calling agents, so that a recursion is detected.
    return f"~{sha256(name.encode()).hexdigest()}{''.join(f'/{asking}.0.0.0' for asking in _ASKING.findall(name))}"


class AgentTool(ToolDefaults):
    """Its output is the agent's answer. It holds no slot of the runtime: the agent's tool calls do. It may always run again, because it
    continues the turn that a crash interrupted."""

    traits = Traits(holds_slot=False)
    is_async: bool = True
    input_schema: Mapping[str, Any] = _SCHEMA

    def __init__(
        self,
        agent: AskedAgent,
        name: str,
        description: str,
        as_caller: Callable[[str, frozenset[str], frozenset[str]], AskedAgent],
    ) -> None:
        self.name: str = name_of(name, agent.name, f"agent {agent.name!r}")
        self.description: str = description
        self.options: Options = Options(timeout=None, max_retries=0, recovery="rerun", tags=frozenset({"agent"}))
        self.agent: AskedAgent = agent
        self._as_caller = as_caller
        self._max_steps = agent.limits.max_steps

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str:
        log = turn_log_of(ctx)
        agent = self._as_caller(ctx.caller, log.scopes, log.requesters)
        thread = thread_of_task(ctx.thread, ctx.call_id)
        if agent.name in _ASKING.findall(thread):  # the limits of each turn do not end a recursion of agents
            raise ProgramFailed(
                f"the agent {agent.name!r} already works on this task, and cannot be called again within it. Use other tools"
            )
        if log.must_stop:
            await agent.stop(thread, "the call of the agent was cancelled")
            log.give_in()
        try:
            # `turn=1`: at most one turn, because a second one would repeat the work of the first.
            async for event in agent.stream(bound["task"], thread=thread, turn=1):
                if event.type == "tool_started":
                    ctx.progress(event.step, self._max_steps, f"{agent.name} calls {event.data['tool']}")
        except asyncio.CancelledError:
            if log.stopping != "shutdown":  # on a shutdown this call and the turn are handed back, and continue later
                await agent.stop(thread, "the call of the agent was cancelled")
            raise
        view = await agent.look(thread)
        if view.error:
            raise ProgramFailed(f"the agent {agent.name!r} failed: {view.error}")
        return view.text if view.stopped == "finished" else f"[{view.stopped}] {view.text}"

    def __repr__(self) -> str:
        return f"<tool {self.name}, an agent>"
