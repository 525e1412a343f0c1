"""The first turn of a fork: its model reads that sessions of tools are fresh. One that was taken along up to a step goes on after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.agents.chain import Method
from clicket.agents.entries import Decision
from clicket.agents.fork import meet_dependencies
from clicket.agents.memory import Head
from clicket.agents.origin import Origin
from clicket.agents.past_entries import past_entries
from clicket.agents.turn import Turn
from clicket.agents.verdicts import Edit
from clicket.engine.executors import TurnLog
from clicket.model.chat import ChatMessage
from clicket.model.files import FileRef
from clicket.model.ports import AgentHost

__all__ = ["begin_fork", "first_of_fork", "with_entries"]

_BY = "fork"
_NOTE = (
    "[This conversation is a fork of {thread!r}. What its tools did before is done, and is not repeated. Their sessions are fresh: "
    "variables of programs, open files, pages and logins of earlier calls are not there.]"
)


def first_of_fork(head: Head, number: int) -> Origin | None:
    """The origin of a fork, if this is its first turn."""
    return head.origin if head.origin is not None and number == head.origin.after + 1 else None


async def with_entries(host: AgentHost, log: TurnLog, agent: str, head: Head, thread: str, number: int) -> TurnLog:
    """The log with the entries that the fork took along of this turn. Those that a killed process has written are its beginning."""
    origin = first_of_fork(head, number)
    past = None if origin is None or origin.step is None else await past_entries(host, agent, thread, head, number)
    if origin is None or past is None:
        return log
    edit = _edit_of(origin)
    note = Decision(step=(origin.step or 0) + 1, by=_BY, on="before_model", value=edit, at=origin.at)
    taken = [*past.entries, msgspec.to_builtins(note)]
    if log.count >= len(taken):
        return log
    for entry in taken[log.count :]:
        log.write(f"Taken along from thread {origin.thread}.", entry, (entry,), soon=True)
    await log.flush()
    return log.read_again()


async def begin_fork(turn: Turn, head: Head) -> None:
    """Before the first request of a fork's first turn."""
    origin = first_of_fork(head, turn.number)
    if origin is None:
        return
    await meet_dependencies(turn.host, turn.thread, origin)
    before = turn.messages[: turn.begins]
    turn.keep_files(_files_in(before))
    method = Method(_BY, "before_model", _never)
    step = (origin.step or 0) + 1
    if origin.step is None and any(message.uses for message in before) and turn.decisions.of(method, step) is None:
        edit = _edit_of(origin)
        turn.record_decision(method, edit, step=step)
        turn.take_edit(msgspec.convert(edit, Edit))


def _edit_of(origin: Origin) -> dict[str, Any]:
    message = ChatMessage(role="user", content=_NOTE.format(thread=origin.thread))
    edit: dict[str, Any] = msgspec.to_builtins(Edit(add=[message]))
    return edit


def _never(*given: Any) -> None:
    """What a fork says is not asked of a middleware."""


def _files_in(messages: Sequence[ChatMessage]) -> list[FileRef]:
    return [file for message in messages for file in message.files]
