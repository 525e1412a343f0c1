"""May a tool be called in a thread now, and if not, why? A pure answer from what the thread has on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from clicket.kernel import ToolStatus
from clicket.ports import ToolHealth
from clicket.tools import Group, Registry, Tool, names_of

__all__ = ["ToolState", "ToolView", "judge", "judge_all", "offered", "status_of"]

Standings = Mapping[str, ToolHealth]


class ToolState(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool stands in a thread. Times are seconds since the epoch."""

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
    """A tool as it is offered, or not."""

    name: str
    available: bool
    status: ToolStatus
    reason: str
    missing: list[str] = []
    """Tools that have to complete first."""
    suggested: list[str] = []
    """Tools that can be called now and bring this one nearer."""
    depends_on: list[str] = []
    state: ToolState
    why: str = ""
    """A whole sentence for whoever called it all the same."""

    @property
    def is_root(self) -> bool:
        return not self.depends_on


def status_of(tool: Tool, health: ToolHealth | None) -> ToolStatus:
    """Set by hand, or as the failures in a row say. Dependencies do not count: they are about the thread, not the tool."""
    if health is None:
        return ToolStatus.AVAILABLE
    if health.status is not None:
        return ToolStatus(health.status)
    failed = health.consecutive_failures >= tool.options.failure_threshold
    return ToolStatus.FAILED if failed else ToolStatus.AVAILABLE


def judge_all(registry: Registry, all_health: Standings, now: float, opened_at: float) -> list[ToolView]:
    return [judge(tool, registry, all_health, now, opened_at) for tool in registry]


def offered(tool: Tool, all_health: Standings, now: float) -> bool:
    """What `judge` says of `available`, without the words: agents ask it of every tool before every step."""
    if tool.options.depends_on and _missing(tool.options.depends_on, all_health):
        return False
    health = all_health.get(tool.name)
    if health is None:
        return True
    status = status_of(tool, health)
    return status is ToolStatus.AVAILABLE or (status is ToolStatus.FAILED and _rested(tool, health, now))


def judge(tool: Tool, registry: Registry, all_health: Standings, now: float, opened_at: float) -> ToolView:
    health = all_health.get(tool.name)
    status = status_of(tool, health)
    groups = tool.options.depends_on
    missing = _missing(groups, all_health)
    trial = status is ToolStatus.FAILED and health is not None and _rested(tool, health, now)
    available = not missing and (status is ToolStatus.AVAILABLE or trial)
    suggested = _suggested(missing, registry, all_health, now) if missing else []
    reason = _reason(tool, status, health, missing, trial=trial)
    return ToolView(
        name=tool.name,
        available=available,
        status=status,
        reason=reason,
        missing=missing,
        suggested=suggested,
        depends_on=names_of(groups),
        state=_state(status, reason, health, opened_at, trial=trial),
        why="" if available else _why(tool, status, health, missing, suggested, now) + _unknown(missing, registry),
    )


def _state(status: ToolStatus, reason: str, health: ToolHealth | None, opened_at: float, *, trial: bool) -> ToolState:
    if health is None:
        return ToolState(status=status, reason=reason, last_updated=opened_at)
    return ToolState(
        status=status,
        reason=reason,
        last_updated=health.updated_at,
        consecutive_failures=health.consecutive_failures,
        last_success_at=health.last_success_at,
        last_failure_at=health.last_failure_at,
        should_rebind=trial,
        completions=health.completions,
        failures=health.failures,
    )


def _rested(tool: Tool, health: ToolHealth, now: float) -> bool:
    """The cool-down is over. One that was declared failed by hand stays so until a person says otherwise."""
    last = health.last_failure_at
    return health.status is None and (last is None or now - last >= tool.options.cooldown)


def _missing(groups: Iterable[Group], all_health: Standings) -> list[str]:
    missing: list[str] = []
    for group in groups:
        if group.kind == "sequence":
            missing += _rest_of_sequence(group.names, all_health)
            continue
        undone = [name for name in group.names if not _completed(name, all_health)]
        if group.kind == "all" or len(undone) == len(group.names):
            missing += undone
    return list(dict.fromkeys(missing))


def _completed(name: str, all_health: Standings) -> bool:
    health = all_health.get(name)
    return health is not None and health.completions > 0


def _rest_of_sequence(names: tuple[str, ...], all_health: Standings) -> list[str]:
    """The names that are still to come. Of each tool the first and the last completion are known, which is enough unless a
    tool ran before its turn, and in its turn, and again after its successor: then it is asked for once more."""
    at = float("-inf")
    for number, name in enumerate(names):
        health = all_health.get(name)
        times = () if health is None else (health.first_success_at, health.last_success_at)
        after = next((time for time in times if time is not None and time >= at), None)
        if after is None:
            return list(names[number:])
        at = after
    return []


def _suggested(missing: list[str], registry: Registry, all_health: Standings, now: float) -> list[str]:
    """The way to a tool begins with what can be called now. There are no cycles, so this ends."""
    found: list[str] = []
    for name in missing:
        tool = registry.get(name)
        if tool is None:
            continue
        view = judge(tool, registry, all_health, now, 0.0)
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
    if health is not None and health.consecutive_failures:
        return f"the last run failed: {health.last_error}" if health.last_error else "the last run failed"
    if health is not None and health.reason and health.updated_at >= (health.last_success_at or 0.0):
        return health.reason
    if health is not None and health.completions:
        return "the last run completed"
    return "dependencies are met" if tool.options.depends_on else "not used in this thread yet"


def _unknown(missing: list[str], registry: Registry) -> str:
    names = [name for name in missing if registry.get(name) is None]
    return f" Not registered here: {', '.join(names)}; whoever runs this must add it." if names else ""


def _why(
    tool: Tool, status: ToolStatus, health: ToolHealth | None, missing: list[str], suggested: list[str], now: float
) -> str:
    if status is not ToolStatus.AVAILABLE:
        reason, wait = _reason(tool, status, health, [], trial=False), ""
        if status is ToolStatus.FAILED and health is not None and health.status is None:
            left = tool.options.cooldown - (now - (health.last_failure_at or now))
            wait = f" One call may try it in {max(left, 0.0):.0f} s."
        return f"{tool.name!r} is {status} in this thread: {reason}.{wait} Use another tool, or let somebody reset it."
    groups = tool.options.depends_on
    one = len(groups) == 1 and groups[0].kind == "any"  # else all that is named is needed
    first = f" Call {(' or ' if one else ', ').join(map(repr, suggested))} first." if suggested else ""
    wanted, undone = "; ".join(map(str, groups)), ", ".join(missing)
    return f"{tool.name!r} waits for {wanted}; not completed in this thread yet: {undone}.{first}"
