"""`clicket mcp`: a real process, and the SDK's client at its stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.kit.children import PYTHONPATH
from tests.kit.forks import FORKED
from tests.kit.waiting import eventually
from tests.mcp.kit import BOTH
from tests.mcp.test_serving import text_of
from tests.scenarios.cli_kit import Place

from clicket import Runtime, State

ENV = {"PYTHONPATH": PYTHONPATH}
ARGUMENTS = [*FORKED, "-m", "clicket", "mcp", "--tools", "tests.mcp.toolbox"]


@asynccontextmanager
async def started(tmp_path: Path, mode: str) -> AsyncIterator[Client]:
    store = f"sqlite:///{tmp_path}/calls.db"
    server = StdioServerParameters(command=sys.executable, args=[*ARGUMENTS, "--store", store], env=ENV, cwd=tmp_path)
    with (tmp_path / "stderr").open("w") as log:
        async with Client(stdio_client(server, errlog=log), mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", BOTH)
async def test_an_mcp_client_uses_the_tools(mode: str, tmp_path: Path) -> None:
    seen: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with started(tmp_path, mode) as client:
        listed = [each.name for each in (await client.list_tools()).tools]
        assert listed == ["add", "facts", "steps", "fails", "picture", "hang", "hang_reading"]
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        facts = await client.call_tool("facts")  # it prints to stdout, which is not an MCP message
        assert isinstance(facts.structured_content, dict)
        assert (await client.call_tool("add", {"a": "x"})).is_error
        await client.call_tool("steps", {"count": 3}, progress_callback=progress)
        assert seen[-1] == 3
    async with Runtime(store=f"sqlite:///{tmp_path}/calls.db") as rt:
        assert [call.tool for call in (await rt.history()).items] == ["steps", "add", "facts", "add"]
    assert "must not be mistaken" in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("mode", BOTH)
async def test_a_client_that_takes_its_request_back_ends_the_call(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    async with started(tmp_path, mode) as client:
        request = asyncio.create_task(client.call_tool("hang", {"file": str(file)}))
        await eventually(lambda: file.exists() and "started" in file.read_text())
        request.cancel()
        await asyncio.wait([request])
        await eventually(lambda: "ended" in file.read_text())
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


async def test_a_client_that_leaves_ends_what_it_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "log"
    async with started(tmp_path, BOTH[0]) as client:
        request = asyncio.create_task(client.call_tool("hang", {"file": str(file)}))
        await eventually(lambda: file.exists() and "started" in file.read_text())
        request.cancel()
        await asyncio.wait([request])
    async with Runtime(store=f"sqlite:///{tmp_path}/calls.db") as rt:
        assert (await rt.history()).items[0].state is State.CANCELLED


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, "memory://", "tests.mcp.toolbox", **ENV)


@pytest.mark.parametrize("more", [("--json",), ()])
def test_the_tools_of_another_server_are_listed(more: tuple[str, ...], place: Place) -> None:
    server = [sys.executable, *ARGUMENTS, "--store", "memory://"]
    launcher = place.folder / "server.py"  # a server inherits almost nothing of our environment
    launcher.write_text(f"import os\nos.environ.update({ENV!r})\nos.execv({server[0]!r}, {server!r})\n")
    done = place.inside("mcp", "tools", *more, "--", sys.executable, str(launcher))
    assert done.returncode == 0, done.stderr
    if more:
        assert {each["name"]: each for each in json.loads(done.stdout)}["add"]["read_only"]
    else:
        assert "Adds two numbers." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("mcp", "tools"), 2, "its URL, or -- and its command"),
        (("mcp", "tols", "http://x"), 2, "its URL, or -- and its command"),
        (("mcp", "tools", "http://x", "http://y"), 2, "one URL"),
        (("mcp", "tools", "http://127.0.0.1:9/mcp"), 3, "cannot be reached"),
        (("mcp", "tools", "--json", "http://127.0.0.1:9/mcp"), 3, "cannot be reached"),
        (("mcp", "--json"), 2, "--json"),
    ],
)
def test_wrong_use_is_a_clear_error(arguments: tuple[str, ...], code: int, why: str, place: Place) -> None:
    done = place.inside(*arguments)
    assert (done.returncode, why in done.stdout + done.stderr) == (code, True), done.stderr


def test_an_end_of_input_ends_the_server(place: Place) -> None:
    done = place.run("mcp")
    assert (done.returncode, done.stdout) == (0, "")
    assert "7 tools" in done.stderr
