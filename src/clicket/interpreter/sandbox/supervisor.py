"""The parent process of a program that runs without namespaces: starts it, adopts its orphans, and kills all that is left when
the program ends, when the host asks for it, or when the host is gone.

Run as a script: `supervisor.py LIFELINE UID COMMAND...`, in its own session, with the descriptors and the environment of the
program. LIFELINE is one end of a socket pair. UID is a user id that only this program has (the supervisor must then be root), or
`-`. The supervisor writes the program's pid and a newline to LIFELINE, and starts the program when it reads `G`. On `K`, or at the
end of LIFELINE, it kills. It exits with the program's exit status, or of the same signal.

The program cannot kill its supervisor: with a UID of its own the kernel refuses, otherwise Landlock (version 6) or seccomp does.
Without any of the three, a program that kills its supervisor leaves its children running.
"""

from __future__ import annotations

# `_signal` and not `signal`, no `typing`, no `contextlib`: each imports `enum` or `re`, which would double the start-up time.
import os
import select
import sys

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    import signal as _signal

    import clicket.system.process_table as process_table  # noqa: PLR0402  # so the import contract sees the module
    from clicket.interpreter.sandbox import libc
else:
    import _signal

    # By path: importing the package would import all that it imports.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, _here)
    import libc

    sys.path[0] = os.path.join(os.path.dirname(os.path.dirname(_here)), "system")
    import process_table

    del sys.path[0]

NOT_STARTED = 126
"""The exit status when the program could not be started; the reason is on its stderr."""

_MIN_UID = 1000
_PAUSE = 10  # ms between scans for killed processes that are not gone yet


class Supervisor:
    """Waits for the program's end, a command or the host's end, then kills all processes below itself.

    `engine/executors/processes` has a similar process for tools, which gives them a grace period and reports a status. This one
    kills at once, by user and by group. Both use `process_table`.
    """

    def __init__(self, program: int, uid: int | None, lifeline: int, gate: int) -> None:
        self._program = program
        self._uid = uid
        self._lifeline = lifeline
        self._gate = gate
        self._over = False
        self._reaped = False
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

    def wait(self) -> int:
        """The program's exit status; negative for a signal."""
        self._reap()
        while not self._over:
            self._wait(None)
        if self._uid is not None:
            _kill_all_of(self._uid)
        # The program is not reaped yet, so its pid still names its own group. Killing a group is atomic: no member can fork
        # past it. Where seccomp keeps all processes in the group, none is missed.
        _kill_group(self._program)
        status = os.waitstatus_to_exitcode(os.waitpid(self._program, 0)[1])
        self._reaped = True
        self._kill_below()
        return status

    def _kill_below(self) -> None:
        """Stop them first: a stopped process starts no other and is still counted."""
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
            elif fd == self._lifeline and (command := _read(fd)):
                self._on_command(command)
            else:
                self._poll.unregister(fd)
                self._over = True
        self._reap()

    def _on_command(self, command: bytes) -> None:
        if b"K" in command:
            self._over = True
        elif b"G" in command and self._gate >= 0:
            os.write(self._gate, b"G")
            os.close(self._gate)
            self._gate = -1

    def _reap(self) -> None:
        """Reap adopted orphans. When the program has ended, all is over; it is reaped after its group was killed."""
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid == self._program and not self._reaped:
                    self._over = True
                    return
                os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            pass

    def _on_signal(self, number: int, _frame: object) -> None:
        if number != _signal.SIGCHLD:
            self._over = True


def main(lifeline: int, uid: int | None, command: list[str]) -> None:
    if uid is not None and (uid < _MIN_UID or os.getuid() != 0):  # all processes of that user will be killed
        sys.exit(f"supervisor: uid {uid} needs root, and must be at least {_MIN_UID}.")
    os.set_inheritable(lifeline, False)
    libc.adopt_orphans()  # also loads what the child needs when it can no longer read our files
    supervisor = os.getpid()
    waiting, gate = os.pipe()
    program = os.fork()
    if not program:
        os.close(gate)
        _become_program(supervisor, waiting, uid, command)
    os.close(waiting)
    _close_all_but(lifeline, gate)
    os.write(lifeline, b"%d\n" % program)
    _exit_like(Supervisor(program, uid, lifeline, gate).wait())


def _become_program(supervisor: int, waiting: int, uid: int | None, command: list[str]) -> None:
    try:
        os.setsid()  # signals that the program sends to its own group must not reach the supervisor
        _write("/proc/self/oom_score_adj", "800")  # out of memory, the kernel kills this process before the host
        if not os.read(waiting, 1):
            os._exit(NOT_STARTED)
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        libc.no_new_privileges()
        libc.die_with_parent(_signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(NOT_STARTED)
        os.execv(command[0], command)  # noqa: S606 - this is what a supervisor is for
    except BaseException as error:
        os.write(2, f"the program could not be started ({command[0]}, uid {os.getuid()}): {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _close_all_but(*kept: int) -> None:
    """The host must see the end of the program's pipes when the program ends, so the supervisor holds none of them."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in sorted({int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *kept}):
        try:
            os.close(fd)
        except OSError:
            continue  # the descriptor that listed the others


def _exit_like(status: int) -> None:
    if status >= 0:
        os._exit(status)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -status not in {_signal.SIGKILL, _signal.SIGSTOP}:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    os._exit(128 - status)  # the signal does not end a process


def _kill_all_of(uid: int) -> None:
    """Atomic: no process of the user can fork while the kernel goes through them."""
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
    for kill in (os.killpg, os.kill):  # the leader also alone: it may not have created its group yet
        try:
            kill(leader, _signal.SIGKILL)
        except ProcessLookupError:
            continue


def _below() -> dict[int, int]:
    """Every living process below this one: pid -> start time."""
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


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), None if sys.argv[2] == "-" else int(sys.argv[2]), sys.argv[3:])
