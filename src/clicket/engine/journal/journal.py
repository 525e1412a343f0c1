"""The only writer of call state: check the table, append, then publish. Nothing is published before it is appended.

Events are staged on the entry and handed to the store as one unit by `commit`. A call has at most one unit under way; what is
staged meanwhile goes with the next one, so a fast producer makes bigger units, not more of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from clicket.engine.journal.entry import Entry, OnDurable, Then
from clicket.engine.journal.observers import Observers
from clicket.engine.journal.rebase import Fenced, news_since
from clicket.engine.journal.staging import Staging
from clicket.errors import ClicketError, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, Stage, rows_of
from clicket.model.ports import (
    Append,
    CacheUse,
    Calls,
    Clock,
    Duplicate,
    OutcomeStats,
    Stale,
    Stored,
    Unstorable,
    sleep,
)
from clicket.model.unit import End, Start
from clicket.system.bridge import fulfil

__all__ = ["Journal"]

logger = logging.getLogger("clicket.journal")

_RETRY_FIRST, _RETRY_MOST = 0.05, 1.0
_ADMISSION, _STAGES = 3, 6
"""How many stages a call passes before it starts, and in all."""
_RUNNING, _COMPLETED = State.RUNNING, State.COMPLETED  # reading a member from its enum costs ten times as much


class Journal(Staging):
    """`patience`: seconds for which an outcome that cannot be written is retried before its waiters get the error. They get it at once
    while the store is known to take nothing, as on a full disk: `trouble` says why then.

    `on_signal(entry, events)` is called when another process wrote a signal into a call of ours, `on_unsaved(entry, error)`
    when events could not be stored for `patience` seconds, `on_not_created(entry, error)` when a call's first commit was refused for
    good, whichever part made it: after the callbacks of that commit.
    """

    def __init__(
        self,
        store: Calls,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        worker: str = "",
        host: str = "",
        observers: Observers | None = None,
        on_signal: Callable[[Entry, list[Event]], None] | None = None,
        on_unsaved: Callable[[Entry, ClicketError], None] | None = None,
        on_not_created: Callable[[Entry, ClicketError], None] | None = None,
        patience: float = 10.0,
    ) -> None:
        super().__init__(clock, worker, host)
        self.clock = clock
        self.patience = patience
        self.observers = observers or Observers()
        self.unsaved: set[Entry] = set()
        self._trouble: StoreUnavailable | None = None
        self.closed = False
        self._store = store
        self._spawn = spawn
        self._on_signal = on_signal
        self._on_unsaved = on_unsaved
        self._on_not_created = on_not_created
        self._append = store.append
        self.groups = True
        """Several calls are under way, so their appends are worth one commit. Admission sets it; see `Append.group`."""
        self._done, self._plain_done = self._on_appended, self._on_plain_appended
        self._listeners = self.observers.listeners

    # Appending: one unit of a call at a time.

    def open(self, entry: Entry, created: dict[str, Any], arguments: Any, stages: Mapping[str, Stage]) -> None:
        """Stage the beginning of a call: `created`, and the ends of its first stages. `arguments` None: they were refused.

        `stages` may get more items later, which are not of the beginning."""
        entry.opening = (created, arguments, stages, len(stages))
        entry.last_at = entry.created_at

    def start_and_commit(self, entry: Entry, then: Then, subject: Any) -> None:
        """`start`, then `commit`; `then(subject, error)` is called as `on_durable` of `commit` is. A new call that starts at once
        is written as one packed unit."""
        opening = entry.opening
        if opening is None or opening[3] != _ADMISSION or entry.later:
            self.start(entry)
            self.commit(entry, partial(then, subject))
            return
        # The path of almost every call, without a look at the table: the table's own tests check these transitions.
        created, arguments, stages, _ = opening
        now = self._now
        created_at = entry.created_at
        at = now()
        if at < created_at:  # noqa: PLR1730  # `max` costs three times as much
            at = created_at
        find, authorize, validate = stages.values()
        unit = Start(
            created, arguments, created_at, find.duration, authorize.duration, validate.duration, at, 1, self.worker, self._host
        )  # fmt: skip
        entry.opening = None
        entry.seq = 7
        entry.state = _RUNNING
        entry.attempts = 1
        entry.started_at = entry.last_at = at
        entry.then = (then, subject)
        entry.inflight = change = Append(entry, 0, entry.fence, unit, _RUNNING, group=self.groups)
        if entry.unless is not None:
            change.unless = entry.unless
        if entry.maker is not None:
            change.maker = entry.maker.sent
        append = self._append
        append(change, self._plain_done)

    def complete(
        self,
        entry: Entry,
        at: float,
        stages: Mapping[str, Stage],
        recorded: int,
        duration: float,
        output: Any,
        metadata: dict[str, Any] | None,
        stats: OutcomeStats,
        cache_use: CacheUse | None,
        then: Then,
        subject: Any,
    ) -> bool:
        """Commit the plain end of a call as one packed unit; `then(subject, error)` is called once it is durable. False: more must
        be written with it, or a stage is missing; use `end`."""
        if (
            entry.state is not _RUNNING
            or recorded != _ADMISSION
            or entry.inflight is not None
            or entry.rows
            or entry.later
            or entry.artifacts
            or entry.claims
            or len(stages) != _STAGES
        ):
            return False
        seq = entry.seq
        _, _, _, execute, process, persist = stages.values()
        unit = End(
            seq + 1, at, _RUNNING, execute.duration, process.duration, persist.duration, duration, output, metadata
        )
        entry.seq = seq + 4
        entry.state = _COMPLETED
        entry.ended_at = entry.last_at = at
        entry.then = (then, subject)
        entry.inflight = change = Append(
            entry, seq, entry.fence, unit, _COMPLETED, at, stats, entry.key, entry.waiting_for, entry.owned, False, (), cache_use,
            group=self.groups,
        )  # fmt: skip
        append = self._append
        append(change, self._plain_done)
        return True

    def commit(self, entry: Entry, on_durable: OnDurable | None = None) -> None:
        """Append what is staged; `on_durable` is called once it is durable, or cannot be made so. With a callback and nothing staged an
        empty unit is appended: the store refuses it as stale if another process wrote, and its events are taken in (`_rebase`)."""
        if entry.inflight is not None:
            if on_durable is None:
                return
            if entry.rows or entry.later or entry.artifacts or entry.owned != entry.inflight.owned:
                entry.later = (*entry.later, on_durable)
            else:  # nothing is staged behind the unit under way
                entry.callbacks = (*entry.callbacks, on_durable)
        elif on_durable is not None or entry.rows or entry.opening is not None or entry.artifacts:
            self._send(entry, () if on_durable is None else (on_durable,))

    def commit_soon(self, entry: Entry, on_durable: OnDurable | None = None) -> None:
        """As `commit`, at the end of this iteration of the loop: what is committed until then goes in the same unit."""
        if on_durable is not None:
            entry.later = (*entry.later, on_durable)
        if entry.inflight is None and not entry.commits_soon:
            entry.commits_soon = True
            asyncio.get_running_loop().call_soon(self._commit_later, entry)

    def commit_with_next(self, entry: Entry, on_durable: OnDurable | None = None) -> None:
        """As `commit`; a store that commits in groups writes it in one commit with what is appended next in this turn of the
        loop, of this call or another."""
        self.groups = True
        self.commit(entry, on_durable)

    def _commit_later(self, entry: Entry) -> None:
        entry.commits_soon = False
        if entry.inflight is None and (entry.later or not entry.is_idle):
            callbacks, entry.later = entry.later, ()
            self._send(entry, callbacks)

    async def flush(self, entry: Entry) -> None:
        """Commit, and wait until it is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commit(entry, lambda error: fulfil(future, None, error))
        await future

    async def flush_all(self, entries: Sequence[Entry]) -> list[ClicketError]:
        """Commit calls, and wait until each is durable, or cannot be made so; returns the errors of those. One future for all."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(entries)
        errors = []

        def on_durable(error: ClicketError | None) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                errors.append(error)
            if not left:
                fulfil(future)

        for entry in entries:
            self.commit(entry, on_durable)
        if left:
            await future
        return errors

    async def sent(self, entry: Entry) -> None:
        """Wait until no staged event of a call waits for its unit under way: later appends of other calls come after it."""
        while entry.inflight is not None and entry.rows:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            entry.callbacks = (*entry.callbacks, lambda error, future=future: fulfil(future, None, error))  # type: ignore[misc]
            await future

    def _send(self, entry: Entry, callbacks: tuple[OnDurable, ...]) -> None:
        if entry.opening is not None:
            self._rows(entry)
        unit, entry.rows = entry.rows or None, None
        if entry.later:
            callbacks, entry.later = (*entry.later, *callbacks), ()
        length = 0 if unit is None else len(unit)
        change = Append(
            entry, entry.seq - length, entry.fence, unit, entry.state, entry.ended_at,
            entry.stats, entry.key, entry.waiting_for, entry.owned, False, entry.artifacts, entry.cache_use, entry.claims, entry.to,
            entry.queue, entry.unless, None, self.groups,
        )  # fmt: skip
        if entry.maker is not None and not entry.durable:
            change.maker = entry.maker.sent
        if entry.artifacts:
            entry.artifacts = ()  # sent once, so that no size is counted twice
        if entry.stats is not None:  # a late result must not count the outcome again
            entry.stats = entry.cache_use = None
        entry.inflight = change
        entry.callbacks = callbacks
        append = self._append
        append(change, self._done)

    def _on_plain_appended(self, change: Append, error: ClicketError | None) -> None:
        """As `_on_appended`, for a packed unit: nothing was staged behind it, and nothing else waits for it."""
        entry: Any = change.call
        if error is not None or entry.later or entry.rows or entry.callbacks:
            self._on_appended(change, error)
            return
        then, subject = entry.then
        entry.inflight = entry.then = None
        entry.key, entry.visible_state, entry.durable = change.key, change.state, entry.seq
        entry._units += (change.unit,)
        if self._listeners or entry.watchers:
            self._publish(entry, change.unit.length)  # type: ignore[union-attr]  # a packed unit is there
        then(subject, None)

    def _on_appended(self, change: Append, error: ClicketError | None) -> None:
        """The store has written a unit, or has refused it, or did not answer."""
        entry: Any = change.call
        if error is not None:
            self._on_refused(entry, change, error)
            return
        unit = change.unit
        entry.key = change.key
        entry.inflight = None
        entry.claims = False
        callbacks = _taken_callbacks(entry) if entry.callbacks or entry.then is not None else ()
        if self.unsaved:
            self.unsaved.discard(entry)
        entry.visible_state = change.state
        if unit is not None:
            entry.durable = change.expect + unit.length
            entry._units = (*entry._units, unit)
            if self._listeners or entry.watchers:
                self._publish(entry, unit.length)
        for callback in callbacks:
            callback(None)
        if (entry.later or entry.rows) and entry.inflight is None:
            self._send(entry, ())

    def _on_refused(self, entry: Entry, change: Append, error: ClicketError) -> None:
        if isinstance(error, Stale) and change.expect:
            self._spawn(self._rebase(entry, change))
        elif self.closed or isinstance(error, Duplicate | Unstorable) or change.expect == 0:
            self._give_up(entry, error)
        else:
            self._spawn(self._persevere(entry, change, error))

    def _give_up(self, entry: Entry, error: ClicketError) -> None:
        """Nothing of the unit under way, nor of what was staged behind it, will ever be written."""
        self.unsaved.discard(entry)
        callbacks = (*_taken_callbacks(entry), *entry.later)
        entry.inflight = entry.rows = entry.opening = None
        entry.later = ()
        for callback in callbacks:
            callback(error)
        if not entry.durable and self._on_not_created is not None:
            self._on_not_created(entry, error)

    async def append(self, change: Append) -> ClicketError | None:
        """Append without staging, and wait: for retries, and for signals to calls that other processes own."""
        answer: asyncio.Future[ClicketError | None] = asyncio.get_running_loop().create_future()
        self._append(change, lambda _, error: fulfil(answer, error))
        return await answer

    # Publishing durable events.

    def watch(self, entry: Entry) -> asyncio.Future[None]:
        """A future that is done when the next events of a call are durable, or when this process will publish no more of them."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.watchers = (*entry.watchers, watcher)
        return watcher

    def wake_watchers(self, entry: Entry) -> None:
        watchers, entry.watchers = entry.watchers, ()
        for watcher in watchers:
            fulfil(watcher)

    def _publish(self, entry: Entry, count: int) -> None:
        """Publish the last `count` durable events to the call's watchers and to the listeners."""
        events = entry.events[-count:]
        if entry.watchers:
            self.wake_watchers(entry)
        if self._listeners:
            self.observers.publish(entry, events)

    # A call that this process takes over, or lost.

    def adopt(
        self,
        stored: Stored,
        entry: Entry,
        *,
        attempts: int,
        started_at: float | None,
        state: State,
        claims: bool = False,
    ) -> None:
        """Set an entry to the stored state of a call that was just claimed, or that its next commit `claims`."""
        last = stored.events[-1]
        entry.key, entry.fence, entry.claims = stored.key, stored.fence, claims
        entry.state = entry.visible_state = state
        entry.seq = entry.durable = last.seq
        entry.last_at = last.at
        entry.attempts, entry.started_at = attempts, started_at
        entry._events = list(stored.events)

    def fence_off(self, entry: Entry) -> None:
        """Mark the entry of a call that this process lost: the store refuses what is appended through it."""
        entry.fenced = True

    # Errors after a call exists.

    @property
    def trouble(self) -> StoreUnavailable | None:
        """Why events of running calls cannot be stored until a person has done something; None: they can, as far as is known."""
        return self._trouble if self.unsaved else None

    def is_stuck(self, entry: Entry) -> bool:
        """True if the call has events that cannot be stored until a person has done something."""
        return self._trouble is not None and entry in self.unsaved

    async def _rebase(self, entry: Entry, change: Append) -> None:
        """Stale: another process wrote to the call, or our unit is there and its answer was lost. Apply the events of the other one, then
        append again after them, unless our unit is there, or we are fenced."""
        try:
            stored = next((s for s in await self._store.load(entry.id, entry.thread, entry.caller)), None)
        except StoreUnavailable as unavailable:
            await self._persevere(entry, change, unavailable)
            return
        if stored is not None and stored.damaged is not None:
            self._give_up(entry, Unstorable(f"call {entry.id} cannot be written to: {stored.damaged}"))
            return
        if stored is None or stored.fence != entry.fence:
            entry.fenced = True
            unwritten = [*change.events, *(Event(entry.id, *row) for row in entry.rows or ())]
            self._give_up(entry, Fenced(f"call {entry.id} was taken over by another owner", events=unwritten))
            return
        foreign, by, is_written = news_since(stored.events, change.expect, change.events)
        if change.claim and not is_written:  # never appended again: the other claimer may have the same fence
            entry.fenced = True
            self._give_up(entry, Fenced(f"call {entry.id} was claimed or changed by another process"))
            return
        if by == 0 and not is_written:
            self._give_up(entry, Unstorable(f"call {entry.id}: the store refuses it as stale, and has nothing newer"))
            return
        if entry.rows:
            entry.rows = entry.rows.renumbered(by)
        entry.seq += by
        if not is_written:
            if change.unit is not None:
                change.unit = change.unit.renumbered(by)
            change.expect += by
            self._take_in(entry, foreign)
            self._append(change, self._done)
        else:
            change.unit = rows_of([event for event in stored.events if event.seq > change.expect])
            self._on_appended(change, None)
        if foreign and self._on_signal is not None:
            self._on_signal(entry, foreign)

    def _take_in(self, entry: Entry, foreign: list[Event]) -> None:
        """Apply the events of another process as durable events of the call."""
        if foreign:
            entry.durable = foreign[-1].seq
            entry.last_at = max(entry.last_at, foreign[-1].at)
            entry._units = (*entry._units, rows_of(foreign))
            self._publish(entry, len(foreign))

    async def _persevere(self, entry: Entry, change: Append, error: ClicketError) -> None:
        """The store refused a unit of a call that exists. Retry: the outcome must not be lost while this process lives."""
        if not self.unsaved:
            self._trouble = None  # of calls that this process has no more
        self.unsaved.add(entry)
        delay = _RETRY_FIRST
        since = self.clock.monotonic()
        reported = False
        while not self.closed:
            lasting = self._note_trouble(error)
            if lasting or (not reported and self.clock.monotonic() - since >= self.patience):
                if not lasting:
                    logger.error(
                        "call %s: its events could not be stored for %.0f s: %s", entry.id, self.patience, error
                    )
                    reported = True
                if self._on_unsaved is not None:
                    self._on_unsaved(entry, error)
            await sleep(self.clock, delay)
            delay = min(delay * 2, _RETRY_MOST)
            failure = await self.append(change)
            if failure is None and self._trouble is not None:
                self._trouble = None
                logger.warning("events of running calls can be stored again")
            if failure is None or isinstance(failure, Stale | Unstorable):
                entry.inflight = change
                self._on_appended(change, failure)
                return
            error = failure
        self._give_up(entry, error)

    def _note_trouble(self, error: ClicketError) -> bool:
        """True if no retry can succeed until a person has done something. The log says so once, however many calls wait for it."""
        if not isinstance(error, StoreUnavailable) or not error.lasting:
            return False
        if self._trouble is None:
            logger.error(
                "events of running calls cannot be stored, and new calls are refused until they can: %s", error
            )
        self._trouble = error
        return True


def _taken_callbacks(entry: Entry) -> tuple[OnDurable, ...]:
    """What is to be called for the unit under way. It is called once: the entry has none of it any more."""
    callbacks, packed = entry.callbacks, entry.then
    entry.callbacks, entry.then = (), None
    if packed is None:
        return callbacks
    then, subject = packed
    return (partial(then, subject), *callbacks)
