"""Did a call have its effect? Read from its record alone, so that all who ask get the same answer."""

from __future__ import annotations

from typing import Literal

from clicket.kernel import State
from clicket.model.record import Record

__all__ = ["Effect", "effect_of", "is_in_doubt", "why_none"]

Effect = Literal["none", "happened", "unknown"]

_DOUBTFUL = frozenset({"cancelled", "outcome_unknown", "result_unserializable", "retrying", "timeout"})
"""How attempts ended that may have had their effect; `retrying`: its process died, and it was run again."""


def effect_of(record: Record) -> Effect:
    """Of a call that has ended. `happened` also if a person, or the tool's own check, says so. A failure says that there was none."""
    if record.resolution is not None:
        return "happened" if record.resolution["happened"] else "none"
    if record.state is State.COMPLETED:
        return "none" if record.cached or not record.attempts else "happened"
    if _was_denied(record):
        return "none"
    if record.error is not None and record.error.code == "outcome_unknown":
        return "unknown"
    return "unknown" if any(attempt.outcome in _DOUBTFUL for attempt in record.attempts) else "none"


def _was_denied(record: Record) -> bool:
    """Did a person who was asked about an attempt in doubt (`recovery="ask"`) deny to run it again? `resolve` does so, too."""
    asked = record.approval
    return asked is not None and asked["purpose"] == "recovery" and asked["approved"] is False


def is_in_doubt(record: Record) -> bool:
    """Has it ended, and may have had its effect, and has nobody settled it?"""
    return record.state.is_terminal and effect_of(record) == "unknown"


def why_none(record: Record) -> str:
    """Why a call had no effect."""
    settled = record.resolution
    if settled is not None:
        rerun = f"; it was run again as call {settled['rerun_as']}" if settled["rerun_as"] else ""
        return f"it did not happen, as {settled['by'] or 'a person'} said{rerun}"
    if record.cached:
        return "its result came from the cache, so it had no effect of its own"
    if record.state is State.COMPLETED:
        return "a person answered in the tool's place, so the tool did not run"
    if _was_denied(record):
        return "a person denied to run it again, so it counts as not happened"
    why = "" if record.error is None else f" ({record.error.code})"
    return f"it is {record.state}{why}, so it had no effect" if record.attempts else f"it did not start{why}"
