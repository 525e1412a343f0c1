"""Calls in the store: found by id, followed while another process runs them, read when they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any

from clicket.engine.phase import Phase
from clicket.errors import ClicketError, NotFound, StoreUnavailable, UsageError
from clicket.model import Event, Record, ToolResult, notes_of, read, result_of
from clicket.model.codec import decode
from clicket.model.ids import alias_of, is_alias, provider_prefix
from clicket.model.ports import Bus, Clock, Query, Store, Stored, Timer
from clicket.model.result import plain_result
from clicket.system.bridge import fulfil

__all__ = ["Closed", "StoredCalls", "closed_while_waiting"]

POLL_FIRST = 0.02
POLL_MOST = 0.25
_TICK = POLL_MOST / 2
"""Seconds between two looks at the store while messages arrive. A look reads the calls that were followed, and not read, for a tick or
more: under load most calls have ended by then."""
_MAX_OUTPUT = 16 * 1024 * 1024
_MAX_INBOX = 1_000
"""Events that wait for one reader; a slower one reads the rest from the store."""
_MAX_UNCHANGED = 10_000
"""Calls that are remembered as unchanged; of the others the store is asked."""
_MAX_EARLY = 300
"""Calls whose events are kept although this process does not know them: as many as may be in a commit that is under way."""
_UNREAD: tuple[str, list[Event]] = ("", [])
_MOST_NAMED = 1_000
"""Calls of a thread, the newest first, among which a short name is looked for."""


class Closed(ClicketError):
    """The runtime was closed while the call waited; a durable store keeps it, and the next runtime runs it."""

    code = "closed"


class _Follower:
    """One reader of a call: what it was told and has not read yet."""

    __slots__ = ("_error", "_inbox", "_tick", "_waiter", "id", "is_behind", "last")

    def __init__(self, id: str, last: int, tick: int) -> None:
        self.id = id
        self._tick = tick
        """The tick in which it began, or in which the store was last asked because time had passed."""
        self.last: int = last
        """The number of the last event in the inbox, or read from it."""
        self.is_behind = False
        """There was more than the inbox takes: the rest is read from the store."""
        self._inbox: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None
        self._error: ClicketError | None = None

    def take(self, events: list[Event]) -> bool:
        """Put new events into the inbox. False: some before them are missing."""
        fresh = [event for event in events if event.seq > self.last]
        if not fresh:
            return True
        if fresh[0].seq != self.last + 1:
            return False
        if self._inbox and len(self._inbox) + len(fresh) > _MAX_INBOX:
            self.is_behind = True
            return True
        self._inbox += fresh
        self.last = fresh[-1].seq
        self._wake()
        return True

    def take_early(self, heard: tuple[str, list[Event]] | None) -> bool:
        """As `take`, of what was heard before there was a follower. False: the store must be read."""
        return heard is not None and heard[0] == self.id and self.take(heard[1])

    def is_due(self, tick: int) -> bool:
        """Is the last look at the store, or the beginning, a whole tick ago? Then it is looked at now."""
        if tick - self._tick <= 1:
            return False
        self._tick = tick
        return True

    def fail(self, error: ClicketError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            fulfil(self._waiter)

    def take_events(self) -> list[Event]:
        inbox, self._inbox = self._inbox, []
        if not inbox and self._error is not None:
            raise self._error
        return inbox

    def news(self) -> asyncio.Future[None]:
        """A future that is done once there is something to take. The reader waits for one at a time."""
        self.is_behind = False
        self._waiter = asyncio.get_running_loop().create_future()
        if self._inbox or self._error is not None:
            self._waiter.set_result(None)
        return self._waiter


class StoredCalls:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        phase: Phase,
        bus: Bus,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._phase = phase
        self._bus = bus
        self._spawn = spawn
        self.followers: dict[int, list[_Follower]] = {}
        self._due: set[int] = set()
        self._is_reading = False
        self._timer: Timer | None = None
        self._delay = _TICK
        self._tick = 0
        self._unchanged: dict[int, None] = {}
        """Calls that this process gave away and of which it has heard nothing since: a follower need not read them at once."""
        self._early: dict[int, tuple[str, list[Event]]] = {}
        """Ids and events of calls that this process did not know as its own when it heard of them: the store sends a message with
        the commit, so a worker may have done its part before this process has read the answer."""
        self._is_closed = False

    async def find(self, id: str, thread: str | None, caller: str | None) -> Stored:
        """The one stored call of that id, or an error that says how to name it."""
        found = await self._store.load(id, thread, caller)
        if not found:
            where = f" in thread {thread!r}" if thread is not None else ""
            raise NotFound(f"there is no call {id!r}{where}. It may have been swept; the history lists what is there.")
        if len(found) > 1:
            first = [stored.events[0].data for stored in found if stored.damaged is None]
            threads, callers = {data["thread"] for data in first}, {data.get("caller", "") for data in first}
            how = "pass thread= to say which" if len(threads) > 1 else "say whose: `runtime.acting_for(caller)`"
            where = f"threads {', '.join(map(repr, sorted(threads)))}"
            if len(callers) > 1:
                where += f", callers {', '.join(map(repr, sorted(callers)))}"
            raise UsageError(f"{len(found)} calls have the id {id!r} ({where}); {how}.")
        if found[0].damaged is not None:
            raise StoreUnavailable(
                f"call {id!r} cannot be read: {found[0].damaged}. Another program wrote into {self._store.url}, or it is damaged: "
                "restore it from a backup."
            )
        return found[0]

    async def find_named(self, id: str, thread: str | None, caller: str | None) -> Stored:
        """As `find`, for people: also by the id that a provider gave the call, or by its short name in an agent's turn."""
        try:
            return await self.find(id, thread, caller)
        except NotFound:
            named = await self._named(id, thread, caller)
            if not named:
                raise
        if len(named) == 1:
            return await self.find(*next(iter(named)))
        threads, callers = ({place[part] for place in named} for part in (1, 2))
        where = f"threads {', '.join(map(repr, sorted(threads)))}"
        if len(callers) > 1:
            where += f", callers {', '.join(map(repr, sorted(callers)))}"
        raise UsageError(
            f"{len(named)} calls have the name {id!r} ({where}); pass thread= to say which, or the whole id."
        )

    async def _named(self, id: str, thread: str | None, caller: str | None) -> set[tuple[str, str, str]]:
        """Id, thread and caller of the calls with a name; of one thread the newest."""
        if "~" in id or not id or (thread or "").startswith("agent:"):
            return set()
        found = await self._store.history(
            Query(id_prefix=provider_prefix(id), thread=thread, caller=caller, limit=_MOST_NAMED)
        )
        if not found and is_alias(id):
            recent = await self._store.history(Query(thread=thread, caller=caller, limit=_MOST_NAMED))
            found = [stored for stored in recent if alias_of(stored.id) == id]
        newest: dict[tuple[str, str], tuple[str, str, str]] = {}
        for stored in found:
            if stored.damaged is None:
                first = stored.events[0].data
                place = (first["thread"], first.get("caller", ""))
                newest.setdefault(place, (stored.id, *place))
        return set(newest.values())

    # Following.

    def given_away(self, key: int) -> None:
        """This process has just left a call to other processes; every message of it is still to come, unless it was faster."""
        if key in self._early:
            return
        self._unchanged[key] = None
        if len(self._unchanged) > _MAX_UNCHANGED:
            del self._unchanged[next(iter(self._unchanged))]

    def taken_back(self, key: int) -> None:
        """This process claimed a call: it gets no messages of what it writes itself."""
        self._unchanged.pop(key, None)
        self._early.pop(key, None)

    def close(self) -> None:
        """The runtime is closed: followers get an error, and nothing is read any more."""
        self._is_closed = True
        for followers in self.followers.values():
            for follower in followers:
                follower.fail(closed_while_waiting(follower.id))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_news(self, key: int | None) -> None:
        """The store hints at new events of a call; None: of any."""
        if key is None:
            self._unchanged.clear()
            self._early = dict.fromkeys(self._early, _UNREAD)
            self._look_at_all()
        else:
            self._unchanged.pop(key, None)
            if key in self._early:  # there is more than was heard
                self._early[key] = _UNREAD
            self._look_at(key)

    def on_events(self, key: int, id: str, events: list[Event]) -> None:
        """A message brought events of a call. If some before them are missing, the store is read."""
        if key in self._unchanged:
            del self._unchanged[key]
        elif key not in self.followers:
            _, before = self._early.pop(key, (id, []))
            self._early[key] = id, before + events
            if len(self._early) > _MAX_EARLY:
                del self._early[next(iter(self._early))]
        for follower in self.followers.get(key, ()):
            if follower.id == id and not follower.take(events):
                self._look_at(key)

    async def follow(self, key: int, id: str, after: int, *, is_known: bool = False) -> AsyncIterator[Event]:
        """Events after a number, up to the terminal one: from messages, else read when the store hints at them, and periodically.

        `is_known`: the caller has read or written the event of that number, so the call was there. Then nothing is read at once, if
        this process gave the call away and has heard nothing of it since; else a message may have come before this follower.
        """
        follower = self._follower(key, id, after)
        try:
            events, ended = await self._first_events(key, follower, is_known=is_known)
            while True:
                for event in events:
                    yield event
                if ended:
                    return
                events, ended = await self._next_events(key, follower)
        finally:
            self._leave(key, follower)

    def _follower(self, key: int, id: str, after: int) -> _Follower:
        if self._is_closed:
            raise closed_while_waiting(id)
        follower = _Follower(id, after, self._tick)
        self.followers.setdefault(key, []).append(follower)
        return follower

    def _leave(self, key: int, follower: _Follower) -> None:
        followers = self.followers[key]
        followers.remove(follower)
        if not followers:
            del self.followers[key]

    async def _first_events(self, key: int, follower: _Follower, *, is_known: bool) -> tuple[list[Event], bool]:
        """What is there, and whether the call has ended. Nothing, if the call `is_known` and no message of it has come yet."""
        if not is_known:
            id, after = follower.id, follower.last
            try:
                # From the last known event on: if not even that is there, the call was swept.
                found = await self._store.events(key, id, max(after - 1, 0)) or await self._store.events(key, id, 0)
            except StoreUnavailable:
                if self._phase.closing:
                    raise closed_while_waiting(id) from None
                raise
            if not found:
                raise _swept(id)
            self._unchanged.pop(key, None)
            follower.take([event for event in found if event.seq > after])
            if found[-1].state.is_terminal:
                return follower.take_events(), True
        elif key not in self._unchanged and not follower.take_early(self._early.pop(key, None)):
            self._look_at(key)
        self._look_later()
        return _up_to_the_end(follower.take_events())

    async def _next_events(self, key: int, follower: _Follower) -> tuple[list[Event], bool]:
        """The events that come at the same time together, up to the terminal one, and whether it is among them."""
        if follower.is_behind:
            self._look_at(key)
        try:
            await follower.news()
            return _up_to_the_end(follower.take_events())
        except StoreUnavailable:
            if self._phase.closing:
                raise closed_while_waiting(follower.id) from None
            raise

    def _look_at_all(self) -> None:
        for key in list(self.followers):
            self._look_at(key)

    def _look_at_old(self) -> None:
        """Look at the calls that were followed, or looked at, a whole tick ago, and at most `POLL_MOST`."""
        for key, (follower, *_) in list(self.followers.items()):
            if follower.is_due(self._tick):
                self._look_at(key)

    def _look_at(self, key: int) -> None:
        if key in self.followers and not self._is_closed:
            self._due.add(key)
            if not self._is_reading:
                self._is_reading = True
                self._spawn(self._read())

    async def _read(self) -> None:
        """Read the calls that are due, all in one question, until none is."""
        try:
            while self._due:
                due, self._due = self._due, set()
                known = {
                    key: (self.followers[key][0].id, min(follower.last for follower in self.followers[key]))
                    for key in due
                    if key in self.followers
                }
                try:
                    self._give(await self._store.news(known) if known else {})
                except ClicketError as error:
                    if len(known) == 1 or (isinstance(error, StoreUnavailable) and error.transient):
                        self._fail(known, error)
                    else:  # one call that cannot be read must not affect the others
                        await self._read_each(known)
        finally:
            self._is_reading = False

    async def _read_each(self, known: dict[int, tuple[str, int]]) -> None:
        for key, place in known.items():
            try:
                self._give(await self._store.news({key: place}))
            except ClicketError as error:
                self._fail([key], error)

    def _give(self, found: Mapping[int, list[Event]]) -> None:
        for key, events in found.items():
            self._unchanged.pop(key, None)
            for follower in self.followers.get(key, ()):
                if events:
                    follower.take(events)
                else:
                    follower.fail(_swept(follower.id))

    def _fail(self, keys: Iterable[int], error: ClicketError) -> None:
        for key in keys:
            for follower in self.followers.get(key, ()):
                follower.fail(error)

    def _look_later(self) -> None:
        """One timer for all followed calls. While messages arrive, it is only a safety net."""
        if self._timer is None:
            self._delay = _TICK if self._bus.trouble is None else POLL_FIRST
            self._timer = self._clock.call_later(self._delay, self._look_again)
        elif self._bus.trouble is not None and self._delay > POLL_FIRST:
            self._timer.cancel()
            self._delay = POLL_FIRST
            self._timer = self._clock.call_later(self._delay, self._look_again)

    def _look_again(self) -> None:
        if not self.followers:  # a timer for each call would cost more than one that runs out
            self._timer = None
            return
        self._tick += 1
        if self._bus.trouble is None:
            self._look_at_old()
            self._delay = _TICK
        else:
            self._look_at_all()
            self._delay = min(self._delay * 2, POLL_MOST)
        self._timer = self._clock.call_later(self._delay, self._look_again)

    async def result(self, stored: Stored, id: str) -> ToolResult:
        """Wait for the outcome of a call that another process runs, or read the one it has."""
        events = stored.events
        if not events or not events[-1].state.is_terminal:
            follower = self._follower(stored.key, id, len(events))
            try:
                part, ended = await self._first_events(stored.key, follower, is_known=bool(events))
                events = events + part
                while not ended:
                    part, ended = await self._next_events(stored.key, follower)
                    events += part
            finally:
                self._leave(stored.key, follower)
        return plain_result(events) or await self._with_output(read(id, events))

    async def _with_output(self, record: Record) -> ToolResult:
        """Read an output that was too big for the journal from its artifact, if it fits in memory."""
        if record.truncated and type(record.artifact) is str:
            data = await self._store.read_artifact(record.artifact, 0, _MAX_OUTPUT + 1)
            if len(data) <= _MAX_OUTPUT:
                text = data.decode(errors="replace")
                record.output = decode(data) if notes_of(record).get("artifact_type") == "json" else text
        return result_of(record)


def _up_to_the_end(events: list[Event]) -> tuple[list[Event], bool]:
    """Without what was recorded after the call had ended; and has it?"""
    if not events or not events[-1].state.is_terminal:
        return events, False
    end = len(events)
    while end > 1 and events[end - 2].state.is_terminal:
        end -= 1
    return events[:end], True


def closed_while_waiting(id: str) -> Closed:
    return Closed(f"the runtime was closed; call {id} goes on without it.")


def _swept(id: str) -> NotFound:
    return NotFound(f"call {id!r} was swept while it was being read; nothing of it is left.")
