"""Calls that wait for a person. The question and the word are in the journal, so both survive restarts and cross processes.

A word may come with other arguments. They are judged like the first ones, by whoever gives the word and again by whoever runs
the call: the whole schema, and the policy's denials. Both versions stay on record; the id stands for the first one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from clicket.engine.outside import request
from clicket.engine.unsealing import LOST, edited_in, identity_of, secrets_of, unmasked, word_with
from clicket.errors import ApprovalDenied, ClicketError, InvalidInput, PermissionDenied
from clicket.execution import describe
from clicket.journal import Fenced, LiveCall
from clicket.kernel import State
from clicket.model import Event, Record, ToolCall, ToolError, read
from clicket.model.arguments import parse_arguments
from clicket.model.codec import clean
from clicket.pipeline import Authorize, Policy, Validate
from clicket.ports import Stored, mark
from clicket.tools import Registry, Tool
from clicket.vault import Secrets, hide_said, hide_text, look

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine

__all__ = ["ask", "ask_again", "decide", "decided", "edit_of", "examine", "judge_edit", "unfit"]


def ask(engine: LocalEngine, call: LiveCall, purpose: str = "run") -> None:
    """Stage the question, and wait for its answer."""
    call.waiting_for = "approval"
    timeout, at = call.approval_timeout, engine.journal.stamp(call)
    data: dict[str, Any] = {
        "timeout": timeout,
        "purpose": purpose,
        "reason": hide_text(clean(call.asked_because), call.secrets),
    }
    if timeout is not None:
        data["deadline"] = at + timeout
        call.queue_timer = engine.clock.call_later(timeout, engine.expire, call, "approval")
    engine.journal.record(call, "approval_requested", {**data, **mark(engine.clock)}, at)


def ask_again(engine: LocalEngine, call: LiveCall, why: str) -> None:
    """The call was under way when its process went: may it run once more?"""
    call.asked_because, call.approval_timeout = why, engine.policy.approval_timeout
    ask(engine, call, "recovery")


async def decide(
    engine: LocalEngine, stored: Stored, *, approved: bool, by: str, reason: str, arguments: Any = None
) -> bool:
    """A person's word on a call that waits for it, wherever it waits. False: it does not wait (any more).

    Also into a call of our own the word is written as an outsider's: of two that come at once, one is first.
    """
    first = stored.events[0].data
    call = engine.find_live(stored.id, first["thread"], first.get("caller", ""))
    known = secrets_of(engine, stored.id, stored.events, call)
    word: dict[str, Any] = {
        "approved": approved,
        "by": hide_text(clean(by), known),
        "reason": hide_text(clean(reason), known),
    }
    if arguments is not None:
        record = read(stored.id, stored.events)
        if record.waiting_for != "approval":
            return False
        edited = unmasked(engine, record, call, arguments)
        if edited is not None:
            max_size = engine.limits.max_arguments_size
            edited = examine(engine.registry, engine.policy, record, edited, max_size=max_size)
            word.update(word_with(engine, record, call, edited))
    if not await request(engine, stored, "approval_given", word):
        return False
    await engine.audit.kept(
        word["by"], "call.approved" if approved else "call.denied",
        call=stored.id, tool=first["tool"], thread=first["thread"], caller=first.get("caller", ""),
        reason=word["reason"], edited="arguments" in word,
    )  # fmt: skip
    call = engine.find_live(stored.id, first["thread"], first.get("caller", ""))
    if call is None:
        engine.pump.nudge()  # it may be nobody's
        return True
    with suppress(Fenced):
        await engine.refresh(call)
        await engine.journal.flush(call)
    return True


def examine(registry: Registry, policy: Policy, record: Record, arguments: Any, *, max_size: int) -> dict[str, Any]:
    """Other arguments for a call that waits, as they will be kept; `InvalidInput` or `PermissionDenied` if they will not do.

    A tool that is not registered here cannot be asked: whoever runs the call does it.
    """
    plain = parse_arguments(arguments, max_size=max_size)
    tool = registry.get(record.tool)
    try:
        _examine(registry, policy, record, tool, plain, max_size)
    except (InvalidInput, PermissionDenied) as error:
        # The approver saw masks; who complains about the arguments may quote what is behind them.
        declared = record.events[0].data.get("sensitive") or () if tool is None else tool.options.sensitive
        raise _hidden(error, look(plain, None, frozenset(declared))) from None
    return plain


def _examine(
    registry: Registry, policy: Policy, record: Record, tool: Tool | None, plain: dict[str, Any], max_size: int
) -> None:
    if tool is not None:
        check = registry.find(record.tool)[1]
        trial = LiveCall(
            request=ToolCall(record.tool, plain, thread=record.thread),
            id=record.id, caller=record.caller, created_at=0.0, submitted_at=0.0, idempotency_key="", tool=tool, check=check,
        )  # fmt: skip
        Validate(max_size=max_size)(trial)
    if not policy.is_open:
        scopes = record.events[0].data.get("scopes") or ()
        Authorize(policy, max_size=max_size).judge(
            tool, record.tool, plain, thread=record.thread, caller=record.caller, scopes=scopes
        )


def _hidden(error: InvalidInput | PermissionDenied, secrets: Secrets | None) -> ClicketError:
    """An error for somebody outside, without secrets."""
    error.message = hide_text(error.message, secrets)
    error.args, error.details = (error.message,), hide_said(error.details, secrets)
    if isinstance(error, InvalidInput):
        error.problems = error.details["problems"]
    return error


def decided(engine: LocalEngine, call: LiveCall, word: dict[str, Any]) -> None:
    """The word is in the call's journal: go on, or end it."""
    call.waiting_for = None
    if call.queue_timer is not None:
        call.queue_timer.cancel()
        call.queue_timer = None
    if word.get("approved") is not True:
        who, why = word.get("by") or "somebody", f": {word['reason']}" if word.get("reason") else ""
        denied = ApprovalDenied(f"{who} denied the call{why}. Ask again with other arguments, or do without.")
        engine.pipeline.fail(call, describe(denied, retryable=False), engine.settled)
    elif "arguments" not in word or _take_edit(engine, call, word):
        engine.proceed(call)


def edit_of(call: LiveCall) -> dict[str, Any] | None:
    """The word that came with the arguments in force, if they are not the first ones."""
    words = (event.data for event in reversed(call.events) if _is_edit(event))
    return next(words, None)


def _is_edit(event: Event) -> bool:
    return event.type == "approval_given" and "arguments" in event.data


def judge_edit(engine: LocalEngine, call: LiveCall) -> None:
    """Whoever gave the word may have had no policy, or another one."""
    if not engine.policy.is_open:
        engine.authorize.judge(
            call.tool,
            call.tool_name,
            call.request.arguments,
            thread=call.thread,
            caller=call.caller,
            scopes=call.scopes,
        )


def _take_edit(engine: LocalEngine, call: LiveCall, word: dict[str, Any]) -> bool:
    """From here on the call has other arguments, if they will do."""
    arguments = edited_in(engine.vault, identity_of(call.id, call.events[0].data), word, call)
    if arguments is None:
        engine.pipeline.fail(call, LOST, engine.settled)
        return False
    call.request = msgspec.structs.replace(call.request, arguments=arguments)
    try:
        engine.pipeline.stages[2](call)  # first, as it finds the secrets that no complaint may tell
        judge_edit(engine, call)
    except (InvalidInput, PermissionDenied) as error:
        engine.pipeline.fail(call, unfit(error, word), engine.settled)
        return False
    call.cache_key = None
    if call.state is State.PENDING:
        engine.caching.fit(call)
    return True


def unfit(error: ClicketError, word: dict[str, Any]) -> ToolError:
    """Why a call does not run with the arguments that came with the word."""
    details = {"problems": error.details["problems"]} if "problems" in error.details else {}
    text = f"the arguments as {word.get('by') or 'somebody'} changed them cannot be used: {error.message}"
    return ToolError(code=error.code, message=text, type=type(error).__name__, details=details)
