"""Messages that were sent to a thread and that no turn has taken yet.

A message is taken by an entry of a turn that names its id (`Begun` of the turn that it starts, or `Heard`), and by that alone. The
documents here are an index: one whose id is on record is passed over and removed, so a crash between two writes repeats nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from typing import Any, Literal

import msgspec

from clicket.agents.memory import BELL, HELD, QUEUE, SENT, key_of
from clicket.errors import Conflict, QueueFull, StoreUnavailable
from clicket.model.codec import encode
from clicket.model.files import FileRef
from clicket.model.ports import AgentHost, DocumentWrite, StoredDocument

__all__ = ["OF_QUEUES", "Mailbox", "QueuedMessage", "When", "waiting"]

OF_QUEUES = (SENT, HELD, BELL)
"""The kinds of the documents beside the messages."""
When = Literal["next", "now", "interrupt"]
_ATTEMPTS = 50
_MAX_WAITING = 100
"""Messages of one thread; more are refused."""


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`caller`, `scopes`, `requesters`: in whose name its turn begins, in any process. `options`: of that turn, as they are recorded.
    `stops`: the turn that ran when a message of `interrupt` was sent, and that it ends; 0: none."""

    id: str
    text: str
    when: When = "next"
    stops: int = 0
    at: float
    thread: str
    caller: str = ""
    scopes: list[str] = []
    requesters: list[str] = []
    files: list[FileRef] = []
    options: dict[str, Any] = {}
    taken: bool = False
    """A process is about to let a turn take it: nobody can take it back."""
    key: str = ""
    """Of its document, as `version`."""
    version: int = 0


_message = msgspec.json.Decoder(QueuedMessage)


def waiting(host: AgentHost, document: StoredDocument) -> QueuedMessage | None:
    """The message of a document of the kind `QUEUE`; None: it cannot be read."""
    try:
        body = host.reveal(QUEUE, document.key, document.body)
        found = None if body is None else _message.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
    return None if found is None else msgspec.structs.replace(found, key=document.key, version=document.version)


class Mailbox:
    """Of one agent."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._count = count()
        """Orders messages of one instant."""

    def _key(self, host: AgentHost, thread: str) -> str:
        return key_of(host.caller, thread, self._agent)

    async def put(self, host: AgentHost, message: QueuedMessage) -> bool:
        """Store a message; False: it was sent before, with the same text. `Conflict`: its id was used for another one."""
        key = self._key(host, message.thread)
        order = f"{0 if message.when == 'interrupt' else 1}{message.at:017.6f}-{next(self._count):09d}"
        place = f"{key}/{order}-{sha256(message.id.encode()).hexdigest()[:16]}"
        writes = [
            DocumentWrite(kind=QUEUE, key=place, body=host.protect(QUEUE, place, encode(message)), expect=0),
            DocumentWrite(kind=SENT, key=_sent_key(key, message.id), body=encode(_digest(message.text)), expect=0),
        ]
        for _ in range(_ATTEMPTS):
            if await self.was_sent(host, message.thread, message.id, message.text):
                return False
            if len(await self.list(host, message.thread)) >= _MAX_WAITING:
                raise QueueFull(
                    f"{_MAX_WAITING} messages wait in thread {message.thread!r} already. Send this one again when its turns have ended."
                )
            bell = await host.records.document(BELL, key)
            ring = DocumentWrite(kind=BELL, key=key, body=b"1", expect=0 if bell is None else bell.version)
            if await host.records.put_documents([*writes, ring]):
                return True
        raise StoreUnavailable(f"too many processes send messages to thread {message.thread!r} at once.")

    async def was_sent(self, host: AgentHost, thread: str, id: str, text: str | None) -> bool:
        """Was a message sent with this id? `Conflict`: one with another text was; None: any text will do."""
        known = await host.records.document(SENT, _sent_key(self._key(host, thread), id))
        if known is not None and text is not None and known.body != encode(_digest(text)):
            raise Conflict(
                f"the id {id!r:.100} was used for another message in thread {thread!r}. Use a new id for each message."
            )
        return known is not None

    async def list(self, host: AgentHost, thread: str) -> list[QueuedMessage]:
        """In the order in which turns take them."""
        if not await self.has_rung(host, thread, 0):
            return []
        key = self._key(host, thread)
        documents = await host.records.documents(QUEUE, after=f"{key}/", limit=_MAX_WAITING)
        found = (waiting(host, document) for document in documents if document.key.startswith(f"{key}/"))
        return [message for message in found if message is not None]

    async def has_rung(self, host: AgentHost, thread: str, heard: int) -> int:
        """The version of the thread's bell; `heard` if it has not changed."""
        key = self._key(host, thread)
        now = host.records.document_now(BELL, key)
        document = now[0] if now is not None else await host.records.document(BELL, key)
        return heard if document is None else document.version

    async def remove(self, host: AgentHost, thread: str, ids: Iterable[str]) -> None:
        """Remove messages that a turn has taken."""
        wanted = set(ids)
        for message in await self.list(host, thread) if wanted else ():
            if message.id in wanted:
                await host.records.delete_document(QUEUE, message.key)

    async def take(self, host: AgentHost, message: QueuedMessage) -> bool:
        """Before a turn takes it: of this and `take_back` one counts. False: it has changed, or has left the queue; look again."""
        body = encode(msgspec.structs.replace(message, taken=True, key="", version=0))
        return await host.records.put_document(
            QUEUE, message.key, host.protect(QUEUE, message.key, body), message.version
        )

    async def take_back(self, host: AgentHost, thread: str, id: str) -> bool:
        """For its sender. False: a turn has taken it, or is about to, or there is none."""
        for message in await self.list(host, thread):
            if message.id != id or message.taken:
                continue
            if await host.records.put_document(QUEUE, message.key, b"", message.version):
                await host.records.delete_document(QUEUE, message.key)
                return True
        return False

    async def hold(self, host: AgentHost, thread: str) -> None:
        """Nothing of the queue begins until `let_go`."""
        await host.records.put_document(HELD, self._key(host, thread), b"1", None)

    async def let_go(self, host: AgentHost, thread: str) -> None:
        key = self._key(host, thread)
        known = host.records.document_now(HELD, key)
        if known is None or known[0] is not None:
            await host.records.delete_document(HELD, key)

    async def is_held(self, host: AgentHost, thread: str) -> bool:
        return await host.records.document(HELD, self._key(host, thread)) is not None


def _sent_key(key: str, id: str) -> str:
    return f"{key}/{sha256(id.encode()).hexdigest()}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
