"""Which process holds the session of a tool in a thread. Claimed calls go to it while it lives.

A tool with sessions (`Traits.one_call_per_thread`) keeps the state of a thread in the memory of one process: an interpreter's variables,
a connection. The process that claims the first call of a thread notes in the store that it holds the session. Another one that claims
a later call moves it to the queue of the holder. When the holder is gone, one call ends with `session_lost` and the next one begins a
new session. Calls that a runtime runs itself are not looked at: they are where they were made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from clicket.engine.fleet.queues import Queues
from clicket.engine.inputs import Inputs
from clicket.engine.journal import Journal
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model.codec import canonical
from clicket.model.ports import Append, CallRow, Clock, Records, Stored
from clicket.tools import Registry, Tool

__all__ = ["SessionPlaces"]

logger = logging.getLogger("clicket.engine")
SESSION = "session"
"""The kind of the documents; the key has the tool, the caller and the thread."""
_NOTED_FOR = 60.0
"""Seconds after which a use of a session is noted again."""
_KEPT = 3600.0
"""Seconds after its last noted use for which a lost session is reported. Tools close idle sessions sooner than that."""
_TRIES = 5


class _Place(msgspec.Struct, frozen=True):
    holder: str
    version: str
    at: float


class SessionPlaces:
    def __init__(
        self, store: Records, registry: Registry, queues: Queues, journal: Journal, clock: Clock, inputs: Inputs
    ) -> None:
        self._store = store
        self._registry = registry
        self._queues = queues
        self._journal = journal
        self._clock = clock
        self._inputs = inputs

    async def resume(self, claimed: Sequence[Stored]) -> None:
        """Continue the claimed calls that belong here, and send the others to the processes that hold their sessions."""
        here: list[Stored] = []
        for stored in claimed:
            tool = self._tool_of(stored)
            if tool is None:
                here.append(stored)
                continue
            try:
                lost = await self._place(stored, tool)
            except ClicketError as error:  # the store is asked again for the next call; this one must not wait for that
                logger.warning("call %s: the process that holds its session is not known: %s", stored.id, error)
                lost = None
            if lost is None:
                here.append(stored)
            elif lost:
                await self._inputs.session_lost(stored, lost)
        if here:
            await self._inputs.claimed(here)

    def _tool_of(self, stored: Stored) -> Tool | None:
        """Its tool, if that has sessions, and the call has not begun."""
        if stored.damaged is not None or not stored.events or stored.events[-1].state is not State.PENDING:
            return None
        tool = self._registry.get(str(stored.events[0].data.get("tool")))
        return tool if tool is not None and tool.traits.one_call_per_thread else None

    async def _place(self, stored: Stored, tool: Tool) -> str | None:
        """None: it runs here. Empty text: it was sent to another process. Else: why its session is lost."""
        data = stored.events[0].data
        now = self._clock.now()
        thread = str(data.get("thread", ""))
        key = canonical([tool.name, str(data.get("caller", "")), thread]).decode()
        mine = _Place(self._queues.worker, tool.options.version, now)
        for _ in range(_TRIES):
            document = await self._store.document(SESSION, key)
            place = None if document is None else _read(document.body)
            expect = 0 if document is None else document.version
            if place is not None and (place.holder, place.version) == (mine.holder, mine.version):
                if now - place.at > _NOTED_FOR:
                    await self._store.put_document(SESSION, key, msgspec.json.encode(mine), expect)
                return None
            known = place is not None and now - place.at < _KEPT
            if known and place is not None and await self._queues.is_held(tool, place.holder):
                await self._send(stored, self._queues.queue_of(tool, place.holder))
                return ""
            if await self._store.put_document(SESSION, key, msgspec.json.encode(mine), expect):
                return None if not known else _lost(tool, thread)
        return None

    async def _send(self, stored: Stored, queue: str) -> None:
        """Give the call into the queue of the process that holds its session."""
        data = stored.events[0].data
        last = stored.events[-1]
        row = CallRow(
            stored.id, str(data.get("thread", "")), str(data.get("caller", "")), str(data["tool"]), stored.events[0].at,
            int(data.get("priority") or 0),
        )  # fmt: skip
        change = Append(row, last.seq, stored.fence, None, last.state, key=stored.key, owned=False, queue=queue)
        error = await self._journal.append(change)
        if error is not None:
            raise error

    async def sweep(self) -> None:
        """Remove the notes of sessions that were not used for a day."""
        after = ""
        while page := await self._store.documents(SESSION, after=after, limit=500):
            for document in page:
                place = _read(document.body)
                if place is None or self._clock.now() - place.at > 24 * _KEPT:
                    await self._store.delete_document(SESSION, document.key)
            after = page[-1].key


def _read(body: bytes) -> _Place | None:
    try:
        return msgspec.json.decode(body, type=_Place)
    except msgspec.MsgspecError:
        return None


def _lost(tool: Tool, thread: str) -> str:
    return (
        f"the session of {tool.name!r} in thread {thread!r} was in a process that is gone, with all that earlier calls had left there. "
        "Nothing was run. Set it up again: the next call of this thread starts a new session."
    )
