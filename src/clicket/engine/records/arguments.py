"""The arguments that a call runs with, read from its journal: in clear, or unsealed. Never with a mask in them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from clicket.engine.live_call import Call
from clicket.errors import ClicketError, Conflict, InvalidInput
from clicket.model import Event, Record, ToolCall, ToolError
from clicket.model.arguments import parse_arguments
from clicket.model.codec import canonical
from clicket.safety.vault import Identity, Secrets, Vault, look, restored, still_masked
from clicket.tools import Registry

__all__ = ["LOST", "ArgumentsOnRecord", "identity_of", "in_force"]

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


def in_force(vault: Vault, id: str, events: Sequence[Event], known: Call | None = None) -> tuple[Any, Any, bool]:
    """Arguments, metadata, and whether either is lost. `known`: the call as this process had it before it lost it."""
    first = events[0].data
    identity = identity_of(id, first)
    arguments = first.get("arguments")
    metadata = first.get("metadata")
    lost = False
    if "arguments_hash" in first:
        whole = vault.unseal(identity, "created", first) or _known(vault, identity, first, known)
        lost = whole is None
        if whole is not None:
            arguments, metadata = whole["arguments"], whole.get("metadata", metadata)
    decision = next((e.data for e in reversed(events) if e.type == "approval_given" and "arguments" in e.data), None)
    if decision is not None:
        arguments = _edited_in(vault, identity, decision, known)
        lost = arguments is None or (lost and still_masked(metadata))
    return arguments, metadata, lost


def _known(vault: Vault, identity: Identity, data: dict[str, Any], known: Call | None) -> dict[str, Any] | None:
    if known is None or known.arguments is None:
        return None
    same = vault.equal(identity, data["arguments_hash"], data["arguments"], known.arguments)
    return {"arguments": known.arguments, "metadata": known.request.metadata} if same else None


def _edited_in(vault: Vault, identity: Identity, decision: dict[str, Any], call: Call | None) -> Any:
    """The arguments that a decision came with; None: they are lost."""
    if "arguments_hash" not in decision:
        return decision["arguments"]
    if call is not None and call.edited is not None and call.edited[0] == decision["arguments_hash"]:
        return call.edited[1]
    whole = vault.unseal(identity, "approval_given", decision)
    return None if whole is None else whole["arguments"]


class ArgumentsOnRecord:
    """Reads, compares and writes arguments that may be masked or sealed."""

    def __init__(self, vault: Vault, registry: Registry, *, max_size: int) -> None:
        self._vault = vault
        self._registry = registry
        self._max_size = max_size

    def same_or_conflict(self, request: ToolCall, first: Event) -> None:
        """Compare a request with the first event of the call that has its id; raise `Conflict` unless they are the same.

        Arguments with secrets are compared by a keyed hash. Without its key, their masked forms are compared.
        """
        same = first.data["tool"] == request.tool
        if same and "arguments_sha256" in first.data:  # only the outcome is kept
            same = self._digest(request.arguments) == first.data["arguments_sha256"]
        elif same and "arguments" in first.data:
            try:
                given = parse_arguments(request.arguments, max_size=self._max_size)
                shown = first.data["arguments"]
                kept = first.data.get("arguments_hash")
                if kept is None:
                    same = canonical(given) == canonical(shown)
                else:
                    same = self._vault.equal(identity_of(first.call_id, first.data), kept, shown, given)
            except ClicketError:
                same = False
        elif same:
            same = self._vault.same_refused(request.arguments, first.data["refused"])
        if not same:
            raise Conflict(
                f"the id {request.id!r} is taken in thread {request.thread!r} by a call with another tool or other arguments. "
                "Use a new id, or send the same call to get its result."
            )

    def _digest(self, given: Any) -> str:
        try:
            return sha256(canonical(parse_arguments(given, max_size=self._max_size))).hexdigest()
        except ClicketError:
            return ""

    def in_force(self, id: str, events: Sequence[Event], known: Call | None = None) -> tuple[Any, Any, bool]:
        """As the function of that name, with this vault."""
        return in_force(self._vault, id, events, known)

    def secrets_of(self, id: str, events: Sequence[Event], call: Call | None) -> Secrets | None:
        """The secrets of a call, in whichever process it runs, as far as this process can know them."""
        first = events[0].data
        if call is not None or "arguments_hash" not in first:
            return None if call is None else call.secrets
        arguments, metadata, lost = in_force(self._vault, id, events)
        return None if lost else look(arguments, metadata, self._sensitive(first["tool"], first), refuse=False)

    def _sensitive(self, tool: str, first: dict[str, Any]) -> frozenset[str]:
        known = self._registry.get(tool)
        declared = first.get("sensitive")
        names = frozenset(n for n in declared if type(n) is str) if type(declared) is list else frozenset[str]()
        return names if known is None else names | known.options.sensitive

    # Arguments that came with an approval.

    def unmasked(self, record: Record, call: Call | None, given: Any) -> dict[str, Any] | None:
        """An approver's arguments with each remaining mask replaced by its value. None: nothing was changed."""
        edited = parse_arguments(given, max_size=self._max_size)
        if canonical(edited) == canonical(record.arguments):
            return None
        if not any("arguments_hash" in event.data for event in record.events):
            return edited
        real, _, lost = in_force(self._vault, record.id, record.events, call)
        if lost and call is not None:
            real = call.arguments
            lost = call.arguments is None
        meant = edited if lost else restored(edited, record.arguments, real)
        if still_masked(meant, real if not lost else None):
            raise InvalidInput(
                "a mask is in place of a value, and its value is not known here",
                "Write the value in full, or leave the field as it was shown.",
            )
        return dict(meant)

    def recorded_edit(self, record: Record, call: Call | None, edited: dict[str, Any]) -> dict[str, Any]:
        """The event data for arguments that came with an approval."""
        secrets = look(edited, None, self._sensitive(record.tool, record.events[0].data))
        if secrets is None or not secrets.masked:
            return {"arguments": edited}
        identity = identity_of(record.id, record.events[0].data)
        kept = self._vault.keep(identity, "approval_given", edited, None)
        if call is not None:
            call.edited = (kept["arguments_hash"], edited)
        return {"arguments": secrets.arguments, **kept}

    def edited_in(self, decision: dict[str, Any], call: Call) -> Any:
        """The arguments that a decision came with; None: they are lost."""
        return _edited_in(self._vault, identity_of(call.id, call.entry.events[0].data), decision, call)
