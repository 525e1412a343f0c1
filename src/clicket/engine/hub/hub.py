"""Which tools a thread may use now. The hub decides from the store's record, so a restart or a second process changes nothing.

The hub checks most calls from memory: it trusts what it read while the store's stamp says that no other process has written. It
reads the store first when a thread is new in this process, and always when the answer could be no: for tools that depend on
others, for tools that failed recently, and for tools with one breaker over all callers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from clicket.engine.hub.judge import Place, ToolView, hand_reason, judge, status_of
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, ToolUnavailable
from clicket.kernel import ToolStatus
from clicket.model.call import DEFAULT_THREAD
from clicket.model.codec import canonical
from clicket.model.ports import SHARED_PLACE, Clock, Store, ToolHealth, health_after
from clicket.tools import Registry, Tool

__all__ = ["Change", "ChangeRecorder", "Hub", "Step", "Watcher"]

logger = logging.getLogger("clicket.hub")

_FRESH = 0.25
"""Seconds for which a read is fresh enough, if other processes may write and reading the store means waiting."""
_MAX_AHEAD = 200
"""Threads that are read together, because calls in them will need it soon."""
_MAX_THREADS = 10_000
_TRIES = 20
Step = tuple[ToolStatus, ToolStatus, str]
"""A change of status: before, after, reason."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's status changed in a thread."""

    thread: str
    caller: str = ""
    tool: str
    before: ToolStatus
    after: ToolStatus
    reason: str
    at: float


class Slots(Protocol):
    """Slots that all processes share; the hub takes slots with one holder at a time."""

    def take_spare(self, name: str) -> bool: ...
    async def take(self, name: str, capacity: int) -> bool: ...
    def give(self, name: str) -> None: ...


class ChangeRecorder(Protocol):
    """Records a change of a status before the status is written, so that no crash loses it."""

    async def hold(self, caller: str, thread: str, tool: str, before: str, after: str, reason: str) -> Any:
        """Returns what `settle` needs."""
        ...

    async def settle(self, held: Sequence[Any], written: bool) -> None:
        """The status was written, or it was not."""
        ...


class Watcher:
    """One reader of `ThreadHub.watch`. It gets each change of this process; it finds those of other processes by reading the store."""

    __slots__ = ("changes", "news", "place")

    def __init__(self, caller: str, thread: str) -> None:
        self.place: tuple[str, str] = (caller, thread)
        self.news: asyncio.Event = asyncio.Event()
        self.changes: list[Change] = []


class _Known(msgspec.Struct, eq=False):
    """A thread's tool health as it was read, and when; `stamp` is the store's stamp at that time."""

    health: dict[str, ToolHealth]
    at: float
    epoch: int
    stamp: int | None
    is_used: bool = False
    """A call was checked with it, so the next one will need a newer read."""


class Hub:
    def __init__(
        self,
        registry: Registry,
        store: Store,
        clock: Clock,
        slots: Slots,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.registry = registry
        self.store = store
        self.clock = clock
        self.opened_at: float = clock.now()
        self.watchers: dict[Watcher, None] = {}
        self.recorder: ChangeRecorder | None = None
        self._slots = slots
        self._spawn = spawn
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._epoch = 0
        self.alone = store.durability == "none"
        """No other process can write to the store."""
        self._looked_ahead_at = -_FRESH
        self.degraded: set[tuple[str, str]] = set()
        """Threads in which a tool is, or was, unhealthy."""

    def of(self, registry: Registry) -> Hub:
        """The same hub with another registry, for reading and setting statuses. It shares what is known of threads with this one."""
        other = Hub(registry, self.store, self.clock, self._slots, self._spawn)
        other.degraded, other._known = self.degraded, self._known
        other.recorder = self.recorder
        return other

    # Before a call is accepted.

    def needs_look(self, name: str, thread: str, caller: str) -> bool:
        """Must the hub read the store before it can check a call of the tool?"""
        registry = self.registry
        place = (caller, thread)
        if name in registry.dependent or name in registry.shared:
            return True
        if self.alone and place not in self.degraded:  # no other process writes, and no failure was written
            return False
        known = self._known.get(place)
        if known is None or known.epoch != self._epoch:
            return True
        stamp = self.store.health_stamp()
        if stamp != known.stamp or (stamp is None and not self._refresh(known, name, place)):
            return True
        health = known.health.get(name)
        if health is None:
            return False
        return health.status is not None or (health.consecutive_failures > 0 and thread != DEFAULT_THREAD)

    def offers_all(self, thread: str, caller: str, lately: bool = False) -> bool:
        """Is it known, without reading the store, that the thread may use every tool? `lately`: a recent read is enough."""
        if self.registry.dependent or self.registry.shared or (caller, thread) in self.degraded:
            return False
        known = self._known.get((caller, thread)) if lately else None
        if known is not None and known.epoch == self._epoch and self.clock.monotonic() - known.at <= _FRESH:
            return True
        return self.alone

    def _refresh(self, known: _Known, name: str, place: tuple[str, str]) -> bool:
        """Read one tool's health again, if the store answers without waiting. Else: is the last read fresh enough?"""
        found = self.store.tool_health_now(*place, name)
        if found is None:
            known.is_used = True
            return self.clock.monotonic() - known.at <= _FRESH
        health = next((each for each in found if each.tool == name), None)
        if health is None:
            known.health.pop(name, None)
        else:
            known.health[name] = health
            if _is_degraded(health):
                self.degraded.add(place)
        return True

    async def look(self, name: str, thread: str, caller: str) -> str | None:
        """Read the health of the thread's tools. Returns a slot if the call may be the trial of a failed tool; the caller of this
        method gives the slot back."""
        self._look_ahead((caller, thread))
        known = await self._read(caller, thread)
        tool = self.registry.get(name)
        if tool is None or status_of(tool, known.get(name), thread) is not ToolStatus.FAILED:
            return None
        place = (caller, thread)
        if not self._view(tool, known, place).available:
            return None
        slot = f"trial:{canonical([*self._breaker_place(tool, place), name]).decode()}"
        if not (self._slots.take_spare(slot) or await self._slots.take(slot, 1)):
            return None
        taken = False
        try:
            fresh = await self._read(
                caller, thread
            )  # another process's trial may have ended while we waited for the slot
            failed = status_of(tool, fresh.get(name), thread) is ToolStatus.FAILED
            taken = failed and self._view(tool, fresh, place).available
        finally:  # a slot that is never given back would block every later trial
            if not taken:
                self._slots.give(slot)
        return slot if taken else None

    def _look_ahead(self, place: Place) -> None:
        """With one thread also read the others in use, if the store must be asked: many threads are one question then, several times a
        second, and not one each."""
        now = self.clock.monotonic()
        if now - self._looked_ahead_at >= _FRESH / 2:
            self._looked_ahead_at = now
            old = now - _FRESH / 2
            soon = [
                other for other, known in self._known.items() if known.is_used and known.at <= old and other != place
            ]
            if soon:
                self._spawn(self._read_ahead(soon[:_MAX_AHEAD]))

    async def _read_ahead(self, places: Sequence[Place]) -> None:
        healthy = [place for place in places if place not in self.degraded]
        await asyncio.gather(*(self._read(*place, ahead=True) for place in healthy), return_exceptions=True)

    def check(self, call: Call, tool: Tool) -> None:
        """Refuse a call if its thread may not use the tool now. Does not wait: `look` has read the store, if that was necessary."""
        place = (call.caller, call.thread)
        known = self._known.get(place)
        health = known.health if known is not None else {}
        record = health.get(tool.name)
        if not tool.options.depends_on and (
            record is None or (not record.consecutive_failures and record.status is None)
        ):
            return
        view = self._view(tool, health, place)
        if view.available and (view.status is ToolStatus.AVAILABLE or call.trial is not None):
            return
        why = (
            view.why
            or f"{tool.name!r} failed before, and another call is trying it just now. Try again when it has ended."
        )
        raise ToolUnavailable(
            why, status=str(view.status), reason=view.reason, missing=view.missing, suggested=view.suggested
        )

    def _view(self, tool: Tool, health: dict[str, ToolHealth], place: Place) -> ToolView:
        return judge(tool, self.registry, health, self.clock.now(), self.opened_at, place)

    def _breaker_place(self, tool: Tool, place: Place) -> Place:
        """Where the failures in a row are counted that take the tool out of use."""
        return SHARED_PLACE if tool.options.breaker == "shared" else place

    # After a call ended.

    def ended(self, call: Call) -> None:
        """The outcome is durable, and the store has counted it: apply it to what this process has read."""
        stats = call.stats
        if stats is None or stats.effect == "none" or not stats.tool:
            return
        if stats.effect == "failed":
            self.degraded.add((call.caller, call.thread))
        elif not self.degraded:
            return
        known = self._known.get((call.caller, call.thread))
        if known is None:
            if stats.effect == "failed":
                self.announce(call.caller, call.thread, stats.tool)
            return
        old = known.health.get(stats.tool)
        quiet = old is None or (not old.consecutive_failures and old.announced == "available")
        if stats.effect == "failed" or not quiet:
            known.health[stats.tool] = health_after(old, stats)
            self.announce(call.caller, call.thread, stats.tool)

    def announce(self, caller: str, thread: str, name: str) -> None:
        """Announce the status of a tool, if it is another than the one that was announced last."""
        tool = self.registry.get(name)
        if tool is not None:
            self._spawn(self._announce_change(caller, thread, tool))

    async def _announce_change(self, caller: str, thread: str, tool: Tool) -> None:
        """Announce a new status, once among all processes: by the process that records the announcement."""
        place = caller, thread = self._breaker_place(tool, (caller, thread))
        try:
            for _ in range(_TRIES):
                health = await self._read(caller, thread)
                record = health.get(tool.name)
                status = status_of(tool, record, thread)
                if record is None or record.announced == status:
                    break
                announced = msgspec.structs.replace(record, announced=str(status))
                before = ToolStatus(record.announced)
                reason = self._view(tool, health, place).reason
                if await self.put(place, announced, record.version, (before, status, reason)):
                    self.changed(caller, thread, tool.name, before, status, reason)
                    break
        except ClicketError as error:
            logger.warning("the status of %s in thread %s could not be announced: %s", tool.name, thread, error)
            self._wake((caller, thread))

    async def put(self, place: Place, health: ToolHealth, expect: int, *changes: Step) -> bool:
        """Write a tool's health over version `expect`, or return False. Its changes of status are recorded before (`recorder`)."""
        if self.recorder is None or not changes:
            return await self.store.put_tool_health(*place, health, expect)
        held = [
            await self.recorder.hold(*place, health.tool, str(before), str(after), reason)
            for before, after, reason in changes
        ]
        # If this raises, it may have been written: what is held stays, and is looked at later.
        written = await self.store.put_tool_health(*place, health, expect)
        await self.recorder.settle(held, written)
        return written

    def changed(self, caller: str, thread: str, tool: str, before: ToolStatus, after: ToolStatus, reason: str) -> None:
        change = Change(
            thread=thread, caller=caller, tool=tool, before=before, after=after, reason=reason, at=self.clock.now()
        )
        logger.info("tool %s in thread %s: %s -> %s: %s", tool, thread, before, after, reason)
        for watcher in self.watchers:
            if watcher.place == (caller, thread):
                watcher.changes.append(change)
                watcher.news.set()

    # Reading the store.

    async def tool_health(self, caller: str, thread: str) -> dict[str, ToolHealth]:
        """The health of the thread's tools, as the store has it now."""
        return dict(await self._read(caller, thread))

    async def rows(self, caller: str, thread: str) -> dict[str, ToolHealth]:
        """The health of the thread's tools as it is written, for a change of it: without the failures of other callers."""
        return {health.tool: health for health in await self._rows(caller, thread)}

    async def _rows(self, caller: str, thread: str) -> list[ToolHealth]:
        found = self.store.tool_health_now(caller, thread)
        return await self.store.tool_health(caller, thread) if found is None else found

    async def _read(self, caller: str, thread: str, *, ahead: bool = False) -> dict[str, ToolHealth]:
        """`ahead`: no call waits for it; it is dropped if a failure was noted meanwhile, which it may not have."""
        epoch, stamp = (
            self._epoch,
            self.store.health_stamp(),
        )  # taken before the read: what is written meanwhile is read again
        health = await self.rows(caller, thread)
        if self.registry.shared and (caller, thread) != SHARED_PLACE:
            shared = await self.rows(*SHARED_PLACE)
            health.update(
                {name: _with_shared(name, health.get(name), shared.get(name)) for name in self.registry.shared}
            )
        if ahead and (caller, thread) in self.degraded:
            return health
        found = health.values()
        known = _Known(health, self.clock.monotonic(), epoch, stamp)
        self._known[caller, thread] = known
        self._known.move_to_end((caller, thread))
        if any(_is_degraded(health) for health in found):
            self.degraded.add((caller, thread))
        else:
            self.degraded.discard((caller, thread))
        if len(self._known) > _MAX_THREADS:
            forgotten = self._known.popitem(last=False)[0]
            if not self.alone:  # the next call reads it again; without other processes, this set is the only record
                self.degraded.discard(forgotten)
        return known.health

    def invalidate(self) -> None:
        """Another process may have changed a tool's health: read the store again before the next answer."""
        self._epoch += 1
        self._wake()

    def _wake(self, place: tuple[str, str] | None = None) -> None:
        for watcher in self.watchers:
            if place is None or watcher.place == place:
                watcher.news.set()


def _with_shared(name: str, own: ToolHealth | None, shared: ToolHealth | None) -> ToolHealth:
    """A thread's tool with the failures in a row of all callers. Completions, which others depend on, stay the thread's own."""
    own, shared = own or ToolHealth(tool=name), shared or ToolHealth(tool=name)
    return msgspec.structs.replace(
        own,
        consecutive_failures=shared.consecutive_failures,
        last_failure_at=shared.last_failure_at,
        last_error=shared.last_error,
        tool_version=shared.tool_version,
        reason=hand_reason(shared) if own.status is None else own.reason,
        updated_at=max(own.updated_at, shared.updated_at),
    )


def _is_degraded(health: ToolHealth) -> bool:
    return health.consecutive_failures > 0 or health.status is not None or health.announced != "available"
