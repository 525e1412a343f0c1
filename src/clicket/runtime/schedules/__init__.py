"""Schedules: calls that are made again and again, at times of a cron form in a time zone.

- `cron`: the five fields, and when they fire, also where the clock is set forward or back
- `schedule`: what is stored of a schedule, and shown of it
- `decision`: which firings run, wait, are skipped or were missed: the overlap and catch-up policies
- `scheduler`: fires what is due, once over all processes
- `view`: `Runtime.schedule` and `Runtime.schedules`
"""

from __future__ import annotations

from clicket.runtime.schedules.cron import Cron
from clicket.runtime.schedules.schedule import CatchUp, Firing, Overlap, Schedule
from clicket.runtime.schedules.scheduler import Scheduler, start_schedules
from clicket.runtime.schedules.view import ScheduleOptions, Schedules, schedule, schedules

__all__ = [
    "CatchUp",
    "Cron",
    "Firing",
    "Overlap",
    "Schedule",
    "ScheduleOptions",
    "Scheduler",
    "Schedules",
    "schedule",
    "schedules",
    "start_schedules",
]
