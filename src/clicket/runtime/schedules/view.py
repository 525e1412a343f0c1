"""`Runtime.schedule` and `Runtime.schedules`: schedules of a store, made, listed, paused, resumed and removed."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypedDict, Unpack

import msgspec

from clicket.engine import Engine
from clicket.engine.actions.decision_checks import examine
from clicket.engine.live_call import Origin
from clicket.engine.stages import Policy
from clicket.errors import NotFound, StoreUnavailable, ToolNotFound, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import Arguments, Event, Record, ToolCall
from clicket.model.arguments import parse_arguments
from clicket.model.codec import encode
from clicket.model.ports import Clock, Records, StoredDocument
from clicket.model.request import checked
from clicket.runtime.schedules.cron import Cron
from clicket.runtime.schedules.schedule import (
    KIND,
    CatchUp,
    Overlap,
    Schedule,
    StoredSchedule,
    check_policies,
    document_key,
    is_name,
)
from clicket.runtime.schedules.scheduler import SEALED, Scheduler, identity_of, stored_in
from clicket.safety.vault import Vault, look
from clicket.tools import Registry

__all__ = ["ScheduleOptions", "Schedules", "schedule", "schedules"]

_TRIES = 20
_PAGE = 500
_MAX_NEXT = 1_000
_BATCH = 50
"""Times that are computed before other tasks of the event loop run."""
_KEPT = ("created_at", "last_due", "waiting", "last_call", "fired", "skipped", "missed", "log", "paused")
"""What a change of a schedule does not change."""
_DERIVED = (*_KEPT, "updated_at", "next_at")


class ScheduleOptions(TypedDict, total=False):
    """The keywords of a schedule beside its name, its cron form, its tool and its arguments."""

    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    jitter: float
    thread: str | None
    timeout: float | None
    deadline: float | None
    priority: int
    metadata: dict[str, Any] | None


class _Audit(Protocol):
    @property
    def record(self) -> Callable[..., Awaitable[None]]: ...


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin
    _scheduler: Scheduler | None

    @property
    def audit(self) -> _Audit: ...

    @property
    def _opened(self) -> Engine: ...

    @property
    def schedules(self) -> Schedules: ...


async def schedule(
    runtime: _Runtime,
    name: str,
    cron: str,
    tool: str,
    arguments: Arguments = None,
    *,
    by: str = "",
    **options: Unpack[ScheduleOptions],
) -> Schedule:
    """Call a tool again and again: `await rt.schedule("nightly", "30 2 * * *", "report", {...}, timezone="Europe/Berlin")`.

    `overlap`: while the call before has not ended, a due time is skipped ("skip"), waits ("queue") or runs beside it ("allow").
    `catch_up`: of the times that were missed while no process was there, "none" run, only the "last", or "all". `jitter`: seconds by which
    each call waits longer at most.

    A schedule of that name is changed; if nothing is different, nothing is written, so a program may do this at each start. It runs in
    the name of its caller, in processes that have the tool.
    """
    return await runtime.schedules.put(name, cron, tool, arguments, by=by, **options)


class Schedules:
    """The schedules of a store; of one caller, for a runtime that acts for one."""

    def __init__(
        self,
        store: Records,
        clock: Clock,
        registry: Registry,
        policy: Policy,
        vault: Vault,
        scheduler: Scheduler,
        caller: str | None,
        origin: Origin,
        record: Callable[..., Awaitable[None]],
        *,
        max_arguments_size: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._registry = registry
        self._policy = policy
        self._vault = vault
        self._scheduler = scheduler
        self._max_size = max_arguments_size
        self._caller = caller
        self._origin = origin
        self._record = record

    async def put(
        self,
        name: str,
        cron: str,
        tool: str,
        arguments: Arguments = None,
        *,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Make or change a schedule; as `Runtime.schedule`."""
        made = self._checked(name, cron, tool, arguments, dict(options))
        key = document_key(name, made.schedule.caller)
        for _ in range(_TRIES):
            document = await self._store.document(KIND, key)
            old = None if document is None else stored_in(document)
            new = self._merged(made, old)
            if new is old:
                return self._shown(new)
            body = msgspec.json.encode(new)
            expect = 0 if document is None else document.version
            if await self._store.put_document(KIND, key, body, expect):
                self._scheduler.changed(key, new)
                what = "schedule.created" if document is None else "schedule.changed"
                await self._record(what, by=by, schedule=name, tool=tool, cron=new.schedule.cron)
                return self._shown(new)
        raise _contended(name)

    async def list(self) -> Sequence[Schedule]:
        """Every schedule, in the order of their names."""
        found, after = list[Schedule](), ""
        while True:
            page = await self._store.documents(KIND, after=after, limit=_PAGE)
            for document in page:
                stored = stored_in(document)
                if stored is not None and self._caller in (None, stored.schedule.caller):
                    found.append(self._shown(stored))
            if len(page) < _PAGE:
                return found
            after = page[-1].key

    async def get(self, name: str, *, caller: str | None = None) -> Schedule:
        """One schedule; `NotFound`. `caller`: if callers of this runtime have schedules of the same name."""
        _, stored = await self._find(name, caller)
        return self._shown(stored)

    async def next(self, name: str, count: int = 5, *, caller: str | None = None) -> Sequence[float]:
        """The next times, in seconds since the epoch, without jitter; also of a paused schedule."""
        if type(count) is not int or not 1 <= count <= _MAX_NEXT:
            raise UsageError(f"count must be a number from 1 to {_MAX_NEXT:,}, not {count!r}.")
        _, stored = await self._find(name, caller)
        shown = stored.schedule
        cron = Cron(shown.cron, shown.timezone)
        times = builtins.list[float]()
        due = cron.after(max(shown.last_due, self._clock.now()))
        while due is not None and len(times) < count:
            times.append(due)
            if len(times) % _BATCH == 0:
                await asyncio.sleep(0)
            due = cron.after(due)
        return times

    async def pause(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a schedule fire no more until it is resumed. Calls that it made go on."""
        return await self._set(name, True, by, caller)

    async def resume(self, name: str, *, by: str = "", caller: str | None = None) -> Schedule:
        """Let a paused schedule fire again, from the next time on: what was due meanwhile was not missed."""
        return await self._set(name, False, by, caller)

    async def remove(self, name: str, *, by: str = "", caller: str | None = None) -> bool:
        """Remove a schedule; its calls stay. False: there is none."""
        try:
            document, stored = await self._find(name, caller)
        except NotFound:
            return False
        removed = await self._store.delete_document(KIND, document.key)
        self._scheduler.changed(document.key, None)
        if removed:
            await self._record("schedule.removed", by=by, schedule=name, tool=stored.schedule.tool)
        return removed

    # Inside.

    async def _set(self, name: str, paused: bool, by: str, caller: str | None) -> Schedule:
        for _ in range(_TRIES):
            document, stored = await self._find(name, caller)
            old = stored.schedule
            now = self._clock.now()
            if old.paused is paused:
                return self._shown(stored)
            last = old.last_due if paused else max(old.last_due, now)
            new = msgspec.structs.replace(
                stored, schedule=msgspec.structs.replace(old, paused=paused, last_due=last, updated_at=now)
            )
            if await self._store.put_document(KIND, document.key, msgspec.json.encode(new), document.version):
                self._scheduler.changed(document.key, new)
                await self._record("schedule.paused" if paused else "schedule.resumed", by=by, schedule=name)
                return self._shown(new)
        raise _contended(name)

    async def _find(self, name: str, caller: str | None) -> tuple[StoredDocument, StoredSchedule]:
        whose = self._caller if caller is None else caller
        if self._caller is not None and whose != self._caller:
            whose = self._caller
        found: StoredDocument | None = None
        if not is_name(name):
            raise NotFound(f"there is no schedule {name!r:.120}.")
        if whose is not None:
            found = await self._store.document(KIND, document_key(name, whose))
        else:  # the program's own first, else the one of any caller
            found = await self._store.document(KIND, document_key(name, ""))
            if found is None:
                page = await self._store.documents(KIND, after=document_key(name, ""), limit=2)
                mine = [each for each in page if each.key.startswith(document_key(name, ""))]
                if len(mine) > 1:
                    raise UsageError(f"several callers have a schedule {name!r}; name the caller.")
                found = mine[0] if mine else None
        stored = None if found is None else stored_in(found)
        if found is None or stored is None:
            raise NotFound(f"there is no schedule {name!r:.120}.")
        return found, stored

    def _checked(
        self, name: str, cron: str, tool: str, arguments: Arguments, options: dict[str, Any]
    ) -> StoredSchedule:
        """The schedule as it will be stored, or `UsageError`, `ToolNotFound`, `InvalidInput`, `PermissionDenied`."""
        unknown = [key for key in options if key not in ScheduleOptions.__annotations__]
        if unknown:
            near = did_you_mean(unknown[0], ScheduleOptions.__annotations__)
            raise UsageError(f"a schedule has no keyword {unknown[0]!r}.{near}")
        overlap, catch_up = options.get("overlap", "skip"), options.get("catch_up", "last")
        jitter = options.get("jitter", 0.0)
        check_policies(name, overlap, catch_up, jitter)
        parsed = Cron(cron, options.get("timezone", "UTC"))
        known = self._registry.get(tool) if isinstance(tool, str) else None
        if known is None or known.traits.internal or known.traits.part_of:
            near = did_you_mean(str(tool), [each.name for each in self._registry])
            raise ToolNotFound(f"there is no tool {str(tool)!r:.100} here that a schedule could call.{near}")
        thread = options.get("thread") or f"schedule:{name}"
        request = checked(
            ToolCall(
                tool,
                None,
                thread=thread,
                timeout=options.get("timeout"),
                deadline=options.get("deadline"),
                priority=options.get("priority", 0),
                metadata=options.get("metadata") or {},
            )
        )
        caller = self._origin.caller
        scopes = sorted(self._origin.scopes)
        size = self._max_size
        plain = parse_arguments(arguments, max_size=size)
        created = Event(name, 1, 0.0, "created", State.PENDING, {"scopes": scopes})
        trial = Record(
            id=name, tool=tool, thread=thread, state=State.PENDING, created_at=0.0, caller=caller, events=[created]
        )
        examine(self._registry, self._policy, trial, plain, max_size=size)
        now = self._clock.now()
        made = Schedule(
            name=name,
            cron=parsed.text,
            timezone=parsed.timezone,
            tool=tool,
            arguments=plain,
            thread=thread,
            overlap=overlap,
            catch_up=catch_up,
            jitter=float(jitter),
            caller=caller,
            timeout=request.timeout,
            deadline=request.deadline,
            priority=request.priority,
            metadata=dict(request.metadata or {}),
            created_at=now,
            updated_at=now,
            last_due=now,
        )
        secrets = look(plain, dict(request.metadata or {}), known.options.sensitive)
        if secrets is None or not secrets.masked:
            return StoredSchedule(schedule=made, scopes=scopes)
        if not self._vault.seals:
            raise UsageError(
                f"the arguments of schedule {name!r} hold a secret, which is not stored in the clear. Set CLICKET_SECRET_KEY (then it is "
                "encrypted), or let the tool read it from its environment."
            )
        shown = msgspec.structs.replace(made, arguments=secrets.arguments, metadata=secrets.metadata or {})
        sealed = self._vault.seal(identity_of(made), SEALED, encode(plain))
        return StoredSchedule(schedule=shown, scopes=scopes, sealed=sealed)

    def _merged(self, made: StoredSchedule, old: StoredSchedule | None) -> StoredSchedule:
        """The new definition with the history of the old one; the old one itself if it is the same."""
        if old is None:
            return made
        before = old.schedule
        after = made.schedule
        same_times = (before.cron, before.timezone) == (after.cron, after.timezone)
        kept = {name: getattr(before, name) for name in _KEPT}
        if not same_times:
            kept["last_due"] = max(before.last_due, after.last_due)
        merged = msgspec.structs.replace(after, **kept)
        unsealed = not made.sealed and not old.sealed
        reset = {name: getattr(before, name) for name in _DERIVED}
        if unsealed and made.scopes == old.scopes and msgspec.structs.replace(merged, **reset) == before:
            return old
        return msgspec.structs.replace(made, schedule=merged, firing=old.firing)

    def _shown(self, stored: StoredSchedule) -> Schedule:
        shown = stored.schedule
        if shown.paused:
            return shown
        return msgspec.structs.replace(shown, next_at=Cron(shown.cron, shown.timezone).after(shown.last_due))


class _Schedules:
    """The schedules of the store: `await rt.schedules.list()`, `get(name)`, `next(name)`, `pause(name)`, `resume(name)`, `remove(name)`."""

    def __get__(self, runtime: _Runtime, owner: Any = None) -> Schedules:
        engine, scheduler = runtime._opened, runtime._scheduler
        assert scheduler is not None
        return Schedules(
            engine.store,
            engine.clock,
            engine.registry,
            engine.policy,
            engine.vault,
            scheduler,
            runtime._caller,
            runtime._origin,
            runtime.audit.record,
            max_arguments_size=engine.limits.max_arguments_size,
        )


schedules = _Schedules()


def _contended(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"schedule {name!r} changed all the time. Try again.", transient=True)
