"""Decisions of people about calls of any process: approve, deny, answer. This process checks a decision and writes it into the call. The
process that owns the call applies it (`approvals.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from clicket.engine.actions.decision_checks import Answer, DecisionChecks
from clicket.engine.call.foreign import open_question
from clicket.engine.core import Core
from clicket.engine.journal import Fenced
from clicket.engine.people.approvers import Approver, names_of_caller, refuse_approver
from clicket.errors import (
    Conflict,
    StoreUnavailable,
    UsageError,
)
from clicket.model import Record, is_seen, read
from clicket.model.codec import clean
from clicket.model.grant import GrantTerms, StoredGrant
from clicket.model.ports import Stored
from clicket.safety.vault import Secrets, hide, hide_text
from clicket.tools.question import question_of

__all__ = ["Decisions"]


class Decisions:
    def __init__(self, core: Core, checks: DecisionChecks) -> None:
        self._store = core.store
        self._journal = core.journal
        self._live = core.live
        self._signals = core.signals
        self._audit = core.audit
        self._grants = core.grants
        self._claimer = core.claimer
        self._checks = checks

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
        secrets = self._checks.secrets_of(stored, call)
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
            decision.update(self._checks.input_for(question, record, answer, secrets))
        elif arguments is not None:
            decision.update(self._checks.edit(record, arguments, call))
        elif answer is not None:
            decision.update(responded=True, output=hide(self._checks.answer(record, answer), secrets))
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
