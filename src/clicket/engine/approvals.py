"""Calls that wait for a person. The question and the word are in the journal, so both survive restarts and cross processes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clicket.engine.outside import request
from clicket.errors import ApprovalDenied
from clicket.execution import describe
from clicket.journal import Fenced
from clicket.model.codec import clean
from clicket.ports import Stored, mark

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine
    from clicket.journal import LiveCall

__all__ = ["ask", "decide", "decided"]


def ask(engine: LocalEngine, call: LiveCall, timeout: float | None, purpose: str = "run") -> None:
    """Stage the question, and wait for its answer."""
    call.waiting_for = "approval"
    engine.journal.record(call, "approval_requested", {"timeout": timeout, "purpose": purpose, **mark(engine.clock)})
    if timeout is not None:
        call.queue_timer = engine.clock.call_later(timeout, engine.expire, call, "approval")


async def decide(engine: LocalEngine, stored: Stored, *, approved: bool, by: str, reason: str) -> bool:
    """A person's word on a call that waits for it, wherever it waits. False: it does not wait (any more).

    Also into a call of our own the word is written as an outsider's: of two that come at once, one is first.
    """
    word = {"approved": approved, "by": clean(by), "reason": clean(reason)}
    if not await request(engine, stored, "approval_given", word):
        return False
    first = stored.events[0].data
    call = engine.find_live(stored.id, first["thread"], first.get("caller", ""))
    if call is None:
        engine.pump.nudge()  # it may be nobody's
        return True
    with suppress(Fenced):
        await engine.refresh(call)
        await engine.journal.flush(call)
    return True


def decided(engine: LocalEngine, call: LiveCall, word: dict[str, Any]) -> None:
    """The word is in the call's journal: go on, or end it."""
    call.waiting_for = None
    if call.queue_timer is not None:
        call.queue_timer.cancel()
        call.queue_timer = None
    if word.get("approved") is True:
        engine.proceed(call)
        return
    who, why = word.get("by") or "somebody", f": {word['reason']}" if word.get("reason") else ""
    denied = ApprovalDenied(f"{who} denied the call{why}. Ask again with other arguments, or do without.")
    engine.pipeline.fail(call, describe(denied, retryable=False), engine.settled)
