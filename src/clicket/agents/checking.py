"""Runs the checks of an agent's message and of its answers. A check that cannot decide refuses: what was not checked does not pass."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from clicket.agents.chain import Method
from clicket.agents.check import Check
from clicket.agents.check_tool import arguments_of, edited_in, tool_name
from clicket.agents.entries import Refusal
from clicket.agents.questions import ask_person
from clicket.agents.transcript import storable
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_limits import Ending
from clicket.agents.verdicts import Ask, Change, Pass, Refuse, Verdict, verdict_in
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.chat import ChatReply
from clicket.model.codec import encode
from clicket.model.ports.model_trace import MODEL_TRACE

__all__ = ["check_ending", "check_message", "check_reply", "judge", "lets_pass"]

logger = logging.getLogger("clicket.agents")

Hold = Callable[[], Awaitable[None]]


async def judge(turn: Turn, method: Method, value: Any) -> Verdict | None:
    """What a check decides about a value. None: it passes."""
    check = method.check
    assert check is not None, "middleware is not judged by"
    if check.tools is not None and not check.covers(value.tool):
        return None
    trace = MODEL_TRACE.get()
    if trace is None:
        return await _judged(turn, method, check, value)
    with trace.part("check", method.by, turn.agent, turn.thread) as note:
        found = await _judged(turn, method, check, value)
        note("clicket.check.on", check.on)
        note("clicket.check.verdict", "pass" if found is None else type(found).__name__.lower())
        return found


async def _judged(turn: Turn, method: Method, check: Check, value: Any) -> Verdict | None:
    try:
        found = check.function(turn, value)
        found = await found if inspect.isawaitable(found) else found
        match found:
            case None | Pass():
                return None
            case Change(str()) | Refuse(str()):
                return found
            case Change() if check.on in ("tool_call", "tool_result"):
                encode(msgspec.to_builtins(found, str_keys=True))
                return found
            case Ask(str()) if check.on != "tool_result":
                return found
        raise TypeError(f"it returned {found!r:.100}")
    except StoreUnavailable:
        raise
    except Exception:
        turn.leave_if_closing()
        logger.exception("the check %r of %s failed, so it refuses", method.by, method.on)
        return Refuse(f"the check {method.by!r} failed, so this is refused")


async def _decide(
    turn: Turn, method: Method, text: str, step: int, *, is_known: bool, hold: Hold | None = None
) -> Change | Refuse | None:
    """What a check of a text decides in the end, on record; a person answers what it asks. `is_known`: a decision that is on record is
    about this text. `hold`: called before a person is asked, so that the text is not lost meanwhile."""
    recorded = turn.decisions.of(method, step) if is_known else None
    found = await judge(turn, method, text) if recorded is None else verdict_in(recorded)
    id = turn.check_call_id(turn.middleware.number_of(method)) if isinstance(found, Ask) else ""
    if found is not None and recorded is None:
        if id and hold is not None:
            await hold()
        turn.record_decision(method, msgspec.to_builtins(found), step=step, call=id)
    if isinstance(found, Ask):
        sending = turn.sent()  # no person is asked before the question is on record
        if sending is not None:
            await sending
        found = await _answered(turn, method, found, text, id)
        turn.record_decision(method, msgspec.to_builtins(found), step=step)
    return found if isinstance(found, Change | Refuse) else None


async def _answered(turn: Turn, method: Method, question: Ask, text: str, id: str) -> Change | Refuse | Pass:
    """The decision of a person about a text."""
    host = turn.host.asking(question.text)
    try:
        result = await ask_person(turn, host, tool_name(method.by), arguments_of(text), id)
    except StoreUnavailable:  # the turn waits for the store, and finds the question again
        raise
    except ClicketError as error:
        turn.leave_if_closing()
        return Refuse(f"{question.text} (a person could not be asked: {error.message})")
    turn.leave_if_closing()
    if not result.success:
        why = "nobody approved it" if result.error is None else result.error.message
        return Refuse(f"{question.text} ({why})")
    if result.truncated:
        return Refuse(f"{question.text} (the text that a person wrote is too long)")
    edited = edited_in(result)
    return Pass() if edited is None else Change(edited)


# The message.


async def check_message(turn: Turn) -> None:
    """Before the first request. `TurnStopped`: the message is refused, and no model reads it, now or later."""
    for method in turn.middleware.input:
        if turn.is_replaying and turn.decisions.of(method, 1) is None:
            continue  # a model has answered the message: it had passed
        found = await _decide(turn, method, turn.messages[turn.begins].content, 1, is_known=True)
        if isinstance(found, Refuse):
            turn.replace_message(None)
            raise TurnStopped("refused", found.text)
        if found is not None:
            turn.replace_message(storable(found.value))


async def lets_pass(turn: Turn, message: str) -> bool:
    """Do all checks of messages let one pass, as it is, that comes while the turn runs?"""
    for method in turn.middleware.input:
        if await judge(turn, method, message) is not None:
            return False
    return True


# Answers.


async def check_reply(
    turn: Turn, reply: ChatReply, hold: Callable[[ChatReply, str], Awaitable[None]], held_by: str = ""
) -> tuple[ChatReply, Refusal | None]:
    """The reply that is recorded, and why it is refused, if it is. `hold(reply, check)`: called before a person is asked. `held_by`: the
    check that asks about this reply, if it is one on record.

    A text beside tool calls is not an answer: if it is refused it is left out, and the calls are made.
    """
    if reply.uses and turn.answer is None:
        return await _checked_remark(turn, reply), None
    methods, step = turn.middleware.output, turn.steps + 1
    first = next((place for place, method in enumerate(methods) if method.by == held_by), 0)
    for method in methods[first:]:
        held = partial(hold, reply, method.by)
        found = await _decide(turn, method, reply.text, step, is_known=bool(held_by), hold=held)
        if isinstance(found, Refuse):
            return reply, Refusal(by=method.by, on=method.on, text=found.text)
        if found is not None:
            reply, errors = _changed(turn, reply, storable(found.value))
            if errors:
                text = "\n".join((f"The answer does not fit as {method.by} has changed it:", *errors))
                return reply, Refusal(by=method.by, on=method.on, text=text)
    return reply, None


def _changed(turn: Turn, reply: ChatReply, text: str) -> tuple[ChatReply, tuple[str, ...]]:
    """The reply with another text, and why that is not a value of the turn's type, if so."""
    if turn.output is not None and turn.answer is not None:
        read = turn.output.read(text)
        if read.errors:
            return reply, read.errors
        turn.answer_with(read.value)
        text = encode(read.value).decode()
    return msgspec.structs.replace(reply, text=text), ()


async def _checked_remark(turn: Turn, reply: ChatReply) -> ChatReply:
    for method in turn.middleware.output:
        if not reply.text:
            break
        found = await judge(turn, method, reply.text)
        if isinstance(found, Ask):
            found = Refuse(found.text)
        if found is not None:
            turn.record_decision(method, msgspec.to_builtins(found), step=turn.steps + 1)
            text = storable(found.value) if isinstance(found, Change) else ""
            reply = msgspec.structs.replace(reply, text=text)
    return reply


async def check_ending(turn: Turn, ending: Ending) -> Ending:
    """Checks a final text that is not a reply of a model as it was checked: the summary of a plan, or what a drive of your own returns."""
    stopped, text = ending
    if stopped != "finished" or not turn.middleware.output or text == turn.last_answer:
        return ending
    for method in turn.middleware.output:
        found = await _decide(turn, method, text, turn.steps + 1, is_known=True)
        if isinstance(found, Refuse):
            return "refused", f"Terminated: No answer was accepted ({method.by}: {found.text})"
        text = text if found is None else storable(found.value)
    return stopped, text
