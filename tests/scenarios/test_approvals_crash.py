"""Edited arguments and kill -9: whenever the process dies, the arguments that run next are those that the person approved."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.stopping import stop_between_writes
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.approval_child import POLICY, put
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Record


@asynccontextmanager
async def child(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process whose call waits for an approval."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *forked("tests.scenarios.approval_child"), "-m", "tests.scenarios.approval_child", sqlite_url(folder), str(folder),
        stdout=asyncio.subprocess.PIPE, cwd=ROOT, env=environment(),
    )  # fmt: skip
    try:
        await said(process, "accepted")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process, word: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = await process.stdout.readline()
    assert line.decode().strip() == word


async def approve(folder: Path, *, hangs: bool = False) -> None:
    """From a process that has no tools: it can neither check nor run the call."""
    async with make([], sqlite_url(folder)) as rt:
        edited = {"folder": str(folder), "word": "edited", "hangs": hangs}
        assert await rt.approve("p", by="Ada", arguments=edited)


async def settled(folder: Path) -> tuple[Any, Record]:
    async with make([put], sqlite_url(folder), policy=POLICY) as rt:
        result = await asyncio.wait_for((await rt.handle("p")).result(), PATIENCE)
        record = await rt.get("p")
    assert_sound(record)
    assert record.arguments["word"] == "edited"
    assert record.events[0].data["arguments"]["word"] == "first"
    assert record.approval is not None
    assert (record.approval["by"], record.approval["edited"]) == ("Ada", True)
    return result, record


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


async def test_killed_while_it_waits_and_approved_after(tmp_path: Path) -> None:
    async with child(tmp_path) as doomed:
        doomed.kill()
        await doomed.wait()
    await approve(tmp_path)
    result, _ = await settled(tmp_path)
    assert result.output == "edited"
    assert effects(tmp_path) == ["1 edited"]


async def test_killed_before_it_reads_the_decision(tmp_path: Path) -> None:
    async with child(tmp_path) as doomed:
        await stop_between_writes(doomed.pid, sqlite_url(tmp_path))
        await approve(tmp_path)
        doomed.kill()
        await doomed.wait()
    result, _ = await settled(tmp_path)
    assert result.output == "edited"
    assert effects(tmp_path) == ["1 edited"]


async def test_killed_while_it_runs_what_was_approved(tmp_path: Path) -> None:
    async with child(tmp_path) as doomed:
        await approve(tmp_path, hangs=True)
        await said(doomed, "started")
        doomed.kill()
        await doomed.wait()
    result, record = await settled(tmp_path)
    assert result.output == "edited"
    assert effects(tmp_path) == ["1 edited", "2 edited"]
    assert len(record.attempts) == 2


@pytest.mark.parametrize("word", [True, False])
async def test_without_an_edit_the_first_arguments_run(tmp_path: Path, word: bool) -> None:
    async with child(tmp_path) as doomed:
        doomed.kill()
        await doomed.wait()
    async with make([], sqlite_url(tmp_path)) as rt:
        assert await (rt.approve("p") if word else rt.deny("p"))
    async with make([put], sqlite_url(tmp_path), policy=POLICY) as rt:
        handle = await rt.handle("p")
        if word:  # its first attempt hangs: only its start with the first arguments matters here
            await eventually(lambda: effects(tmp_path))
            await handle.cancel()
        await asyncio.wait_for(handle.result(), PATIENCE)
    assert effects(tmp_path) == (["1 first"] if word else [])
