"""The threads of an agent in the name of one caller: which turn comes next, which one is under way, and how one ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from clicket.agents import entries
from clicket.agents.loop import NO_STEPS
from clicket.agents.memory import Head, Memory, TurnDocument
from clicket.agents.transcript import paired
from clicket.agents.values import AgentResult
from clicket.errors import AgentBusy, ClicketError, Conflict, NotFound
from clicket.kernel import AgentState, State
from clicket.model import Event, Record
from clicket.model.chat import ChatMessage, Usage
from clicket.ports import AgentHost

__all__ = ["Threads", "document_of", "ended_before", "inner_thread", "result_of", "turn_id"]

Entry = dict[str, Any]
_MAX_NAME = 512


def turn_id(number: int) -> str:
    return f"turn-{number}"


def inner_thread(agent: str, thread: str) -> str:
    """The thread of the turns' own calls: beside the agent's, which so holds tool calls alone."""
    name = f"agent:{agent}/{thread}"
    return name if len(name) <= _MAX_NAME else f"agent:{agent}/~{sha256(thread.encode()).hexdigest()}"


class Threads:
    """`tool` is the name of the inner tool whose calls are the turns. `unattended`: (caller, thread) of turns that were taken up
    after a crash and that nobody waits for."""

    def __init__(self, host: AgentHost, memory: Memory, tool: str, unattended: set[tuple[str, str]]) -> None:
        self.host = host
        self.memory = memory
        self.tool = tool
        self._unattended = unattended

    def inner(self, thread: str) -> str:
        """The thread of the turns' own calls."""
        return inner_thread(self.tool.removeprefix("agent:"), thread)

    async def next(self, thread: str) -> int:
        """The number of the turn that is under way, or comes next."""
        return (await self.memory.head(self.host, thread))[0].turns + 1

    async def record(self, thread: str, number: int) -> Record | None:
        return await self.host.record(turn_id(number), self.inner(thread))

    def entries(self, events: Sequence[Event], thread: str, number: int) -> list[dict[str, Any]]:
        """What a turn's events have on record."""
        return self.host.entries(events, turn_id(number), self.inner(thread))

    async def take_over(self, message: str | None, thread: str, number: int) -> bool:
        """A turn of this number exists. True: a crash cut it off, it runs on now, and it is what `message` asks for (None: any).
        False: it is over, and the next one may begin. `AgentBusy`: it is somebody else's."""
        host, id, inner, place = self.host, turn_id(number), self.inner(thread), (self.host.caller, thread)
        record = await host.record(id, inner)
        if record is None:
            return False
        if record.state.is_terminal:
            if (await self.memory.head(host, thread))[0].turns < number:
                await self._mend(thread, number, record)
            return False
        same = message is None or self._message(record, thread, number) == message
        if host.lives(id, inner):
            if same and place in self._unattended:
                self._unattended.discard(place)
                return True
        elif await host.claim(id, inner):
            if same:
                self._unattended.discard(place)
                return True
            raise AgentBusy(
                f"turn {number} of thread {thread!r} was cut off by a crash and runs on now. Wait for it with "
                f"agent.resume({thread!r}), or end it with agent.stop({thread!r}); then send your message again."
            )
        elif (now := await host.record(id, inner)) is not None and now.state.is_terminal:
            # It was claimed, and could not go on: what it was asked is masked, and no key opens it.
            await self._mend(thread, number, now)
            return False
        raise AgentBusy(
            f"turn {number} of thread {thread!r} is under way, and a thread has one turn at a time. Wait for it, end it with "
            f"agent.stop({thread!r}), or use another thread."
        )

    async def settled(self, thread: str) -> tuple[Head, Record | None]:
        """How far the thread is, and the turn under way. One whose call has ended is over, also if nobody told the memory so."""
        while True:
            head, _ = await self.memory.head(self.host, thread)
            record = await self.record(thread, head.turns + 1)
            if record is None or not record.state.is_terminal:
                return head, record
            await self._mend(thread, head.turns + 1, record)  # where it was told meanwhile, that counts

    async def is_asked(self, message: str, thread: str, number: int) -> bool:
        """Is there a turn of this number, and does it answer this message?"""
        record = await self.record(thread, number)
        if record is not None:
            return self._message(record, thread, number) == message
        document = await self.memory.turn(self.host, thread, number)
        return document is not None and bool(document.messages) and document.messages[0].content == message

    async def refuse_unless_asked(self, message: str, thread: str, number: int, next: int) -> None:
        """A turn was to have a number that is not the next one: right only if it is there, and answers this message."""
        if not await self.is_asked(message, thread, number):
            raise Conflict(
                f"this would be turn {next} of thread {thread!r}, not {number}: somebody else has spoken meanwhile. Read the thread "
                "again, then send your message as its next turn."
            )

    async def ended(self, thread: str, number: int) -> AgentResult:
        """Wait for the end of a turn, wherever it runs; its error is raised."""
        with suppress(NotFound):  # calls are swept sooner than what the memory knows of them
            await self.host.outcome(turn_id(number), self.inner(thread))
        document = await self.memory.turn(self.host, thread, number)
        if document is None:
            record = await self.record(thread, number)
            if record is None:
                raise NotFound(f"thread {thread!r} has no turn {number}.")
            document = await self._mend(thread, number, record)
        if document.state is AgentState.ERROR:
            raise ClicketError(f"turn {number} of thread {thread!r} failed: {document.error}")
        return result_of(document, thread, await self.memory.until(self.host, thread, number))

    async def _mend(self, thread: str, number: int, record: Record) -> TurnDocument:
        """A turn whose call ended without a word to the memory gets one: it killed its process each time, or never began."""
        on_record = self.entries(record.events, thread, number)
        ending = next((entry for entry in on_record if entry.get("e") == "ended"), None)
        if ending is None:
            cancelled = record.state is State.CANCELLED
            steps = sum(entry.get("e") == "reply" for entry in on_record)
            ending = entries.ended(
                AgentState.IDLE if cancelled else AgentState.ERROR,
                "cancelled" if cancelled else "",
                "" if not cancelled else "Terminated: Cancelled" if steps else NO_STEPS,
                steps,
                sum(len(entry.get("uses", ())) for entry in on_record if entry.get("e") == "reply"),
                sum((entries.usage_of(e.get("usage")) for e in on_record if e.get("e") == "reply"), Usage()),
                record.updated_at,
                "" if cancelled else str(record.error or "it ended without a result"),
            )
        document = document_of(number, self._message(record, thread, number), on_record, ending)
        return await self.memory.save(self.host, thread, document)

    def _message(self, record: Record, thread: str, number: int) -> str:
        """What a turn was asked. The call's arguments are masked where they hold a secret; what is on record can be opened."""
        on_record = self.entries(record.events, thread, number)
        begun = next((entry for entry in on_record if entry.get("e") == "begun"), None)
        arguments = record.arguments if isinstance(record.arguments, dict) else {}
        return str((begun or arguments).get("message", ""))


def ended_before(on_record: Sequence[Entry]) -> Entry | None:
    """How a turn ended whose process died right after, if that was not the model's doing: then it cannot be come by again."""
    ending = next((entry for entry in on_record if entry.get("e") == "ended"), None)
    return ending if ending is not None and ending.get("stopped") not in ("finished", "max_steps", "repeated") else None


def document_of(number: int, message: str, on_record: Sequence[Entry], ending: Entry) -> TurnDocument:
    """What the memory is told of a turn, made from its record."""
    messages = [ChatMessage(role="user", content=message or "[a message that was refused]")]
    plan: Entry | None = None
    for entry in on_record:
        if entry.get("e") == "plan":
            plan = entry["plan"]
        if entry.get("fork"):  # lines of thought side by side are not one transcript
            continue
        if entry.get("e") == "reply":
            messages.append(entries.message_of(entry))
        elif entry.get("e") == "results":
            messages += entries.results_of(entry)
    return TurnDocument(
        turn=number,
        messages=tuple(paired(messages)),
        state=AgentState(ending["state"]),
        stopped=ending["stopped"] or None,
        text=ending["text"],
        steps=ending["steps"],
        calls=ending["calls"],
        usage=entries.usage_of(ending["usage"]),
        error=ending.get("error", ""),
        plan=plan,
        at=ending["at"],
    )


def result_of(document: TurnDocument, thread: str, messages: Sequence[ChatMessage]) -> AgentResult:
    """`messages` are the thread's, with the turn's own at their end."""
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
    )
