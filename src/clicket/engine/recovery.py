"""After a crash: what dead owners left is taken over and settled honestly.

A call that never started runs. One that started and has no outcome runs again only if its tool says that this does no harm;
else its outcome is unknown, and it says so. Exactly-once effects are never claimed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from clicket.engine.approvals import ask_again, decided, edit_of, judge_edit, unfit
from clicket.engine.local import LocalEngine
from clicket.engine.unsealing import LOST, in_force
from clicket.errors import InvalidInput, PermissionDenied, StoreUnavailable
from clicket.journal import Fenced, LiveCall
from clicket.kernel import State
from clicket.model import Record, ToolCall, ToolError, read
from clicket.model.request import checked
from clicket.ports import Stored, elapsed

__all__ = ["Progress", "Recovered", "recover", "take_up"]

logger = logging.getLogger("clicket.engine")
_BATCH = 200
_DUE = 0.05
_AT_WORK = (State.INITIALIZING, State.RUNNING, State.STREAMING)


class Recovered(msgspec.Struct, kw_only=True):
    """How many calls were found, and what became of them."""

    queued: int = 0
    rerun: int = 0
    unknown: int = 0
    asked: int = 0
    unavailable: int = 0
    cancelled: int = 0
    damaged: int = 0

    @property
    def total(self) -> int:
        return sum(msgspec.structs.astuple(self))


Progress = Callable[[Recovered], None]


async def recover(engine: LocalEngine, progress: Progress | None = None) -> Recovered:
    """Take over every orphan whose tool is registered here; returns when each is settled or queued."""
    report = Recovered()
    while not engine.closing:
        orphans = await engine.store.claim_orphans(engine.registry.names, _BATCH)
        await take_up(engine, orphans, report)
        if progress is not None and orphans:
            progress(report)
        if len(orphans) < _BATCH:
            break
    await engine.pump.claim()
    return report


async def take_up(engine: LocalEngine, claimed: Sequence[Stored], report: Recovered) -> None:
    """Go on with calls that were claimed just now, and wait until what was decided about them is durable."""
    if engine.closing:
        await engine.store.hand_back([stored.key for stored in claimed if stored.damaged is None])
        return
    writing: list[Awaitable[None]] = []
    for stored in claimed:
        call: LiveCall | None = None
        try:
            if stored.damaged is not None:
                raise StoreUnavailable(f"call {stored.id}: {stored.damaged}")
            known = _supersede(engine, stored)
            call, record = _revive(engine, stored, known)
            what = _take_up(engine, call, record, stored)
            if call.inflight is not None or call.staged:
                writing.append(engine.journal.flush(call))
        except Exception:  # the others are ours by now, and must not be left behind for one that breaks
            logger.exception("call %s cannot be taken over and is left as it is", stored.id)
            engine.broken.add(stored.key)
            if call is not None:
                engine.limiter.leave(call)
                engine.release(call)
                engine.forget(call)
            what = "damaged"
        setattr(report, what, getattr(report, what) + 1)
    for outcome in await asyncio.gather(*writing, return_exceptions=True):
        if isinstance(outcome, Exception):
            logger.warning("what became of a call that was taken over is not stored yet: %s", outcome)


def _supersede(engine: LocalEngine, stored: Stored) -> LiveCall | None:
    """We may still know the call from before we lost it: that one can write no more, and must not stand before the new one.
    A body that runs is left to its end; what it brings is kept as a late result."""
    old: LiveCall | None = None
    for old in [call for call in engine.live.get(stored.id, ()) if call.key == stored.key]:
        old.fenced = True
        if old.slot and not old.settling:
            engine.superseded.add(old)
        engine.limiter.leave(old)
        engine.forget(old)
        lost = Fenced(f"call {old.id} was lost to another owner, and taken up anew")
        engine.answer(old, lost)
        engine.dismiss(old, lost)
    return old


def _revive(engine: LocalEngine, stored: Stored, known: LiveCall | None) -> tuple[LiveCall, Record]:
    record = read(stored.id, stored.events)
    if record.state.is_terminal:
        raise StoreUnavailable(f"call {stored.id} has ended, and its row says that it has not")
    arguments, metadata, lost = in_force(engine.vault, stored.id, stored.events, known)
    request = checked(
        ToolCall(
            record.tool,
            arguments,
            id=record.id,
            thread=record.thread,
            timeout=record.timeout,
            deadline=record.deadline,
            priority=record.priority,
            request_id=record.request_id,
            metadata=metadata,
        )
    )
    age = elapsed(engine.clock, record.created_at, stored.events[0].data)
    call = LiveCall(
        request=request,
        id=record.id,
        caller=record.caller,
        created_at=record.created_at,
        submitted_at=engine.clock.monotonic() - age,
        idempotency_key=record.idempotency_key,
    )
    call.key, call.fence, call.lost = stored.key, stored.fence, lost
    call.state, call.seq, call.events = record.state, stored.events[-1].seq, list(stored.events)
    call.stages = list(record.stages.items())
    call.attempt = len(record.attempts)
    call.started_at = record.started_at
    call.progress = record.progress
    call.waiting_for = record.waiting_for
    call.scopes = frozenset(stored.events[0].data.get("scopes") or ())
    call.outputs = sum(1 for event in stored.events if event.type == "output")
    return call, record


def _take_up(engine: LocalEngine, call: LiveCall, record: Record, stored: Stored) -> str:
    """Decide by what the journal says; the answer is the report's field."""
    started = call.state in (State.RUNNING, State.STREAMING)
    call.tool = engine.registry.get(call.tool_name)  # figures and the hub name it, however the call goes on
    call.inner = call.tool is not None and call.tool.traits.internal
    deaths = _deaths(call) if stored.taken_from is not None else 0
    most = engine.limits.max_claims * (2 if call.inner else 1)  # a turn outlives a call of its own that kills
    if stored.taken_from is not None:
        engine.journal.record(call, "note", {"text": "Taken over: the former owner is gone.", "claims": stored.claims})
    if deaths >= most:
        text = f"its worker died {deaths} times; it is not tried again. Look at the tool, then submit a new call."
        _fail(engine, call, "outcome_unknown", text)
        return "unknown"
    tool = call.tool
    if tool is None:
        return _without_tool(engine, call, record, stored, started=started)
    options = tool.options
    # What makes calls itself, as a turn does, is taken up all the same: it ends what it had begun, and says so to its thread.
    cancelled = record.cancel_requested and not (not tool.traits.holds_slot and call.attempt)
    if started and not (cancelled and (options.repeatable or options.recovery == "rerun")):
        return _take_up_started(engine, call, record)
    if cancelled:
        return _cancelled(engine, call)
    denial = _denial(call)
    if denial is not None:
        decided(engine, call, denial)
        return "cancelled"
    return _queue_again(engine, call, record, "queued")


def _without_tool(engine: LocalEngine, call: LiveCall, record: Record, stored: Stored, *, started: bool) -> str:
    """Claimed by name, to end it: that needs no tool, unless it has started, when only its tool's author can say more. A turn of an
    agent is ended by its agent, with all that it had begun."""
    is_turn = any(event.type == "note" and "entry" in event.data for event in call.events)
    if not started and record.cancel_requested and not is_turn:
        return _cancelled(engine, call)
    deadline = record.deadline
    if not started and deadline is not None and call.submitted_at + deadline <= engine.clock.monotonic():
        engine.pipeline.stop(call, "deadline", engine.settled)
        return "cancelled"
    call.staged.clear()
    engine.spawn(_hand_back(engine, stored))
    return "queued"


async def _hand_back(engine: LocalEngine, stored: Stored) -> None:
    try:
        await engine.store.hand_back([stored.key])
    except StoreUnavailable as error:  # it is seen as a stray later
        logger.warning("call %s could not be handed back yet: %s", stored.id, error)


def _cancelled(engine: LocalEngine, call: LiveCall) -> str:
    asked = next((e for e in reversed(call.events) if e.type == "cancel_requested"), None)
    call.cancel_reason = str(asked.data.get("reason") or "") if asked is not None else ""
    engine.pipeline.stop(call, "cancel", engine.settled)
    return "cancelled"


def _denial(call: LiveCall) -> dict[str, Any] | None:
    """The word of whoever denied the call while nobody held it."""
    given = next((e for e in reversed(call.events) if e.type == "approval_given"), None)
    return given.data if given is not None and given.data.get("approved") is not True else None


def _deaths(call: LiveCall) -> int:
    """How often a worker died over this call. Waiting, and being handed back, is no death. A turn of an agent is a long way: only
    deaths since its last step count, or since it was seen to wait for a person."""
    before = 0
    for event in call.events:
        if event.type == "note":
            if "claims" in event.data and event.state in _AT_WORK:
                before += 1
            elif call.inner and ("entry" in event.data or "waits" in event.data):
                before = 0
    return before + (call.state in _AT_WORK)


def _take_up_started(engine: LocalEngine, call: LiveCall, record: Record) -> str:
    tool = call.required_tool()
    policy = tool.options.recovery
    if policy == "rerun" or (policy == "auto" and tool.options.repeatable):
        error = _unknown(f"the process that ran attempt {call.attempt} died; the tool may be run again.")
        engine.journal.advance(
            call, State.RETRYING, {"attempt": call.attempt, "error": msgspec.to_builtins(error), "delay": 0.0}
        )
        return _queue_again(engine, call, record, "rerun")
    if policy == "ask" and not record.cancel_requested:  # who was cancelled need not be asked about
        error = _unknown(
            f"the process that ran attempt {call.attempt} died; somebody must decide whether to run it again."
        )
        engine.journal.advance(
            call,
            State.RETRYING,
            {"attempt": call.attempt, "error": msgspec.to_builtins(error), "delay": None, "waiting_for": "approval"},
        )
        if _admit_again(engine, call):
            engine.remember(call)
            ask_again(engine, call, error.message)
            return "asked"
        return "unavailable"
    text = (
        f"the process that ran attempt {call.attempt} died before an outcome was recorded: the tool's effect may or may not "
        "have happened. Check, then submit a new call; tools that may repeat declare read_only or idempotent."
    )
    _fail(engine, call, "outcome_unknown", text)
    return "unknown"


def _queue_again(engine: LocalEngine, call: LiveCall, record: Record, what: str) -> str:
    waiting = record.waiting_for == "approval"
    if not _admit_again(engine, call):
        return "unavailable"
    engine.remember(call)
    due = _DUE if engine.gives_away else 0.0  # who claimed it only to end it must not give it away again
    if record.deadline is not None:
        left = record.deadline - elapsed(engine.clock, record.created_at, call.events[0].data)
        if left <= due:
            engine.pipeline.stop(call, "deadline", engine.settled)
            return "cancelled"
        call.deadline_timer = engine.clock.call_later(left, engine.expire, call, "deadline")
    if waiting:
        call.waiting_for = "approval"
        asked = next((e for e in reversed(call.events) if e.type == "approval_requested"), None)
        timeout = asked.data.get("timeout") if asked is not None else None
        if asked is not None and timeout is not None:
            left = timeout - elapsed(engine.clock, asked.at, asked.data)
            if left <= due:
                engine.pipeline.stop(call, "approval", engine.settled)
                return "cancelled"
            call.queue_timer = engine.clock.call_later(left, engine.expire, call, "approval")
        return "asked"
    engine.proceed(call)
    return what


def _admit_again(engine: LocalEngine, call: LiveCall) -> bool:
    """The tool of today must still take the arguments of then, and they must be here."""
    if call.lost:
        engine.pipeline.fail(call, LOST, engine.settled)
        return False
    find, _, validate = engine.pipeline.stages[:3]
    edit = edit_of(call)
    try:
        find.registered(call)  # type: ignore[attr-defined]  # the first stage is `Find`
        validate(call)  # first, as it finds the secrets that no complaint may tell
        if edit is not None:
            judge_edit(engine, call)
    except Exception as error:
        if edit is not None and isinstance(error, InvalidInput | PermissionDenied):
            engine.pipeline.fail(call, unfit(error, edit), engine.settled)
            return False
        text = f"the tool changed while the call was under way, and does not take its arguments any more: {error}"
        _fail(engine, call, "tool_unavailable", text)
        return False
    engine.plans.fit(call)
    call.retries_left = max(call.required_tool().options.max_retries - _retries(call), 0)
    if call.state is State.PENDING:
        engine.caching.fit(call)
    return True


def _retries(call: LiveCall) -> int:
    """How many retries were spent. Running again after a death is none."""
    retrying = (
        e.data.get("error") or {} for e in call.events if e.type == "state_changed" and e.state is State.RETRYING
    )
    return sum(1 for error in retrying if error.get("code") != "outcome_unknown")


def _unknown(message: str) -> ToolError:
    return ToolError(code="outcome_unknown", message=message, type="OutcomeUnknown")


def _fail(engine: LocalEngine, call: LiveCall, code: str, message: str, **details: Any) -> None:
    error = ToolError(code=code, message=message, type="".join(w.title() for w in code.split("_")), details=details)
    engine.pipeline.fail(call, error, engine.settled)
