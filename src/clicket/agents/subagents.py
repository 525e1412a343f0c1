"""An agent as a tool of another agent: each call is a turn in its own thread. A call that runs again after a crash continues its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, Unpack

import msgspec

from clicket.agents.agent_result import AgentEvent, ThreadView
from clicket.agents.memory import Page
from clicket.agents.outages import Outages
from clicket.agents.run_options import Given
from clicket.agents.task_threads import agents_above, thread_of_task
from clicket.agents.turn_limits import Limits
from clicket.engine.executors import TurnLog, turn_log_of
from clicket.errors import ClicketError, ProgramFailed, StoreUnavailable, UsageError
from clicket.kernel import AgentState
from clicket.model.chat import Usage
from clicket.model.deps import RunDeps
from clicket.model.ids import agent_of
from clicket.model.names import AGENT_TAG
from clicket.model.ports import AgentHost
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults
from clicket.tools.function import name_of

__all__ = ["AgentTool", "AskedAgent"]

_CANCELLED = "the call of the agent was cancelled"
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

    def stream(
        self, message: str, *, thread: str, turn: int | None, **options: Unpack[Given]
    ) -> AsyncIterator[AgentEvent]: ...
    async def stop(self, thread: str, reason: str) -> bool: ...
    async def look(self, thread: str) -> ThreadView: ...
    async def history(self, thread: str) -> Page: ...
    def outages(self, log: TurnLog) -> Outages: ...


class AgentTool(ToolDefaults):
    """Its output is the agent's answer. It holds no slot of the runtime: the agent's tool calls do. It may always run again, because it
    continues the turn that a crash interrupted."""

    traits = Traits(holds_slot=False, ends_its_calls=True)
    is_async: bool = True
    input_schema: Mapping[str, Any] = _SCHEMA

    def __init__(
        self,
        agent: AskedAgent,
        name: str,
        description: str,
        as_caller: Callable[[str, frozenset[str], frozenset[str]], AskedAgent],
        host: AgentHost,
        background: bool = False,
    ) -> None:
        self.name: str = name_of(name, agent.name, f"agent {agent.name!r}")
        self.description: str = description
        self.options: Options = Options(
            timeout=None, max_retries=0, recovery="rerun", tags=frozenset({AGENT_TAG}), background=background
        )
        self.agent: AskedAgent = agent
        self._as_caller = as_caller
        self._host = host
        self._max_steps = agent.limits.max_steps

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str:
        log = turn_log_of(ctx)
        outages: Outages | None = None
        while True:
            try:
                return await self._answer(bound["task"], ctx, log)
            except ClicketError as error:
                outages = outages or self.agent.outages(log)
                outages.leave_if_closing()  # a runtime that closes begins no turn, and follows none
                if not isinstance(error, StoreUnavailable):
                    raise
                await outages.wait(error)  # the turn of the agent goes on, and is followed again

    async def end_calls(self, bound: dict[str, Any], ctx: ToolContext) -> None:
        log = turn_log_of(ctx)
        with suppress(UsageError):  # the runtime is closed: the next process stops it
            agent = self._as_caller(ctx.caller, log.scopes, log.requesters)
            await agent.stop(thread_of_task(ctx.thread, ctx.call_id), _CANCELLED)

    async def _answer(self, task: str, ctx: ToolContext, log: TurnLog) -> str:
        agent = self._as_caller(ctx.caller, log.scopes, log.requesters)
        thread = thread_of_task(ctx.thread, ctx.call_id)
        if agent.name in agents_above(thread):  # the limits of each turn do not end a recursion of agents
            raise ProgramFailed(
                f"the agent {agent.name!r} already works on this task, and cannot be called again within it. Use other tools"
            )
        if log.must_stop:
            await _stop(agent, thread, log)
            log.give_in()
        try:
            # `turn=1`: at most one turn, because a second one would repeat the work of the first.
            async for event in agent.stream(task, thread=thread, turn=1, **self._given(ctx, log.deps)):
                if event.type == "tool_started":
                    ctx.progress(event.step, self._max_steps, f"{agent.name} calls {event.data['tool']}")
        except asyncio.CancelledError:
            # On a shutdown this call and the turn are handed back, and continue later; a call that is lost goes on elsewhere.
            if not _goes_on(log):
                await _stop(agent, thread, log)
            raise
        view = await agent.look(thread)
        if view.state is AgentState.RUNNING:  # the store failed while the turn was followed: it goes on
            raise StoreUnavailable(f"the turn of the agent {agent.name!r} could not be followed to its end")
        if view.error:
            raise ProgramFailed(f"the agent {agent.name!r} failed: {view.error}")
        return view.text if view.stopped == "finished" else f"[{view.stopped}] {view.text}"

    def _given(self, ctx: ToolContext, deps: RunDeps) -> Given:
        """The deps of the calling agent's turn, and what it leaves of its limits of tokens and cost."""
        calling = self._host.installed(f"agent:{agent_of(ctx.call_id)}")
        turn = None if calling is None else calling.turns.get((ctx.caller, ctx.thread))
        left: dict[str, Any] = {} if turn is None else turn.spent.left(turn.limits)
        own = self.agent.limits
        less = {name: bound for name, bound in left.items() if (most := getattr(own, name)) is None or bound < most}
        return {"deps": deps, "limits": msgspec.structs.replace(own, **less)} if less else {"deps": deps}

    async def used(self, host: AgentHost, thread: str, call_id: str) -> Usage:
        """What a call has used, with the agents that were called in it."""
        agent = self._as_caller(host.caller, host.scopes, host.requesters)
        turns = (await agent.history(thread_of_task(thread, call_id))).turns
        return sum((turn.usage + (turn.called or Usage()) for turn in turns), Usage())

    def __repr__(self) -> str:
        return f"<tool {self.name}, an agent>"


def _goes_on(log: TurnLog) -> bool:
    return log.stopping == "shutdown" or log.entry.fenced


async def _stop(agent: AskedAgent, thread: str, log: TurnLog) -> None:
    """Stop the agent's turn. A second cancel of the call does not leave that out."""
    while True:
        try:
            await agent.stop(thread, _CANCELLED)
            return
        except asyncio.CancelledError:
            if _goes_on(log):
                raise
