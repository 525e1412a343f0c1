"""A thread's tool health as JSON, with the field names of the design documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from clicket.engine.hub.judge import ToolView
from clicket.kernel import ToolStatus
from clicket.model.ports import ToolHealth
from clicket.safety.vault import hide_known
from clicket.tools import Registry

__all__ = ["dump", "iso", "load"]


class _State(msgspec.Struct, rename="camel", kw_only=True):
    tool_name: str
    status: ToolStatus = ToolStatus.AVAILABLE
    reason: str | None = None
    last_updated: str | None = None
    consecutive_failures: int = 0
    last_success_time: str | None = None
    last_failure_time: str | None = None
    first_success_time: str | None = None
    should_rebind: bool | None = None
    execution_count: int = 0
    success_count: int = 0
    failure_count: int = 0
    last_error: str | None = None
    set_by_hand: bool | None = None


class _Snapshot(msgspec.Struct, kw_only=True):
    states: list[_State]
    config: Any = None
    timestamp: str | None = None


def iso(at: float | None) -> str | None:
    """With microseconds, which the order of completions needs; the design documents show milliseconds."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _time(text: str | None, now: float) -> float | None:
    """At most now: a failure that is dated in the future would never cool down."""
    return None if text is None else min(max(datetime.fromisoformat(text).timestamp(), 0.0), now)


def dump(views: Iterable[ToolView], health: Mapping[str, ToolHealth], registry: Registry, now: float) -> str:
    states = []
    config = {}
    for view in views:
        record = health.get(view.name) or ToolHealth(tool=view.name)
        state = _State(
            tool_name=view.name,
            status=view.status,
            reason=view.reason,
            last_updated=iso(view.state.last_updated),
            consecutive_failures=view.state.consecutive_failures,
            last_success_time=iso(record.last_success_at),
            last_failure_time=iso(record.last_failure_at),
            first_success_time=iso(record.first_success_at),
            should_rebind=view.state.should_rebind,
            execution_count=record.completions + record.failures,
            success_count=record.completions,
            failure_count=record.failures,
            last_error=record.last_error or None,
            set_by_hand=record.status is not None,
        )
        states.append(msgspec.to_builtins(state))
        tool = registry.get(view.name)
        if tool is not None:
            options = tool.options
            config[view.name] = {"failureThreshold": options.failure_threshold, "cooldown": options.cooldown}
    return json.dumps({"states": states, "config": config, "timestamp": iso(now)}, ensure_ascii=False)


def load(text: str | bytes, now: float) -> list[ToolHealth]:
    """The tool health in a snapshot; `ValueError` if it is not a snapshot. Its configuration is ignored: the live one is used."""
    snapshot = msgspec.json.decode(text, type=_Snapshot)
    names = [state.tool_name for state in snapshot.states]
    if len(set(names)) < len(names):
        raise ValueError("it has a tool twice")
    return [_tool_health(state, now) for state in snapshot.states]


def _tool_health(state: _State, now: float) -> ToolHealth:
    counts = (state.consecutive_failures, state.success_count, state.failure_count, state.execution_count)
    if min(counts) < 0 or max(counts) >= 1 << 53:
        raise ValueError(f"{state.tool_name}: a count is below 0 or too big")
    success, failure = _time(state.last_success_time, now), _time(state.last_failure_time, now)
    # A snapshot in the documents' form has no count of successes: a tool with a success time completed at least once.
    completions = max(state.success_count, int(success is not None))
    by_hand = state.status in (ToolStatus.MAINTENANCE, ToolStatus.UNAVAILABLE)
    if state.status is ToolStatus.FAILED:
        by_hand = state.set_by_hand if state.set_by_hand is not None else state.consecutive_failures == 0
    # The documents' form has no last error: use the reason.
    cause = (state.reason or "") if state.status is ToolStatus.FAILED and state.set_by_hand is None else ""
    return ToolHealth(
        tool=state.tool_name,
        completions=completions,
        failures=max(state.failure_count, state.consecutive_failures),
        consecutive_failures=state.consecutive_failures,
        first_success_at=_time(state.first_success_time, now) or success,
        last_success_at=success,
        last_failure_at=failure,
        last_error=hide_known(state.last_error or cause)[:300],
        status=str(state.status) if by_hand else None,
        reason=hide_known(state.reason or "")[:1_000] if by_hand else "",
        updated_at=_time(state.last_updated, now) or now,
    )
