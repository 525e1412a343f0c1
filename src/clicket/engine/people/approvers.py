"""Which people may approve a call: not the caller, and each person once.

A person has several names: the id of an API key, the key's name, its holder. Two keys with one of them in common belong to one person.
The subject of an access token is a name, too: a key whose holder is that subject belongs to the same person.
Calls that a tool or an agent makes have the caller of the call above them, so its person may not approve them either. Nor may an admin
approve a call that the admin made in the name of another caller (`Origin.requesters`).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from clicket.errors import Conflict, PermissionDenied, UsageError
from clicket.model import Record, approver_names
from clicket.model.ports import Records
from clicket.safety.oauth.subjects import subject_of

__all__ = ["API_KEY", "Approver", "names_of_caller", "refuse_approver"]

API_KEY = "key"
"""The kind of the documents of API keys; the key is the id, which is the caller of its calls."""


class Approver(msgspec.Struct, frozen=True):
    """The person that decides. Without any name it is the program itself, which may decide about every call."""

    name: str = ""
    identities: frozenset[str] = frozenset()
    """Other names of the same person."""

    @property
    def names(self) -> frozenset[str]:
        return _with_subjects(self.identities | {self.name})


class _KeyNames(msgspec.Struct):
    name: str = ""
    holder: str = ""


async def names_of_caller(store: Records, caller: str) -> frozenset[str]:
    """Every name of the person whose calls these are; empty: the program itself."""
    if not caller:
        return frozenset()
    document = None if subject_of(caller) else await store.document(API_KEY, caller)
    key = _KeyNames() if document is None else _read(document.body)
    return _with_subjects({caller, key.name, key.holder})


def _with_subjects(names: AbstractSet[str]) -> frozenset[str]:
    """The names, and the subjects of those that are callers of access tokens."""
    return frozenset({*names, *map(subject_of, names)} - {""})


def _read(body: bytes) -> _KeyNames:
    try:
        return msgspec.json.decode(body, type=_KeyNames)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _KeyNames()


def refuse_approver(record: Record, approver: Approver, requesters: Iterable[str], *, responds: bool = False) -> None:
    """Raise unless this person may approve the call now, or answer it. `requesters`: the names of the person who made it."""
    asked: dict[str, Any] = record.approval or {}
    if not asked.get("self_approval") and approver.names & set(requesters):
        raise PermissionDenied(
            f"call {record.id!r} was made by {approver.name or record.caller!r}, so another person must decide about it. A policy "
            "with self_approval = true lets callers approve their own calls.",
            reason="self_approval",
        )
    if responds or asked.get("approvers", 1) == 1:
        return
    if not approver.names:
        raise UsageError(f"call {record.id!r} needs {asked['approvers']} approvers, so each must be named: by=….")
    if any(approver.names & approver_names(each) for each in asked["approvals"]):
        raise Conflict(
            f"call {record.id!r} was approved by {approver.name!r} already. Another person must approve it, too."
        )
