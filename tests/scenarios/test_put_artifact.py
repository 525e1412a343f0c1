"""Uploaded files: they stay for the retention although no call names them, and another upload renews it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scenarios.cache_kit import stepped
from tests.scenarios.kit import make
from tests.scenarios.server_kit import served

from clicket import Runtime, Settings, tool
from clicket.errors import NotFound, UsageError
from clicket.runtime import blocking as sync
from clicket.testing import StepClock

DATA = bytes(range(256)) * 10_000


@tool(max_result_size=100)
async def big() -> str:
    return "b" * 5000


@pytest.fixture
def age(tmp_path: Path) -> Callable[[], None]:
    """Sweeps spare recent files: set the files' times back by more than an hour, too."""

    def pass_an_hour() -> None:
        for path in tmp_path.glob("**/*.artifacts/??/*"):
            os.utime(path, (time.time() - 7200,) * 2)

    return pass_an_hour


async def swept(rt: Runtime) -> int:
    return (await rt.sweep()).artifacts


async def test_a_file_is_named_by_its_content(store: str) -> None:
    async with make([], store) as rt:
        for data in (b"", b"x", DATA, DATA):
            name = await rt.put_artifact(data)
            assert name == f"sha256-{sha256(data).hexdigest()}"
            assert await rt.artifact(name) == data
        assert await rt.artifact(name, 1000, 1010) == DATA[1000:1010]
        assert await rt.acting_for("somebody").put_artifact(DATA) == name


async def test_it_stays_for_the_retention(store: str, age: Any) -> None:
    clock = StepClock()
    async with stepped([], store, clock, retention=36_000.0) as rt:
        name = await rt.put_artifact(b"file")
        age()
        clock.advance(35_999)
        assert await swept(rt) == 0
        assert await rt.artifact(name) == b"file"
        clock.advance(1)
        assert await swept(rt) == 1
        with pytest.raises(NotFound):
            await rt.artifact(name)


async def test_putting_it_again_begins_the_time_anew(store: str, age: Any) -> None:
    clock = StepClock()
    async with stepped([], store, clock, retention=36_000.0) as rt:
        name = await rt.put_artifact(b"file")
        clock.advance(30_000)
        assert await rt.put_artifact(b"file") == name
        age()
        clock.advance(35_999)
        assert await swept(rt) == 0
        assert await rt.artifact(name) == b"file"
        clock.advance(1)
        assert await swept(rt) == 1


async def test_the_result_of_a_swept_call_that_was_also_put_stays(store: str, age: Any) -> None:
    clock = StepClock()
    async with stepped([big], store, clock, retention=36_000.0) as rt:
        result = await rt.call("big")
        clock.advance(30_000)
        assert await rt.put_artifact(b"b" * 5000) == result.artifact
        age()
        clock.advance(10_000)
        assert await swept(rt) == 0
        with pytest.raises(NotFound):
            await rt.get(result.call_id)
        assert result.artifact is not None
        assert len(await rt.artifact(result.artifact)) == 5000
        clock.advance(30_000)
        assert await swept(rt) == 1


@pytest.mark.parametrize("data", ["text", None, 5, ["x"]])
async def test_only_bytes_are_kept(data: Any) -> None:
    async with make([]) as rt:
        with pytest.raises(UsageError, match="made of bytes"):
            await rt.put_artifact(data)


async def test_only_an_open_runtime_keeps_files() -> None:
    with pytest.raises(UsageError, match="not open"):
        await make([]).put_artifact(b"x")


def test_without_a_loop(store: str) -> None:
    with sync.Runtime([], settings=Settings(store=store)) as rt:
        assert rt.artifact(rt.put_artifact(DATA)) == DATA
    with pytest.raises(UsageError, match="not open"):
        rt.put_artifact(DATA)


# Over HTTP.


async def test_an_upload_stays_for_the_retention_and_again_when_it_comes_again(
    store: str, age: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(store=store, retention=36_000.0) as it:
        rt = it.runtime
        start = rt.clock.now()

        async def swept_after(seconds: float) -> int:
            age()
            keep = msgspec.structs.replace(rt.retention(), now=start + seconds)
            return (await rt.sweep(keep)).artifacts

        location = (await it.post("/artifacts", content=DATA)).headers["location"]
        assert await swept_after(35_999) == 0
        assert (await it.get(location)).content == DATA
        monkeypatch.setattr(type(rt.clock), "now", lambda clock: start + 30_000)
        assert (await it.post("/artifacts", content=DATA)).status_code == 201
        assert await swept_after(65_999) == 0
        assert (await it.get(location)).content == DATA
        assert await swept_after(66_000) == 1
        for wanted in ({}, {"range": "bytes=0-9"}):
            assert (await it.get(location, headers=wanted)).status_code == 404, "although its size was known"
        assert (await it.post("/artifacts", content=DATA)).status_code == 201
        assert (await it.get(location)).content == DATA
