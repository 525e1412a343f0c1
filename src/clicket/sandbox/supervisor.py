"""Holds the processes of a cage together where no namespace does: it starts the program, adopts what the program orphans,
and leaves none of it alive when the program ends, when it is told to, or when the host is gone.

Run as a script, by its path: `guard.py LIFELINE UID COMMAND...`, in a session of its own, with the descriptors and the
environment that the program shall have. LIFELINE is one end of a pair of sockets; UID is a number that only this cage uses
(then the guard must be root), or `-`. The guard says the program's process number in one line, and holds the program back
until it is sent a `G`. A `K`, or the end of the lifeline: kill. At last the guard ends as the program ended, by its status
or by its signal.

The program cannot end its guard: with a UID the kernel refuses, without one Landlock (from its version 6) or the filter of
system calls must. Where none of the three is there, a program that kills its guard frees what it has started.
"""

from __future__ import annotations

# `_signal` and not `signal`, no `typing`, no `contextlib`: each draws in `enum` or `re`, which cost more than all of this.
import os
import select
import sys

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    import signal as _signal

    import clicket.process_table as process_table  # noqa: PLR0402  # so the import contract sees the module
    from clicket.sandbox import libc
else:
    import _signal

    # Not through the package: this file runs with a bare interpreter, without the package and what that imports.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, _here)
    import libc

    sys.path[0] = os.path.dirname(_here)
    import process_table

    del sys.path[0]

NOT_STARTED = 126
"""The exit status when the program could not be started; the reason is on its stderr."""

_LEAST_UID = 1000
_PAUSE = 10  # ms between two looks at processes that were killed and are not gone yet


class Supervisor:
    """Waits for the first of: the program's end, an order, the host's end. Then leaves nothing below itself.

    The guard of the worker processes (execution/processes/guard.py) is another one: it gives a grace, reports a status and lets
    the worker inherit its interpreter, where this one kills at once, by user and by group. They share `process_table`.
    """

    def __init__(self, program: int, uid: int | None, lifeline: int, gate: int) -> None:
        self._program = program
        self._uid = uid
        self._lifeline = lifeline
        self._gate = gate
        self._over = False
        self._buried = False
        self._wake, tail = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(tail, False)
        _signal.set_wakeup_fd(tail, warn_on_full_buffer=False)
        for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(number, self._on_signal)
        self._poll = select.poll()
        for fd in (self._wake, lifeline, process_table.open_pid(os.getppid())):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)

    def watch(self) -> int:
        """The status that the program ended with; negative for a signal."""
        self._reap()
        while not self._over:
            self._wait(None)
        if self._uid is not None:
            _kill_all_of(self._uid)
        # Not buried yet: until it is, its number is that of its own group and of no other. The kernel lets nobody in a
        # group fork past such a blow; where the filter keeps all in the group, none is missed.
        _kill_group(self._program)
        status = os.waitstatus_to_exitcode(os.waitpid(self._program, 0)[1])
        self._buried = True
        self._kill_below()
        return status

    def _kill_below(self) -> None:
        """Stop them first: what is stopped starts nothing new, and still takes its place among those that are counted."""
        stopped: dict[int, int] = {}
        while fresh := {pid: at for pid, at in _below().items() if stopped.get(pid) != at}:
            for pid, started in fresh.items():
                _send(pid, started, _signal.SIGSTOP)
            stopped |= fresh
            self._reap()
        while left := _below():
            for pid, started in left.items():
                _send(pid, started, _signal.SIGKILL)
            self._wait(_PAUSE)
            self._reap()

    def _wait(self, milliseconds: int | None) -> None:
        for fd, _ in self._poll.poll(milliseconds):
            if fd == self._wake:
                os.read(fd, 4096)
            elif fd == self._lifeline and (order := _read(fd)):
                self._obey(order)
            else:
                self._poll.unregister(fd)
                self._over = True
        self._reap()

    def _obey(self, order: bytes) -> None:
        if b"K" in order:
            self._over = True
        elif b"G" in order and self._gate >= 0:
            os.write(self._gate, b"G")
            os.close(self._gate)
            self._gate = -1

    def _reap(self) -> None:
        """Bury every orphan that came to us. The end of the program is the end of all; it is buried when its group is dead."""
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid == self._program and not self._buried:
                    self._over = True
                    return
                os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            pass

    def _on_signal(self, number: int, _frame: object) -> None:
        if number != _signal.SIGCHLD:
            self._over = True


def main(lifeline: int, uid: int | None, command: list[str]) -> None:
    if uid is not None and (uid < _LEAST_UID or os.getuid() != 0):  # for all of that user's processes will be killed
        sys.exit(f"guard: uid {uid} cannot be the cage's own; it takes root, and a number of at least {_LEAST_UID}.")
    os.set_inheritable(lifeline, False)
    libc.adopt_orphans()  # also loads what the child will need when it may read nothing of ours any more
    guard = os.getpid()
    waiting, gate = os.pipe()
    program = os.fork()
    if not program:
        os.close(gate)
        _become(guard, waiting, uid, command)
    os.close(waiting)
    _let_go_of_all_but(lifeline, gate)
    os.write(lifeline, b"%d\n" % program)
    _end_like(Supervisor(program, uid, lifeline, gate).watch())


def _become(guard: int, waiting: int, uid: int | None, command: list[str]) -> None:
    try:
        os.setsid()  # what the program sends to its own group must not hit the guard
        _write("/proc/self/oom_score_adj", b"800")  # when memory runs out, the kernel shall take this and not the host
        if not os.read(waiting, 1):
            os._exit(NOT_STARTED)
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        libc.no_new_privileges()
        libc.die_with_parent(_signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(NOT_STARTED)
        os.execv(command[0], command)  # noqa: S606 - this is what a guard is for
    except BaseException as error:
        os.write(2, f"the program could not be started ({command[0]}, uid {os.getuid()}): {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _let_go_of_all_but(*kept: int) -> None:
    """The program's descriptors are the program's alone: who reads from it shall see the end when it ends."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in sorted({int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *kept}):
        try:
            os.close(fd)
        except OSError:
            continue  # that of the listing


def _end_like(status: int) -> None:
    if status >= 0:
        os._exit(status)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -status not in {_signal.SIGKILL, _signal.SIGSTOP}:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    os._exit(128 - status)  # a signal that does not end a process: it was not the program's end either


def _kill_all_of(uid: int) -> None:
    """At once and without gaps: the kernel lets nobody fork while it goes through a user's processes."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setresuid(uid, uid, uid)
        os.kill(-1, _signal.SIGKILL)
    finally:
        os._exit(0)


def _kill_group(leader: int) -> None:
    for kill in (os.killpg, os.kill):  # the leader alone, too: it may not have made its group yet
        try:
            kill(leader, _signal.SIGKILL)
        except ProcessLookupError:
            continue


def _below() -> dict[int, int]:
    """Every living process below this one, with its start time."""
    return process_table.below(os.getpid(), process_table.processes())


def _send(pid: int, started: int, number: int) -> None:
    try:
        process_table.send_exactly(pid, started, number)
    except OSError:
        return  # it ended meanwhile


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 64)
    except ConnectionResetError:
        return b""


def _write(path: str, text: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main(int(sys.argv[1]), None if sys.argv[2] == "-" else int(sys.argv[2]), sys.argv[3:])
