"""Questions of a running body to a person, as events of its call (`tools/question.py`).

There are two ways to wait. `ask` ends the body, and the call waits without a slot until the answer is on record; the body then runs again.
`ask_live` keeps the body: for one that holds a connection which would be lost. Either way the question and the answer are in the journal,
and people answer it in any process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from clicket.engine.executors.stopping import attempt_of
from clicket.engine.journal import Journal
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.codec import clean
from clicket.model.ports import mark
from clicket.safety.vault import hide, hide_text
from clicket.system.bridge import fulfil
from clicket.tools.question import INPUT, InputAnswer, InputNeeded, InputQuestion, input_answer, question_of

__all__ = ["EXPIRED", "Questions", "asked_for_input", "stage_question", "take_answer", "waits_for_input"]

EXPIRED: dict[str, Any] = {"approved": False, "expired": True, "by": "", "reason": "no answer came in time"}
_FOR_EVER = 10 * 365 * 86_400.0


class Questions:
    """What the body of one call asks. `pause(seconds, left)` keeps the attempt's clocks still while a person is asked."""

    __slots__ = ("_call", "_journal", "_pause")

    def __init__(self, journal: Journal, call: Call, *, pause: Callable[..., float | None]) -> None:
        self._journal = journal
        self._call = call
        self._pause = pause

    def ask(self, question: InputQuestion, timeout: float | None) -> InputAnswer:
        """The answer, if it is on record; else `InputNeeded` is raised, which the body must not catch."""
        answer = _answer_to(self._call.entry.events, question.key)
        if answer is None:
            raise InputNeeded(question, timeout)
        return answer

    @property
    def has_asked(self) -> bool:
        """Has an earlier attempt asked something?"""
        return asked_for_input(self._call.entry.events)

    async def ask_live(self, question: InputQuestion, timeout: float | None) -> InputAnswer:
        """Ask, and wait in the body. The time that a person takes does not count as the attempt's. One question at a time."""
        journal = self._journal
        call = self._call
        attempt = attempt_of(self._call)
        await asyncio.sleep(0)  # the attempt's deadline is set when its body first waits
        answered: asyncio.Future[InputAnswer] = asyncio.get_running_loop().create_future()
        attempt.asking = answered
        stage_question(journal, call, question, timeout)
        journal.commit(call.entry)
        left = self._pause(timeout or _FOR_EVER)
        timer = None if timeout is None else journal.clock.call_later(timeout, _look, journal, call, answered)
        try:
            return await answered
        except asyncio.CancelledError:
            _close(journal, call, {**EXPIRED, "reason": "the question was withdrawn"})
            raise
        finally:
            if timer is not None:
                timer.cancel()
            attempt.asking = None
            self._pause(0.0, left)


def _look(journal: Journal, call: Call, answered: asyncio.Future[InputAnswer]) -> None:
    """Time is up. An answer may be on record that this process has not read yet: an append without events reads it."""

    def expire(error: ClicketError | None) -> None:
        asyncio.get_running_loop().call_soon(_expire, journal, call, answered)

    journal.commit(call.entry, expire)


def _expire(journal: Journal, call: Call, answered: asyncio.Future[InputAnswer]) -> None:
    if not answered.done():
        _close(journal, call, EXPIRED)
        fulfil(answered, InputAnswer(action="cancel"))


def _close(journal: Journal, call: Call, decision: dict[str, Any]) -> None:
    if not call.ending and call.entry.waiting_for == "approval":
        journal.wait_for(call.entry, None)
        journal.record(call.entry, "approval_given", dict(decision))
        journal.commit(call.entry)


# For the engine.


def stage_question(journal: Journal, call: Call, question: InputQuestion, timeout: float | None) -> None:
    """Stage the question. From its next commit on the call waits for the answer."""
    entry = call.entry
    at = journal.stamp(entry)
    journal.wait_for(entry, "approval")
    shown = {name: getattr(question, name) for name in question.__struct_fields__}
    data: dict[str, Any] = {
        "timeout": timeout,
        "purpose": INPUT,
        "reason": hide_text(clean(question.why), call.secrets),
        "question": hide(shown, call.secrets),
        "self_approval": True,  # it asks the person whose call it is
    }
    if timeout is not None:
        data["deadline"] = at + timeout
    journal.record(entry, "approval_requested", {**data, **mark(journal.clock)}, at)


def waits_for_input(call: Call) -> bool:
    """Does the call wait for the answer to a question of its tool, and not for an approval?"""
    return call.entry.waiting_for == "approval" and asked_for_input(call.entry.events)


def asked_for_input(events: Iterable[Event]) -> bool:
    """Is the last question on record one of the tool?"""
    last = None
    for event in events:
        if event.type == "approval_requested":
            last = event
    return last is not None and question_of(last.data) is not None


def take_answer(call: Call, decision: dict[str, Any]) -> bool:
    """Give the answer to a body that waits for it. False: no body does."""
    waiting = None if call.attempt is None else call.attempt.asking
    if waiting is None:
        return False
    fulfil(waiting, input_answer(decision))
    return True


def _answer_to(events: Iterable[Event], key: str) -> InputAnswer | None:
    """The first answer to a question; a later one, of a process that was late, does not count."""
    asked = False
    for event in events:
        if event.type == "approval_requested":
            question = question_of(event.data)
            asked = question is not None and question.key == key
        elif event.type == "approval_given" and asked:
            return input_answer(event.data)
    return None
