"""`Runtime.approve`, `Runtime.deny` and `Runtime.respond`: what people decide about calls that wait for approval."""

from __future__ import annotations

from typing import Any, Protocol

from clicket.engine import Engine
from clicket.engine.actions.decision_checks import Answer
from clicket.engine.people.approvers import Approver
from clicket.engine.stages import check_schema
from clicket.model import Arguments
from clicket.model.grant import GrantTerms, read_terms

__all__ = ["Approver", "approve", "approve_as", "deny", "deny_as", "respond", "respond_as"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


async def approve(
    runtime: _Runtime,
    id: str,
    *,
    thread: str | None = None,
    by: str = "",
    reason: str = "",
    arguments: Arguments = None,
    seen: str = "",
    grant: GrantTerms | None = None,
) -> bool:
    """Let a call run that waits for approval. False: it is not waiting (any more).

    With other `arguments` it runs with those, if they fit: else `InvalidInput` or `PermissionDenied` is raised, and the
    call goes on waiting. Both versions stay on record. `seen`: `record.approval["hash"]` of what was looked at; if the call
    waits for another decision than that, `Conflict` is raised.

    `grant`: later calls of the same tool, for which the same rule of the policy asks, run without a person: `{"uses": 10,
    "seconds": 3600, "thread": "t1", "arguments": {JSON Schema}}`, each key optional. `rt.grants` lists and revokes grants.

    `PermissionDenied`: `by` made the call, and the policy does not allow `self_approval`. If the policy wants several `approvers`,
    the call goes on waiting until this many different people have approved it.
    """
    approver = _named(runtime, by)
    return await approve_as(
        runtime, id, approver, thread=thread, reason=reason, arguments=arguments, seen=seen, grant=grant
    )


async def deny(
    runtime: _Runtime, id: str, *, thread: str | None = None, by: str = "", reason: str = "", seen: str = ""
) -> bool:
    """Refuse a call that waits for approval; `seen` as in `approve`. False: it is not waiting (any more).

    A question of the call's tool (`record.approval["purpose"] == "input"`) is declined, and the tool goes on without an answer."""
    return await deny_as(runtime, id, _named(runtime, by), thread=thread, reason=reason, seen=seen)


async def respond(
    runtime: _Runtime,
    id: str,
    output: Any,
    *,
    thread: str | None = None,
    by: str = "",
    reason: str = "",
    seen: str = "",
) -> bool:
    """Answer in the tool's place: a call that waits for approval completes with `output`, and its tool does not run. False: it is not
    waiting (any more).

    The output is processed like the tool's, and never cached; `metadata["answered_by"]` is the person. `InvalidInput`: it does not fit
    the tool's output schema, and the call goes on waiting. The person who made the call may not answer it, as in `approve`.

    If the tool itself asks (`record.approval["question"]`), `output` is the answer to its question: an object that fits
    `question["schema"]`. The tool goes on with it, and the person who made the call may answer.
    """
    return await respond_as(runtime, id, output, _named(runtime, by), thread=thread, reason=reason, seen=seen)


def _named(runtime: _Runtime, by: str) -> Approver:
    return Approver(by or runtime._caller or "")


# As a person with several names. The runtime's caller says only whose call it is.


async def approve_as(
    runtime: _Runtime,
    id: str,
    approver: Approver,
    *,
    thread: str | None = None,
    reason: str = "",
    arguments: Arguments = None,
    seen: str = "",
    grant: Any = None,
) -> bool:
    terms = None if grant is None else read_terms(grant)
    if terms is not None and "arguments" in terms:
        check_schema(terms["arguments"])
    return await _decide(
        runtime, id, thread, approver, approved=True, reason=reason, arguments=arguments, seen=seen, grant=terms
    )


async def deny_as(
    runtime: _Runtime, id: str, approver: Approver, *, thread: str | None = None, reason: str = "", seen: str = ""
) -> bool:
    return await _decide(runtime, id, thread, approver, approved=False, reason=reason, seen=seen)


async def respond_as(
    runtime: _Runtime,
    id: str,
    output: Any,
    approver: Approver,
    *,
    thread: str | None = None,
    reason: str = "",
    seen: str = "",
    settles: bool = False,
) -> bool:
    answer = Answer(output, settles)
    return await _decide(runtime, id, thread, approver, approved=True, reason=reason, seen=seen, answer=answer)


async def _decide(runtime: _Runtime, id: str, thread: str | None, approver: Approver, **decision: Any) -> bool:
    engine = runtime._opened
    stored = await engine.stored_calls.find_named(id, thread, runtime._caller)
    return await engine.decisions.decide(stored, approver, **decision)
