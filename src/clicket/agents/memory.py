"""An agent's threads in the store: one document for each turn that has ended, and a head with the number of turns. A turn's document
is written once, before the head; if it exists the turn has ended, also if the process died before it wrote the head."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec

from clicket.agents.handoff import is_note
from clicket.agents.origin import Origin
from clicket.agents.transcript import paired
from clicket.agents.turn_limits import AnswerEnd, Stopped
from clicket.agents.undone import Undone
from clicket.errors import StoreUnavailable
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage
from clicket.model.ports import AgentHost, DocumentWrite, Records, StoredDocument

__all__ = [
    "BELL",
    "ENTRIES",
    "FORK",
    "HEAD",
    "HELD",
    "QUEUE",
    "REQUESTS",
    "SENT",
    "TURN",
    "Head",
    "Memory",
    "Page",
    "TurnDocument",
    "delete_past",
    "delete_thread",
    "key_of",
    "past_key",
]

HEAD = "agent.thread"
TURN = "agent.turn"
ENTRIES = "agent.entries"
"""Entries of turns that a fork has taken along, in pieces."""
FORK = "agent.fork"
"""The forks of a thread. It is written before anything of a fork, and says when the fork is whole."""
ID = "agent.id"
"""The number of the turn that has an id, or has heard the message with it, by a hash of the id."""
REQUESTS = "agent.requests"
"""Which request of another protocol began which turn. The server writes it; it is removed with its thread."""
QUEUE = "agent.queue"
"""A message to a thread that no turn has taken yet."""
SENT = "agent.sent"
"""What an id was used for, also after its message was taken."""
HELD = "agent.queue.held"
"""The queue of a thread whose turn was stopped: nothing of it begins."""
PIECES = "agent.pieces"
"""A page of the pieces of answers that are not on record yet, see `pieces.py`."""
BELL = "agent.bell"
"""Its version changes with each message, so that a turn need not look for messages at each step, nor in a thread that never got one."""
_MAX_NAME = 512
_MAX_THREADS = 2_000
_MAX_KEPT = 64 * 1024 * 1024
"""Characters of messages of all threads that are cached here; the store has them all."""
_PAGE = 200
_ATTEMPTS = 50


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a thread: the number of turns that have ended, and how the last one ended."""

    turns: int = 0
    state: AgentState = AgentState.IDLE
    stopped: Stopped | None = None
    text: str = ""
    steps: int = 0
    usage: Usage = Usage()
    error: str = ""
    updated_at: float = 0.0
    since: int = 1
    """The first turn that models read; earlier ones were removed by `forget`."""
    thread: str = ""
    agent: str = ""
    """To which the thread was handed, if it is not its own."""
    undone: tuple[Undone, ...] = ()
    """What was undone, and no turn has read."""
    origin: Origin | None = None
    """Of a fork. The turns up to `origin.after` are at `past_key`."""

    @property
    def is_cut(self) -> bool:
        """Its next turn is one that the fork has taken along up to a step."""
        return self.origin is not None and self.origin.step is not None and self.turns == self.origin.after


class TurnDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn that has ended."""

    turn: int
    messages: tuple[ChatMessage, ...]
    state: AgentState
    stopped: Stopped | None = None
    ended: AnswerEnd | None = None
    value: Any = None
    """The answer of the type that was asked for, as plain JSON."""
    text: str = ""
    steps: int = 0
    calls: int = 0
    usage: Usage = Usage()
    error: str = ""
    id: str = ""
    """That its caller gave it; no other turn of the thread has it."""
    heard: list[str] = []
    """Ids of messages that were sent to it while it ran, and that it has read."""
    message: str = ""
    """The caller's, if a check has changed or refused it: the first of `messages` is what models read, if they read it."""
    code: str = ""
    """Of the error, if it is one of clicket's own."""
    plan: dict[str, Any] | None = None
    at: float = 0.0
    agent: str = ""
    """That drove it last, if it was handed over."""
    called: Usage | None = None
    """Of the agents that it called, if that counted towards a limit. `usage` is without them."""
    undone: tuple[str, ...] = ()
    """The calls that undid others, of which it has read."""

    @property
    def as_written(self) -> tuple[ChatMessage, ...]:
        """The messages without those between agents, with the caller's own at first, also if a check has changed or refused it."""
        messages = tuple(each for each in self.messages if not is_note(each))
        if not self.message:
            return messages
        first = messages[0] if messages else ChatMessage(role="user")
        return (msgspec.structs.replace(first, content=self.message), *messages[1:])


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of a thread, the oldest first. `after` fetches the next page; it is None on the last."""

    turns: list[TurnDocument]
    after: int | None = None

    @property
    def items(self) -> list[TurnDocument]:
        """The same as `turns`, under the name that pages of other lists use."""
        return self.turns

    def __repr__(self) -> str:
        more = "" if self.after is None else f", more after {self.after}"
        return f"<page of {len(self.turns)} turns{more}>"


class Known(msgspec.Struct):
    """A thread in the cache of this process; `version` is that of the head."""

    head: Head
    version: int
    messages: list[ChatMessage]
    size: int


_head = msgspec.json.Decoder(Head)
_turn = msgspec.json.Decoder(TurnDocument)
_number = msgspec.json.Decoder(int)
_encode = msgspec.json.Encoder().encode


def inner_thread(agent: str, thread: str) -> str:
    """The thread of the calls that are turns. The agent's own thread holds only its tool calls."""
    name = f"agent:{agent}/{thread}"
    return name if len(name) <= _MAX_NAME else f"agent:{agent}/~{sha256(thread.encode()).hexdigest()}"


@lru_cache(maxsize=4_096)  # a turn needs the key of its thread several times
def key_of(caller: str, thread: str, agent: str) -> str:
    return f"{quote(caller, safe='')}/{agent}/{quote(thread, safe='')}"


def past_key(key: str, origin: Origin) -> str:
    """Where a fork with the key `key` has what it took along. No thread has this key: `!` is quoted in the names of threads."""
    return f"{key}!{origin.digest}"


class Memory:
    """Of one agent. Recently used threads are cached; the version of the head shows whether another process has changed one."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self.cached: OrderedDict[str, Known] = OrderedDict()
        self.size = 0

    def glance(self, host: AgentHost, thread: str) -> Head | None:
        """The head, if it can be read without waiting, else the cached one."""
        key = key_of(host.caller, thread, self._agent)
        found = host.records.document_now(HEAD, key)
        if found is not None:
            return self._read_head(host, key, found[0]) if found[0] is not None else None
        known = self.cached.get(key)
        return known.head if known is not None else None

    async def head(self, host: AgentHost, thread: str) -> tuple[Head, int]:
        key = key_of(host.caller, thread, self._agent)
        found = host.records.document_now(HEAD, key)
        document = found[0] if found is not None else await host.records.document(HEAD, key)
        return (Head(), 0) if document is None else (self._read_head(host, key, document), document.version)

    async def load(self, host: AgentHost, thread: str) -> Known:
        """The current head, and all messages that a model reads."""
        key = key_of(host.caller, thread, self._agent)
        head, version = await self.head(host, thread)
        known = self.cached.get(key)
        # A thread that was removed and made anew may have come to the same version.
        if known is None or known.version != version or known.head != head:
            messages = await self._messages(host, thread, head.since - 1, head.turns)
            known = Known(head, version, messages, _size(messages))
        self._remember(key, known)
        return known

    def _remember(self, key: str, known: Known) -> None:
        """Cache a thread as the most recently used; evict others if the cache is full."""
        self._drop(key)
        self.cached[key] = known
        self.size += known.size
        while len(self.cached) > _MAX_THREADS or (self.size > _MAX_KEPT and len(self.cached) > 1):
            self._drop(next(iter(self.cached)))

    def _drop(self, key: str) -> None:
        known = self.cached.pop(key, None)
        if known is not None:
            self.size -= known.size

    async def until(self, host: AgentHost, thread: str, number: int) -> list[ChatMessage]:
        """The messages of the thread up to the end of a turn."""
        known = await self.load(host, thread)
        if number >= known.head.turns:
            return list(known.messages)
        return await self._messages(host, thread, min(known.head.since, number) - 1, number)

    async def _messages(self, host: AgentHost, thread: str, after: int, last: int) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        while after < last:
            page = await self.page(host, thread, after=after, until=last)
            for turn in page.turns:
                messages += turn.messages
            if page.after is None:
                break
            after = page.after
        return messages

    async def page(
        self, host: AgentHost, thread: str, *, after: int = 0, until: int | None = None, limit: int = _PAGE
    ) -> Page:
        """Turns after number `after`."""
        key = key_of(host.caller, thread, self._agent)
        origin = await self._origin(host, thread)
        if origin is None or after >= origin.after:
            return await self._page(host, key, after, until, limit)
        page = await self._page(host, past_key(key, origin), after, until, limit)
        if page.after is not None or (until is not None and until <= origin.after):
            return page
        left = limit - len(page.turns)
        if not left:
            return Page(turns=page.turns, after=origin.after)
        own = await self._page(host, key, origin.after, until, left)
        return Page(turns=[*page.turns, *own.turns], after=own.after)

    async def _page(self, host: AgentHost, key: str, after: int, until: int | None, limit: int) -> Page:
        documents = await host.records.documents(TURN, after=_turn_key(key, after), limit=limit + 1)
        mine = [document for document in documents if document.key.startswith(f"{key}/")]
        # The next page starts after the last key, so that damaged documents are skipped.
        last = None if len(mine) <= limit else _number_of(mine[limit - 1].key)
        turns = [turn for document in mine[:limit] if (turn := self._read_turn(host, document)) is not None]
        if until is not None:
            turns = [turn for turn in turns if turn.turn <= until]
            last = None if last is None or last >= until else last
        return Page(turns=turns, after=last)

    async def _origin(self, host: AgentHost, thread: str) -> Origin | None:
        try:
            return (await self.head(host, thread))[0].origin
        except StoreUnavailable:  # a damaged head: the turns of the thread itself can be read
            return None

    async def _place(self, host: AgentHost, thread: str, number: int) -> str:
        """The key under which a turn is, or would be."""
        key = key_of(host.caller, thread, self._agent)
        origin = await self._origin(host, thread)
        return key if origin is None or number > origin.after else past_key(key, origin)

    async def turn(self, host: AgentHost, thread: str, number: int) -> TurnDocument | None:
        key = _turn_key(await self._place(host, thread, number), number)
        document = await host.records.document(TURN, key)
        return None if document is None else self._read_turn(host, document)

    async def of_id(self, host: AgentHost, thread: str, id: str) -> TurnDocument | None:
        """The turn with this id, or that has heard the message with it, if it has ended and was counted in the head."""
        key = key_of(host.caller, thread, self._agent)
        found = await host.records.document(ID, _id_key(key, id))
        if found is None and (origin := await self._origin(host, thread)) is not None:
            found = await host.records.document(ID, _id_key(past_key(key, origin), id))
        try:
            return None if found is None else await self.turn(host, thread, _number.decode(found.body))
        except msgspec.MsgspecError:  # another program wrote it
            return None

    async def save(self, host: AgentHost, thread: str, turn: TurnDocument) -> TurnDocument:
        """Write the turn's document, then its ids, then the head: an ended turn that the head counts is found by its ids. If another
        process wrote that turn before, its document is returned."""
        key = key_of(host.caller, thread, self._agent)
        kept = turn
        turn_key = _turn_key(key, turn.turn)
        if not await host.records.put_document(TURN, turn_key, host.protect(TURN, turn_key, _encode(turn)), 0):
            kept = await self.turn(host, thread, turn.turn) or turn
        for id in filter(None, (kept.id, *kept.heard)):
            await host.records.put_document(ID, _id_key(key, id), _encode(kept.turn), 0)
        for _ in range(_ATTEMPTS):
            head, version = await self.head(host, thread)
            if head.turns >= kept.turn:
                return kept
            new = msgspec.structs.replace(
                head,
                turns=kept.turn,
                state=kept.state,
                stopped=kept.stopped,
                text=kept.text,
                steps=kept.steps,
                error=kept.error,
                usage=head.usage + kept.usage,
                updated_at=kept.at,
                thread=thread,
                agent=kept.agent,
                undone=tuple(each for each in head.undone if each.undo not in kept.undone),
            )
            if await host.records.put_document(HEAD, key, host.protect(HEAD, key, _encode(new)), version):
                self._follow(key, head, new, version, kept)
                return kept
        raise StoreUnavailable(f"too many processes write thread {thread!r} at once; its turn {turn.turn} is stored.")

    async def add_undone(self, host: AgentHost, thread: str, items: Iterable[Undone]) -> None:
        """Keep in the head what was undone, until a turn has read it. What one has read, or what is there already, is not added."""
        key = key_of(host.caller, thread, self._agent)
        for _ in range(_ATTEMPTS):
            head, version = await self.head(host, thread)
            known = {each.undo for each in head.undone}
            new = [each for each in items if each.undo not in known]
            read = await self._undone_read(host, thread, min((each.turn for each in new), default=0)) if new else ()
            new = [each for each in new if each.undo not in read]
            if not new:
                return
            head = msgspec.structs.replace(
                head, undone=(*head.undone, *new), thread=thread, updated_at=head.updated_at or host.clock.now()
            )
            if await host.records.put_document(HEAD, key, host.protect(HEAD, key, _encode(head)), version):
                return
        raise StoreUnavailable(f"too many processes write thread {thread!r} at once.")

    async def _undone_read(self, host: AgentHost, thread: str, after: int) -> set[str]:
        """What turns after this one have read."""
        found: set[str] = set()
        while True:
            page = await self.page(host, thread, after=after)
            found.update(undo for turn in page.turns for undo in turn.undone)
            if page.after is None:
                return found
            after = page.after

    def _follow(self, key: str, before: Head, head: Head, version: int, turn: TurnDocument) -> None:
        known = self.cached.get(key)
        if known is None and version == 0:
            known = Known(before, 0, [], 0)
        if known is not None and known.version == version and known.head == before:
            messages = [*known.messages, *turn.messages]
            size = known.size + _size(turn.messages)
            self._remember(key, Known(head, version + 1, messages, size))
        else:
            self._drop(key)

    async def keep_past(self, host: AgentHost, place: str, turn: TurnDocument) -> None:
        """Write a turn that a fork takes along; `place`: its `past_key`."""
        key = _turn_key(place, turn.turn)
        await host.records.put_document(TURN, key, host.protect(TURN, key, _encode(turn)), None)
        for id in filter(None, (turn.id, *turn.heard)):
            await host.records.put_document(ID, _id_key(place, id), _encode(turn.turn), None)

    def head_write(self, host: AgentHost, thread: str, head: Head) -> DocumentWrite:
        """The first head of a thread."""
        key = key_of(host.caller, thread, self._agent)
        return DocumentWrite(kind=HEAD, key=key, body=host.protect(HEAD, key, _encode(head)), expect=0)

    async def forget(self, host: AgentHost, thread: str) -> int:
        """Remove a thread; returns the number of its turns."""
        key = key_of(host.caller, thread, self._agent)
        removed, last = await delete_thread(host.records, key)
        self._drop(key)
        # The number of turns stays: a new turn must not get the number of an old one.
        for _ in range(_ATTEMPTS):
            found = await host.records.document(HEAD, key)
            if found is None:
                break
            try:
                turns = self._read_head(host, key, found).turns
            except StoreUnavailable:  # a damaged head can be removed, too
                turns = last
            gone = _encode(Head(turns=turns, since=turns + 1, updated_at=found.updated_at, thread=thread))
            if await host.records.put_document(HEAD, key, gone, found.version):
                break
        return removed

    # Another version, or another program, may have written the documents.

    def _read_head(self, host: AgentHost, key: str, document: StoredDocument) -> Head:
        try:
            body = host.reveal(HEAD, key, document.body)
            if body is None:
                raise ValueError("it is sealed, and no key of this runtime opens it")  # reported below
            return _head.decode(body)
        except (msgspec.MsgspecError, ValueError) as error:
            raise StoreUnavailable(
                f"the memory of thread {key!r} cannot be read ({error}). Restore a backup, or forget the thread."
            ) from error

    def _read_turn(self, host: AgentHost, document: StoredDocument) -> TurnDocument | None:
        try:
            body = host.reveal(TURN, document.key, document.body)
            if body is None:
                return None
            turn = _turn.decode(body)
        except (msgspec.MsgspecError, ValueError):
            return None  # the thread continues without it
        return msgspec.structs.replace(turn, messages=tuple(paired(turn.messages)))


async def delete_thread(records: Records, key: str) -> tuple[int, int]:
    """Delete the documents of a thread's turns, and their ids; how many turns there were, and the number of the last."""
    for kind in (ID, QUEUE, SENT, PIECES):
        await _delete(records, kind, key)
    await delete_past(records, key)
    for kind in (HELD, BELL):
        await records.delete_document(kind, key)
    removed, last = await _delete(records, TURN, key)
    return removed, _number_of(last)


async def delete_past(records: Records, key: str) -> None:
    """Delete what a fork took along; also what it would have, if it was never completed."""
    for kind in (ID, TURN, ENTRIES):
        await _delete(records, kind, key, "!")


async def _delete(records: Records, kind: str, key: str, sign: str = "/") -> tuple[int, str]:
    """Delete the documents of a kind whose keys are below `key`; how many there were, and the last key."""
    removed = 0
    below = after = f"{key}{sign}"
    while True:
        documents = await records.documents(kind, after=after, limit=_PAGE)
        mine = [document for document in documents if document.key.startswith(below)]
        for document in mine:
            removed += await records.delete_document(kind, document.key)
            after = document.key
        if len(mine) < _PAGE:
            return removed, after


def _size(messages: Iterable[ChatMessage]) -> int:
    size = 0
    for message in messages:
        size += len(message.content) + len(message.thought)
        for use in message.uses:
            size += len(use.arguments)
    return size


def _turn_key(key: str, number: int) -> str:
    return f"{key}/{number:010d}"


def _id_key(key: str, id: str) -> str:
    return f"{key}/{sha256(id.encode()).hexdigest()}"


def _number_of(turn_key: str) -> int:
    number = turn_key.rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else 0
