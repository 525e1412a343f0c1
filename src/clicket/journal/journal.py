"""The only writer of call state: check the table, append, then publish. Nothing is published before it is appended.

Events are staged on the call and handed to the store as one unit by `commit`. A call has at most one unit under way; what
is staged meanwhile goes with the next one, so a fast producer makes bigger units, not more of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from clicket.bridge import fulfil
from clicket.errors import ClicketError, StoreUnavailable
from clicket.journal.live import LiveCall, Then
from clicket.journal.observers import Observers
from clicket.kernel import CALL, State
from clicket.model import Event, EventType, Stage, rows_of
from clicket.ports import Append, CallRow, Clock, Duplicate, Stale, Store, Unstorable, sleep
from clicket.vault import Vault

__all__ = ["Fenced", "Journal"]

logger = logging.getLogger("clicket.journal")

Spawn = Callable[[Coroutine[Any, Any, None]], object]

_STRAIGHT = tuple(
    (CALL.advance(current, to), {"from": current._value_, "to": to._value_})
    for current, to in ((State.PENDING, State.INITIALIZING), (State.INITIALIZING, State.RUNNING))
)
_RETRY_FIRST = 0.05
_RETRY_MOST = 1.0


class Fenced(ClicketError):
    """The call belongs to another owner now; what this one says can only be kept as a late result."""

    code = "fenced"


class Journal:
    """`patience`: seconds an outcome that cannot be written is retried before those who wait for it are told."""

    def __init__(
        self, store: Store, clock: Clock, spawn: Spawn, *, patience: float = 10.0, observers: Observers | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.patience = patience
        self.observers = observers or Observers()
        self.unsaved: set[LiveCall] = set()
        self.closed = False
        self.vault: Vault | None = None
        """What seals the bytes that a call's tool keeps, where they hold a secret."""
        self.on_request: Callable[[LiveCall, list[Event]], None] | None = None
        self.on_unsaved: Callable[[LiveCall, ClicketError], None] | None = None
        self._spawn = spawn
        self._now = clock.now
        self._append = store.append
        self._edges = CALL.edges

    # Staging: nothing here is visible to anybody yet.

    def record(self, call: LiveCall, kind: EventType, data: dict[str, Any], at: float | None = None) -> None:
        """Stage an event that leaves the state as it is."""
        call.seq = seq = call.seq + 1
        call.staged.append(Event(call.id, seq, self.stamp(call) if at is None else at, kind, call.state, data))

    def record_stages(self, call: LiveCall, at: float, ended: Sequence[tuple[str, Stage]]) -> None:
        """Stage the ends of stages."""
        seq, state, id, stage = call.seq, call.state, call.id, call.staged.append
        for name, end in ended:
            seq += 1
            data = {"stage": name, "outcome": end.outcome, "duration": end.duration}
            stage(Event(id, seq, at, "stage_ended", state, data))
        call.seq = seq
        call.stages += ended

    def advance(self, call: LiveCall, to: State, data: dict[str, Any] | None = None, at: float | None = None) -> None:
        """Stage a change of state, if the table has it; else raise `InvalidTransition` and change nothing."""
        current = call.state
        if to not in self._edges[current]:
            raise CALL.refusal(current, to)
        call.state = to
        call.seq = seq = call.seq + 1
        now = self.stamp(call) if at is None else at
        body: dict[str, Any] = {"from": current._value_, "to": to._value_}
        if data is not None:
            body.update(data)
            if not self._edges[to]:
                call.ended_at = now
        call.staged.append(Event(call.id, seq, now, "state_changed", to, body))

    def start(self, call: LiveCall, attempt: int) -> None:
        """Stage an attempt's start, with the states on the way to it."""
        if call.state is not State.PENDING:
            self.advance(call, State.RUNNING)
            self.record(call, "attempt_started", {"attempt": attempt})
        else:  # the way of almost every call, without the calls: `_STRAIGHT` holds edges that the table has
            at, id, seq = self.stamp(call), call.id, call.seq
            (ready, first), (running, second) = _STRAIGHT
            call.staged += (
                Event(id, seq + 1, at, "state_changed", ready, first.copy()),
                Event(id, seq + 2, at, "state_changed", running, second.copy()),
                Event(id, seq + 3, at, "attempt_started", running, {"attempt": attempt}),
            )
            call.seq, call.state = seq + 3, running
        call.attempt = attempt
        if call.started_at is None:
            call.started_at = call.staged[-1].at

    def stamp(self, call: LiveCall) -> float:
        """Now, but never before the call's last event: the date may be set back while a call runs."""
        now, before = self._now(), call.staged or call.events
        return max(now, before[-1].at) if before else now

    # Appending: one unit of a call at a time.

    def commit(self, call: LiveCall, then: Then | None = None) -> None:
        """Append what is staged; `then` is called once it is durable, or could not be made so."""
        if then is not None:
            call.thens.append(then)
        if call.inflight is None and (call.staged or call.thens):
            self._send(call)

    def commit_soon(self, call: LiveCall, then: Then | None = None) -> None:
        """As `commit`, at the end of this turn of the loop: what is committed until then goes in the same unit."""
        if then is not None:
            call.thens.append(then)
        if call.inflight is None:
            asyncio.get_running_loop().call_soon(self.commit, call)

    async def flush(self, call: LiveCall) -> None:
        """Commit, and wait until it is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commit(call, lambda _, error: fulfil(future, None, error))
        await future

    async def sent(self, call: LiveCall) -> None:
        """Wait until nothing of a call is kept back by its unit under way: what others append from now on comes after it."""
        while call.staged and call.inflight is not None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            call.inflight[1].append(lambda _, error, future=future: fulfil(future, None, error))  # type: ignore[misc]
            await future

    def _send(self, call: LiveCall) -> None:
        events, call.staged = call.staged, []
        thens, call.thens = call.thens, []
        request = call.request
        row = CallRow(call.id, request.thread, call.caller, request.tool, call.created_at, request.priority)
        change = Append(
            row, call.seq - len(events), call.fence, rows_of(events) if events else None, call.state, call.ended_at, call.stats,
            call.key, call.waiting_for, call.owned, False, call.kept, call.cache_use,
        )  # fmt: skip
        call.kept = ()  # said once, so that no size counts twice
        if call.ended_at is not None:  # a late result must not count it again
            call.cache_use = call.stats = None
        call.inflight = (change, thens)
        self._append(change, partial(self._appended, call))

    def _appended(self, call: LiveCall, change: Append, error: ClicketError | None) -> None:
        thens = call.inflight[1] if call.inflight is not None else []
        if error is None:
            call.key = change.key
            call.inflight = None
            if self.unsaved:
                self.unsaved.discard(call)
            if call.watchers or self.observers.listeners:
                self.publish(call, change.events)
            else:
                call.events += change.events
            for then in thens:
                then(call, None)
            if call.inflight is None and (call.staged or call.thens):
                self._send(call)
        elif isinstance(error, Stale):
            self._spawn(self._rebase(call, change, thens))
        elif self.closed or isinstance(error, Duplicate | Unstorable) or change.expect == 0:
            self._give_up(call, thens, error)
        else:
            self._spawn(self._persevere(call, change, thens, error))

    def _give_up(self, call: LiveCall, thens: list[Then], error: ClicketError) -> None:
        """Nothing of this unit, nor of what was staged behind it, will ever be written."""
        self.unsaved.discard(call)
        call.inflight = None
        thens, call.thens, call.staged = thens + call.thens, [], []
        for then in thens:
            then(call, error)

    async def append(self, change: Append) -> ClicketError | None:
        """Append past the staging, and wait: for retries, and for requests into calls that others own."""
        answer: asyncio.Future[ClicketError | None] = asyncio.get_running_loop().create_future()
        self._append(change, lambda _, error: fulfil(answer, error))
        return await answer

    def publish(self, call: LiveCall, events: Sequence[Event]) -> None:
        """Show durable events to those who watch the call. A listener that raises is counted and harms nobody."""
        if not events:  # only an artifact, or a claim, was written
            return
        call.events.extend(events)
        if call.watchers:
            watchers, call.watchers = call.watchers, []
            for watcher in watchers:
                fulfil(watcher)
        self.observers.publish(call, events)

    # What can go wrong after a call exists.

    async def _rebase(self, call: LiveCall, change: Append, thens: list[Then]) -> None:
        """Another process wrote to the call: take its events in, then try again on top of them, or find us fenced."""
        try:
            stored = next((s for s in await self.store.load(call.id, call.thread, call.caller)), None)
        except StoreUnavailable as unavailable:
            await self._persevere(call, change, thens, unavailable)
            return
        if stored is None or stored.fence != call.fence:
            call.fenced = True
            said = [*change.events, *call.staged]
            self._give_up(call, thens, Fenced(f"call {call.id} was taken over by another owner", events=said))
            return
        foreign = [event for event in stored.events if event.seq > change.expect]
        written = _where(foreign, change.events)
        if written is not None:
            # Our own unit is there: it was written, and only the answer was lost. Written again it would be a second outcome.
            foreign = foreign[:written] + foreign[written + len(change.events) :]
        # Usually the number of foreign events; less when a unit of ours was given up and our own numbers ran ahead.
        by = len(foreign) if written is not None else stored.events[-1].seq - change.expect
        if by == 0 and written is None:
            self._give_up(
                call, thens, Unstorable(f"call {call.id}: the store refuses it as stale, and has nothing newer")
            )
            return
        call.staged = [_renumbered(event, by) for event in call.staged]
        call.seq += by
        if written is None:
            change.unit = change.unit and change.unit.renumbered(by)
            change.expect += by
            self.publish(call, foreign)
            self._append(change, partial(self._appended, call))
        else:
            change.unit = rows_of([event for event in stored.events if event.seq > change.expect])
            self._appended(call, change, None)
        if foreign and self.on_request is not None:
            self.on_request(call, foreign)

    async def _persevere(self, call: LiveCall, change: Append, thens: list[Then], error: ClicketError) -> None:
        """The store refused news of a call that exists. Keep trying: the outcome must not be lost while we live."""
        self.unsaved.add(call)
        delay, since, told = _RETRY_FIRST, self.clock.monotonic(), False
        while not self.closed:
            if not told and self.clock.monotonic() - since >= self.patience:
                logger.error("call %s: its news could not be stored for %.0f s: %s", call.id, self.patience, error)
                told = True
                if self.on_unsaved is not None:
                    self.on_unsaved(call, error)
            await sleep(self.clock, delay)
            delay = min(delay * 2, _RETRY_MOST)
            failure = await self.append(change)
            if failure is None or isinstance(failure, Stale | Unstorable):
                call.inflight = (change, thens)
                self._appended(call, change, failure)
                return
            error = failure
        self._give_up(call, thens, error)


def _where(events: list[Event], unit: Sequence[Event]) -> int | None:
    """At which place a unit stands among events, its numbers aside; None if it does not."""
    if not unit:
        return None
    wanted = [(event.at, event.type, event.data) for event in unit]
    found = [(event.at, event.type, event.data) for event in events]
    places = range(len(found) - len(wanted) + 1)
    return next((at for at in places if found[at : at + len(wanted)] == wanted), None)


def _renumbered(event: Event, by: int) -> Event:
    return Event(event.call_id, event.seq + by, event.at, event.type, event.state, event.data)
