"""The arguments that a call runs with, as its journal has them: in clear, or out of their seal. Never with a mask in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clicket.errors import InvalidInput
from clicket.model import Event, Record, ToolError
from clicket.model.arguments import parse_arguments
from clicket.model.codec import canonical
from clicket.vault import Identity, Secrets, Vault, look, restored, still_masked

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine
    from clicket.journal import LiveCall

__all__ = ["LOST", "edited_in", "identity_of", "in_force", "secrets_of", "unmasked", "word_with"]

LOST = ToolError(
    code="arguments_lost",
    message=(
        "its arguments hold a secret that only its first process knew, so it cannot be run from the record. Submit it again; "
        "with the same CLICKET_SECRET_KEY in every process such calls outlive their process."
    ),
    type="ArgumentsLost",
)


def identity_of(id: str, first: dict[str, Any]) -> Identity:
    return first.get("caller", ""), first["thread"], id


def in_force(vault: Vault, id: str, events: Sequence[Event], known: LiveCall | None = None) -> tuple[Any, Any, bool]:
    """Arguments, metadata, and whether either is lost. `known`: the call as this process had it before it lost it."""
    first = events[0].data
    identity = identity_of(id, first)
    arguments, metadata, lost = first.get("arguments"), first.get("metadata"), False
    if "arguments_hash" in first:
        whole = vault.unseal(identity, "created", first) or _known(vault, identity, first, known)
        lost = whole is None
        if whole is not None:
            arguments, metadata = whole["arguments"], whole.get("metadata", metadata)
    word = next((e.data for e in reversed(events) if e.type == "approval_given" and "arguments" in e.data), None)
    if word is not None:
        arguments = edited_in(vault, identity, word, known)
        lost = arguments is None or (lost and still_masked(metadata))
    return arguments, metadata, lost


def _known(vault: Vault, identity: Identity, data: dict[str, Any], known: LiveCall | None) -> dict[str, Any] | None:
    if known is None or known.arguments is None:
        return None
    same = vault.equal(identity, data["arguments_hash"], data["arguments"], known.arguments)
    return {"arguments": known.arguments, "metadata": known.request.metadata} if same else None


def secrets_of(engine: LocalEngine, id: str, events: Sequence[Event], call: LiveCall | None) -> Secrets | None:
    """What is to be hidden of a call, wherever it is, as far as it can be known here."""
    first = events[0].data
    if call is not None or "arguments_hash" not in first:
        return None if call is None else call.secrets
    arguments, metadata, lost = in_force(engine.vault, id, events)
    return None if lost else look(arguments, metadata, _sensitive(engine, first["tool"], first))


def _sensitive(engine: LocalEngine, tool: str, first: dict[str, Any]) -> frozenset[str]:
    known, told = engine.registry.get(tool), first.get("sensitive")
    names = frozenset(name for name in told if type(name) is str) if type(told) is list else frozenset[str]()
    return names if known is None else names | known.options.sensitive


# Arguments that came with an approval.


def unmasked(engine: LocalEngine, record: Record, call: LiveCall | None, given: Any) -> dict[str, Any] | None:
    """What an approver means who saw masks: where one was left, what it stands for. None: nothing was changed."""
    edited = parse_arguments(given, max_size=engine.limits.max_arguments_size)
    if canonical(edited) == canonical(record.arguments):
        return None
    if not any("arguments_hash" in event.data for event in record.events):
        return edited
    real, _, lost = in_force(engine.vault, record.id, record.events, call)
    if lost and call is not None:
        real, lost = call.arguments, call.arguments is None
    meant = edited if lost else restored(edited, record.arguments, real)
    if still_masked(meant, real if not lost else None):
        raise InvalidInput(
            "a mask stands where a value is needed, and what it hid is not here or was not there",
            "Write the value in full, or leave the field as it was shown.",
        )
    return dict(meant)


def word_with(engine: LocalEngine, record: Record, call: LiveCall | None, edited: dict[str, Any]) -> dict[str, Any]:
    """What the word says of the arguments it came with."""
    secrets = look(edited, None, _sensitive(engine, record.tool, record.events[0].data))
    if secrets is None or not secrets.masked:
        return {"arguments": edited}
    kept = engine.vault.keep(identity_of(record.id, record.events[0].data), "approval_given", edited, None)
    if call is not None:
        call.edited = (kept["arguments_hash"], edited)
    return {"arguments": secrets.arguments, **kept}


def edited_in(vault: Vault, identity: Identity, word: dict[str, Any], call: LiveCall | None) -> Any:
    """The arguments that a word came with; None: they are lost."""
    if "arguments_hash" not in word:
        return word["arguments"]
    if call is not None and call.edited is not None and call.edited[0] == word["arguments_hash"]:
        return call.edited[1]
    whole = vault.unseal(identity, "approval_given", word)
    return None if whole is None else whole["arguments"]
