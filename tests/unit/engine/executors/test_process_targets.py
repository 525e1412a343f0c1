"""Finding a tool's function again in a child process; trees and frames."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE
from tests.unit.engine.executors import process_tools as tools
from tests.unit.engine.executors.processes_kit import Listener, all_gone, run, start_script

from clicket.engine.executors.processes import tree
from clicket.engine.executors.processes.pool import Target, ToolFailed, ToolProcess, target_of
from clicket.engine.executors.processes.wire import MAX_FRAME, Frames, Kind, WireError, header
from clicket.errors import UsageError
from clicket.system import process_table
from clicket.tools.function import tool

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


# Targets --------------------------------------------------------------------------------------------------------------


async def test_tools_under_other_names(worker: ToolProcess) -> None:
    assert await run(worker, tools.doubled, x=4) == 8
    assert await run(worker, tools.Box.unpack, x=4) == 5


def test_what_cannot_be_found_is_refused_with_advice() -> None:
    @tool
    def inner(x: int) -> int:
        return x

    class Native:
        name = "native"

    with pytest.raises(UsageError, match="top level"):
        target_of(inner)
    with pytest.raises(UsageError, match="function tools"):
        target_of(Native())
    with pytest.raises(UsageError, match="assign the tool"):
        target_of(tool(name="again")(tools.plain))


async def test_a_module_loaded_from_a_file_is_loaded_from_it_again(worker: ToolProcess, tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text("from clicket.tools.function import tool\n@tool\ndef where() -> str:\n    return __file__\n")
    spec = importlib.util.spec_from_file_location("a_plugin_of_mine", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["a_plugin_of_mine"] = module
    try:
        spec.loader.exec_module(module)
        assert await run(worker, module.where) == str(file)
    finally:
        del sys.modules["a_plugin_of_mine"]


async def test_a_module_that_does_not_import_fails_the_call(worker: ToolProcess) -> None:
    listener = Listener()
    with pytest.raises(ToolFailed) as caught:
        await run(worker, Target(module="no_such_module_here", qualname="x", file=None), listener)
    assert caught.value.type == "ModuleNotFoundError"
    with pytest.raises(ToolFailed, match="not a tool in the tool process"):
        await run(worker, Target(module=tools.__name__, qualname="plain", file=None), listener)
    assert listener.started == 0
    assert await run(worker, tools.add, a=1, b=2) == 3


MAIN = """
import asyncio, os
from clicket.engine.executors.processes.pool import ProcessPool, ToolFailed, target_of
from clicket.tools.function import tool

class Odd(Exception):
    pass

@tool
def where(fail: bool = False) -> list:
    if fail:
        raise Odd("as asked")
    return [__name__, os.getpid()]

async def main():
    pool = ProcessPool(size=1)
    worker = await pool.acquire()
    context = dict(call_id="c", tool="t", thread="t", attempt=1, idempotency_key="k", metadata={})
    async def run(arguments):
        return await worker.run(target_of(where), arguments, context=context, started=lambda: None, message=print)
    try:
        print((await run(b"{}")).decode(), worker.pid)
        await run(b'{"fail": true}')
    except ToolFailed as error:
        print(error.module, error.type, error.message)
    finally:
        await pool.close()

"""


def test_a_tool_of_the_script_itself_is_found_by_its_file(tmp_path: Path) -> None:
    with start_script(tmp_path, MAIN + 'if __name__ == "__main__":\n    asyncio.run(main())\n') as script:
        out, _ = script.communicate(timeout=PATIENCE)
    first, second = out.splitlines()
    value, pid = first.rsplit(" ", 1)
    assert json.loads(value) == ["__clicket_main__", int(pid)]
    assert second == "__main__ Odd as asked"


def test_a_script_without_a_main_guard_starts_no_more_workers(tmp_path: Path) -> None:
    with start_script(tmp_path, MAIN + "asyncio.run(main())\n") as script:
        out, _ = script.communicate(timeout=PATIENCE)
    assert script.returncode == 0
    assert out.startswith("clicket.errors UsageError ")
    assert 'if __name__ == "__main__":' in out


# Trees and frames ------------------------------------------------------------------------------------------------------


def test_end_tree_finds_by_parent_and_by_token() -> None:
    command = "sleep 600 & echo $!; setsid sh -c 'echo $$; exec sleep 600' & wait"
    shell = subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE, env={tree.MARK: "t0k3n"}, text=True)
    stranger = subprocess.Popen(["/bin/sleep", "600"], env={tree.MARK: "another"})
    with shell, stranger:
        assert shell.stdout is not None
        pids = [shell.pid, int(shell.stdout.readline()), int(shell.stdout.readline())]
        root = tree.identify(shell.pid)
        assert {process.pid for process in tree.descendants(shell.pid) or ()} == set(pids[1:])
        os.kill(shell.pid, signal.SIGKILL)  # its children are orphans now, but have the token
        tree.end_tree([root], "t0k3n", 5.0)
        assert not any(map(is_running, pids))
        assert is_running(stranger.pid)
        stranger.kill()


def test_a_pid_of_another_life_is_not_signalled() -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        real = tree.identify(process.pid)
        assert tree.is_alive(real)
        former = real._replace(started=real.started - 1)
        assert tree.send(former, signal.SIGKILL)
        tree.end_tree([former], "nobody", 0.0)
        assert is_running(process.pid)
        tree.send(real, signal.SIGKILL)
        process.wait()
        assert tree.send(real, signal.SIGKILL), "a dead process is not an error"


def test_without_proc_the_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "PROC", "/nowhere")
    command = "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        tree.end_tree([tree.identify(shell.pid)], "t", 0.05)
        assert all_gone([shell.pid, child])
    with subprocess.Popen(["/bin/true"], start_new_session=True) as nobody:
        pass
    assert tree.group(nobody.pid) == []


def test_what_may_not_be_signalled_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "send", lambda process, number: False)
    tree.end(lambda: [tree.Process(1, 0)], 0.0, lambda seconds: False)


def test_frames_are_cut_wherever_they_break() -> None:
    text = header(Kind.EMIT, 5) + b'"abc"' + header(Kind.HEARTBEAT, 0) + header(Kind.OUTPUT, 2) + b"42"
    for size in range(1, len(text) + 1):
        frames, found = Frames(), []
        for start in range(0, len(text), size):
            found += [(kind, b"".join(pieces)) for kind, pieces in frames.feed(text[start : start + size])]
        assert found == [(Kind.EMIT, b'"abc"'), (Kind.HEARTBEAT, b""), (Kind.OUTPUT, b"42")]


@pytest.mark.parametrize(
    "bad", [b"\xff\xff\xff\xff\x08", b"\x00\x00\x00\x01\x63", (MAX_FRAME + 1).to_bytes(4, "big") + b"\x08"]
)
def test_what_is_no_frame_is_refused(bad: bytes) -> None:
    with pytest.raises(WireError):
        list(Frames().feed(bad))
