"""Appends that come alone, and appends in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.kit.waiting import eventually

from clicket.errors import ClicketError, StoreUnavailable
from clicket.ports import Append
from clicket.stores.remote import GroupWriter, Lost, Unit
from clicket.testing.store_kit import creation


class Server:
    """A backend that remembers what it got. It answers while `gate` is set."""

    def __init__(self) -> None:
        self.got: list[tuple[str, list[str]]] = []
        self.answer: ClicketError | None = None
        self.lost = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        self.got.append(("again" if again else "group", [change.id for change, _ in units]))
        await self.gate.wait()
        if self.lost:
            self.lost -= 1
            raise Lost("broken off")
        return [self.answer] * len(units)

    async def erase(self, creations: Sequence[Unit]) -> None:
        self.got.append(("erase", [change.id for change, _ in creations]))


class Parts:
    def __init__(self) -> None:
        self.server = Server()
        self.writer = GroupWriter("server", self.server, patience=5.0)
        self.done: list[tuple[str, ClicketError | None]] = []

    def append(self, *ids: str) -> None:
        for id in ids:
            self.writer.append(creation(id), self._on_done)

    def _on_done(self, change: Append, error: ClicketError | None) -> None:
        self.done.append((change.id, error))

    async def written(self, *ids: str) -> None:
        await eventually(lambda: [id for id, _ in self.done] == list(ids))


async def test_appends_of_one_turn_of_the_loop_are_one_group() -> None:
    parts = Parts()
    parts.append("a", "b")
    await parts.written("a", "b")
    parts.append("c")
    await parts.written("a", "b", "c")
    assert parts.server.got == [("group", ["a", "b"]), ("group", ["c"])]


async def test_what_comes_meanwhile_is_the_next_group_in_its_order() -> None:
    parts = Parts()
    parts.server.gate.clear()
    parts.append("a")
    await eventually(lambda: bool(parts.server.got))
    parts.append("b", "c")
    parts.append("d")
    parts.server.gate.set()
    await parts.written("a", "b", "c", "d")
    assert parts.server.got == [("group", ["a"]), ("group", ["b", "c", "d"])]


async def test_a_lost_answer_is_asked_for_again() -> None:
    parts = Parts()
    parts.server.lost = 1
    parts.append("a", "b")
    await parts.written("a", "b")
    assert parts.server.got == [("group", ["a", "b"]), ("again", ["a", "b"])]


async def test_a_refusal_is_the_outcome() -> None:
    parts = Parts()
    parts.server.answer = StoreUnavailable("full")
    parts.append("a")
    await parts.written("a")
    assert parts.done == [("a", parts.server.answer)]


async def test_draining_waits_for_what_was_handed_over_and_for_an_append_that_it_led_to() -> None:
    server, done = Server(), list[str]()
    server.gate.clear()
    writer = GroupWriter("server", server, patience=5.0)

    def go_on(change: Append, _: object) -> None:
        done.append(change.id)
        writer.append(creation("b"), lambda change, _: done.append(change.id))

    writer.append(creation("a"), go_on)
    draining = asyncio.ensure_future(writer.drain())
    await eventually(lambda: bool(server.got))
    assert not draining.done()
    server.gate.set()
    await draining
    assert done == ["a", "b"]
