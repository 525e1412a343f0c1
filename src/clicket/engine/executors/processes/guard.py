"""The process that the runtime starts for each tool process: a guard that forks the tool process and outlives it.

The guard runs no foreign code, so that nothing a tool does (a loop in C that never lets go of the interpreter, a crash,
a closed descriptor) can keep it from ending the tree. It adopts the processes that the tool orphans, so the tree is complete.
Run as a script, by its path: `guard.py JOB_FD LIFELINE_FD`. The lifeline brings one line of JSON, then at most a `T`
("end the tree: TERM, grace, KILL"); its end of file means that the runtime is gone: KILL, at once. On it goes back the
child's exit status, the last thing the guard does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import clicket.system.process_table as process_table  # noqa: PLR0402  # so the import contract sees the module
    from clicket.engine.executors.processes import tree
else:
    # Not through the package: the guard must stay small, and only the tool process needs clicket's imports.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(_here))), "system"))
    import process_table

    sys.path[0] = _here
    import tree

    del sys.path[0], sys.modules["tree"], sys.modules["process_table"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Guard:
    """Waits for the first of: the tool process's end, a request to end, the runtime's end. Then ends every process of the tree."""

    def __init__(self, child: int, lifeline: int, owner: int | None, grace: float) -> None:
        self._child = child
        self._lifeline = lifeline
        self._grace = grace
        self._status: int | None = None
        self._ordered = False
        self._hurry = False
        self._wake, tail = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(tail, False)
        signal.set_wakeup_fd(tail, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._poll = select.poll()
        for fd in (self._wake, lifeline, owner):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)

    def watch(self) -> None:
        self._reap()
        while not (self._ordered or self._hurry or self._status is not None):
            self._wait(None)
        # After a tool process that died by itself its children get no grace: its call should fail now.
        grace = self._grace if self._ordered and not self._hurry else 0.0
        tree.end(self._left, grace, self._wait)
        if self._status is None:  # it died after the last reaping and before the last scan of the tree
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        with contextlib.suppress(OSError):  # the runtime may be gone
            os.write(self._lifeline, b"%d" % self._status)

    def _left(self) -> list[tree.Process]:
        self._reap()
        below = tree.descendants(os.getpid())
        return tree.group(self._child) if below is None else below

    def _wait(self, seconds: float | None) -> bool:
        """Wait for the next event. True: the grace is over."""
        for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if fd == self._wake:
                os.read(fd, 4096)
            elif fd == self._lifeline and os.read(fd, 64):
                self._ordered = True
            else:
                self._hurry = True
                self._poll.unregister(fd)
        self._reap()
        return self._hurry

    def _reap(self) -> None:
        """Reap the tool process, and every orphan that the guard adopted."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self._status = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            pass

    def _on_signal(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._ordered = True


def main(job: int, lifeline: int) -> None:
    line, order = _read_line(lifeline)
    setup = json.loads(line)
    if (
        order or os.getppid() != setup["owner"]
    ):  # the runtime asked for the end, or died, while this process was starting
        with contextlib.suppress(OSError):
            os.write(lifeline, b"0")
        return
    for fd in (job, lifeline):
        os.set_inheritable(fd, False)
    owner = process_table.open_pid(setup["owner"])  # the lifeline alone would miss its end if the runtime forked
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    child = os.fork()
    if child:
        os.close(job)
        Guard(child, lifeline, owner, setup["grace"]).watch()
        return
    os.close(lifeline)
    if owner is not None:
        os.close(owner)
    _become_child(guard, job, setup)


def _become_child(guard: int, job: int, setup: dict[str, Any]) -> None:
    os.setsid()  # a tool that signals its own group must not hit the guard
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")  # when memory runs out, the kernel should kill the tool, not the runtime
    except OSError:
        pass
    sys.path[:] = setup["path"]
    sys.argv[:] = setup["argv"]
    from clicket.engine.executors.processes.job_loop import work

    work(job, memory=setup["memory"])


def _read_line(fd: int) -> tuple[bytes, bytes]:
    """The first line, and the bytes that arrived after it."""
    text = b""
    while b"\n" not in text:
        piece = os.read(fd, 65536)
        if not piece:
            sys.exit(1)
        text += piece
    line, _, rest = text.partition(b"\n")
    return line, rest


def _prctl(option: int, value: int) -> None:
    # Not with interpreter/sandbox/libc.py: that raises on systems without a sandbox.
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # without it the tree is still found by its token, and the tool process by its group


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
