"""May a call be undone, and was it? Decided from the records of the call and of its undos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from clicket.kernel import State
from clicket.model import Record, effect_of
from clicket.model.effect import why_none

__all__ = ["Abilities", "Judged", "Standing", "judge"]

Standing = Literal["nothing", "ready", "undone", "unknown", "failed", "impossible"]
"""`nothing`: there is no effect to undo. `ready`: it can be undone, and was not."""


class Abilities(NamedTuple):
    """What this process knows of the call's tool. `reads`: it has no effect, or only those of the calls that it makes."""

    reads: bool = False
    undoes: bool = False


class Judged(NamedTuple):
    standing: Standing
    reason: str
    doubt: Record | None = None
    """The call whose outcome is unknown, if that is why: the call itself, or its last undo. Its tool's check may know it."""


def judge(call: Record, undos: Sequence[Record], tool: Abilities, *, now: float, undo_for: float) -> Judged:
    """`undos`: the calls that tried to undo it, in their order. The call has ended."""
    if undos and not _had_no_effect(undos[-1]):
        return _judge_undo(undos[-1])
    if tool.reads:
        return Judged("nothing", "its tool has no effect of its own")
    effect = effect_of(call)
    if effect == "none":
        return Judged("nothing", why_none(call))
    had_undo = call.events[0].data.get("undo") is True
    if not tool.undoes:
        if had_undo:
            return Judged(
                "failed", f"this process does not have the tool {call.tool!r} with its undo: try again where it is"
            )
        doubt = "" if effect == "happened" else ", and whether it happened is unknown"
        return Judged("impossible", f"the tool {call.tool!r} has no undo{doubt}")
    if effect == "unknown":
        return Judged("unknown", f"whether it happened is unknown ({_code(call)})", call)
    if now > (call.ended_at or now) + undo_for:
        return Judged("impossible", f"it ended more than {undo_for:g} s ago (undo_for)")
    return Judged("ready", "it can be undone")


def _had_no_effect(undo: Record) -> bool:
    """Does a person, or the tool's own check, say that an undo did not happen? Then it may be begun again."""
    return undo.resolution is not None and not undo.resolution["happened"]


def _judge_undo(undo: Record) -> Judged:
    """By its last undo."""
    if not undo.state.is_terminal:
        waits = f", and waits for {undo.waiting_for}" if undo.waiting_for else ""
        return Judged("unknown", f"its undo has not ended: it is {undo.state}{waits}")
    effect = effect_of(undo)
    if undo.state is State.COMPLETED or effect == "happened":
        return Judged("undone", "it was undone")
    if effect == "unknown":
        return Judged("unknown", f"whether its undo happened is unknown ({_code(undo)})", undo)
    return Judged("failed", f"its undo is {undo.state}: {undo.error}" if undo.error else f"its undo is {undo.state}")


def _code(call: Record) -> str:
    return f"{call.state}" if call.error is None else call.error.code
