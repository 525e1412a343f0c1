"""The threads of an agent for one caller: which turn is next, which one runs, how one ended, and repair after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from clicket.agents.agent_result import AgentResult
from clicket.agents.entries import Begun, Ended, UndoneCalls
from clicket.agents.mailbox import Mailbox
from clicket.agents.memory import Head, Memory, TurnDocument, inner_thread
from clicket.agents.transcript import paired
from clicket.agents.turn_limits import NO_STEPS, Limits
from clicket.agents.turn_record import TurnRecord, begun_in
from clicket.agents.undo_turn import begin_undo, undoes
from clicket.engine.spend import RAISE_BUDGET
from clicket.errors import AgentBusy, AgentChanged, ClicketError, Conflict, NotFound
from clicket.kernel import AgentState, State
from clicket.model import Event, Record
from clicket.model.chat import ChatMessage
from clicket.model.files import FileRef, files_in, shown_in
from clicket.model.ids import is_of_turn
from clicket.model.ports import AgentHost, sleep
from clicket.safety.vault import MASK

__all__ = [
    "Place",
    "Threads",
    "Wanted",
    "document_of",
    "ended_document",
    "ending_of",
    "failure_of",
    "has_message",
    "ids_of",
    "inner_thread",
    "other_message",
    "recorded_ending",
    "result_of",
    "turn_id",
]

Place = Literal["here", "elsewhere"]
"""Where an interrupted turn goes on: in this process, or in another one."""
_LOOK_EVERY = 0.5
"""Seconds between two looks at what an interrupted turn waits for."""
_BRINGS = {
    "model": "the model {name!r}, which agent.run or agent.resume brings (model=…)",
    "dep": "the dep {name!r}, which agent.run or agent.resume brings (deps={{{name!r}: …}})",
    "agent": "the agent {name!r}, which was handed the turn: make it on this runtime",
    "tool": "the tool {name!r}, of which a call was interrupted: register it on this runtime",
    "workspace": "a process with its workspace {name!r} (host and folder)",
}
"""Waits of the turn itself."""
_PUT_AWAY = ("dep", "model", "workspace")
"""Those in which it belongs to no process."""
_WAITS = {
    "approval": "an approval of {tool!r}",
    "credential": "a credential for {tool!r}",
    "external": "a result of {tool!r} from outside",
}
"""Waits of tool calls that no process can end."""


def turn_id(number: int) -> str:
    return f"turn-{number}"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller sends: a message (None: it takes up any turn), which has a line for each of its files; the number that its turn must
    have, the turn's id, and the id of the request, if it gave them."""

    message: str | None = None
    files: tuple[FileRef, ...] = ()
    turn: int | None = None
    id: str = ""
    run: str = ""

    @property
    def is_named(self) -> bool:
        """It names one turn, so that it can be sent again."""
        return self.turn is not None or bool(self.id)


class Threads:
    """`tool`: the name of the internal tool whose calls are turns."""

    def __init__(self, host: AgentHost, memory: Memory, tool: str, limits: Limits) -> None:
        self.host = host
        self.memory = memory
        self.tool = tool
        self._limits = limits

    @property
    def agent(self) -> str:
        return self.tool.removeprefix("agent:")

    def inner(self, thread: str) -> str:
        """See `inner_thread`."""
        return inner_thread(self.agent, thread)

    async def next(self, thread: str) -> int:
        """The number of the running turn, or of the next one."""
        return (await self.memory.head(self.host, thread))[0].turns + 1

    async def next_to_begin(self, thread: str) -> int:
        """As `next`. `AgentBusy`: the next turn is one that a fork took along up to a step, and has not been resumed."""
        head, _ = await self.memory.head(self.host, thread)
        number = head.turns + 1
        if head.is_cut and await self.record(thread, number) is None:
            raise AgentBusy(
                f"thread {thread!r} is a fork with turn {number} up to a step: continue that turn first, with agent.resume({thread!r}).",
                waiting_for="resume",
            )
        return number

    async def record(self, thread: str, number: int) -> Record | None:
        return await self.host.record(turn_id(number), self.inner(thread))

    def entries(self, events: Sequence[Event], thread: str, number: int) -> list[dict[str, Any]]:
        """The recorded entries in the events of a turn's call."""
        return self.host.entries(events, turn_id(number), self.inner(thread))

    async def earlier(self, wanted: Wanted, thread: str, number: int) -> int | None:
        """The number of the turn that `wanted` names, if it is not `number`, which is the next one. `Conflict`: that turn has another
        message, or there is none. `number` must have been read before: until then every turn that has ended is found by its id."""
        document = await self.memory.of_id(self.host, thread, wanted.id) if wanted.id else None
        found = wanted.turn if document is None else document.turn
        if found is None or found == number:
            return None
        if document is not None and not has_message(document, wanted.id, wanted.message):
            raise Conflict(other_message(wanted, thread))
        if document is not None and wanted.turn not in (None, found):
            raise Conflict(
                f"the id {wanted.id!r:.100} is that of turn {found} of thread {thread!r}, not of turn {wanted.turn}. Leave out turn=."
            )
        if document is None and not await self._has(wanted, thread, found):
            raise Conflict(
                f"this would be turn {number} of thread {thread!r}, not {found}: another message came first. Read the thread again, then "
                "send your message as its next turn."
            )
        if not self.host.lives(turn_id(found), self.inner(thread)):
            await self.host.claim(
                turn_id(found), self.inner(thread)
            )  # its process died before the call ended: it ends here
        return found

    async def join(
        self, wanted: Wanted, thread: str, number: int, bring: Callable[[], None] | None = None
    ) -> Place | None:
        """A turn of this number exists. A place: it is the turn that is wanted, and goes on there: `wanted` names it, or a crash
        interrupted it and it has the message. None: it has ended, and the next one may begin; an interrupted turn with another message
        has ended before this returns. `Conflict`: `wanted` names it, and it has another message. `AgentBusy`: it runs, and was not
        interrupted, or another caller of this process waits for it; or it waits for a person.

        `bring`: called if it has the message, before it goes on here: gives it what it was run with."""
        host = self.host
        id = turn_id(number)
        inner = self.inner(thread)
        record = await host.record(id, inner)
        if record is None:
            return None
        here = False
        if not record.state.is_terminal:
            begun = self._begun(record, thread, number)
            is_wanted = _is_same(record, begun, wanted) and wanted.id in ("", begun.id)
            if is_wanted and bring is not None:
                bring()
            # One that waits for what a caller brings would wait again.
            is_put_away = not is_wanted and (record.waiting_for or "").partition(":")[0] in _PUT_AWAY
            here = host.lives(id, inner) or (not is_put_away and await host.claim(id, inner))
        if not here:
            # It may have ended since, or could not continue: its message is masked, and no key opens it.
            record = record if record.state.is_terminal else await host.record(id, inner) or record
            if record.state.is_terminal:
                if (await self.memory.head(host, thread))[0].turns < number:
                    await self._save_ended(thread, number, record)
                return None
        begun = self._begun(record, thread, number)
        same = _is_same(record, begun, wanted)
        has_id = begun.id == wanted.id
        if wanted.turn is not None or (wanted.id and has_id):
            if not same or (wanted.id and not has_id):
                raise Conflict(other_message(wanted, thread))
            host.attend(id, inner)
            return "here" if here else "elsewhere"
        if not await host.is_unattended(id, inner):
            raise AgentBusy(
                f"turn {number} of thread {thread!r} is running, and a thread has one turn at a time. Wait for it, end it with "
                f"agent.stop({thread!r}), or use another thread."
            )
        if not same or (wanted.id and not has_id):
            await self._let_end(thread, number)
            return None
        host.attend(id, inner)
        return "here" if here else "elsewhere"

    async def _let_end(self, thread: str, number: int) -> None:
        """Wait for the end of an interrupted turn. `AgentBusy`: it waits for something that no process can do."""
        over = asyncio.ensure_future(self.host.outcome(turn_id(number), self.inner(thread)))
        try:
            while not over.done():
                waits = await self._waits(thread, number)
                if waits:
                    raise AgentBusy(
                        f"turn {number} of thread {thread!r} was interrupted by a crash, and waits for {waits}. Decide on it, or end the "
                        f"turn with agent.stop({thread!r}); then send your message again.",
                        waiting_for=waits,
                    )
                later = asyncio.ensure_future(sleep(self.host.clock, _LOOK_EVERY))
                try:
                    await asyncio.wait((over, later), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    later.cancel()
            over.result()
        finally:
            over.cancel()

    async def _waits(self, thread: str, number: int) -> str:
        """What a turn waits for, itself or in the agents that it called, in words; empty if it waits for nothing that takes a person."""
        mark = f"{self.agent}.{number}"
        found: list[str] = []
        own = await self.host.record(turn_id(number), self.inner(thread))
        kind, _, name = ("" if own is None else own.waiting_for or "").partition(":")
        if kind in _BRINGS:
            found.append(_BRINGS[kind].format(name=name))
        outside = [(thread, id) for id in await self.host.waiting(thread, "external")]
        for place, id in [*await self.host.waits_for_people(thread), *outside]:
            if place == thread and not is_of_turn(id, mark):  # of another turn, or of no agent
                continue
            record = await self.host.record(id, place)
            if record is not None and self.host.is_background(record.tool):
                continue
            if record is not None and record.tool == RAISE_BUDGET:
                found.append(f"a higher budget (call {id})")
            elif record is not None and record.waiting_for in _WAITS:
                found.append(f"{_WAITS[record.waiting_for].format(tool=record.tool)} (call {id})")
        return ", ".join(found)

    async def settled(self, thread: str) -> tuple[Head, Record | None]:
        """The head, and the call of the running turn. A turn whose call has ended without a document is saved first."""
        while True:
            head, _ = await self.memory.head(self.host, thread)
            record = await self.record(thread, head.turns + 1)
            if record is None or not record.state.is_terminal:
                return head, record
            await self._save_ended(thread, head.turns + 1, record)  # a document that exists by now is kept

    async def is_over(self, record: Record, thread: str, number: int) -> bool:
        """Has the turn ended? Its document is written before its call ends, and its process may have died in between."""
        if record.state.is_terminal or self.host.lives(turn_id(number), self.inner(thread)):
            return record.state.is_terminal
        return await self.memory.turn(self.host, thread, number) is not None

    async def _has(self, wanted: Wanted, thread: str, number: int) -> bool:
        """Is there a turn of this number with this message and id? `run`: made by this request, as long as its call is kept."""
        record = await self.record(thread, number)
        if record is not None and not _is_same(record, self._begun(record, thread, number), wanted):
            return False
        document = None if record is not None and not wanted.id else await self.memory.turn(self.host, thread, number)
        if document is None:
            return record is not None and (not wanted.id or self._begun(record, thread, number).id == wanted.id)
        return (record is not None or has_message(document, document.id, wanted.message)) and wanted.id in (
            "",
            document.id,
        )

    async def ended(self, thread: str, number: int) -> AgentResult:
        """Wait for the end of a turn in any process; if it failed, its error is raised."""
        with self.host.while_open():
            return await self._ended(thread, number)

    async def _ended(self, thread: str, number: int) -> AgentResult:
        host = self.host
        id = turn_id(number)
        inner = self.inner(thread)
        # A process may die between the turn's document and the end of its call: then there is nothing to wait for.
        document = None if host.lives(id, inner) else await self.memory.turn(host, thread, number)
        if document is None:
            with suppress(NotFound):  # the retention of calls is shorter than that of threads
                await host.outcome(id, inner)
            document = await self.memory.turn(host, thread, number)
        if document is None:
            record = await self.record(thread, number)
            if record is None:
                raise NotFound(f"thread {thread!r} has no turn {number}.")
            document = await self._save_ended(thread, number, record)
        if document.state is AgentState.ERROR:
            raise failure_of(document, f"turn {number} of thread {thread!r}")
        return result_of(document, self.agent, thread, await self.memory.until(self.host, thread, number))

    async def joined(self, thread: str, number: int) -> AgentResult:
        """`ended`, for a caller that has joined the turn. If its task is cancelled, the next caller may join the turn in its place."""
        try:
            return await self.ended(thread, number)
        finally:
            self.host.leave(turn_id(number), self.inner(thread))

    async def _save_ended(self, thread: str, number: int, record: Record) -> TurnDocument:
        """Write the document of a turn whose call ended without one: its process died each time, or it never began."""
        on_record = TurnRecord(self.entries(record.events, thread, number))
        ending = on_record.ended
        if ending is None:
            cancelled = record.state is State.CANCELLED
            error = "" if cancelled else _reason(record)
            ending = ending_of(on_record, self._limits, record.updated_at, error)
        begun = on_record.begun or _begun_by(record)
        if undoes(begun.undo_on, ending.state, ending.stopped):
            await begin_undo(self.host, self.agent, thread, number)
        await Mailbox(self.agent).remove(self.host, thread, [*filter(None, (begun.id,)), *on_record.heard])
        document = document_of(number, begun.message, on_record, ending, begun.id, begun.files)
        return await self.memory.save(self.host, thread, document)

    def _begun(self, record: Record, thread: str, number: int) -> Begun:
        return begun_in(self.entries(record.events, thread, number)) or _begun_by(record)


def _begun_by(record: Record) -> Begun:
    """Of a turn without that entry, from the arguments of its call: secrets are masked there; a recorded entry can be unsealed."""
    given = _arguments(record)
    files = files_in(given.get("files"))
    return Begun(message=str(given.get("message", "")), id=str(given.get("id", "")), files=list(files))


def _is_same(record: Record, begun: Begun, wanted: Wanted) -> bool:
    """Has the turn the message, and was it made by the request?"""
    same_run = not wanted.run or _arguments(record).get("run") == wanted.run
    return same_run and (wanted.message is None or _fits(begun.message, wanted.message))


def _arguments(record: Record) -> dict[str, Any]:
    return record.arguments if isinstance(record.arguments, dict) else {}


def has_message(document: TurnDocument, id: str, message: str | None) -> bool:
    """Was it this message that came to the turn with the id? Of one that the turn heard the mailbox knows the text (`was_sent`)."""
    own = document.message or (document.messages[0].content if document.messages else "")
    return id in document.heard or _fits(own, message)


def _fits(stored: str, message: str | None) -> bool:
    """Is it the stored message? Parts of that one may be masked."""
    first, *others = stored.split(MASK)
    if message is None or not others or not message.startswith(first):
        return stored == message
    *middle, last = others
    at = len(first)
    for part in middle:
        place = message.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return len(message) - at >= len(last) and message.endswith(last)


def other_message(wanted: Wanted, thread: str) -> str:
    if wanted.id:
        return f"the id {wanted.id!r:.100} was used for another message in thread {thread!r}. Use a new id for each message."
    return f"turn {wanted.turn} of thread {thread!r} has another message. Read the thread again, then send yours as its next turn."


def _reason(record: Record) -> str:
    """Why a turn failed whose agent did not say it."""
    if record.error is not None and record.error.code == "outcome_unknown":
        return (
            "its process died too often before it completed a step, so it is not tried again. See the logs of these processes; then "
            "send the message again, under another id if it had one"
        )
    return str(record.error or "it ended without a result")


def ending_of(on_record: TurnRecord, limits: Limits, at: float, error: str, code: str = "") -> Ended:
    """The last entry of a turn that ends without its agent. No error: it was cancelled."""
    steps = len(on_record.replies)
    return Ended(
        state=AgentState.ERROR if error else AgentState.IDLE,
        stopped="" if error else "cancelled",
        text="" if error else "Terminated: Cancelled" if steps else NO_STEPS,
        steps=steps,
        calls=on_record.calls(limits),
        usage=on_record.usage,
        at=at,
        error=error,
        code=code,
        agent=on_record.agent,
        called=on_record.called,
    )


def failure_of(document: TurnDocument, name: str) -> ClicketError:
    """The error to raise for a turn that failed."""
    kind = AgentChanged if document.code == AgentChanged.code else ClicketError
    return kind(f"{name} failed: {document.error}")


def recorded_ending(on_record: TurnRecord, must_stop: bool) -> Ended | None:
    """The recorded end of a turn whose process died before it saved the turn. None if running it again leads to the same end: not if a stop
    is on record by now."""
    ending = on_record.ended
    is_same = ending is None or (not must_stop and ending.stopped in ("finished", "max_steps", "repeated"))
    return None if is_same else ending


def document_of(
    number: int, message: str, on_record: TurnRecord, ending: Ended, id: str = "", files: Iterable[FileRef] = ()
) -> TurnDocument:
    """The document of a turn. `id`: that its caller gave it. `files`: of the message."""
    read = on_record.message
    text = read or message or "[a message that was refused]"
    asked = ChatMessage(role="user", content=text, files=shown_in(text, tuple(files)))
    messages = paired(([] if read == "" else [asked]) + on_record.messages)
    document = ended_document(number, messages, on_record.plan, ending, id, "" if read is None else message)
    return msgspec.structs.replace(document, heard=on_record.heard, undone=ids_of(on_record.undone))


def ids_of(undone: UndoneCalls | None) -> tuple[str, ...]:
    """The calls that undid others, of an entry about them."""
    return () if undone is None else tuple(each.undo for each in undone.items)


def ended_document(
    number: int,
    messages: Iterable[ChatMessage],
    plan: dict[str, Any] | None,
    ending: Ended,
    id: str = "",
    message: str = "",
) -> TurnDocument:
    """`message`: the caller's, if it is not the first of `messages`."""
    return TurnDocument(
        turn=number,
        id=id,
        message=message,
        messages=tuple(messages),
        state=ending.state,
        stopped=ending.stopped or None,
        ended=ending.ended,
        value=ending.value,
        text=ending.text,
        steps=ending.steps,
        calls=ending.calls,
        usage=ending.usage,
        error=ending.error,
        code=ending.code,
        plan=plan,
        at=ending.at,
        agent=ending.agent,
        called=ending.called,
    )


def result_of(document: TurnDocument, agent: str, thread: str, messages: Sequence[ChatMessage]) -> AgentResult:
    """`agent`: whose thread it is. `messages` are the thread's, with the turn's own at their end."""
    return AgentResult(
        text=document.text,
        state=document.state,
        stopped=document.stopped or "cancelled",
        steps=document.steps,
        usage=document.usage,
        messages=list(messages),
        thread=thread,
        turn=document.turn,
        calls=document.calls,
        begins=max(len(messages) - len(document.messages), 0),
        plan=document.plan,
        ended=document.ended,
        value=document.value,
        agent=document.agent or agent,
    )
