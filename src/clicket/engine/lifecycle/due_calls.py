"""Calls that wait for their time (`not_before`): without an owner, in a queue from which no process claims, found by an index of due times.

The order of writes loses no call, whatever process dies between them:
 1. The call is created, or claimed, and its owner records that it waits (`waiting_for` is "time").
 2. The owner writes a document whose key begins with the due time. Documents are read in the order of their keys.
 3. The owner gives the call up, into the queue of waiting calls. If it died before that, the call has a dead owner and is recovered.

Every process reads the first documents from time to time, and at the next due time that it knows. When a call is due, one process
claims it, records that it is due and puts it into the queue of its tool; then it is claimed and run like any other, also by a process whose
date is behind: what is on record as due waits no more. A document is removed only if its call does not wait for its time (any more).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b

import msgspec

from clicket.engine.core import Core
from clicket.engine.fleet.queues import FIRST_VERSION
from clicket.engine.journal import Entry, Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event, Record, read
from clicket.model.call import seconds_of
from clicket.model.codec import canonical
from clicket.model.ports import QueueName, Stored, StoredDocument, Timer, agree, put_away, sleep

__all__ = ["FIRST_LOOK", "LOOK_EVERY", "DueCalls", "LateStats"]

logger = logging.getLogger("clicket.engine")
LOOK_EVERY = 1.0
FIRST_LOOK = 0.02
_KIND = "due"
_LATE = "late"
"""The field of the note that a call is due: seconds."""
_STEP = 100
_LOOK_AGAIN = 1.0
_encode = msgspec.json.Encoder().encode


class _Waiting(msgspec.Struct, frozen=True):
    """The body of a document: the identity of the call."""

    id: str
    thread: str
    caller: str


_decode = msgspec.json.Decoder(_Waiting).decode


class LateStats(msgspec.Struct):
    """How late this process was with what was due: seconds between the due time and the commit that let it run."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.most = max(self.most, seconds)


class DueCalls:
    def __init__(self, core: Core, ending: Ending, handover: HandOver) -> None:
        self._journal = core.journal
        self._clock = core.clock
        self._store = core.store
        self._live = core.live
        self._timers = core.timers
        self._ending = ending
        self._handover = handover
        self._stored_calls = core.stored_calls
        self._claimer = core.claimer
        self._slots = core.slots
        self._spawn = core.spawn
        self._phase = core.phase
        self._wake: tuple[float, Timer] | None = None
        self._looking = False
        self._again = False
        self.late = LateStats()

    # A call that is not due yet.

    def wait_of(self, call: Call) -> float:
        """How many seconds the call must wait for its time."""
        due = call.request.not_before
        if due is None or call.entry.state is not State.PENDING or _was_due(call.entry.events):
            return 0.0
        return max(seconds_of(due) - self._clock.now(), 0.0)

    def defer(self, call: Call) -> None:
        """Record that the call waits for its time, then leave it to the process that is there when it is due."""
        entry = call.entry
        slot = call.take_trial()
        if slot is not None:  # a call that waits is not a trial of a failed tool
            self._slots.give(slot)
        self._live.add(call)
        self._timers.end_wait(call)
        note = {"text": "It waits until its time.", "waiting_for": "time", "not_before": call.request.not_before}
        self._journal.record(entry, "note", note)
        self._journal.wait_for(entry, "time")
        self._journal.commit(entry, partial(self._on_kept, call))

    def _on_kept(self, call: Call, error: ClicketError | None) -> None:
        self._ending.on_created(call, error)
        if error is None:
            self._spawn(self._put_away(call))

    async def _put_away(self, call: Call) -> None:
        assert call.request.not_before is not None
        entry = call.entry
        due = seconds_of(call.request.not_before)
        body = _encode(_Waiting(entry.id, entry.thread, entry.caller))
        while not self._phase.closing:
            try:
                await self._store.put_document(_KIND, _key(due, entry.id, entry.thread, entry.caller), body, None)
                break
            except ClicketError as error:
                logger.warning("call %s waits for its time here, not in the store yet: %s", entry.id, error)
                await sleep(self._clock, _LOOK_AGAIN)
        if self._phase.closing or call.ending or call.failure is not None or entry.fenced:
            return  # a closing runtime releases the call; the next one puts it away
        self._journal.give_up_ownership(entry, queue=put_away(entry.tool))
        self._journal.commit(entry, partial(self._on_put_away, call))
        self._wake_at(due)

    def _on_put_away(self, call: Call, error: ClicketError | None) -> None:
        if error is None:
            self._stored_calls.given_away(call.entry.key)
        self._ending.let_go(call, error or Fenced(f"call {call.id} waits for its time in the store"))

    # Calls that are due.

    async def look(self) -> None:
        """Let every call run that is due, and wake up for the next one."""
        if self._looking:
            self._again = True
            return
        self._looking = True
        try:
            self._again = True
            while self._again and not self._phase.closing:
                self._again = False
                await self._look()
        finally:
            self._looking = False

    async def _look(self) -> None:
        after, released, agreed = "", False, False
        try:
            while not self._phase.closing:
                page = await self._store.documents(_KIND, after=after, limit=_STEP)
                for document in page:
                    due = _due_of(document)
                    if due <= self._clock.now() and not agreed:
                        await agree(self._clock)
                        agreed = True
                    if due > self._clock.now():
                        self._wake_at(due)
                        return
                    released = await self._release(document, due) or released
                if len(page) < _STEP:
                    return
                after = page[-1].key
        finally:
            if released:
                self._claimer.nudge()

    def _wake_at(self, due: float) -> None:
        """Look at this time, unless a look is planned before it. One timer, however many calls wait."""
        delay = due - self._clock.now()
        if self._phase.closing or delay > LOOK_EVERY or (self._wake is not None and self._wake[0] <= due):
            return  # what is due later is found by the look before it
        if self._wake is not None:
            self._wake[1].cancel()
        self._wake = due, self._clock.call_later(max(delay, 0.0), self._look_now)

    def _look_now(self) -> None:
        self._wake = None
        if not self._phase.closing:
            self._spawn(self._look_soon())

    async def _look_soon(self) -> None:
        try:
            await self.look()
        except ClicketError as error:
            logger.warning("calls that are due could not be read: %s", error)

    async def _release(self, document: StoredDocument, due: float) -> bool:
        """Put a due call into the queue of its tool. False: another process does, or it waits no more."""
        try:
            waiting = _decode(document.body)
        except msgspec.MsgspecError:
            await self._store.delete_document(_KIND, document.key)
            return False
        found = await self._store.load(waiting.id, waiting.thread, waiting.caller)
        if not found or not _waits(found[0]):
            await self._store.delete_document(_KIND, document.key)
            return False
        if found[0].owner is not None:  # its owner is about to give it up, or is dead: then it is recovered
            return False
        claimed = await self._store.claim(found[0].key)
        if claimed is None:
            return False
        if not _waits(claimed):
            await self._store.hand_back([claimed.key])
            return False
        try:
            await self._let_run(claimed, due)
        except ClicketError as error:  # the chore for strays releases it, and the document is still there
            logger.warning("call %s is due, and could not be queued yet: %s", claimed.id, error)
            return False
        await self._store.delete_document(_KIND, document.key)
        return True

    async def _let_run(self, claimed: Stored, due: float) -> None:
        record = read(claimed.id, claimed.events)
        entry = Entry(record.id, record.thread, record.caller, record.tool, record.created_at, record.priority)
        self._journal.adopt(
            claimed, entry, attempts=len(record.attempts), started_at=record.started_at, state=record.state
        )
        late = max(self._clock.now() - due, 0.0)
        self._journal.record(entry, "note", {"text": "It is due.", "waiting_for": None, _LATE: round(late, 3)})
        self._journal.give_up_ownership(entry, queue=_queue_of(record))
        await self._journal.flush(entry)
        self.late.add(late)
        if any(event.type == "cancel_requested" for event in entry.events):
            self._take_later(claimed.key)  # the process that asked could not claim it: this one ends it
        elif record.deadline is not None:  # this process ends a call that no process has claimed by then
            self._clock.call_later(record.deadline, self._take_later, claimed.key)

    def _take_later(self, key: int) -> None:
        if not self._phase.closing:
            self._spawn(self._handover.take(key))


def _was_due(events: Iterable[Event]) -> bool:
    """Has a process let the call run? It removes the call's document, which must not be written again meanwhile."""
    return any(event.type == "note" and _LATE in event.data and "waiting_for" in event.data for event in events)


def _waits(stored: Stored) -> bool:
    if stored.damaged is not None or not stored.events:
        return False
    record = read(stored.id, stored.events)
    return not record.state.is_terminal and record.waiting_for == "time"


def _queue_of(record: Record) -> str:
    version = "" if record.tool_version == FIRST_VERSION else record.tool_version
    return str(QueueName(record.tool, version))


def _key(due: float, id: str, thread: str, caller: str) -> str:
    """Keys are read in the order of their characters, so the time has a fixed width: milliseconds, rounded up."""
    digest = blake2b(canonical([caller, thread, id]), digest_size=12).hexdigest()
    return f"{-int(-due * 1000 // 1):015d}:{digest}"


def _due_of(document: StoredDocument) -> float:
    time = document.key.partition(":")[0]
    return int(time) / 1000 if time.isdecimal() else 0.0
