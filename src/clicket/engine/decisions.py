"""Decisions of people about calls of any process: approve, deny, cancel. This process checks a decision and writes it into the call.

The process that owns the call applies it: `approvals.py` an approval or a denial, `stopping.py` a cancel.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from clicket.call import Call, Origin
from clicket.engine.arguments import ArgumentsOnRecord
from clicket.engine.audit import AuditLog
from clicket.engine.claimer import WorkClaimer
from clicket.engine.ending import Ending
from clicket.engine.handover import HandOver
from clicket.engine.live_calls import LiveCalls
from clicket.engine.requests import Requests, asked_in
from clicket.engine.stopping import Stopping
from clicket.engine.stored_calls import StoredCalls
from clicket.errors import ClicketError, Conflict, InvalidInput, PermissionDenied
from clicket.journal import Entry, Fenced, Journal
from clicket.model import Record, ToolCall, is_seen, read
from clicket.model.arguments import parse_arguments
from clicket.model.codec import clean
from clicket.pipeline import Authorize, Find, Policy, Validate
from clicket.ports import Stored
from clicket.tools import Registry, Tool
from clicket.vault import Secrets, hide_said, hide_text, look

__all__ = ["Decisions", "examine"]


class Decisions:
    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        policy: Policy,
        live: LiveCalls,
        stored_calls: StoredCalls,
        requests: Requests,
        arguments: ArgumentsOnRecord,
        audit: AuditLog,
        claimer: WorkClaimer,
        ending: Ending,
        handover: HandOver,
        stopping: Stopping,
        *,
        max_arguments_size: int,
    ) -> None:
        self._journal = journal
        self._registry = registry
        self._policy = policy
        self._live = live
        self._stored_calls = stored_calls
        self._requests = requests
        self._arguments = arguments
        self._audit = audit
        self._claimer = claimer
        self._ending = ending
        self._handover = handover
        self._stopping = stopping
        self._max_size = max_arguments_size

    async def decide(
        self, stored: Stored, *, approved: bool, by: str, reason: str, arguments: Any = None, seen: str = ""
    ) -> bool:
        """Write a person's decision into a call that waits for it. False: it does not wait (any more).

        `seen`: the hash of the question that the person saw; `Conflict` if the call waits with another one.

        A decision on a call of this process is written in the same way as one on another's, so that of two decisions at the same
        time only the first counts.
        """
        asked = asked_in(stored)
        if asked is None:
            return False
        if seen and not is_seen(asked, seen):
            raise Conflict(
                f"call {stored.id!r} waits for another decision than the one that was seen. Nothing was changed: look at it "
                "again, and decide with the hash that its approval has now."
            )
        first = stored.events[0].data
        thread, caller = first["thread"], first.get("caller", "")
        call = self._live.find(stored.id, thread, caller)
        secrets = self._arguments.secrets_of(stored.id, stored.events, call)
        decision: dict[str, Any] = {
            "approved": approved,
            "by": hide_text(clean(by), secrets),
            "reason": hide_text(clean(reason), secrets),
        }
        if seen:
            decision["seen"] = asked
        if arguments is not None:
            record = read(stored.id, stored.events)
            edited = self.examined(record, arguments, call=call)
            if edited is not None:
                decision.update(self._arguments.recorded_edit(record, call, edited))
        if not await self._requests.write(stored, "approval_given", decision, question=asked):
            return False
        await self._audit.kept(
            decision["by"], "call.approved" if approved else "call.denied",
            call=stored.id, tool=first["tool"], thread=thread, caller=caller,
            reason=decision["reason"], edited="arguments" in decision,
        )  # fmt: skip
        call = self._live.find(stored.id, thread, caller)
        if call is None:
            self._claimer.nudge()  # it may have no owner
            return True
        with suppress(Fenced):
            await self._requests.read(call.entry)
            await self._journal.flush(call.entry)
        return True

    def examined(
        self, record: Record, arguments: Any, *, call: Call | None = None, registry: Registry | None = None
    ) -> dict[str, Any] | None:
        """Other arguments for a call that waits, unmasked and validated; None: they equal the present ones.

        `InvalidInput` or `PermissionDenied` if they do not fit. `registry`: validate with these tools in place of the runtime's own.
        """
        edited = self._arguments.unmasked(record, call, arguments)
        if edited is None:
            return None
        tools = self._registry if registry is None else registry
        return examine(tools, self._policy, record, edited, max_size=self._max_size)

    async def cancel(self, id: str, thread: str | None, caller: str | None, reason: str) -> bool:
        """Cancel a call in any process. One of this process has ended, or was abandoned, when this returns."""
        call = await self.find_live(id, thread, caller)
        if call is None:
            stored = await self._stored_calls.find_named(id, thread, caller)
            if stored.id != id:
                first = stored.events[0].data
                return await self.cancel(stored.id, first["thread"], first.get("caller", ""), reason)
            secrets = self._arguments.secrets_of(stored.id, stored.events, None)
            shown = hide_text(clean(reason), secrets)
            if not await self._requests.write(stored, "cancel_requested", {"reason": shown}):
                return False
            await self._handover.take(stored.key)  # without an owner, no other process would end it
            return True
        asked = self._stopping.cancel(call, reason)
        try:
            result = await self._ending.outcome(call)
        except Fenced:  # another process has the call now: request it there
            return await self.cancel(id, call.thread, call.caller, reason)
        return asked or result.state.value == "cancelled"

    async def find_live(self, id: str, thread: str | None, caller: str | None = None) -> Call | None:
        """The call if it is live here. An id that the caller chose may be in use in several threads, so the store is read."""
        call = self._live.find(id, thread, caller)
        if call is None or not call.entry.durable:
            return None
        if thread is None and call.request.id is not None:
            await self._stored_calls.find(id, None, caller)
        return call


def examine(registry: Registry, policy: Policy, record: Record, arguments: Any, *, max_size: int) -> dict[str, Any]:
    """Arguments for a call that waits, as they will be recorded; `InvalidInput` or `PermissionDenied` if they do not fit.

    If the tool is not registered here, only the process that runs the call validates them.
    """
    plain = parse_arguments(arguments, max_size=max_size)
    tool = registry.get(record.tool)
    try:
        _examine(registry, policy, record, tool, plain, max_size)
    except (InvalidInput, PermissionDenied) as error:
        # The approver saw masks; an error about the arguments may quote the masked values.
        declared = record.events[0].data.get("sensitive") or () if tool is None else tool.options.sensitive
        raise _masked(error, look(plain, None, frozenset(declared), refuse=False)) from None
    return plain


def _examine(
    registry: Registry, policy: Policy, record: Record, tool: Tool | None, plain: dict[str, Any], max_size: int
) -> None:
    scopes = frozenset(record.events[0].data.get("scopes") or ())
    if tool is not None:
        entry = Entry(record.id, record.thread, record.caller, record.tool, 0.0)
        request = ToolCall(record.tool, plain, thread=record.thread)
        trial = Call(entry, request, Origin(record.caller, scopes), 0.0, "", plain)
        Find(registry, _no_check)(trial)
        Validate(max_size=max_size)(trial)
    if not policy.is_open:
        Authorize(policy, max_size=max_size).check(
            tool, record.tool, plain, thread=record.thread, caller=record.caller, scopes=scopes
        )


def _no_check(call: Call, tool: Tool) -> None:
    """Does not check the tool's health: the call was admitted before."""


def _masked(error: InvalidInput | PermissionDenied, secrets: Secrets | None) -> ClicketError:
    """An error for a caller, without secrets."""
    error.message = hide_text(error.message, secrets)
    error.args, error.details = (error.message,), hide_said(error.details, secrets)
    if isinstance(error, InvalidInput):
        error.problems = error.details["problems"]
    return error
