"""Questions of a turn to a person: internal calls that wait for an approval. After a crash the same call is found by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from clicket.agents.turn import Turn
from clicket.model import ToolResult
from clicket.model.ports import AgentHost, Stale

__all__ = ["ask_person"]


async def ask_person(turn: Turn, host: AgentHost, tool: str, arguments: Mapping[str, Any], id: str) -> ToolResult:
    """Make the call that asks, or find it if it was made before, and wait for its outcome."""
    known = await host.made(id, turn.thread) if turn.resumed else None
    if turn.must_stop:
        await turn.end_calls([id])
        turn.give_in()
    turn.report_waiting()
    try:
        while known is None:
            try:
                return await host.conduct(tool, arguments, id=id, thread=turn.thread)
            except Stale:  # the call was not made
                await turn.catch_up()
        if not host.lives(id, turn.thread):  # its owner may have died with the turn's
            await host.recover()
            known = await host.made(id, turn.thread) or known
        return await known.result()
    except asyncio.CancelledError:
        if not turn.goes_on_elsewhere:
            await turn.end_calls([id])
        raise
