"""Which events a process may write into a call that another process may own. The owner reads them, and decides again."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.model import Event, EventType, is_in_doubt, read

__all__ = ["AFTER_THE_END", "may_write", "open_question", "token_closed"]

AFTER_THE_END = ("late_result", "resolved")
"""Events that an ended call takes. They change no state, so no owner has to read them."""


def may_write(events: Sequence[Event], kind: EventType, question: str = "") -> bool:
    """False: the call has ended, or does not wait for this any more. A late result is recorded also after the end; a resolution only then,
    once, and if the outcome is unknown. `question`: the hash of the question that a decision answers."""
    if events[-1].state.is_terminal and kind not in AFTER_THE_END:
        return False
    if kind == "cancel_requested":  # a result from outside is its outcome
        return all(event.type != "reported" for event in events)
    if kind == "resolved":
        return is_in_doubt(read(events[0].call_id, events))
    if kind == "approval_given":
        asked = open_question(events)
        return asked is not None and question in ("", asked)
    return True


def open_question(events: Sequence[Event]) -> str | None:
    """The hash of the question that a call waits with; None if it waits for no decision, or takes none any more."""
    record = read(events[0].call_id, events)
    if record.waiting_for != "approval" or record.approval is None or _is_closed(events):
        return None
    return str(record.approval["hash"])


def token_closed(events: Sequence[Event]) -> str | None:
    """Why the token of the last attempt works no more; None: no event says so. Each attempt has a token of its own."""
    for event in reversed(events):
        if event.type == "attempt_started":
            return None
        if event.type == "note" and "external_closed" in event.data:
            return str(event.data["external_closed"])
    return None


def _is_closed(events: Sequence[Event]) -> bool:
    """Has the owner closed the last question, because its time was over? It ends the call next."""
    for event in reversed(events):
        if event.type == "approval_requested":
            return False
        if event.type == "note" and "approval_closed" in event.data:
            return True
    return False
