"""A program that is forked cannot be told from one that was started."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit import forks
from tests.kit.children import environment
from tests.kit.forks import adopted_pids, forked, server_pids, take_terminal
from tests.kit.waiting import PATIENCE, eventually_sync

PROGRAMS = {
    "output": "import sys; print('out ü'); print('err', file=sys.stderr)",
    "input": "import sys; print(sys.stdin.read()[::-1])",
    "place": "import os, sys; print(os.getcwd(), os.environ['MINE'], 'HOME' in os.environ, sys.argv, sys.path[0], __name__)",
    "parent": "import os; print(os.getppid())",
    "code": "import sys; sys.exit(7)",
    "words": "import sys; sys.exit('no')",
    "raises": "1 / 0",
    "interrupted": "raise KeyboardInterrupt",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "at exit": "import atexit, threading; atexit.register(print, 'last'); threading.Thread(target=print, args=['thread']).start()",
    "descriptors": "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))",
    "signals": "import signal; print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])",
}


def outcome(folder: Path, *options: str) -> tuple[int, str, str]:
    env = environment(MINE="ü")
    env.pop("HOME", None)
    done = subprocess.run(
        [sys.executable, *options], cwd=folder, env=env, input="in", capture_output=True, text=True, check=False, timeout=PATIENCE
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nothing is forked elsewhere")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_does_what_a_started_one_does(program: str, tmp_path: Path) -> None:
    assert outcome(tmp_path, *forked(), "-c", program, "a") == outcome(tmp_path, "-c", program, "a")
    assert server_pids()


def test_modules_and_files_too(tmp_path: Path) -> None:
    text = "import sys; print(__name__, __file__, sys.argv, sys.path[0])"
    (tmp_path / "program.py").write_text(text)
    for options in (("-m", "program", "a"), ("program.py", "a")):
        assert outcome(tmp_path, *forked(), *options) == outcome(tmp_path, *options)


def test_descriptors_are_passed_on_under_their_numbers(tmp_path: Path) -> None:
    """Also when they are numbers that the process that forks uses itself; and -P keeps the script's folder out of the path."""
    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "for fd in map(int, sys.argv[1:]): os.write(fd, b'%d %d' % (fd, os.get_inheritable(fd)))\n"
        "print(len(os.listdir('/proc/self/fd')), sys.path[0])"
    )
    for options in ((), forked()):
        pipes = [os.pipe() for _ in range(6)]
        theirs = [pipe[1] for pipe in reversed(pipes)]
        command = [sys.executable, *options, "-P", str(tmp_path / "program.py"), *map(str, theirs)]
        done = subprocess.run(command, env=environment(), pass_fds=theirs, capture_output=True, text=True, check=True)
        assert done.stdout == f"{3 + len(theirs) + 1} {environment()['PYTHONPATH'].split(os.pathsep)[0]}\n"
        for ours, end in pipes:
            assert os.read(ours, 100) == b"%d 1" % end
            os.close(ours)
            os.close(end)


def test_a_setting_of_the_interpreter_is_heeded(tmp_path: Path) -> None:
    command = [sys.executable, *forked(), "-c", "print('é')"]
    done = subprocess.run(command, env=environment(PYTHONIOENCODING="latin-1"), capture_output=True, check=True)
    assert done.stdout == b"\xe9\n"


async def test_asyncio_starts_and_ends_it() -> None:
    script = "import os, time; print(os.getsid(0) == os.getpid(), flush=True); time.sleep(600)"
    child = await asyncio.create_subprocess_exec(
        sys.executable, *forked(), "-c", script, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"True\n"
    os.killpg(child.pid, signal.SIGTERM)
    assert await child.wait() == -signal.SIGTERM


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nothing is forked elsewhere")
def test_an_orphan_that_this_process_adopts_meanwhile_is_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that kills a process while another is forked is not blamed for the children of the killed one."""
    script = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()']).pid, flush=True); input()"
    )
    become_subreaper = forks._subreaper
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        orphan = int(parent.stdout.readline())

        @contextmanager
        def while_it_is_killed() -> Iterator[None]:
            with become_subreaper():
                parent.kill()
                parent.wait()
                yield

        monkeypatch.setattr(forks, "_subreaper", while_it_is_killed)
        assert outcome(tmp_path, *forked(), "-c", "print(1)") == (0, "1\n", "")
        assert adopted_pids() == {orphan}
        parent.stdin.close()  # so that it ends
        eventually_sync(lambda: not adopted_pids())


def test_it_takes_its_terminal() -> None:
    """Ctrl-C reaches it, which is so only with a controlling terminal."""
    # Short sleeps: a signal that comes just before a long one would wait for its end.
    script = "import time; print('ready', flush=True)\nwhile True: time.sleep(0.05)"
    for options in ((), forked()):
        ours, theirs = pty.openpty()
        try:
            child = subprocess.Popen(
                [sys.executable, *options, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(),
                start_new_session=True, preexec_fn=take_terminal,  # noqa: PLW1509  # no thread of ours runs meanwhile
            )  # fmt: skip
            seen = b""
            while b"ready" not in seen:
                seen += os.read(ours, 1000)
            os.write(ours, b"\x03")
            assert child.wait(PATIENCE) == -signal.SIGINT
        finally:
            os.close(theirs)
            os.close(ours)
