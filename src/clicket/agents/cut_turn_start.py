"""Begins the turn that a fork took along up to a step: `Agent.resume` of the fork."""

from __future__ import annotations

import msgspec

from clicket.agents.past_entries import past_entries
from clicket.agents.run_options import RunValues
from clicket.agents.threads import Threads, turn_id
from clicket.agents.turn_record import begun_in
from clicket.agents.turn_tool import TurnTool
from clicket.model.ids import new_id
from clicket.model.ports import Taken

__all__ = ["begin_cut_turn"]


async def begin_cut_turn(tool: TurnTool, threads: Threads, thread: str, values: RunValues) -> int | None:
    """Begin the turn that a fork took along up to a step, and return its number; None: there is none, or it was begun before."""
    host = threads.host
    head, _ = await threads.memory.head(host, thread)
    number = head.turns + 1
    if not head.is_cut or await threads.record(thread, number) is not None:
        return None
    past = await past_entries(host, threads.agent, thread, head, number)
    begun = None if past is None else begun_in(past.entries)
    if past is None or begun is None:
        return None
    run = new_id()
    kept = {name: value for name, value in past.arguments.items() if name in ("options", "frontend")}
    arguments = {**kept, "message": begun.message, "thread": thread, "turn": number, "run": run}
    if begun.files:
        arguments["files"] = msgspec.to_builtins(begun.files)
    tool.expect(run, tool.of_digest(begun.digest), values)
    try:
        await host.begin(tool.name, arguments, id=turn_id(number), thread=threads.inner(thread))
    except Taken:  # another process was quicker
        tool.starting.pop(run, None)
        return None
    except Exception:
        tool.starting.pop(run, None)
        raise
    return number
