"""Waits for people, as the events of a call show them: for a decision, an answer, or a credential."""

from __future__ import annotations

from clicket.model.event import Event

__all__ = ["PEOPLE", "waits_after"]

PEOPLE = frozenset({"approval", "credential"})
"""What a call waits for (`waiting_for`) if it waits for a person."""


def waits_after(event: Event, before: bool) -> bool:
    """Does the call wait for a person after this event? `before`: did it before?"""
    kind, data = event.type, event.data
    if kind == "approval_requested":
        return True
    if kind == "approval_given":  # one with identities is one of several; after the last one an attempt starts
        return before and "identities" in data
    if kind == "attempt_started":
        return False
    if kind == "state_changed" or (kind == "note" and "waiting_for" in data):
        return data.get("waiting_for") in PEOPLE
    return before
