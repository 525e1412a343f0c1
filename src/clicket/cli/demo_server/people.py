"""What people and other systems do in the demonstration: they approve, grant and answer; they end calls from outside; schedules fire."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from clicket.cli.demo_server.tools import tokens
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.ports import Handle
from clicket.runtime.runtime import Runtime

__all__ = ["People"]

_MARIA = "Maria"
_SMALL = {
    "type": "object",
    "properties": {"amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 60}},
    "required": ["amount"],
}
_SCHEDULES: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("rates", "* * * * *", "exchange_rate", {"pair": "EURUSD"}, {"overlap": "skip"}),
    ("nightly-summary", "30 2 * * *", "write_summary", {"topic": "last night"}, {"timezone": "Europe/Berlin", "catch_up": "last"}),
    ("monthly-export", "0 6 1 * *", "legacy_export", {"month": "2026-10"}, {"timezone": "Asia/Shanghai"}),
)  # fmt: skip
_PATIENCE = 20.0


class People:
    """`pause`: seconds between two things that people do; 0: none."""

    def __init__(self, runtime: Runtime, *, pause: float) -> None:
        self._runtime = runtime
        self._pause = pause

    async def run(self) -> None:
        """Do one of each. What does not work in a store that an earlier demonstration used is left out."""
        acts = (self._schedule, self._grant, self._answer, self._one_of_two, self._later, self._outside, self._check)
        for act in acts:
            with contextlib.suppress(ClicketError, TimeoutError):
                await act()
            await asyncio.sleep(self._pause)

    async def _schedule(self) -> None:
        for name, cron, tool, arguments, options in _SCHEDULES:
            await self._runtime.schedule(name, cron, tool, arguments, by=_MARIA, thread=name, **options)
        await self._runtime.schedules.pause("monthly-export", by=_MARIA)

    async def _grant(self) -> None:
        """A person approves a refund, and later small ones with it."""
        first = {"order": "A-1020", "amount": 45.0, "reason": "arrived late", "notify": True}
        id = await self._asked("refund", "erin", first)
        terms: Any = {"uses": 5, "seconds": 3600, "thread": "erin", "arguments": _SMALL}
        await self._runtime.approve(id, by=_MARIA, reason="small refunds are fine today", grant=terms)
        for order, amount in (("A-1021", 38.0), ("A-1022", 52.5)):
            await self._runtime.submit(
                "refund", {"order": order, "amount": amount, "reason": "arrived late"}, thread="erin"
            )

    async def _answer(self) -> None:
        arguments = {"order": "A-0999", "amount": 300.0, "reason": "paid twice", "notify": True}
        id = await self._asked("refund", "frank", arguments)
        await self._runtime.respond(id, "300.00 EUR were paid back by hand yesterday", by=_MARIA, reason="done already")

    async def _one_of_two(self) -> None:
        id = await self._asked("close_account", "dora", {"customer": "C-311", "keep_data": False})
        await self._runtime.approve(id, by=_MARIA, reason="the customer wrote to us")

    async def _later(self) -> None:
        await self._runtime.submit("weather", {"city": "Graz"}, thread="ann", not_before=time.time() + 4 * 3600)

    async def _outside(self) -> None:
        """Two documents are to be signed: one was opened, the other is signed."""
        ids = [await self._waits_outside(customer) for customer in ("ACME", "Globex")]
        await self._runtime.report_progress(tokens[ids[0]], 1, 3, "the customer has opened the document")
        await self._runtime.complete(tokens[ids[1]], {"signed": True, "by": "Globex"})

    async def _check(self) -> None:
        await self._runtime.submit("charge_card", {"customer": "C-207", "cents": 4_900}, thread="dora")

    async def _waits_outside(self, customer: str) -> str:
        handle = await self._runtime.submit("sign_contract", {"customer": customer}, thread="chen")
        return await _seen(handle, lambda event: event.data.get("waiting_for") == "external")

    async def _asked(self, tool: str, thread: str, arguments: dict[str, Any]) -> str:
        handle = await self._runtime.submit(tool, arguments, thread=thread)
        return await _seen(handle, lambda event: event.type == "approval_requested")


async def _seen(handle: Handle, is_it: Callable[[Event], bool]) -> str:
    """The id of the call, once it has such an event."""
    async with asyncio.timeout(_PATIENCE):
        async for event in handle.events():
            if is_it(event):
                break
    return handle.id
