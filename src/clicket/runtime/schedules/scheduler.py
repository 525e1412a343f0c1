"""Fires what is due, once over all processes.

Each open runtime looks; it fires schedules whose tool it has. A firing has three commits:
 1. The due times are decided, and the schedule's document is moved by compare-and-set: `last_due`, what runs (`firing`), what waits,
    what was skipped or missed. One process succeeds.
 2. The call of each time in `firing` is made. Its id follows from the schedule's name and the due time, so it is one call, also if
    several processes make it, or one makes it again after a crash.
 3. The times leave `firing`, and are logged as fired.

A process that dies between two of them leaves a document from which any other continues.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from clicket.engine import CallHandle, Engine
from clicket.engine.lifecycle.due_calls import FIRST_LOOK, LateStats
from clicket.engine.people.audit import AuditLog
from clicket.errors import ClicketError, Conflict, QueueFull, StoreUnavailable, UsageError
from clicket.model import ToolCall, read
from clicket.model.codec import decode
from clicket.model.ports import Clock, Store, StoredDocument, Timer, agree
from clicket.model.time_text import utc_text
from clicket.runtime.schedules.cron import Cron
from clicket.runtime.schedules.decision import decided, due_times, is_ahead, next_waiting, set_back
from clicket.runtime.schedules.schedule import KIND, Firing, Schedule, StoredSchedule, call_id, document_key
from clicket.safety.vault import Vault
from clicket.tools import Registry, Tool

__all__ = ["SEALED", "Scheduler", "start_schedules"]

logger = logging.getLogger("clicket.schedules")
SEALED = "schedule"
"""The kind of sealed arguments of a schedule."""
_TICK = 1.0
_LIST_EVERY = 5.0
_PAGE = 500
_TRIES = 20
_Submit = Callable[[ToolCall, str, list[str]], Awaitable[CallHandle]]


class _Runtime(Protocol):
    @property
    def _opened(self) -> Engine: ...
    def acting_for(self, caller: str, scopes: Any = ()) -> Any: ...


def start_schedules(runtime: _Runtime) -> Scheduler:
    """Let an opened runtime fire the schedules of its store."""

    async def submit(request: ToolCall, caller: str, scopes: list[str]) -> CallHandle:
        handle: CallHandle = await runtime.acting_for(caller, scopes)._submit(request)
        return handle

    engine = runtime._opened
    scheduler = Scheduler(
        engine.store,
        engine.clock,
        engine.registry,
        engine.vault,
        engine.audit,
        engine.schedule_late,
        submit=submit,
        spawn=engine.tasks.spawn,
        is_closing=lambda: engine.is_closing,
        runs=lambda tool: not engine.claimer.closed and (engine.gives_away or engine.queues.runs(tool)),
    )
    engine.background.every(_TICK, "schedules", scheduler.tick, first=FIRST_LOOK)
    return scheduler


class _Known(msgspec.Struct):
    """A schedule as it was read last."""

    stored: StoredSchedule
    cron: Cron
    next_at: float | None


class Scheduler:
    """`submit(request, caller, scopes)` makes a call, or finds the one that has its id. `runs(tool)`: calls of the tool can be made
    here."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        registry: Registry,
        vault: Vault,
        audit: AuditLog,
        late: LateStats,
        *,
        submit: _Submit,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        is_closing: Callable[[], bool],
        runs: Callable[[Tool], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._registry = registry
        self._vault = vault
        self._audit = audit
        self.late = late
        self._submit = submit
        self._spawn = spawn
        self._is_closing = is_closing
        self._runs = runs
        self._known: dict[str, _Known] = {}
        self._listed_at = float("-inf")
        self._wake: tuple[float, Timer] | None = None
        self._running = False

    # Looking.

    async def tick(self) -> None:
        """Fire what is due, of the schedules that are known; read all of them from time to time."""
        if self._running or self._is_closing():
            return
        self._running = True
        try:
            if self._clock.monotonic() - self._listed_at >= _LIST_EVERY:
                await self._list()
            for key, known in list(self._known.items()):
                if self._is_due(known) and not self._is_closing():
                    try:
                        await self._fire(key)
                    except StoreUnavailable:
                        raise
                    except ClicketError as error:
                        logger.warning("schedule %s could not be fired; it is tried again: %s", key, error)
            self._wake_for_next()
        finally:
            self._running = False

    def changed(self, key: str, stored: StoredSchedule | None) -> None:
        """This process wrote or removed a schedule."""
        if stored is None:
            self._known.pop(key, None)
        else:
            self._note(key, stored)
            self._wake_for_next()

    async def _list(self) -> None:
        self._listed_at = self._clock.monotonic()
        found, after = set[str](), ""
        while True:
            page = await self._store.documents(KIND, after=after, limit=_PAGE)
            for document in page:
                stored = stored_in(document)
                if stored is not None:
                    self._note(document.key, stored)
                    found.add(document.key)
            if len(page) < _PAGE:
                break
            after = page[-1].key
        self._known = {key: known for key, known in self._known.items() if key in found}

    def _note(self, key: str, stored: StoredSchedule) -> _Known | None:
        schedule = stored.schedule
        known = self._known.get(key)
        if known is not None and (known.cron.text, known.cron.timezone) == (schedule.cron, schedule.timezone):
            cron = known.cron
        else:
            try:
                cron = Cron(schedule.cron, schedule.timezone)
            except UsageError as error:  # another version, or a host without that time zone
                logger.warning("schedule %s cannot be read here: %s", schedule.name, error)
                return None
        known = self._known[key] = _Known(stored, cron, cron.after(schedule.last_due))
        return known

    def _is_due(self, known: _Known) -> bool:
        stored = known.stored
        schedule = stored.schedule
        tool = self._registry.get(stored.schedule.tool)
        if tool is None or not self._runs(tool):
            return False
        if stored.firing:
            return True
        now = self._clock.now()
        due = known.next_at is not None and known.next_at <= now
        return not schedule.paused and (due or bool(schedule.waiting) or is_ahead(schedule, now))

    def _wake_for_next(self) -> None:
        """Look again at the next due time, if it comes before the next tick. One timer for all schedules."""
        now = self._clock.now()
        times = [
            known.next_at
            for known in self._known.values()
            if known.next_at is not None and not known.stored.schedule.paused and known.next_at > now
        ]
        due = min(times, default=float("inf"))
        if due - now > _TICK or (self._wake is not None and self._wake[0] <= due):
            return
        if self._wake is not None:
            self._wake[1].cancel()
        self._wake = due, self._clock.call_later(max(due - now, 0.0), self._tick_now)

    def _tick_now(self) -> None:
        self._wake = None
        if not self._is_closing():
            self._spawn(self._tick_soon())

    async def _tick_soon(self) -> None:
        try:
            await self.tick()
        except ClicketError as error:
            logger.warning("schedules: %s", error)

    # Firing.

    async def _fire(self, key: str) -> None:
        for _ in range(_TRIES):
            document = await self._store.document(KIND, key)
            stored = None if document is None else stored_in(document)
            if document is None or stored is None:
                self._known.pop(key, None)
                return
            known = self._note(key, stored)
            if known is None or self._is_closing():
                return
            if stored.firing:
                after = await self._make_calls(stored)
                if after is None:
                    return
            else:
                after = await self._decide(known)
                if after is None:
                    return
            if await self._store.put_document(KIND, key, msgspec.json.encode(after), document.version):
                self._note(key, after)
                self._report(stored.schedule, after.schedule)
                if not after.firing:
                    return

    async def _decide(self, known: _Known) -> StoredSchedule | None:
        """The schedule after what is due was decided; None: nothing is to do."""
        await agree(self._clock)
        stored = known.stored
        now = self._clock.now()
        schedule = stored.schedule
        if schedule.paused:
            return None
        if is_ahead(schedule, now):
            logger.warning(
                "schedule %s was decided up to %s by a process whose date was wrong; it goes on from now.",
                schedule.name,
                utc_text(schedule.last_due),
            )
            return set_back(stored, known.cron, now)
        times, more = due_times(known.cron, schedule.last_due, now)
        busy = schedule.overlap != "allow" and bool(times or schedule.waiting) and await self._is_busy(schedule)
        if times:
            return decided(stored, times, now, more=more, busy=busy)
        return next_waiting(stored) if schedule.waiting and not busy else None

    async def _is_busy(self, schedule: Schedule) -> bool:
        """Has the last call not ended?"""
        if not schedule.last_call:
            return False
        found = await self._store.load(schedule.last_call, schedule.thread, schedule.caller)
        return any(not read(each.id, each.events).state.is_terminal for each in found if each.damaged is None)

    async def _make_calls(self, stored: StoredSchedule) -> StoredSchedule | None:
        """Make the calls that are decided; the schedule after that. None: it must be tried again."""
        schedule = stored.schedule
        arguments = self._arguments_of(stored)
        if arguments is None:
            logger.warning("schedule %s has sealed arguments, and this process has no key for them", schedule.name)
            return None
        log = list[Firing]()
        last = schedule.last_call
        fired = 0
        for due in stored.firing:
            request = request_of(schedule, arguments, due)
            now = self._clock.now()
            late = round(max(now - due, 0.0), 3)
            try:
                handle = await self._submit(request, schedule.caller, stored.scopes)
            except (StoreUnavailable, QueueFull) as error:
                logger.warning("schedule %s: its call is tried again: %s", schedule.name, error)
                return None
            except (Conflict, UsageError) as error:
                log.append(Firing(due=due, outcome="failed", at=now, reason=error.message[:300]))
                continue
            last, fired = handle.id, fired + 1
            self.late.add(late)
            log.append(Firing(due=due, outcome="fired", at=now, call=handle.id, late=late))
        new = msgspec.structs.replace(schedule, last_call=last, fired=schedule.fired + fired, log=schedule.logged(*log))
        return msgspec.structs.replace(stored, schedule=new, firing=[])

    def _arguments_of(self, stored: StoredSchedule) -> dict[str, Any] | None:
        if not stored.sealed:
            return stored.schedule.arguments
        plain = self._vault.unsealed(identity_of(stored.schedule), SEALED, stored.sealed)
        found = None if plain is None else decode(plain)
        return found if isinstance(found, dict) else None

    def _report(self, before: Schedule, after: Schedule) -> None:
        """What did not run is in the audit log, too, which keeps more than the schedule's own log."""
        for entry in after.log:
            if entry.outcome in ("missed", "skipped", "failed") and entry not in before.log:
                self._audit.jot(
                    "",
                    f"schedule.{entry.outcome}",
                    schedule=after.name,
                    caller=after.caller,
                    due=entry.due,
                    until=entry.until,
                    count=entry.count,
                    reason=entry.reason,
                )


def request_of(schedule: Schedule, arguments: dict[str, Any], due: float) -> ToolCall:
    """The call of one due time."""
    return ToolCall(
        schedule.tool,
        arguments,
        id=call_id(schedule.name, due),
        thread=schedule.thread,
        timeout=schedule.timeout,
        deadline=schedule.deadline,
        priority=schedule.priority,
        metadata={**schedule.metadata, "schedule": schedule.name, "due": due},
        not_before=due + _jitter(schedule, due) if schedule.jitter else None,
    )


def _jitter(schedule: Schedule, due: float) -> float:
    """The same in every process, and spread evenly over schedules and times."""
    digest = blake2b(f"{document_key(schedule.name, schedule.caller)} {due:.3f}".encode(), digest_size=8).digest()
    return schedule.jitter * int.from_bytes(digest) / 2**64


def identity_of(schedule: Schedule) -> tuple[str, str, str]:
    return schedule.caller, schedule.thread, schedule.name


def stored_in(document: StoredDocument) -> StoredSchedule | None:
    """None: another program or a newer version wrote it."""
    try:
        return msgspec.json.decode(document.body, type=StoredSchedule)
    except msgspec.MsgspecError as error:
        logger.warning("schedule %s cannot be read: %s", document.key, error)
        return None
