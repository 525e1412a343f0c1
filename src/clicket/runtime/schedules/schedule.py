"""What is stored of a schedule, and shown of it. A schedule is one document of the store, changed by compare-and-set alone."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import msgspec

from clicket.errors import UsageError
from clicket.model.time_text import utc_text

__all__ = [
    "KIND",
    "CatchUp",
    "Firing",
    "Overlap",
    "Schedule",
    "StoredSchedule",
    "call_id",
    "check_policies",
    "document_key",
    "is_name",
]

KIND = "schedule"
Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["none", "last", "all"]
_MAX_LOG = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_JITTER = 86_400.0


class Firing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one time of a schedule, or of several that were missed."""

    due: float
    outcome: Literal["fired", "queued", "skipped", "missed", "failed"]
    at: float
    """When that was decided, or when the call was made."""
    call: str = ""
    late: float = 0.0
    """Seconds between the due time and the call."""
    reason: str = ""
    until: float | None = None
    """For several that were missed: the last of them."""
    count: int = 1
    """How many were missed; 0: too many to count."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. Times are seconds since the epoch."""

    name: str
    cron: str
    timezone: str
    tool: str
    arguments: dict[str, Any]
    """Secrets are masked."""
    thread: str
    overlap: Overlap
    catch_up: CatchUp
    jitter: float
    """Each call waits up to this many seconds longer, always the same for one due time."""
    paused: bool = False
    caller: str = ""
    timeout: float | None = None
    deadline: float | None = None
    priority: int = 0
    metadata: dict[str, Any] = {}
    created_at: float = 0.0
    updated_at: float = 0.0
    last_due: float = 0.0
    """Times up to this one are decided."""
    next_at: float | None = None
    """The next time; None while it is paused. In the past: no process that has the tool is there."""
    waiting: list[float] = []
    """Due times that wait until the call before them has ended (`overlap="queue"`)."""
    last_call: str = ""
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    """How many; those that were too many to count are not in it."""
    log: list[Firing] = []
    """What became of the last times, the newest last."""

    def logged(self, *entries: Firing) -> list[Firing]:
        return [*self.log, *entries][-_MAX_LOG:]


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The body of the document."""

    schedule: Schedule
    scopes: list[str] = []
    """What the caller may do, for the policy's rules."""
    sealed: str = ""
    """The arguments, encrypted, if the shown ones are masked."""
    firing: list[float] = []
    """Due times that are decided to run, and whose calls may not be made yet. Every process makes them; their ids make them one."""


def document_key(name: str, caller: str) -> str:
    """Names have no @."""
    return f"{name}@{caller}"


def call_id(name: str, due: float) -> str:
    """The id of the call of one due time: the same in every process."""
    return f"schedule:{name}:{utc_text(due)}"


def is_name(name: Any) -> bool:
    """Can it be the name of a schedule?"""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_policies(name: Any, overlap: Any, catch_up: Any, jitter: Any) -> None:
    """Raise `UsageError` for what no schedule can have."""
    if not is_name(name):
        raise UsageError(
            f"the name of a schedule has 1 to 100 letters, digits, dots, dashes and underscores, and begins with a letter or a digit, not "
            f"{name!r:.120}."
        )
    for what, value, kind in (("overlap", overlap, Overlap), ("catch_up", catch_up, CatchUp)):
        if value not in get_args(kind):
            raise UsageError(f"{what} must be one of {', '.join(get_args(kind))}, not {value!r:.50}.")
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= _MAX_JITTER:
        raise UsageError(f"jitter must be 0 to {_MAX_JITTER:.0f} seconds, not {jitter!r:.50}.")
