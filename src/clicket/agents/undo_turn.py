"""The undo of a turn that ends badly (`undo_on=…`), and what the thread's next turn reads of an undo.

The turn's end is on record first. Then an internal call is begun that undoes the calls of the turn: each step of it may be repeated, so it
runs again after a crash, in any process that has the agent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import msgspec

from clicket.agents.memory import Memory, inner_thread
from clicket.agents.outages import Outages
from clicket.agents.turn_limits import Stopped
from clicket.agents.undone import Undone
from clicket.engine.executors import turn_log_of
from clicket.errors import ClicketError, StoreUnavailable, UsageError
from clicket.kernel import AgentState
from clicket.model.ports import AgentHost, Taken
from clicket.model.undo import CallUndo, UndoReport, undo_tool
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["UndoOn", "UndoTurnTool", "begin_undo", "tell", "undo_at_end", "undo_reasons", "undoes"]

UndoOn = Literal["failed", "cancelled", "budget", "max_steps", "repeated"]
"""How a turn ends. `failed`: with an error, or as `invalid_output` or `refused`."""
_FAILED = ("invalid_output", "refused")
_SCHEMA = {
    "type": "object",
    "properties": {"thread": {"type": "string"}, "turn": {"type": "integer"}},
    "required": ["thread", "turn"],
    "additionalProperties": False,
}


def undo_reasons(given: str | Collection[str] | None) -> tuple[str, ...]:
    """The option `undo_on` as a list; `UsageError` for what is none."""
    known = get_args(UndoOn)
    names = (given,) if isinstance(given, str) else tuple(given or ())
    for name in names:
        if name not in known:
            raise UsageError(f"undo_on is of {', '.join(map(repr, known))}, not {name!r}.")
    return tuple(sorted(set(names)))


def undoes(undo_on: Collection[str], state: AgentState, stopped: Stopped | Literal[""] | None) -> bool:
    """Does a turn that ends so undo its calls?"""
    failed = state is AgentState.ERROR or stopped in _FAILED
    return ("failed" if failed else stopped) in undo_on


async def begin_undo(host: AgentHost, agent: str, thread: str, turn: int) -> None:
    """Let the calls of a turn be undone, here or in another process. It goes on also if this process dies."""
    with suppress(Taken):
        await host.begin(
            undo_tool(f"agent:{agent}"),
            {"thread": thread, "turn": turn},
            id=_id(turn),
            thread=inner_thread(agent, thread),
        )


async def undo_at_end(
    host: AgentHost, outages: Outages, agent: str, thread: str, turn: int, *, waits: bool = True
) -> None:
    """`begin_undo`, and wait until it is done, also through an outage of the store."""

    async def work() -> None:
        await begin_undo(host, agent, thread, turn)
        if waits:
            await host.outcome(_id(turn), inner_thread(agent, thread))

    try:
        await work()
    except StoreUnavailable as error:
        await outages.through(work, error)
    except ClicketError:
        outages.leave_if_closing()
        raise


def _id(turn: int) -> str:
    return f"undo-turn-{turn}"


class UndoTurnTool(ToolDefaults):
    """Its calls undo the turns of one agent. Their output is the report."""

    traits = Traits(internal=True, holds_slot=False)
    is_async = True
    input_schema: Mapping[str, Any] = _SCHEMA
    options = Options(timeout=None, max_retries=0, recovery="rerun")

    def __init__(self, agent: str, host: AgentHost) -> None:
        self.name: str = undo_tool(f"agent:{agent}")
        self.description: str = f"Undoes the calls of a turn of the agent {agent!r}."
        self._agent = agent
        self._host = host

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        log = turn_log_of(ctx)
        try:
            host = self._host.acting_for(ctx.caller, log.scopes, log.requesters)
        except UsageError:  # the runtime closes
            log.hand_back()

        async def work() -> UndoReport:
            try:
                return await host.undo_turn(self._agent, bound["thread"], bound["turn"])
            except ClicketError:
                if host.closing:
                    log.hand_back()
                raise

        try:
            report = await work()
        except StoreUnavailable as error:
            report = await Outages(host, log).through(work, error)
        return msgspec.to_builtins(report)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


async def tell(host: AgentHost, agent: str, thread: str, turn: int, undone: Sequence[CallUndo]) -> None:
    """Let the next turn of the thread read which calls were undone, each once. `turn`: of which they are."""
    items = [Undone(call=each.id, tool=each.tool, undo=each.undo, turn=turn) for each in undone]
    await Memory(agent).add_undone(host, thread, items)
