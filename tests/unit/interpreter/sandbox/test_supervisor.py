"""The supervisor: when it ends, every process that the program started is dead, however hidden."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE

from clicket.interpreter.sandbox import supervisor

SCRIPT = str(Path(supervisor.__file__).resolve())
DAEMONS = "(setsid sleep 1000 &); (setsid sh -c 'sleep 1000 & sleep 1001' &); sleep 1002 & "
"""Three ways to become an orphan: one parent exits, two exit, none exits."""


def own_uid() -> int:
    """Different in each test process, as is the one after it: a supervisor kills all processes of that user."""
    return 54_324 + os.getpid() % 4_000 * 2


@pytest.fixture(params=["same", "other"])
def uid(request: pytest.FixtureRequest) -> int | None:
    return own_uid() if request.param == "other" else None


class SupervisedTree:
    def __init__(self, command: list[str], uid: str) -> None:
        self.lifeline, theirs = socket.socketpair()
        self.out, inner = os.pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", SCRIPT, str(theirs.fileno()), uid, *command],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=inner,
                stderr=subprocess.PIPE,
                start_new_session=True,
                extra_groups=[4, 24],  # groups that root often has, and a program must not
                cwd="/",
            )
        os.close(inner)
        self.lifeline.settimeout(60)
        self.pid = int(self.lifeline.makefile("rb", 0).readline() or b"0")

    def until(self, text: bytes) -> None:
        """Read the program's output, up to this."""
        output = b""
        while text not in output:
            piece = read_soon(self.out)
            assert piece, f"it ended after {output!r}"
            output += piece

    def is_silent(self) -> bool:
        """Whether no process is left: every process of the tree holds the pipe open."""
        while read_soon(self.out):
            pass
        return True


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def read_soon(fd: int) -> bytes:
    ready, _, _ = select.select([fd], [], [], 60)
    assert ready, "a process that should be dead still holds the pipe"
    return os.read(fd, 65536)


@contextmanager
def supervised(*command: str, uid: int | None = None, go: bool = True) -> Iterator[SupervisedTree]:
    made = SupervisedTree(list(command), str(uid or "-"))
    try:
        if go:
            made.lifeline.send(b"G")
        yield made
    finally:
        made.lifeline.close()
        made.process.communicate(timeout=PATIENCE)
        os.close(made.out)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV), ("kill -KILL $$", -signal.SIGKILL)],
)
def test_it_ends_as_its_program_ended(script: str, status: int, uid: int | None) -> None:
    with supervised("/bin/sh", "-c", script, uid=uid) as made:
        assert made.process.wait(PATIENCE) == status


def test_what_a_program_leaves_behind_ends_with_it(uid: int | None) -> None:
    with supervised("/bin/sh", "-c", DAEMONS + "echo ready; exit 3", uid=uid) as made:
        made.until(b"ready")
        assert made.is_silent()
        assert made.process.wait(PATIENCE) == 3


def test_an_order_ends_everything(uid: int | None) -> None:
    script = "trap '' TERM INT HUP; " + DAEMONS + "echo ready; kill -STOP $$; sleep 1003"
    with supervised("/bin/sh", "-c", script, uid=uid) as made:
        made.until(b"ready")
        made.lifeline.send(b"K")
        assert made.is_silent()
        assert made.process.wait(PATIENCE) == -signal.SIGKILL


def test_closing_the_lifeline_is_an_order() -> None:
    with supervised("/bin/sh", "-c", DAEMONS + "echo ready; sleep 1004") as made:
        made.until(b"ready")
        made.lifeline.close()
        assert made.is_silent()


def test_a_bomb_is_put_out(uid: int | None) -> None:
    """A fork bomb: processes that only start others and exit, as many as the limit allows."""
    bomb = "exec 2> /dev/null; ulimit -u 40; echo ready; spread() { spread & spread & }; spread; sleep 1006"
    # The kernel does not count root's processes: without its own user the bomb is stopped by other means.
    other = own_uid() + 1
    command = ["/usr/bin/setpriv", f"--reuid={other}", f"--regid={other}", "--clear-groups"] if uid is None else []
    with supervised(*command, "/bin/bash", "-c", bomb, uid=uid) as made:
        made.until(b"ready")
        made.lifeline.send(b"K")
        assert made.is_silent()
        made.process.wait(PATIENCE)


def test_a_program_of_another_user_cannot_end_its_supervisor() -> None:
    script = "kill -KILL $PPID && echo killed; kill -KILL -1; echo ready; sleep 1005"
    with supervised("/bin/bash", "-c", script, uid=own_uid()) as made:
        made.until(b"ready")
        assert made.process.poll() is None
        with open(f"/proc/{made.pid}/status") as lines:
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert status["Uid"].split() == status["Gid"].split() == [str(own_uid())] * 4
        assert status["Groups"].split() == []
        assert (int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"].strip()) == (0, 0, "1")


def test_no_process_of_the_programs_user_outlives_it() -> None:
    """Not even one that is not a child: the user id is the program's own."""
    with (
        subprocess.Popen(["sleep", "1009"], user=own_uid(), group=own_uid(), extra_groups=[]) as stray,
        supervised("/bin/true", uid=own_uid()) as made,
    ):
        assert made.process.wait(PATIENCE) == 0
        with os.fdopen(os.pidfd_open(stray.pid), "rb") as end:
            select.select([end], [], [], 20)
        stray.terminate()  # no effect on an ended process
        assert stray.wait() == -signal.SIGKILL


def test_a_supervisor_that_is_killed_takes_its_program_with_it() -> None:
    with supervised("/bin/sh", "-c", "echo ready; exec sleep 1010", uid=own_uid()) as made:
        made.until(b"ready")
        made.process.kill()
        assert made.is_silent()


def test_the_programs_descriptors_are_its_own() -> None:
    with supervised("/bin/sh", "-c", "exec >&-; sleep 1011") as made:
        assert read_soon(made.out) == b"", "no other process holds the other end"
        assert made.process.poll() is None


def test_a_host_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    """The host has forked a child that holds its end of the lifeline, too: the host's death alone must be enough."""
    host = tmp_path / "host.py"
    host.write_text(
        "import os, socket, subprocess, sys, signal\n"
        "ours, theirs = socket.socketpair()\n"
        f"supervisor = subprocess.Popen([sys.executable, '-I', '-S', {SCRIPT!r}, str(theirs.fileno()), '-', '/bin/sh', '-c',\n"
        f"    {DAEMONS + 'echo ready; sleep 1006'!r}], pass_fds=(theirs.fileno(),), start_new_session=True)\n"
        "theirs.close(); ours.recv(64); ours.send(b'G')\n"
        "keeper = os.fork()\n"
        "if not keeper:\n"
        "    os.close(1); os.close(2); os.read(0, 1); os._exit(0)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", str(host)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        output = b""
        while b"ready" not in output:
            output += read_soon(process.stdout.fileno())
        process.send_signal(signal.SIGKILL)
        while read_soon(process.stdout.fileno()):
            pass
        process.stdin.close()  # the keeper exits


def test_the_program_is_held_back_until_the_host_lets_it_go() -> None:
    with supervised("/bin/sh", "-c", "echo started; sleep 1007", go=False) as made:
        while not is_asleep(made.pid):
            os.sched_yield()
        assert b"supervisor.py" in Path(f"/proc/{made.pid}/cmdline").read_bytes(), "it exists, and has not been started"
        assert not select.select([made.out], [], [], 0)[0]
        made.lifeline.send(b"G")
        made.until(b"started")
        assert os.getsid(made.pid) == made.pid != os.getsid(made.process.pid)
    with supervised("/bin/sh", "-c", "echo started", go=False) as made:
        made.lifeline.close()
        assert read_soon(made.out) == b""


def test_why_a_program_did_not_start_is_said() -> None:
    with supervised("/no/such/program") as made:
        _, err = made.process.communicate(timeout=PATIENCE)
        assert made.process.returncode == supervisor.NOT_STARTED
    assert b"/no/such/program" in err
    assert b"No such file" in err


@pytest.mark.parametrize("uid", ["0", "999"])
def test_a_user_that_is_not_the_programs_own_is_refused(uid: str) -> None:
    made = SupervisedTree(["/bin/true"], uid)
    _, err = made.process.communicate(timeout=PATIENCE)
    made.lifeline.close()
    os.close(made.out)
    assert made.process.returncode == 1
    assert f"uid {uid}".encode() in err
    assert made.pid == 0


def test_a_signal_to_the_supervisor_ends_the_program_too() -> None:
    with supervised("/bin/sh", "-c", "echo ready; sleep 1008") as made:
        made.until(b"ready")
        made.process.send_signal(signal.SIGTERM)
        assert made.is_silent()
        assert made.process.wait(PATIENCE) == -signal.SIGKILL
