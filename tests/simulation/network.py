"""A store behind a simulated network: requests and answers are late, lost or cut off, in the way of a server and not of a file.

The model of the store stands for the server. Between it and the engine runs what the stores for Redis and PostgreSQL share
(`stores/remote.py`): groups of appends, tries again after a lost answer, the erasing of calls that were refused meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

from tests.simulation.loop import Node
from tests.simulation.store_model import ModelSession, StoreModel
from tests.simulation.world import EPOCH, World

from clicket.errors import ClicketError
from clicket.ports import Append, DocumentWrite, Done, Owner
from clicket.stores.remote import GroupWriter, Lost, Unit, retry_while_lost

__all__ = ["Network", "NetworkSession"]

T = TypeVar("T")
_TIMEOUT = 1.0
"""Seconds after which a request without an answer counts as lost."""
_PATIENCE = 3.0
WRITES = {
    "append": "append", "put_document": "document", "put_documents": "document", "delete_document": "document", "claim": "claim",
    "claim_waiting": "claim", "claim_orphans": "claim", "hand_back": "claim", "hold": "hold", "take": "hold",
}  # fmt: skip
"""Requests that change something, if their answer is not empty, and the moment that each is."""


class Network:
    """How bad the network is. `cut`: nodes that do not reach the store until a time."""

    def __init__(self, world: World, *, lost: float, unheard: float, late: float, messages_lost: float) -> None:
        self.world = world
        self.lost, self.unheard, self.late, self.messages_lost = lost, unheard, late, messages_lost
        self.cut: dict[Node, float] = {}
        self.was_bad = bool(lost or unheard or late)

    def calm(self) -> None:
        self.lost = self.unheard = self.late = self.messages_lost = 0.0
        self.cut.clear()

    def is_cut(self, node: Node) -> bool:
        return self.cut.get(node, 0.0) > self.world.now

    def trip(self) -> float:
        chance = self.world.loop.chance
        return chance.expovariate(400) + (chance.uniform(0.1, _TIMEOUT * 1.5) if chance.random() < self.late else 0.0)


class NetworkSession(ModelSession):
    def __init__(self, network: Network, node: Node, model: StoreModel, *, bus: bool) -> None:
        world = network.world
        super().__init__(model, clock=lambda: EPOCH + world.now, bus=bus)
        self._network, self._node, self._loop = network, node, world.loop
        self._inside: Context | None = None
        self._writer: GroupWriter | None = None
        self._kinds: Sequence[str] = ()
        """Of documents that the next request writes."""

    async def open(self, owner: Owner) -> None:
        self._inside = copy_context()
        self._writer = GroupWriter("model://", self, patience=_PATIENCE)
        await super().open(owner)

    async def close(self) -> None:
        if self._writer is not None and self.is_open:
            await self._writer.drain()
        await super().close()

    # The three ways out of the process.

    async def _ask(self, name: str, op: Callable[[], T]) -> T:
        self._check_open()
        request = _Request(op, name, self._kinds)  # the server knows a request that comes again
        self._kinds = ()
        return await retry_while_lost("model://", _PATIENCE, lambda: self._travel(request))

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        self._kinds = (kind,)
        return await super().put_document(kind, key, body, expect)

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        self._kinds = [write.kind for write in writes]
        return await super().put_documents(writes)

    def _send(self, change: Append, done: Done) -> None:
        assert self._writer is not None
        self._writer.append(change, done)

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"") -> None:
        chance = self._loop.chance
        for number, other in list(self.model.sessions.items()):
            if other is self or to not in (0, number) or chance.random() < self._network.messages_lost:
                continue
            assert isinstance(other, NetworkSession)
            if not (self._network.is_cut(self._node) or self._network.is_cut(other._node)):
                self._loop.call_later(self._network.trip(), other.on_post, kind, key, body, context=other._inside)

    # What the group writer asks of a server.

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        changes = [change for change, _ in units]
        return await self._travel(
            _Request(lambda: [self._apply(change, again=again) for change in changes], what=changes)
        )

    async def erase(self, creations: Sequence[Unit]) -> None:
        await self._travel(_Request(lambda: [self._erase(change) for change, _ in creations]))

    async def _travel(self, request: _Request[T]) -> T:
        """To the server and back. `Lost`: it is unknown whether the server has done it."""
        network, loop, chance = self._network, self._loop, self._loop.chance
        answer: asyncio.Future[T] = loop.create_future()
        outside = Context()  # a request that was sent arrives, also if its process dies
        dice = chance.random()

        def arrive() -> None:
            value, error = request.done()
            if request.name in WRITES and value:
                network.world.moment(WRITES[request.name], self._node, "", request.what)
            if dice >= network.lost + network.unheard and not network.is_cut(self._node):
                hears = partial(self._answered, request) if request.name in WRITES else _set
                loop.call_later(network.trip(), hears, answer, value, error, context=self._inside)
            elif request.name in WRITES and value:
                network.world.moment("unheard", self._node, "", request.what)

        there = network.trip()
        if dice >= network.lost and not network.is_cut(self._node) and there < _TIMEOUT:
            loop.call_later(there, arrive, context=outside)
        timer = loop.call_later(_TIMEOUT, _set, answer, None, Lost("no answer in time"))
        try:
            return await answer
        finally:
            timer.cancel()

    def _answered(self, request: _Request[T], answer: asyncio.Future[T], value: T, error: BaseException | None) -> None:
        self._network.world.moment("answer", self._node, "", request.what)
        _set(answer, value, error)


class _Request(list[tuple[T, BaseException | None]]):
    """Is done once; when it comes again, its answer is the same."""

    def __init__(self, op: Callable[[], T], name: str = "append", what: Sequence[str | Append] = ()) -> None:
        super().__init__()
        self._op, self.name, self.what = op, name, what

    def done(self) -> tuple[T, BaseException | None]:
        if not self:
            try:
                self.append((self._op(), None))
            except Exception as error:
                self.append((None, error))  # type: ignore[arg-type]
        return self[0]


def _set(answer: asyncio.Future[T], value: T, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)
