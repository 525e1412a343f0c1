"""Ends calls that a turn has made, when it is stopped: before the turn is over, each has ended, or its cancel is on record."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from clicket.agents.turn_record import TurnRecord
from clicket.engine.executors import TurnLog
from clicket.errors import ClicketError, NotFound
from clicket.model.ports import AgentHost

__all__ = ["STOPPED", "end_calls", "end_open_calls"]

STOPPED = "the turn was stopped"


async def end_calls(host: AgentHost, thread: str, ids: Iterable[str], why: str) -> None:
    """End those of these calls that were made. Raises `StoreUnavailable`."""
    for id in ids:
        known = await host.made(id, thread)
        if known is not None:
            with suppress(NotFound):
                await known.cancel(why)


async def end_open_calls(host: AgentHost, log: TurnLog, thread: str, why: str) -> None:
    """End the calls on record that have no recorded result, of the turn and its branches. Raises `StoreUnavailable`."""
    with suppress(ClicketError):  # what can never be recorded was not sent
        await log.flush()
    if log.entry.fenced:  # the turn goes on elsewhere, with its calls
        return
    await end_calls(host, thread, TurnRecord(log.read_again().entries).open_calls(), why)
