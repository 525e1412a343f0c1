"""Which request of a client began or continued which turn. A request that is sent again follows its turn, and begins no other.

One small document for each thread of an agent holds its last requests: ids and positions, no text. A request is written down before
its turn begins; the turn is begun with the number that was written down, so a crash in between is repaired by the repeated request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clicket.agents import Agent, AgentBusy, AgentState, UserMessage
from clicket.agents.memory import REQUESTS, key_of
from clicket.errors import Conflict, StoreUnavailable
from clicket.model.chat import ToolOffer
from clicket.model.ports import Store

__all__ = ["Asked", "ThreadRequests", "TurnRequest"]

_MAX_KEPT = 100
_ATTEMPTS = 50


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that was reported to a client as waiting. `hash`: of the question; `task`: the call of the agent that made it, if one
    was called; `number`: which of the call's waits it is (`server/waits.py`)."""

    id: str
    thread: str
    hash: str = ""
    use_id: str = ""
    task: str = ""
    number: int = 1

    @property
    def question_id(self) -> str:
        """The id of the question: that of the call, and of its later questions with their number."""
        return self.id if self.number <= 1 else f"{self.id}#{self.number}"


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`after`: the ids of the last events before this request, by agent: the turn's own under the empty name, those of called agents
    under the ids of their calls. `until`: the same for the end of its stream, if that came before the end of the turn."""

    id: str
    turn: int
    digest: str = ""
    """Of the message; empty if the request has none."""
    message_id: str = ""
    after: dict[str, str] = {}
    until: dict[str, str] | None = None
    asked: list[Asked] = []


class _Requests(msgspec.Struct, frozen=True, omit_defaults=True):
    items: list[TurnRequest] = []


_decoder = msgspec.json.Decoder(_Requests)
_encode = msgspec.json.Encoder().encode


class ThreadRequests:
    """The requests to one thread of an agent. `protocol` separates the ids of clients of different protocols."""

    def __init__(self, store: Callable[[], Store], protocol: str, agent: Agent, caller: str, thread: str) -> None:
        self._store = store
        self._protocol = protocol
        self._agent = agent
        self._caller = caller
        self._thread = thread
        self._key = key_of(caller, thread, agent.name)

    async def begin(
        self, id: str, message: str | UserMessage, message_id: str = "", frontend: Sequence[ToolOffer] = ()
    ) -> TurnRequest:
        """Begin the turn of this request; or find it, if the request came before.

        `AgentBusy`: another turn runs. `Conflict`: the id was used for another message.
        """
        text = message if isinstance(message, str) else message.text
        for _ in range(_ATTEMPTS):
            request = await self.find(id)
            if request is None:
                view = await self._agent.look(self._thread)
                if view.state is AgentState.RUNNING:
                    if await self.find(id) is not None:  # the same request, at the same time
                        continue
                    raise AgentBusy(f"turn {view.turns + 1} of thread {self._thread!r} is running.")
                request = TurnRequest(
                    id=self._named(id), turn=view.turns + 1, message_id=message_id, digest=self._digest(id, text)
                )
                if not await self._put(request, new=True):
                    continue
            elif request.digest != self._digest(id, text):
                raise Conflict(f"{id!r:.100} was used for another message in this thread. Use a new id for each.")
            try:
                await self._agent.begin(
                    message, thread=self._thread, turn=request.turn, run=self._run_id(id), frontend=frontend
                )
            except Conflict:  # another message came first: this one gets another number
                await self._drop(request)
                continue
            except AgentBusy:
                await self._drop(request)
                raise
            return request
        raise StoreUnavailable(f"too many requests write thread {self._thread!r} at once. Send it again in a moment.")

    async def join(self, id: str, turn: int) -> TurnRequest:
        """Write down a request that continues a turn: after the end of the request before it."""
        known = await self.find(id)
        if known is not None:
            return known
        before = await self.last_of(turn)
        after = {} if before is None else before.after if before.until is None else before.until
        request = TurnRequest(id=self._named(id), turn=turn, after=after)
        await self._put(request, new=True)
        return await self.find(id) or request

    async def claim(self, id: str, turn: int) -> bool:
        """Write down a request that is applied once, before it is applied. False: it came before."""
        return await self._put(TurnRequest(id=self._named(id), turn=turn), new=True)

    async def report(self, turn: int, asked: Sequence[Asked]) -> None:
        """Write down, before a client is told, which calls of a turn wait. They replace those that it was told of before."""
        told = TurnRequest(id=self._named(""), turn=turn, asked=list(asked))  # no request has an empty id

        def change(items: list[TurnRequest]) -> list[TurnRequest] | None:
            return None if told in items else [*(each for each in items if each.id != told.id), told]

        await self._change(change)

    async def reported(self, turn: int) -> list[Asked]:
        """The calls that `report` wrote down last; none if those were of another turn."""
        told = await self.find("")
        return [] if told is None or told.turn != turn else told.asked

    async def end(self, request: TurnRequest, until: dict[str, str], asked: Sequence[Asked]) -> None:
        """The stream of the request ends before its turn: the turn waits."""
        await self._put(msgspec.structs.replace(request, until=until, asked=list(asked)))

    async def find(self, id: str) -> TurnRequest | None:
        named = self._named(id)
        return next((each for each in (await self._read())[0] if each.id == named), None)

    async def last_of(self, turn: int) -> TurnRequest | None:
        """The last request of this protocol that began or continued a turn."""
        own = self._named("")
        items = reversed((await self._read())[0])
        return next((each for each in items if each.turn == turn and each.id.startswith(own)), None)

    async def asked_in(self, turn: int) -> list[Asked]:
        """The calls of a turn that were reported to clients of this protocol as waiting."""
        own = self._named("")
        return [
            asked
            for each in (await self._read())[0]
            if each.turn == turn and each.id.startswith(own)
            for asked in each.asked
        ]

    async def message_ids(self) -> dict[int, str]:
        """The client's ids of the messages that began turns, by turn."""
        return {each.turn: each.message_id for each in (await self._read())[0] if each.message_id}

    # The document.

    async def _read(self) -> tuple[list[TurnRequest], int]:
        document = await self._store().document(REQUESTS, self._key)
        if document is None:
            return [], 0
        try:
            return _decoder.decode(document.body).items, document.version
        except msgspec.MsgspecError:  # another program wrote it: the thread goes on without it
            return [], document.version

    async def _put(self, request: TurnRequest, *, new: bool = False) -> bool:
        """Add or replace a request. False: `new`, and there is one with this id."""

        def change(items: list[TurnRequest]) -> list[TurnRequest] | None:
            if any(each.id == request.id for each in items):
                return None if new else [request if each.id == request.id else each for each in items]
            return [*items, request]

        return await self._change(change)

    async def _drop(self, request: TurnRequest) -> None:
        await self._change(lambda items: [each for each in items if each.id != request.id])

    async def _change(self, change: Callable[[list[TurnRequest]], list[TurnRequest] | None]) -> bool:
        store: Any = self._store()
        for _ in range(_ATTEMPTS):
            items, version = await self._read()
            changed = change(items)
            if changed is None:
                return False
            body = _encode(_Requests(changed[-_MAX_KEPT:]))
            if await store.put_document(REQUESTS, self._key, body, version):
                return True
        raise StoreUnavailable(f"too many requests write thread {self._thread!r} at once. Send it again in a moment.")

    def _named(self, id: str) -> str:
        return f"{self._protocol}:{id}"

    def _run_id(self, id: str) -> str:
        return _hash(self._protocol, self._caller, self._agent.name, self._thread, id)[:32]

    def _digest(self, id: str, message: str) -> str:
        return _hash(self._run_id(id), message)


def _hash(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
