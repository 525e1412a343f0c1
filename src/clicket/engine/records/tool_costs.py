"""Costs that tools report with `ctx.spend`: from the calls' events into the ledger and the budgets' accounts.

Each report is an event of its call. Once the event is on record, the ledger gets it, and has it before the call ends, however it ends,
also if the store cannot be reached for a while. A call that a dead process left is counted from its events when it is taken over. A call's
cost replaces what was counted of it before, so it counts once. What a process that died left uncounted is counted when retention removes
the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from clicket.engine.journal import Fenced, Journal
from clicket.engine.live_call import Call
from clicket.engine.spend import SpendBook, spender_of_turn
from clicket.engine.spend.accounts import DamagedAccount
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.chat import Usage
from clicket.model.ports import Clock, Stored, Unstorable, sleep
from clicket.tools.costs import cost_in

__all__ = ["ToolCosts"]

logger = logging.getLogger("clicket.spend")
_RETRY_FIRST, _RETRY_MOST = 0.1, 5.0
"""Seconds between two tries to write a cost."""
_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")


class ToolCosts:
    def __init__(
        self, book: SpendBook, journal: Journal, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._book = book
        self._journal = journal
        self._clock = clock
        self._spawn = spawn
        self.writing: dict[Call, asyncio.Future[None]] = {}
        """Calls whose cost the ledger does not have yet. A future is done when it has, or cannot have it; it is cancelled if the runtime
        is closed before."""
        self._newer: set[Call] = set()
        """Calls that reported something while an earlier report was being written."""

    def report(self, call: Call) -> None:
        """A tool reported a cost, which is an event of its call."""
        if call in self.writing:
            self._newer.add(call)
        else:
            self.writing[call] = asyncio.get_running_loop().create_future()
            self._spawn(self._write(call))

    def taken_over(self, call: Call) -> None:
        """A dead process may have left costs that are only in the call's events."""
        if cost_in(call.entry.events) is not None:
            self.report(call)

    async def keep(self, calls: Sequence[Stored]) -> None:
        """Calls and turns are about to be removed: the ledger gets what it does not have of them."""
        for stored in calls:
            if stored.damaged is None and stored.events:
                first = stored.events[0]
                cost = cost_in(stored.events)
                caller, thread = str(first.data.get("caller", "")), str(first.data.get("thread", ""))
                if cost is not None:
                    await self._book.keep_call(
                        caller, thread, stored.id, str(first.data.get("tool", "")), first.at, cost
                    )
                elif str(first.data.get("tool", "")).startswith("agent:"):
                    await self._keep_turn(caller, stored.events)

    async def _keep_turn(self, caller: str, events: Sequence[Event]) -> None:
        given = events[0].data.get("arguments")
        if type(given) is not dict or type(given.get("turn")) is not int:
            return
        agent = str(events[0].data["tool"]).removeprefix("agent:")
        spender = spender_of_turn(caller, str(given.get("thread", "")), agent, given["turn"])
        for step, note, usage in replies_in(events):
            settling = self._book.settle(spender, step, note, usage)
            if settling is not None:
                await settling
        await self._book.flush(spender)

    async def _write(self, call: Call) -> None:
        try:
            await self._surely(call)
            while call in self._newer:
                self._newer.discard(call)
                await self._surely(call)
        except ClicketError as error:
            logger.warning("call %s: its cost is in its events, and cannot be counted: %s", call.entry.id, error)
        except asyncio.CancelledError:
            self.writing[call].cancel()
            raise
        finally:
            self._newer.discard(call)
            done = self.writing.pop(call)
            if not done.done():
                done.set_result(None)

    async def _surely(self, call: Call) -> None:
        """Count what the call has on record, as soon as the store can be written: the call does not end before. A runtime that closes
        meanwhile leaves the call to the next one, which counts it from its events."""
        delay = _RETRY_FIRST
        while True:
            try:
                await self._count(call)
            except (DamagedAccount, Unstorable):
                raise
            except ClicketError as error:
                if delay == _RETRY_FIRST:
                    logger.warning("call %s ends once its cost is counted: %s", call.entry.id, error)
            else:
                return
            await sleep(self._clock, delay)
            delay = min(delay * 2, _RETRY_MOST)

    async def _count(self, call: Call) -> None:
        """Count what the call has on record. What a process reports that lost the call is not on record, and not counted."""
        entry = call.entry
        with suppress(Fenced):
            await self._journal.flush(entry)
            cost = cost_in(entry.events)
            if cost is not None:
                await self._book.count_call(entry.caller, entry.thread, entry.id, entry.tool, entry.created_at, cost)


def replies_in(events: Sequence[Event]) -> list[tuple[int, dict[str, Any], Usage]]:
    """The replies of models in a turn's events: the step, what was recorded of its spend, and the usage."""
    found: list[tuple[int, dict[str, Any], Usage]] = []
    for event in events:
        entry = event.data.get("entry") if event.type == "note" else None
        if type(entry) is dict and type(entry.get("spend")) is dict and type(entry.get("usage")) is dict:
            counts = {name: value for name, value in entry["usage"].items() if type(value) is int and value >= 0}
            usage = Usage(**{name: counts.get(name, 0) for name in _COUNTS})
            found.append((int(entry.get("step", 0)), entry["spend"], usage))
    return found
