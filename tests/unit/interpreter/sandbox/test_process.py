"""A sandbox process can be interrupted, frozen, measured and killed, whatever its program does, and reports how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import eventually
from tests.unit.interpreter.sandbox.sandboxed import PATIENCE, SandboxedProgram, groups, sandboxed

from clicket.interpreter.sandbox import Exit, Limits, SandboxProcess, cgroup

MIB = 1 << 20
SUPERVISED = {"without": ["namespaces"], "require": "partial"}
TIERS = [pytest.param({}, id="bubblewrap"), pytest.param(SUPERVISED, id="supervisor")]
BARE = [
    pytest.param({"without": ["cgroup"]}, id="bubblewrap"),
    pytest.param({**SUPERVISED, "without": ["namespaces", "cgroup"]}, id="supervisor"),
]


async def ended(process: SandboxProcess) -> Exit:
    async with asyncio.timeout(PATIENCE):
        return await asyncio.shield(process.exited)


@pytest.mark.parametrize("tier", TIERS)
async def test_an_interrupt_reaches_the_program_alone(tier: dict[str, object]) -> None:
    async with sandboxed(**tier) as program:
        await program.begin("open('busy', 'w').close()\nwhile True: pass")
        await eventually((program.process.work / "busy").exists, what="the program to be busy")
        program.process.interrupt()
        with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
            await program.answer()
        assert await program.run("value = 'still here'") == "still here"


@pytest.mark.parametrize("tier", TIERS)
async def test_a_kill_takes_daemons_along_and_close_removes_what_they_made(tier: dict[str, object]) -> None:
    async with sandboxed(**tier) as program:
        process = program.process
        await program.run(
            """
            import os, signal, time
            for number in range(3):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                            signal.signal(each, signal.SIG_IGN)
                        time.sleep(1000)
                    os._exit(0)
                os.wait()
            """
        )
        pids = process.pids()
        assert len(pids) == 4
        process.kill()
        assert await ended(process) == Exit(signal=signal.SIGKILL)
        await eventually(lambda: not any(map(is_running, pids)), what="the death of all")
        await asyncio.gather(process.close(), process.close())
        await process.close()
        assert not process.work.parent.exists()
        assert groups(f"{process.work.parent.parent.name}-{process.work.parent.name}") == []
        for harmless in (process.interrupt, process.kill, process.freeze, process.thaw):
            harmless()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os; os._exit(7)", Exit(code=7)),
        ("import os; os.abort()", Exit(signal=signal.SIGABRT)),
        ("import _ctypes, os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Exit(signal=signal.SIGSEGV)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Exit(signal=signal.SIGKILL)),
    ],
)
async def test_the_end_of_a_program_is_reported_as_it_was(tier: dict[str, object], code: str, expected: Exit) -> None:
    async with sandboxed(**tier) as program:
        await program.begin(code)
        assert await ended(program.process) == expected


EATER = """
import os
if os.path.exists("/proc/self/oom_score_adj"):
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)))
"""


@pytest.mark.skipif(not cgroup.find().bounds, reason="no cgroup can be made on this machine")
@pytest.mark.parametrize("tier", TIERS)
async def test_the_kernel_kills_a_program_over_its_memory_limit_and_the_result_says_so(tier: dict[str, object]) -> None:
    async with sandboxed(limits=Limits(memory=64 * MIB), **tier) as program:
        assert "cgroup" in program.process.isolation.layers
        program.process.watching = True
        await program.begin(EATER)
        assert await ended(program.process) == Exit(signal=signal.SIGKILL, memory=True)
        assert not program.process.breach.done()


@pytest.mark.parametrize("tier", BARE)
async def test_without_cgroups_somebody_looks_at_the_memory_of_all_processes(tier: dict[str, object]) -> None:
    async with sandboxed(limits=Limits(memory=96 * MIB), **tier) as program:
        process = program.process
        process.watching = True
        await program.begin(
            """
            import os, time
            for _ in range(3):
                if os.fork() == 0:
                    held = bytearray(os.urandom(40 << 20))
                    time.sleep(1000)
            time.sleep(1000)
            """
        )
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.shield(process.breach) == "memory"
        await eventually(lambda: process.memory() > 96 * MIB, what="all three to hold their memory")
        assert not process.exited.done()


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("open('big', 'wb').write(bytes(9 << 20))", id="bytes"),
        pytest.param("[open(f'small{i}', 'w').close() for i in range(400)]", id="entries"),
        pytest.param("import os\nfor i in range(80): os.mkdir('d'); os.chdir('d')", id="depth"),
        pytest.param("f = open('gone', 'wb', 0); import os; os.unlink('gone'); f.write(bytes(9 << 20))", id="unlinked"),
    ],
)
async def test_somebody_looks_at_the_work_folder(code: str) -> None:
    async with sandboxed(limits=Limits(disk=8 * MIB, files=300)) as program:
        process = program.process
        await program.run("for i in range(250): open(f'x{i}', 'w').close()")
        process.watching = True
        assert process.watching
        await program.run(code)
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.shield(process.breach) == "disk"


@pytest.mark.parametrize("tier", [*TIERS, *BARE])
async def test_what_is_frozen_does_not_run_until_it_thaws(tier: dict[str, object]) -> None:
    async with sandboxed(**tier) as program:
        process = program.process
        await program.run(
            """
            import os, threading, time
            def count(name):
                n = 0
                while True:
                    n += 1
                    os.pwrite(fd, b"%20d" % n, name)
            fd = os.open("count", os.O_RDWR | os.O_CREAT)
            threading.Thread(target=count, args=(0,), daemon=True).start()
            if os.fork() == 0:
                count(20)
            """
        )

        def numbers() -> list[int]:
            text = (process.work / "count").read_bytes()
            return [int(text[at : at + 20].strip(b"\0 ") or 0) for at in (0, 20)]

        await eventually(lambda: min(numbers()) > 0, what="both to count")
        process.freeze()
        await eventually(lambda: _stands_still(process), what="all to stand still")
        before = numbers()
        await program.begin("value = 'awake'")
        assert _stands_still(process)
        assert numbers() == before
        process.thaw()
        assert await program.answer() == "awake"
        await eventually(
            lambda: all(now > then for now, then in zip(numbers(), before, strict=True)),
            what="both to count again",
            timeout=PATIENCE,
        )
        process.freeze()
        await process.close()
        assert await ended(process) == Exit(signal=signal.SIGKILL)


async def test_without_a_namespace_no_process_leaves_the_programs_group() -> None:
    """So one signal stops or ends all of them, and no fork escapes it."""
    async with sandboxed(without=["namespaces", "identity"], require="partial") as program:
        found = await program.run(
            """
            import os, time
            told, tell = os.pipe()
            if os.fork() == 0:
                os.setsid()
                os.setpgid(0, 0)
                os.write(tell, b"%d" % os.getpgid(0))
                time.sleep(1000)
            value = [int(os.read(told, 20)), os.getpgid(0), os.getpid()]
            """
        )
        assert found == [program.process.pids()[0]] * 3
        pids = program.process.pids()
        await program.process.close()
        await eventually(lambda: not any(map(is_running, pids)), what="both to end")


def _stands_still(process: SandboxProcess) -> bool:
    """Frozen by a cgroup, or every thread stopped by a signal."""
    for group in groups(f"{process.work.parent.parent.name}-{process.work.parent.name}"):
        for name, word in (("cgroup.events", "frozen 1"), ("freezer.state", "FROZEN")):
            if (Path(group) / name).exists():
                return word in (Path(group) / name).read_text()
    stats = [stat for pid in process.pids() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)


async def test_whatever_was_left_in_the_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("of the host")
    async with sandboxed() as program:
        await program.run(
            f"""
            import os
            os.symlink({str(tmp_path)!r}, "link"), os.symlink("/", "root"), os.mkfifo("fifo")
            os.mkdir("closed"), open("closed/file", "w").close(), os.chmod("closed", 0)
            open("readonly", "w").close(), os.chmod("readonly", 0)
            for i in range(300):
                os.mkdir("deep"), os.chdir("deep")
            os.chdir("/work"), os.chmod("/work", 0)
            """
        )
        folder = program.process.work.parent
        await program.process.close()
        assert not folder.exists()
    assert (tmp_path / "kept").read_text() == "of the host"


async def test_an_unread_pipe_does_not_keep_a_program_from_closing() -> None:
    async with sandboxed() as program:
        await program.begin("import os\nwhile True: os.write(1, bytes(65536))")
        async with asyncio.timeout(PATIENCE):
            await program.process.close()


async def test_memory_is_reported() -> None:
    async with sandboxed() as program:
        before = program.process.memory()
        await program.run("import os; held = bytearray(os.urandom(32 << 20))")
        assert program.process.memory() - before > 30 * MIB
        assert before > 0


async def test_commands_larger_than_a_pipe_arrive() -> None:
    async with sandboxed(settings={"big": "x" * (3 * MIB)}) as program:
        assert await program.run("value = len(settings['big'])") == 3 * MIB


async def test_descriptors_of_a_closed_process_are_free_again() -> None:
    async with sandboxed() as program:
        process: SandboxProcess = program.process
        await SandboxedProgram(process).process.close()
        before = len(os.listdir("/proc/self/fd"))
    async with sandboxed() as program:
        await program.process.close()
        assert len(os.listdir("/proc/self/fd")) == before
