"""Appends that come alone, and appends in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.kit.waiting import eventually

from clicket.errors import ClicketError, StoreUnavailable
from clicket.ports import Append
from clicket.stores.remote import Answered, GroupWriter, Lost, Unit
from clicket.testing.store_kit import creation


class Server:
    """A backend that remembers what it got; units that were sent at once are answered by the test."""

    def __init__(self, *, begins: bool = True) -> None:
        self.begins = begins
        self.got: list[tuple[str, list[str]]] = []
        self.answers: list[Answered] = []
        self.answer: ClicketError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    def begin(self, unit: Unit, answered: Answered) -> bool:
        if self.begins:
            self.got.append(("at once", [unit[0].id]))
            self.answers.append(answered)
        return self.begins

    async def apply(self, units: Sequence[Unit], *, again: bool) -> Sequence[ClicketError | None]:
        self.got.append(("again" if again else "group", [change.id for change, _ in units]))
        await self.gate.wait()
        return [self.answer] * len(units)

    async def erase(self, creations: Sequence[Unit]) -> None:
        self.got.append(("erase", [change.id for change, _ in creations]))


class Parts:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.writer = GroupWriter("server", server, patience=5.0, begin=server.begin)
        self.done: list[tuple[str, ClicketError | None]] = []

    def append(self, *ids: str) -> None:
        for id in ids:
            self.writer.append(creation(id), self._on_done)

    def _on_done(self, change: Append, error: ClicketError | None) -> None:
        self.done.append((change.id, error))

    async def written(self, *ids: str) -> None:
        await eventually(lambda: [id for id, _ in self.done] == list(ids))


async def test_an_append_that_comes_alone_is_sent_at_once_and_answered_where_its_answer_arrives() -> None:
    parts = Parts(Server())
    for id in ("a", "b"):
        parts.append(id)
        assert parts.server.got[-1] == ("at once", [id])
        parts.server.answers.pop()(None)
        assert parts.done[-1] == (id, None)


async def test_what_comes_meanwhile_is_the_next_group_in_its_order() -> None:
    parts = Parts(Server())
    parts.append("a", "b", "c")
    await asyncio.sleep(0)
    assert parts.server.got == [("at once", ["a"])]
    parts.server.answers.pop()(None)
    parts.append("d")
    await parts.written("a", "b", "c", "d")
    assert parts.server.got[1:] == [("group", ["b", "c", "d"])]


async def test_after_a_group_of_several_the_next_one_waits_for_others_of_its_turn() -> None:
    parts = Parts(Server(begins=False))
    parts.append("a", "b")
    await parts.written("a", "b")
    parts.server.begins = True
    parts.append("c", "d")
    await parts.written("a", "b", "c", "d")
    parts.append("e")
    await parts.written(*"abcde")
    parts.append("f")
    assert parts.server.got == [
        ("group", ["a", "b"]), ("group", ["c", "d"]), ("group", ["e"]), ("at once", ["f"]),
    ]  # fmt: skip


async def test_a_lost_answer_is_asked_for_again() -> None:
    parts = Parts(Server())
    parts.append("a", "b")
    parts.server.answers.pop()(Lost("broken off"))
    await parts.written("a", "b")
    assert parts.server.got == [("at once", ["a"]), ("again", ["a", "b"])]


async def test_an_append_that_cannot_be_sent_at_once_is_a_group() -> None:
    server = Server()

    def begin(unit: Unit, answered: Answered) -> bool:
        raise ValueError("nonsense")

    done: list[str] = []
    writer = GroupWriter("server", server, patience=5.0, begin=begin)
    writer.append(creation("a"), lambda change, _: done.append(change.id))
    await writer.drain()
    assert (done, server.got) == (["a"], [("group", ["a"])])


async def test_a_refusal_is_the_outcome() -> None:
    parts = Parts(Server())
    refused = StoreUnavailable("full")
    parts.append("a")
    parts.server.answers.pop()(refused)
    assert parts.done == [("a", refused)]


async def test_draining_waits_for_what_was_sent_at_once_and_for_what_follows() -> None:
    parts = Parts(Server())
    parts.append("a", "b")
    draining = asyncio.ensure_future(parts.writer.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    parts.server.gate.clear()
    parts.server.answers.pop()(None)
    await eventually(lambda: len(parts.server.got) == 2)
    assert not draining.done()
    parts.server.gate.set()
    await draining
    assert [id for id, _ in parts.done] == ["a", "b"]


async def test_draining_waits_for_an_append_that_another_one_led_to() -> None:
    server = Server()
    writer = GroupWriter("server", server, patience=5.0, begin=server.begin)
    writer.append(creation("a"), lambda *_: writer.append(creation("b"), lambda *_: None))
    draining = asyncio.ensure_future(writer.drain())
    await asyncio.sleep(0)
    server.answers.pop()(None)
    await asyncio.sleep(0)
    assert (server.got[1:], draining.done()) == ([("at once", ["b"])], False)
    server.answers.pop()(None)
    await draining
