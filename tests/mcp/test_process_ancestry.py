"""Servers that clicket starts: they cannot start each other endlessly, and none outlives its parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import PYTHONPATH, is_running
from tests.kit.waiting import eventually, eventually_sync
from tests.scenarios.cli_kit import PATIENCE, PROGRAM, Place

from clicket.adapters.mcp.connection import Unreachable
from clicket.adapters.mcp.process_ancestry import (
    MAX_DEPTH,
    VARIABLE,
    child_environment,
    declaration_id,
    is_descended_from,
)
from clicket.errors import UsageError
from clicket.mcp import McpServer

ENV = {"PYTHONPATH": PYTHONPATH}
MUTE = "sleep 1000 & echo $$ $! >> pids.new; mv pids.new pids; wait"
"""Never answers, ignores its stdin, and has a child process."""
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, "memory://", "tests.mcp.toolbox", **ENV)
    yield place
    place.close()
    for pid in pids(tmp_path):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def pids(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def declare(folder: Path, **servers: list[str]) -> None:
    """Each command is a clicket with these same settings, and records its start."""
    launcher = folder / "launcher.py"
    launcher.write_text(
        f"import os, sys\nos.environ.update({ENV!r})\nopen('pids', 'a').write(f'{{os.getpid()}} ')\n"
        f"os.execv(sys.executable, [sys.executable, '-m', 'clicket', 'mcp', '--tools', 'tests.mcp.toolbox'])\n"
    )
    lines = ['store = "memory://"']
    for name, more in servers.items():
        command = json.dumps([sys.executable, str(launcher), *more])
        lines += [f"[mcp.servers.{name}]", f"command = {command}", f'prefix = "{name}_"', "connect_timeout = 40"]
    (folder / "clicket.toml").write_text("\n".join(lines) + "\n")


def test_a_declared_server_that_finds_the_same_settings_does_not_start_itself_again(place: Place) -> None:
    declare(place.folder, near=[], far=["--quiet"])
    done = place.run("--json", "call", "near_add", '{"a": 1, "b": 2}')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == 3
    assert "has the same settings" in done.stderr
    assert len(pids(place.folder)) == 2
    eventually_sync(lambda: not any(map(is_running, pids(place.folder))), timeout=PATIENCE)


def test_marks_are_of_the_declaration_and_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"servers": {"near": {"command": ["clicket", "mcp"], "env": {"A": "${B}"}}}}
    here = declaration_id(declared)
    assert is_descended_from(here, child_environment(here, {}))
    assert not is_descended_from(here, child_environment(declaration_id({}), {}))
    monkeypatch.chdir(tmp_path)
    assert declaration_id(declared) != here


async def test_no_circle_of_servers_is_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    environ: dict[str, str] = {}
    for number in range(MAX_DEPTH):
        environ = child_environment(f"{number}", environ)
    with pytest.raises(UsageError, match="started each other"):
        child_environment("one more", environ)
    monkeypatch.setenv(VARIABLE, environ[VARIABLE])
    with pytest.raises(Unreachable, match="started each other"):
        await McpServer("near", command="true").tools()


@pytest.mark.parametrize("why", ["no answer in time", "nobody waits any more"])
async def test_a_server_that_was_given_up_is_ended_and_its_children_too(why: str, tmp_path: Path, place: Place) -> None:
    patience = 1.0 if why == "no answer in time" else 60.0
    server = McpServer("mute", command="sh", args=["-c", MUTE], cwd=str(tmp_path), connect_timeout=patience)
    asking = asyncio.create_task(server.tools())
    await eventually(lambda: pids(tmp_path))
    if why == "nobody waits any more":
        asking.cancel()
        asking.cancel()
    with pytest.raises((Unreachable, asyncio.CancelledError)):
        await asking
    for pid in pids(tmp_path):
        await eventually(lambda pid=pid: not is_running(pid))
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")] == []


async def test_a_server_that_is_given_up_while_its_process_starts_is_ended(tmp_path: Path, place: Place) -> None:
    server = McpServer("mute", command="sh", args=["-c", MUTE], cwd=str(tmp_path), connect_timeout=60.0)
    spawning = asyncio.Event()
    spawn = asyncio.get_running_loop().subprocess_exec

    async def observed(*args: Any, **options: Any) -> Any:
        spawning.set()
        return await spawn(*args, **options)

    asyncio.get_running_loop().subprocess_exec = observed  # type: ignore[method-assign]
    asking = asyncio.create_task(server.tools())
    await spawning.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await eventually(lambda: not any(map(is_running, pids(tmp_path))), timeout=PATIENCE)


class Started:
    """`clicket mcp` in a folder whose settings declare another server, which never answers."""

    def __init__(self, place: Place, *, mute: bool = True) -> None:
        if mute:
            settings = f"[mcp.servers.mute]\ncommand = 'sh'\nargs = ['-c', '''{MUTE}''']\nconnect_timeout = 60\n"
            (place.folder / "clicket.toml").write_text(settings)
        self.err = place.folder / "err"
        with self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*PROGRAM, "mcp"], cwd=place.folder, env=place.environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=err,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def ended(self) -> int:
        with self.process:
            return self.process.wait(PATIENCE)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_client_that_leaves_while_servers_are_joined_does_not_wait_for_them(deaf: bool, place: Place) -> None:
    it = Started(place)
    it.stdin.write(json.dumps(HELLO).encode() + b"\n")
    it.stdin.flush()
    eventually_sync(lambda: pids(place.folder))
    if deaf:
        it.stdout.close()
    it.stdin.close()
    if not deaf:
        assert json.loads(it.stdout.read())["result"]["serverInfo"]["name"] == "clicket"  # the answer to its request
    assert it.ended() == 0
    assert "Group" not in it.err.read_text()
    eventually_sync(lambda: not any(map(is_running, pids(place.folder))), timeout=PATIENCE)


@pytest.mark.parametrize("left", [False, True])
def test_a_signal_while_servers_are_joined_leaves_none_behind(left: bool, place: Place) -> None:
    it = Started(place)
    eventually_sync(lambda: pids(place.folder))
    if left:
        it.stdin.close()  # like an impatient client: it closes stdin, and soon sends SIGTERM
    it.process.send_signal(signal.SIGTERM)
    assert it.ended() == 130
    eventually_sync(lambda: not any(map(is_running, pids(place.folder))), timeout=PATIENCE)


def test_a_signal_ends_a_server_whose_client_is_still_there(place: Place) -> None:
    it = Started(place, mute=False)
    eventually_sync(lambda: "7 tools" in it.err.read_text())
    it.process.send_signal(signal.SIGTERM)
    assert it.process.wait(PATIENCE) == -signal.SIGTERM
    it.ended()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_invalid_declaration_is_reported_before_the_server_starts(more: tuple[str, ...], place: Place) -> None:
    (place.folder / "clicket.toml").write_text('[mcp.servers.x]\ncomand = ["x"]\n')
    done = place.run(*more, "serve", "--port", "0")
    assert done.returncode == 2, done.stderr
    assert "Did you mean 'command'" in (done.stdout if more else done.stderr)
    assert "Traceback" not in done.stderr
