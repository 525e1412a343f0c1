"""Artifacts of any size: stored from a path, a file or chunks as they come, and read in chunks, never whole in memory."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import pytest
from tests.scenarios.kit import make
from tests.scenarios.server_kit import served

from clicket.client import Client
from clicket.engine.executors import artifacts
from clicket.errors import NotFound, UsageError
from clicket.runtime import blocking as sync

CHUNK = 1024
COUNT = 300
WHOLE = b"".join(n.to_bytes(4, "big") * (CHUNK // 4) for n in range(COUNT))
NAME = f"sha256-{sha256(WHOLE).hexdigest()}"


class Counted(bytes):
    """A chunk that counts how many of its kind are in memory."""

    alive = 0
    most = 0

    def __new__(cls, *given: Any) -> Self:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, *given)

    def __del__(self) -> None:
        Counted.alive -= 1


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "CHUNK", CHUNK)
    monkeypatch.setattr(artifacts, "_IN_MEMORY", 4 * CHUNK)
    Counted.alive = Counted.most = 0


def chunks(count: int = COUNT) -> Iterator[bytes]:
    for n in range(count):
        yield Counted(n.to_bytes(4, "big") * (CHUNK // 4))


async def arriving(count: int = COUNT) -> AsyncIterator[bytes]:
    for chunk in chunks(count):
        yield chunk


class Source:
    """A binary file that is made up as it is read."""

    def __init__(self) -> None:
        self._chunks = chunks()

    def read(self, size: int) -> bytes:
        return next(self._chunks, b"")

    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("a file is read in chunks, not by lines")


@pytest.mark.parametrize("source", [chunks, arriving, Source])
async def test_a_stream_is_stored_without_being_whole_in_memory(store: str, source: Any) -> None:
    async with make([], store) as rt:
        assert await rt.put_artifact(source()) == NAME
        assert Counted.most <= 4, "chunks of the source that were in memory at once"
        assert await rt.artifact(NAME) == WHOLE


async def test_an_artifact_is_read_in_chunks(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make([], sqlite) as rt:
        await rt.put_artifact(chunks())
        read = rt.store.read_artifact

        async def counted(name: str, start: int, end: int | None) -> bytes:
            return Counted(await read(name, start, end))

        monkeypatch.setattr(rt.store, "read_artifact", counted)
        Counted.most = 0
        digest, count = sha256(), 0
        async for chunk in rt.artifact_stream(NAME):
            digest.update(chunk)
            count += 1
        assert (f"sha256-{digest.hexdigest()}", count) == (NAME, COUNT)
        assert Counted.most <= 3
        part = [chunk async for chunk in rt.artifact_stream(NAME, 100, 100 + 5 * CHUNK // 2)]
        assert b"".join(part) == WHOLE[100 : 100 + 5 * CHUNK // 2]
        assert [chunk async for chunk in rt.artifact_stream(NAME, len(WHOLE))] == []
        with pytest.raises(NotFound):
            _ = [chunk async for chunk in rt.acting_for("ann").artifact_stream(NAME)]


async def test_paths_and_files(store: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.bin"
    path.write_bytes(WHOLE)
    async with make([], store) as rt:
        assert await rt.put_artifact(path) == NAME
        with path.open("rb") as file:
            assert await rt.put_artifact(file) == NAME
            assert not file.closed, "who opened it closes it"
        assert await rt.put_artifact(io.BytesIO(b"")) == await rt.put_artifact(b"") == await rt.put_artifact([])
        with pytest.raises(UsageError, match=r"missing\.bin: cannot be read: No such file"):
            await rt.put_artifact(tmp_path / "missing.bin")
        for wrong in ("text", 5, ["text"], [b"fine", 5], io.StringIO("text"), bytearray(b"x")):
            with pytest.raises(UsageError, match="an artifact is made of bytes"):
                await rt.put_artifact(wrong)  # type: ignore[arg-type]


async def test_over_http_both_ways(tmp_path: Path) -> None:
    whole = WHOLE[: 40 * CHUNK]
    name = f"sha256-{sha256(whole).hexdigest()}"
    path = tmp_path / "whole.bin"
    path.write_bytes(WHOLE)
    async with served(()) as it, Client(it.url) as client:
        assert await client.put_artifact(arriving(40)) == name
        assert Counted.most <= 4, "chunks of the source that were in memory at once"
        assert await client.put_artifact(path) == NAME
        got = [chunk async for chunk in client.artifact_stream(NAME)]
        assert b"".join(got) == WHOLE
        assert len(got) > 1
        assert b"".join([chunk async for chunk in client.artifact_stream(name, 10, 20)]) == whole[10:20]
        assert [chunk async for chunk in client.artifact_stream(name, len(whole))] == []
        with pytest.raises(NotFound):
            _ = [chunk async for chunk in client.artifact_stream("sha256-" + "0" * 64)]


def test_without_an_event_loop(tmp_path: Path) -> None:
    with sync.Runtime(store=f"sqlite:///{tmp_path}/calls.db") as rt:
        assert rt.put_artifact(chunks()) == NAME
        assert b"".join(rt.artifact_stream(NAME)) == WHOLE
