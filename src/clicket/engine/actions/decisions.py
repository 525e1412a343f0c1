"""Decisions of people about calls of any process: approve, deny, answer, cancel. This process checks a decision and writes it into the
call.

The process that owns the call applies it: `approvals.py` an approval, a denial or an answer, `stopping.py` a cancel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from clicket.engine.call.foreign import open_question
from clicket.engine.core import Core
from clicket.engine.journal import Entry, Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.live_call import Call, Origin
from clicket.engine.people.approvers import Approver, names_of_caller, refuse_approver
from clicket.engine.stages import Authorize, Find, Policy, Validate
from clicket.errors import (
    ClicketError,
    Conflict,
    InvalidInput,
    PermissionDenied,
    ResultUnserializable,
    StoreUnavailable,
    UsageError,
)
from clicket.kernel import State
from clicket.model import Record, ToolCall, is_seen, read
from clicket.model.arguments import parse_arguments
from clicket.model.codec import clean
from clicket.model.grant import GrantTerms, StoredGrant
from clicket.model.output import plain_output
from clicket.model.ports import Stored
from clicket.safety.vault import Secrets, hide, hide_said, hide_text, look
from clicket.tools import Registry, Tool, output_check
from clicket.tools.question import InputQuestion, check_content, question_of

__all__ = ["Answer", "Decisions", "examine"]


class Answer(msgspec.Struct, frozen=True):
    """What a person answers in the tool's place. `settles`: the call was started before, and the person says that its effect happened."""

    output: Any
    settles: bool = False


class Decisions:
    def __init__(self, core: Core, ending: Ending, handover: HandOver, stopping: Stopping) -> None:
        self._store = core.store
        self._journal = core.journal
        self._registry = core.registry
        self._policy = core.policy
        self._live = core.live
        self._stored_calls = core.stored_calls
        self._signals = core.signals
        self._arguments = core.arguments
        self._audit = core.audit
        self._grants = core.grants
        self._claimer = core.claimer
        self._ending = ending
        self._handover = handover
        self._stopping = stopping
        self._max_size = core.limits.max_arguments_size

    async def decide(
        self,
        stored: Stored,
        approver: Approver,
        *,
        approved: bool,
        reason: str,
        arguments: Any = None,
        seen: str = "",
        grant: GrantTerms | None = None,
        answer: Answer | None = None,
    ) -> bool:
        """Write a person's decision into a call that waits for it. False: it does not wait (any more).

        `seen`: the hash of the question that the person saw; `Conflict` if the call waits with another one. `grant`: the approval also
        answers later questions. `answer`: the call ends with this in place of the tool's result.

        A decision on a call of this process is written in the same way as one on another's, so that of two decisions at the same
        time only the first counts.
        """
        asked = open_question(stored.events)
        if asked is None:
            return False
        if seen and not is_seen(asked, seen):
            raise _changed(stored.id)
        record = read(stored.id, stored.events)
        if approved:
            own = stored.events[0].data.get("requesters") or ()
            requesters = await names_of_caller(self._store, record.caller) | frozenset(own)
            refuse_approver(record, approver, requesters, responds=answer is not None)
        call = self._live.find(record.id, record.thread, record.caller)
        secrets = self._arguments.secrets_of(stored.id, stored.events, call)
        decision: dict[str, Any] = {
            "approved": approved,
            "by": hide_text(clean(approver.name), secrets),
            "reason": hide_text(clean(reason), secrets),
        }
        if seen:
            decision["seen"] = asked
        if record.approval is not None and record.approval["approvers"] > 1:
            decision["identities"] = sorted(clean(name) for name in approver.names)
        question = question_of(record.approval)
        if question is not None and approved:
            if arguments is not None or grant is not None:
                raise UsageError(
                    f"call {record.id!r} waits for an answer to its tool's question: no arguments, no grant."
                )
            decision.update(self._input_for(question, record, answer, secrets))
        elif arguments is not None:
            decision.update(self._edit(record, arguments, call))
        elif answer is not None:
            decision.update(responded=True, output=hide(self._checked_answer(record, answer), secrets))
        proposed = None if grant is None else await self._propose(record, grant, approver, decision, secrets)
        if not await self._write(stored, decision, asked, proposed):
            return False
        await self._note(record, decision)
        call = self._live.find(record.id, record.thread, record.caller)
        if call is None or not call.entry.durable:  # one that is not stored is about to be refused: its id is taken
            self._claimer.nudge()  # it may have no owner
            return True
        with suppress(Fenced):
            await self._signals.append_empty(call.entry)
            await self._journal.flush(call.entry)
        return True

    async def _write(self, stored: Stored, decision: dict[str, Any], asked: str, proposed: StoredGrant | None) -> bool:
        """Write the decision, and the grant with it. False: another decision came first."""
        if proposed is not None:
            decision["grant"] = proposed.grant.id
        if await self._signals.write(stored, "approval_given", decision, question=asked):
            if proposed is not None:
                with suppress(StoreUnavailable):  # the approval is on record: the first use confirms the grant
                    await self._grants.confirm(proposed)
            return True
        if proposed is not None:
            await self._grants.withdraw(proposed)
        first = stored.events[0].data
        found = await self._store.load(stored.id, first["thread"], first.get("caller", ""))
        if found and found[0].damaged is None and open_question(found[0].events) is not None:
            raise _changed(stored.id)
        return False

    async def _note(self, record: Record, decision: dict[str, Any]) -> None:
        responded = "responded" in decision
        what = "call.answered" if responded else "call.approved" if decision["approved"] else "call.denied"
        more = {"grant": decision["grant"]} if "grant" in decision else {}
        await self._audit.kept(
            decision["by"],
            what,
            call=record.id,
            tool=record.tool,
            thread=record.thread,
            caller=record.caller,
            reason=decision["reason"],
            edited="arguments" in decision,
            **more,
        )

    def _edit(self, record: Record, arguments: Any, call: Call | None) -> dict[str, Any]:
        """The part of a decision that replaces the arguments; empty: they equal the present ones."""
        edited = self.examined(record, arguments, call=call)
        if edited is None:
            return {}
        if record.approval is not None and record.approval["approvers"] > 1:
            raise UsageError(
                f"call {record.id!r} needs {record.approval['approvers']} approvers, and all must see the same arguments. Deny it, and "
                "submit it with these."
            )
        return self._arguments.recorded_edit(record, call, edited)

    async def _propose(
        self, record: Record, terms: GrantTerms, approver: Approver, decision: dict[str, Any], secrets: Secrets | None
    ) -> StoredGrant:
        if record.approval is not None and record.approval["approvers"] > 1:
            raise UsageError(
                f"call {record.id!r} needs {record.approval['approvers']} approvers, so no later call can be granted."
            )
        if any(hide_text(text, secrets) != text for text in _texts_in(terms.get("arguments"))):
            raise UsageError("grant: the schema of the arguments has a secret in it, and a grant is stored in clear.")
        return await self._grants.propose(record, terms, approver, by=decision["by"], reason=decision["reason"])

    def _checked_answer(self, record: Record, answer: Answer) -> Any:
        """The output as it is recorded. `InvalidInput`: it does not fit the tool's output schema; the call goes on waiting."""
        if record.state is not State.PENDING and not answer.settles:
            raise Conflict(
                f"call {record.id!r} was started before, and its effect may have happened: it cannot be answered. Approve it to run it "
                "again, or deny it."
            )
        output = self._plain(answer)
        tool = self._registry.get(record.tool)
        check = None if tool is None else output_check(tool)
        problems = [] if check is None else check(output)
        if problems:
            raise InvalidInput(problems, f"See the output schema of {record.tool!r}.", whole="(output)")
        return output

    def _plain(self, answer: Answer) -> Any:
        try:
            output, text = plain_output(answer.output)
        except ResultUnserializable as error:
            raise UsageError(f"the output cannot be recorded: {error.message}") from None
        if len(text) > self._max_size:
            raise UsageError(
                f"the output has {len(text):,} bytes as JSON, and an answer takes {self._max_size:,} (max_arguments_size). Store it with "
                "put_artifact, and give its name as the output."
            )
        return output

    def _input_for(
        self, question: InputQuestion, record: Record, answer: Answer | None, secrets: Secrets | None
    ) -> dict[str, Any]:
        """The part of a decision that answers a question of the call's tool; `InvalidInput` or `UsageError`: it goes on waiting."""
        if answer is None:
            if question.schema is not None:
                raise UsageError(
                    f"call {record.id!r} waits for an answer. {question.why[:300]} Respond with the fields of its form "
                    "(record.approval['question']['schema']), or deny it."
                )
            return {}
        content = check_content(question, self._plain(answer), record.id)
        if hide(content, secrets) != content:
            raise UsageError(
                "the answer has a secret in it, and is recorded and sent to the system that asked. Secrets do not belong into a form."
            )
        return {"responded": True, "output": content}

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
            if not await self._signals.write(stored, "cancel_requested", {"reason": shown}):
                return False
            await self._handover.take(stored.key)  # without an owner, no other process would end it
            return True
        asked = self._stopping.cancel(call, reason)
        try:
            result = await self._ending.outcome(call)
        except Fenced:  # another process has the call now: signal it there
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


def _texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, names of fields included."""
    if type(value) is dict:
        yield from value
    for member in value.values() if type(value) is dict else value if type(value) is list else ():
        yield from _texts_in(member)
    if type(value) is str:
        yield value


def _changed(id: str) -> Conflict:
    return Conflict(
        f"call {id!r} waits for another decision than the one that was seen. Nothing was changed: look at it again, and decide with the "
        "hash that its approval has now."
    )


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
        Find(registry, _no_check).registered(trial)
        Validate(max_size=max_size)(trial)
    if not policy.is_open and (tool is None or not tool.traits.internal):
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
