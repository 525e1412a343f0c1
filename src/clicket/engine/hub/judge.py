"""The circuit breaker and the dependencies of tools: may a tool be called in a thread now, and if not, why?

Pure functions of the health that the thread has on record. `model/ports/health.py` counts failures, and `engine/stages/persist.py`
says which outcomes count as failures of the tool.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

import msgspec

from clicket.kernel import ToolStatus
from clicket.model.call import DEFAULT_THREAD
from clicket.model.ports import ToolHealth
from clicket.tools import Group, Registry, Tool, names_of

__all__ = ["Place", "ToolState", "ToolView", "hand_reason", "judge", "judge_all", "offered", "status_of"]

HealthByTool = Mapping[str, ToolHealth]
Place = tuple[str, str]
"""A caller and a thread."""


class ToolState(msgspec.Struct, frozen=True, kw_only=True):
    """The status and counters of a tool in a thread. Times are seconds since the epoch."""

    status: ToolStatus
    reason: str
    last_updated: float
    consecutive_failures: int = 0
    last_success_at: float | None = None
    last_failure_at: float | None = None
    should_rebind: bool = False
    """It failed, its cool-down is over, and one call may try it: offer it to the model again."""
    completions: int = 0
    failures: int = 0


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in a thread: may it be called now, and if not, why."""

    name: str
    available: bool
    status: ToolStatus
    reason: str
    missing: list[str] = []
    """Tools that have to complete first."""
    suggested: list[str] = []
    """Tools that can be called now, towards the missing ones."""
    depends_on: list[str] = []
    state: ToolState
    why: str = ""
    """The error message for a call that is made nevertheless; empty when the tool is available."""

    @property
    def is_root(self) -> bool:
        return not self.depends_on


def status_of(tool: Tool, health: ToolHealth | None, thread: str) -> ToolStatus:
    """The status that a person set, else the one that follows from consecutive failures. Dependencies do not change it."""
    if health is None:
        return ToolStatus.AVAILABLE
    if health.status is not None:
        return ToolStatus(health.status)
    failed = _has_breaker(tool, thread) and _failures_in_a_row(tool, health) >= tool.options.failure_threshold
    return ToolStatus.FAILED if failed else ToolStatus.AVAILABLE


def _has_breaker(tool: Tool, thread: str) -> bool:
    """Calls without a thread have no conversation: the failures of one caller must not stop the others."""
    return thread != DEFAULT_THREAD or tool.options.breaker == "shared"


def _failures_in_a_row(tool: Tool, health: ToolHealth) -> int:
    """Failures of another version say nothing about this one."""
    return health.consecutive_failures if health.tool_version == tool.options.version else 0


def hand_reason(health: ToolHealth) -> str:
    """The reason that a person gave, if no call ended since. An outcome sets `updated_at` and one of the other times alike."""
    last = max(health.last_success_at or 0.0, health.last_failure_at or 0.0)
    return health.reason if health.updated_at > last else ""


def judge_all(registry: Registry, health: HealthByTool, now: float, opened_at: float, place: Place) -> list[ToolView]:
    return [judge(tool, registry, health, now, opened_at, place) for tool in registry]


def offered(tool: Tool, health: HealthByTool, now: float, thread: str) -> bool:
    """`judge(...).available` without the texts: agents compute it for every tool before every step."""
    if tool.options.depends_on and _missing(tool.options.depends_on, health):
        return False
    record = health.get(tool.name)
    if record is None:
        return True
    status = status_of(tool, record, thread)
    return status is ToolStatus.AVAILABLE or (status is ToolStatus.FAILED and _cooled_down(tool, record, now))


def judge(tool: Tool, registry: Registry, health: HealthByTool, now: float, opened_at: float, place: Place) -> ToolView:
    """`health`: that of the thread; of a tool with a shared breaker with the failures of all callers."""
    record = health.get(tool.name)
    status = status_of(tool, record, place[1])
    groups = tool.options.depends_on
    missing = _missing(groups, health)
    trial = status is ToolStatus.FAILED and record is not None and _cooled_down(tool, record, now)
    available = not missing and (status is ToolStatus.AVAILABLE or trial)
    suggested = _suggested(missing, registry, health, now, place) if missing else []
    reason = _reason(tool, status, record, missing, trial=trial)
    return ToolView(
        name=tool.name,
        available=available,
        status=status,
        reason=reason,
        missing=missing,
        suggested=suggested,
        depends_on=names_of(groups),
        state=_state(tool, status, reason, record, opened_at, trial=trial),
        why=""
        if available
        else _why(tool, status, record, missing, suggested, now, place) + _unknown(missing, registry),
    )


def _state(
    tool: Tool, status: ToolStatus, reason: str, health: ToolHealth | None, opened_at: float, *, trial: bool
) -> ToolState:
    if health is None:
        return ToolState(status=status, reason=reason, last_updated=opened_at)
    return ToolState(
        status=status,
        reason=reason,
        last_updated=health.updated_at,
        consecutive_failures=_failures_in_a_row(tool, health),
        last_success_at=health.last_success_at,
        last_failure_at=health.last_failure_at,
        should_rebind=trial,
        completions=health.completions,
        failures=health.failures,
    )


def _cooled_down(tool: Tool, health: ToolHealth, now: float) -> bool:
    """Is the cool-down over? A tool that a person set to failed stays failed until a person changes it."""
    last = health.last_failure_at
    return health.status is None and (last is None or now - last >= tool.options.cooldown)


def _missing(groups: Iterable[Group], health: HealthByTool) -> list[str]:
    missing: list[str] = []
    for group in groups:
        if group.kind == "sequence":
            missing += _rest_of_sequence(group.names, health)
            continue
        undone = [name for name in group.names if not _completed(name, health)]
        if group.kind == "all" or len(undone) == len(group.names):
            missing += undone
    return list(dict.fromkeys(missing))


def _completed(name: str, health: HealthByTool) -> bool:
    record = health.get(name)
    return record is not None and record.completions > 0


def _rest_of_sequence(names: tuple[str, ...], health: HealthByTool) -> list[str]:
    """The names that have not completed in order. Only the first and the last completion of each tool are on record. So if a
    tool ran before its turn, in its turn, and again after its successor, the successor has to run once more."""
    at = float("-inf")
    for number, name in enumerate(names):
        record = health.get(name)
        times = () if record is None else (record.first_success_at, record.last_success_at)
        after = next((time for time in times if time is not None and time >= at), None)
        if after is None:
            return list(names[number:])
        at = after
    return []


def _suggested(missing: list[str], registry: Registry, health: HealthByTool, now: float, place: Place) -> list[str]:
    """The tools to call first: those of the missing that are available, and what the others need. There are no cycles."""
    found: list[str] = []
    for name in missing:
        tool = registry.get(name)
        if tool is None:
            continue
        view = judge(tool, registry, health, now, 0.0, place)
        found += [name] if view.available else view.suggested
    return list(dict.fromkeys(found))


def _reason(tool: Tool, status: ToolStatus, health: ToolHealth | None, missing: list[str], *, trial: bool) -> str:
    if status is ToolStatus.FAILED and health is not None and health.status is None:
        cause = f"; the last one: {health.last_error}" if health.last_error else ""
        tried = "; one call may try it now" if trial else ""
        return f"{health.consecutive_failures} failures in a row{cause}{tried}"
    if status is not ToolStatus.AVAILABLE:
        return (health.reason if health is not None else "") or "set by hand"
    if missing:
        return f"waits for {', '.join(missing)}"
    return (_history(tool, health) if health is not None else "") or (
        "dependencies are met" if tool.options.depends_on else "not used in this thread yet"
    )


def _history(tool: Tool, health: ToolHealth) -> str:
    """Why an available tool is available, from what happened last."""
    by_hand = hand_reason(health)
    if by_hand:
        return by_hand
    if _failures_in_a_row(tool, health):
        return f"the last run failed: {health.last_error}" if health.last_error else "the last run failed"
    if health.consecutive_failures:
        return f"version {tool.options.version!r} has not run in this thread yet"
    if (health.last_failure_at or 0.0) > (health.last_success_at or 0.0):
        return "it works again after a failure"
    return "the last run completed" if health.completions else ""


def _unknown(missing: list[str], registry: Registry) -> str:
    names = [name for name in missing if registry.get(name) is None]
    return f" Not registered here: {', '.join(names)}; the operator must register it." if names else ""


def _why(
    tool: Tool,
    status: ToolStatus,
    health: ToolHealth | None,
    missing: list[str],
    suggested: list[str],
    now: float,
    place: Place,
) -> str:
    if status is not ToolStatus.AVAILABLE:
        reason = _reason(tool, status, health, [], trial=False)
        wait = ""
        if status is ToolStatus.FAILED and health is not None and health.status is None:
            left = tool.options.cooldown - (now - (health.last_failure_at or now))
            wait = f" One call may try it in {max(left, 0.0):.0f} s."
        shared = tool.options.breaker == "shared" and bool(wait)
        where = "for all callers" if shared else "in this thread"
        command = _reset_command(tool, ("", DEFAULT_THREAD) if shared else place)
        return (
            f"{tool.name!r} is {status} {where}: {reason.rstrip('.')}.{wait} Use another tool, or ask an operator to make it "
            f"available again: `{command}`."
        )
    groups = tool.options.depends_on
    one = len(groups) == 1 and groups[0].kind == "any"  # else every suggested tool is needed
    first = f" Call {(' or ' if one else ', ').join(map(repr, suggested))} first." if suggested else ""
    wanted = "; ".join(map(str, groups))
    undone = ", ".join(missing)
    return f"{tool.name!r} waits for {wanted}; not completed in this thread yet: {undone}.{first}"


def _reset_command(tool: Tool, place: Place) -> str:
    caller, thread = place
    words = ["clicket", "reset", thread, tool.name, *(("--caller", caller) if caller else ())]
    return shlex.join(words)
