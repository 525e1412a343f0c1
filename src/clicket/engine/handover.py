"""Calls that change hands: given away to whoever claims them, taken by name, handed back when the runtime closes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from clicket.engine.approvals import ask_again
from clicket.errors import ClicketError, StoreUnavailable
from clicket.journal import Fenced
from clicket.kernel import State
from clicket.model import ToolError
from clicket.ports import sleep

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine
    from clicket.journal import LiveCall

__all__ = ["Closed", "close_started", "give_away", "take"]

logger = logging.getLogger("clicket.engine")
_LOOK_AGAIN = 1.0


class Closed(ClicketError):
    """The runtime was closed while the call waited; a durable store keeps it, and the next runtime runs it."""

    code = "closed"


def give_away(engine: LocalEngine, call: LiveCall) -> None:
    """Commit the call as nobody's: from then on it belongs to whoever claims it."""
    call.owned = False
    engine.remember(call)
    if call.queue_timer is not None:
        call.queue_timer.cancel()

    def given(call: LiveCall, error: ClicketError | None) -> None:
        engine.accepted(call, error)
        if error is None:
            if call.trial is not None:  # whoever runs it, it is the one trial until it has ended
                slot, call.trial = call.trial, None
                engine.spawn(_hold_until_ended(engine, call, slot))
            _let_go(engine, call, Fenced(f"call {call.id} is in the hands of other runtimes now"))
            asks = call.approval_timeout if call.waiting_for == "approval" else None
            for limit in (call.request.deadline, asks):
                if limit is not None:  # if nobody has it then, nobody else will say that its time is up
                    left = limit - (engine.clock.monotonic() - call.submitted_at)
                    engine.clock.call_later(max(left, 0.0), lambda: engine.spawn(take(engine, call.key)))

    engine.journal.commit(call, given)


async def _hold_until_ended(engine: LocalEngine, call: LiveCall, slot: str) -> None:
    from clicket.engine.watch import find_stored, follow

    try:
        stored = await find_stored(engine, call.id, call.thread, call.caller)
        async for _ in follow(engine, stored, call.id, 0):
            pass
    except ClicketError as error:
        logger.info("call %s is not followed any more: %s", call.id, error)
    finally:
        engine.slots.give(slot)


async def take(engine: LocalEngine, key: int) -> None:
    """Claim a call that is nobody's, or a dead owner's, and do with it what its journal asks for."""
    while not engine.closing:
        try:
            stored = await engine.store.claim(key)
        except StoreUnavailable as error:
            logger.warning("a call that nobody holds could not be looked at, and is again: %s", error)
            await sleep(engine.clock, _LOOK_AGAIN)
            continue
        if stored is not None:
            await engine.take_up([stored])
        return


def close_started(engine: LocalEngine, call: LiveCall) -> None:
    """The runtime closes, and the call did not finish in time: what may be repeated is handed back to be run again."""
    if call.state not in (State.RUNNING, State.STREAMING):  # no attempt is under way: it goes back as it is
        _hand_back(engine, call)
        return
    options = call.required_tool().options
    text = f"the runtime was closed while attempt {call.attempt} ran, and the attempt was stopped"
    unknown = ToolError(code="outcome_unknown", message=f"{text}; it may have had its effect.", type="OutcomeUnknown")
    asks = options.recovery == "ask"
    if not (asks or options.recovery == "rerun" or (options.recovery == "auto" and options.repeatable)):
        engine.pipeline.fail(call, unknown, engine.settled)
        return
    data: dict[str, Any] = {"attempt": call.attempt, "error": to_builtins(unknown), "delay": 0.0}
    engine.journal.advance(call, State.RETRYING, {**data, "waiting_for": "approval"} if asks else data)
    if asks:
        ask_again(engine, call, text)
    _hand_back(engine, call)


def _hand_back(engine: LocalEngine, call: LiveCall) -> None:
    call.settling, call.owned = True, False

    def handed_back(call: LiveCall, error: ClicketError | None) -> None:
        _let_go(engine, call, error or Closed(f"the runtime was closed; call {call.id} waits for the next one."))
        engine.release(call)

    engine.journal.commit(call, handed_back)


def _let_go(engine: LocalEngine, call: LiveCall, why: ClicketError) -> None:
    engine.superseded.discard(call)
    engine.forget(call)
    engine.answer(call, why)
    engine.dismiss(call, why)
