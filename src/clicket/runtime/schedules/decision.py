"""Which due times of a schedule run, wait, are skipped or were missed. Nothing here reads a clock or a store.

A time that is late by more than `GRACE` seconds was missed: no process was there. `catch_up` says what happens to missed times:
`none` of them run, only the `last` one, or `all`. A missed time is run only as the overlap policy allows, like any other.

`overlap` says what happens while the call of an earlier time has not ended: the new one is skipped, waits in a queue until it has
ended, or runs beside it.
"""

from __future__ import annotations

import msgspec

from clicket.runtime.schedules.cron import Cron
from clicket.runtime.schedules.schedule import Firing, Schedule, StoredSchedule

__all__ = ["GRACE", "MAX_CATCH_UP", "MAX_WAITING", "decided", "due_times", "is_ahead", "next_waiting", "set_back"]

GRACE = 60.0
MAX_CATCH_UP = 1_000
"""Times that are looked at one by one; earlier ones were missed, whatever the policy."""
MAX_WAITING = 1_000


def due_times(cron: Cron, last_due: float, now: float) -> tuple[list[float], bool]:
    """The times after `last_due` up to now, the newest `MAX_CATCH_UP` of them; and whether there were more."""
    times: list[float] = []
    due = cron.before(now)
    while due is not None and due > last_due:
        if len(times) == MAX_CATCH_UP:
            return times[::-1], True
        times.append(due)
        due = cron.before(due - 0.001)
    return times[::-1], False


def is_ahead(schedule: Schedule, now: float) -> bool:
    """Were times decided that are not due? The date of the process that did was wrong then, or this one's is set back now."""
    return schedule.last_due > now + GRACE


def set_back(stored: StoredSchedule, cron: Cron, now: float) -> StoredSchedule:
    """The schedule as if it was decided up to now. What ran too early is not run again: its due times have their calls."""
    schedule = msgspec.structs.replace(stored.schedule, last_due=cron.before(now) or now)
    return msgspec.structs.replace(stored, schedule=schedule)


def decided(stored: StoredSchedule, times: list[float], now: float, *, more: bool, busy: bool) -> StoredSchedule:
    """The schedule after these times were decided. `busy`: the call of an earlier time has not ended. `more`: see `due_times`."""
    old = stored.schedule
    runs, missed = _caught_up(old, times, now)
    log: list[Firing] = []
    if more:
        log.append(Firing(due=old.last_due, until=times[0], outcome="missed", at=now, count=0, reason="too many"))
    if missed:
        reason = "no process was there"
        log.append(Firing(due=missed[0], until=missed[-1], outcome="missed", at=now, count=len(missed), reason=reason))
    firing = list(stored.firing)
    waiting = list(old.waiting)
    skipped = 0
    for due in runs:
        occupied = busy or firing or waiting
        if old.overlap == "allow" or not occupied:
            firing.append(due)
        elif old.overlap == "queue" and len(waiting) < MAX_WAITING:
            waiting.append(due)
            log.append(Firing(due=due, outcome="queued", at=now, reason="the call before it has not ended"))
        else:
            skipped += 1
            full = "too many wait already" if old.overlap == "queue" else "the call before it has not ended"
            log.append(Firing(due=due, outcome="skipped", at=now, reason=full))
    new = msgspec.structs.replace(
        old,
        last_due=times[-1],
        waiting=waiting,
        skipped=old.skipped + skipped,
        missed=old.missed + len(missed),
        log=old.logged(*log),
    )
    return msgspec.structs.replace(stored, schedule=new, firing=firing)


def next_waiting(stored: StoredSchedule) -> StoredSchedule:
    """The call before has ended: the first time that waits runs."""
    first, *rest = stored.schedule.waiting
    schedule = msgspec.structs.replace(stored.schedule, waiting=rest)
    return msgspec.structs.replace(stored, schedule=schedule, firing=[*stored.firing, first])


def _caught_up(schedule: Schedule, times: list[float], now: float) -> tuple[list[float], list[float]]:
    """The times that run, and those that do not because they were missed."""
    missed = [due for due in times if now - due > GRACE]
    on_time = times[len(missed) :]
    if schedule.catch_up == "all":
        return times, []
    if schedule.catch_up == "last" and not on_time:
        return missed[-1:], missed[:-1]
    return on_time, missed
