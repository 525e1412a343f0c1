"""A sandbox shows a program only what it was given, reports missing layers, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import eventually
from tests.unit.interpreter.sandbox.sandboxed import IS_ROOT, PATIENCE, groups, programs, sandbox, sandboxed, start

from clicket.errors import UsageError
from clicket.interpreter.sandbox import (
    Limits,
    Sandbox,
    SandboxFailed,
    SandboxProcess,
    identity,
)


@contextmanager
def temp_folder() -> Iterator[Path]:
    """A folder for `temp=` that users of programs can traverse."""
    with tempfile.TemporaryDirectory(prefix="clicket-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def root_in(temp: Path) -> Path:
    """The only root folder of a sandbox in `temp`."""
    [found] = temp.glob("clicket-sandbox-*")
    return found


async def test_all_layers_are_there_and_the_level_is_full() -> None:
    async with sandbox() as made:
        found = await made.isolation()
        assert found.level == "full"
        assert {"environment", "namespaces", "identity", "seccomp", "landlock", "rlimits", "watch"} <= set(found.layers)
        process = await made.start("clicket.interpreter.sandbox.probe_program", {"hidden": "/", "orphan": False})
        assert process.isolation == found
        assert process.home == "/work"


async def test_a_program_sees_the_system_its_interpreter_and_its_own_folder_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    async with sandboxed() as program:
        seen = await program.run(
            f"""
            import os, sys
            value = dict(
                top=sorted(os.listdir("/")), work=os.listdir("/work"), etc=sorted(os.listdir("/etc")), cwd=os.getcwd(),
                tmp=sorted(n for n in os.listdir("/tmp") if not n.startswith("clicket-programs-")), uid=os.getuid(),
                shm=os.listdir("/dev/shm"), secret=os.path.exists({str(tmp_path / "secret")!r}),
                processes=[n for n in os.listdir("/proc") if n.isdigit()], host=os.uname().nodename,
                one=open("/proc/1/cmdline").read(), variables=dict(os.environ), groups=os.getgroups(),
                above=os.listdir(os.path.dirname(sys.base_prefix)),
            )
            """
        )
        assert set(seen["top"]) <= {
            *"bin dev etc lib lib32 lib64 libx32 nix gnu proc run sbin tmp usr work".split(),
            Path(sys.base_prefix).parts[1],
            Path(sys.prefix).parts[1],
        }
        assert (seen["work"], seen["tmp"], seen["shm"], seen["secret"], seen["cwd"]) == ([], [], [], False, "/work")
        assert not {"shadow", "hosts", "ssh", "ssl", "environment"} & set(seen["etc"])
        assert len(seen["processes"]) == 2
        assert seen["host"] == "sandbox"
        assert str(program.process.work.parent) not in seen["one"]
        assert seen["variables"]["HOME"] == "/work"
        assert not {"PYTEST_CURRENT_TEST", "VIRTUAL_ENV"} & set(seen["variables"])
        if not sys.base_prefix.startswith("/usr"):
            assert seen["above"] == [Path(sys.base_prefix).name]
        if IS_ROOT:
            assert seen["uid"] == program.process.uid != 0
            assert seen["groups"] in ([], [seen["uid"]])


async def test_the_work_folder_is_shared_and_all_else_cannot_be_written() -> None:
    async with sandboxed() as program:
        process = program.process
        fd = os.open("in.txt", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=process.work_fd)
        os.write(fd, b"from the host")
        if process.uid is not None:
            os.fchown(fd, process.uid, process.uid)
        os.close(fd)
        refused = await program.run(
            """
            import os
            open("out.txt", "w").write(open("/work/in.txt").read().upper())
            open("/tmp/x", "w").write("x"), open("/dev/shm/x", "w").write("x")
            value = []
            for folder in ["/", "/etc", "/usr", "/usr/bin", "/run", "/run/clicket", "/dev", "/proc", "/proc/sys/kernel",
                           os.path.dirname(os.__file__)]:
                try:
                    open(folder + "/x", "w")
                except OSError:
                    value.append(folder)
            """
        )
        assert len(refused) == 10
        assert (process.work / "out.txt").read_text() == "FROM THE HOST"
        found = (process.work / "out.txt").stat()
        assert found.st_uid == (process.uid if process.uid is not None else os.getuid())
        assert stat.S_IMODE(process.work.parent.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("without", [(), ("namespaces",)])
async def test_the_machine_that_runs_out_of_memory_takes_the_program_before_the_host(without: tuple[str, ...]) -> None:
    async with sandboxed(without=without, require="partial") as program:
        assert int(await program.run("value = open('/proc/self/oom_score_adj').read()")) == 800


async def test_tmp_is_small() -> None:
    async with sandboxed(limits=Limits(scratch=1 << 20)) as program:
        with pytest.raises(RuntimeError, match="No space left"):
            await program.run("open('/tmp/big', 'wb').write(bytes(2 << 20))")


async def test_two_programs_have_nothing_in_common() -> None:
    async with sandbox() as made:
        one, two = await asyncio.gather(start(made), start(made))
        await one.run("open('/work/mine', 'w').write('1'); open('/tmp/mine', 'w').write('1')")
        assert await two.run("import os; value = [os.listdir('/work'), os.path.exists('/tmp/mine')]") == [[], False]
        if IS_ROOT:
            assert one.process.uid != two.process.uid
        await one.process.close()
        assert await two.run("value = 42") == 42


async def test_a_folder_more_is_shown_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # file modes apply inside, too
    (tmp_path / "data.txt").write_text("shown")
    async with sandboxed(readable=[tmp_path]) as program:
        assert await program.run(f"value = open({str(tmp_path / 'data.txt')!r}).read()") == "shown"
        with pytest.raises(RuntimeError, match=r"Read-only|Permission"):
            await program.run(f"open({str(tmp_path / 'data.txt')!r}, 'w')")


def test_what_cannot_be_meant_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="Did you mean"):
        Sandbox(without=["seccmp"])
    with pytest.raises(UsageError, match="full, partial, process, none"):
        Sandbox(require="most")
    with pytest.raises(UsageError, match="own folder"):
        Sandbox(readable=[Path("/work/data")])


async def test_a_root_folder_that_was_taken_away_fails_the_start_and_no_more(tmp_path: Path) -> None:
    async with sandbox(temp=tmp_path) as made:
        program = await start(made)
        root = root_in(tmp_path)
        root.rename(tmp_path / "elsewhere")
        with pytest.raises(SandboxFailed, match="could not be made"):
            await start(made)
        assert await program.run("value = 42") == 42
        (tmp_path / "elsewhere").rename(root)
        assert await (await start(made)).run("value = 42") == 42


async def test_closing_in_the_middle_of_a_start_waits_for_it_and_ends_it(tmp_path: Path) -> None:
    made = Sandbox(temp=tmp_path)
    await made.isolation()
    starts = [
        asyncio.ensure_future(made.start("clicket.interpreter.sandbox.probe_program", {"hidden": "/", "orphan": False}))
        for _ in "ab"
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    await made.close()
    for outcome in await asyncio.gather(*starts, return_exceptions=True):
        assert isinstance(outcome, UsageError)
    assert list(tmp_path.iterdir()) == []


async def test_closing_while_the_layers_are_tried_out_starts_nothing_more(tmp_path: Path) -> None:
    made = Sandbox(temp=tmp_path)
    first = asyncio.ensure_future(
        made.start("clicket.interpreter.sandbox.probe_program", {"hidden": "/", "orphan": False})
    )
    for _ in range(3):  # it tests the layers, which takes far longer than this
        await asyncio.sleep(0)
    await made.close()
    with pytest.raises(UsageError, match="the sandbox is closed"):
        await first
    assert list(tmp_path.iterdir()) == []


async def test_a_first_start_that_is_cancelled_leaves_no_home(tmp_path: Path) -> None:
    for rounds in range(4):
        made = Sandbox(temp=tmp_path)
        task = asyncio.ensure_future(made.isolation())
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()
        assert list(tmp_path.iterdir()) == []


async def test_an_interpreter_that_is_none_is_refused() -> None:
    for python in ("/nowhere/python3", "/bin/true", "/bin/false"):
        async with sandbox(python=python) as made:
            with pytest.raises(UsageError, match=python):
                await made.start("clicket.interpreter.sandbox.probe_program")


async def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for temp in (tmp_path / "nowhere", Path("/proc")):
        async with sandbox(temp=temp) as made:
            with pytest.raises(SandboxFailed, match=str(temp)):
                await made.isolation()


async def test_a_program_that_fails_at_start_reports_its_last_output() -> None:
    for without in ((), ("namespaces",)):
        with temp_folder() as temp, programs() as folder:
            silent = folder / "silent.py"
            silent.write_text("import os\ndef main(*_):\n    os.write(2, b'my last words')\n    os._exit(9)\n")
            silent.chmod(0o644)
            made = Sandbox(path=[folder], without=without, require="partial", temp=temp)
            with pytest.raises(SandboxFailed, match="my last words"):
                await made.start("silent")
            root = root_in(temp)
            assert {path.name for path in root.iterdir()} <= {"lock", "cgroups", "library"}
            assert groups(root.name) == []
            await made.close()


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async with sandbox(temp=tmp_path) as made:
        await made.isolation()
        root = root_in(tmp_path)
        for rounds in range(25):
            task = asyncio.ensure_future(
                made.start("clicket.interpreter.sandbox.probe_program", {"hidden": "/", "orphan": False})
            )
            for _ in range(rounds):
                await asyncio.sleep(0.0005)
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(outcome, SandboxProcess):  # a quick machine
                await outcome.close()
            else:
                assert isinstance(outcome, asyncio.CancelledError)
        assert {path.name for path in root.iterdir()} <= {"lock", "cgroups", "library"}
        assert groups(root.name) == []
        assert processes_of(root) == []


def processes_of(root: Path) -> list[str]:
    """The bubblewrap processes that were started for a root folder."""
    lines = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if root.name in line]


async def test_closing_ends_every_program_and_removes_every_file(tmp_path: Path) -> None:
    numbers = set(identity.in_use)
    async with sandbox(temp=tmp_path) as made:
        programs = [await start(made) for _ in range(3)]
        pids = [pid for program in programs for pid in program.process.pids()]
        name = root_in(tmp_path).name
        assert len(pids) == 3
        await made.close()
        assert not any(map(is_running, pids))
        assert list(tmp_path.iterdir()) == []
        assert groups(name) == []
        assert identity.in_use == numbers
        with pytest.raises(UsageError, match="closed"):
            await made.start("clicket.interpreter.sandbox.probe_program")


HOST = """
import asyncio, json, sys
from pathlib import Path
from tests.unit.interpreter.sandbox.sandboxed import sandbox, start

async def main():
    async with sandbox(temp=Path(sys.argv[1]), without=sys.argv[2].split(), require="none") as made:
        programs = [await start(made) for _ in range(2)]
        await programs[0].run('''
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
''')
        programs[1].process.freeze()
        print(json.dumps([pid for program in programs for pid in program.process.pids()]), flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("without", ["", "namespaces", "cgroup", "namespaces cgroup"])
async def test_a_host_that_is_killed_leaves_no_process_and_the_next_one_sweeps(without: str, tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(temp), without],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert host.stdout is not None
    with host, host.stdout:
        try:
            pids = json.loads(host.stdout.readline())
            assert len(pids) == 3
            assert all(map(is_running, pids))
        finally:
            host.send_signal(signal.SIGKILL)
    await eventually(
        lambda: not any(map(is_running, pids)), what="the death of all that was sandboxed", timeout=PATIENCE
    )
    (home,) = temp.iterdir()
    async with sandbox(temp=temp) as made:
        assert not home.exists() or await made.isolation()
        assert not home.exists()
        assert groups(home.name) == []
