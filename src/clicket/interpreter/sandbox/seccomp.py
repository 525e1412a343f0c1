"""The layer `seccomp`: which system calls a program may not make, as one filter that the kernel evaluates at each call.

Refused are calls that ordinary programs do not need and that sandbox escapes have used, or that reach outside of the sandbox. Calls
of another machine type, and calls newer than our table, are refused too: the filter fails closed.

`make_filter` makes the filter on the host, for `boot_config`; `apply` installs it in the sandboxed child, for `boot`."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` would double the start-up time
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Condition = tuple[str, int, int, str, Sequence[int], int]
    Instruction = tuple[int, int, int, int]

__all__ = ["apply", "gap", "make_filter"]

DENIED = {
    "other processes": "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease",
    "mounts": "mount umount2 move_mount fsopen fsconfig fsmount fspick open_tree open_tree_attr mount_setattr pivot_root "
    "chroot statmount listmount",
    "namespaces": "unshare setns",
    "the kernel's machinery": "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl "
    "add_key request_key fanotify_init fanotify_mark lookup_dcookie modify_ldt nfsservctl",
    "the whole machine": "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct "
    "quotactl quotactl_fd settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm syslog "
    "vhangup",
    "files by handle": "name_to_handle_at open_by_handle_at",
    "a timer that can wake a stopped process": "timer_create",
    "placement of memory": "mbind move_pages migrate_pages set_mempolicy_home_node",
    "memory that is not accounted for": "memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget "
    "semop semctl semtimedop mq_open mq_unlink",
}
"""Refused everywhere."""

INSTEAD = {
    "clone3": errno.ENOSYS,  # its flags are in memory, which a filter cannot read; programs fall back to clone
    "fallocate": errno.EOPNOTSUPP,  # fills a disk too fast to be noticed; programs fall back to writing
    "inotify_init": errno.EMFILE,
    "inotify_init1": errno.EMFILE,  # a user has few, shared with the host; programs fall back to polling
    "sync": 0,
    "syncfs": 0,  # both stall the whole machine; `fsync` of one file is allowed
}
"""Refused everywhere, each with an error that programs handle."""

NO_SOCKETS = "connect bind listen accept accept4"
"""Also refused where host sockets can be reached by path."""

SAME_USER = (
    "truncate inotify_add_watch setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat "
    "file_setattr fchmod fchown"
)
"""Also refused where the program's user owns host files. Landlock does not cover these, and those that take a descriptor accept
one that was opened for reading."""

SILENT = "chmod fchmodat fchmodat2 chown lchown fchownat utime utimes utimensat futimesat setsid setpgid"
"""In that case these report success and do nothing: copying a file ends with one of them. And a process that cannot leave the
program's group is stopped and killed with the group, however fast it forks."""

NO_SIGNALS = "tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
"""Also refused where a signal could reach a host process."""

_NEW_NAMESPACE = 0x7E020000  # every CLONE_NEW* that clone() takes
_UNIX = 1
_STREAM, _SEQPACKET = 1, 5
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and both by force
_LOCK_UN = 8
_TIOCSTI, _TIOCSETD, _TIOCLINUX = 0x5412, 0x5423, 0x541C
_SIOCSPGRP, _FIOSETOWN = 0x8902, 0x8901
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE = 8, 10, 15, 1024
_F_SET_RW_HINT, _F_SET_FILE_RW_HINT = 1036, 1038
_IOCTL_GROUP, _TERMINAL = 0xFFFFFF00, 0x5400  # this group also has FIONBIO and FIONREAD
_SET_DUMPABLE, _SET_MM, _SCHED_CORE, _SET_PTRACER = 4, 35, 62, 0x59616D61
_ALL = 0xFFFFFFFF
_ITSELF = 0x7FFFFFFE  # not a valid pid; `apply` replaces it by the pid of its process

_LOAD, _AND, _IF_EQUAL, _IF_ABOVE, _IF_BITS, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1


def make_filter(
    *, unix_sockets: bool = True, same_user: bool = False, signals: bool = True, machine: str | None = None
) -> bytes | None:
    """The filter as BPF code; None on a machine whose system calls we do not know.

    Pass `unix_sockets=False` where host sockets can be reached by path, `same_user=True` where host files and processes belong
    to the program's user, `signals=False` where no other layer blocks signals to host processes.
    """
    from clicket.interpreter.sandbox.libc import machine as this_machine
    from clicket.interpreter.sandbox.syscalls import AUDIT, FIRST_UNKNOWN, NUMBERS

    name = machine or this_machine()
    if name not in NUMBERS:
        return None
    code = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 1, 0, AUDIT[name]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if name == "x86_64":  # x32 calls have a marker bit and another layout
        code += [(_IF_ABOVE, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]
    code += [(_IF_ABOVE, 0, 1, FIRST_UNKNOWN), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    refused = dict.fromkeys(" ".join(DENIED.values()).split(), errno.EPERM)
    refused |= INSTEAD
    if not unix_sockets:
        refused |= dict.fromkeys(NO_SOCKETS.split(), errno.EPERM)
    if not signals:
        refused |= dict.fromkeys(NO_SIGNALS.split(), errno.EPERM)
    if same_user:
        refused |= dict.fromkeys(SAME_USER.split(), errno.EPERM) | dict.fromkeys(SILENT.split(), 0)
    numbers = NUMBERS[name]
    for call, error in refused.items():
        if call in numbers:
            code += [(_IF_EQUAL, 0, 1, numbers[call]), (_RETURN, 0, 0, _ERRNO | error)]
    conditions: dict[str, list[Condition]] = {}
    for condition in _conditions(unix_sockets, same_user, signals):
        conditions.setdefault(condition[0], []).append(condition)
    for call, all_of_it in conditions.items():
        body = [instruction for condition in all_of_it for instruction in _check(condition)]
        code += [(_IF_EQUAL, 0, len(body) + 1, numbers[call]), *body, (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(_packed(instruction) for instruction in code)


def apply(filter: str | bytes) -> None:
    """Apply the filter irrevocably to this process and its future children. There must be no second thread yet."""
    from clicket.interpreter.sandbox.libc import machine, no_new_privileges, pointer, syscall

    name = machine()
    if name is None:
        raise OSError(errno.ENOSYS, "the system calls of this machine type are not known")
    code = with_own_pid(bytes.fromhex(filter) if isinstance(filter, str) else filter)
    no_new_privileges()
    sized = (len(code) // 8).to_bytes(8, "little") + pointer(code)  # a short, its padding, an address
    syscall(_SECCOMP[name], _SET_MODE_FILTER, 0, sized)


def gap() -> str | None:
    """Why there is no filter for this machine; None if there is one."""
    from clicket.interpreter.sandbox.libc import machine

    if machine() is not None:
        return None
    return "seccomp: it supports Linux on x86_64 and aarch64 only"


def _conditions(unix_sockets: bool, same_user: bool, signals: bool) -> Iterator[Condition]:
    """call, argument, mask, what is refused (`bits`, `in`, `not in`), values, error. The kernel reads these arguments as
    32-bit numbers, so their upper half is ignored."""
    yield "clone", 0, _ALL, "bits", (_NEW_NAMESPACE,), errno.EPERM
    yield "socket", 0, _ALL, "not in", [_UNIX] * unix_sockets, errno.EAFNOSUPPORT
    yield "socketpair", 0, _ALL, "not in", (_UNIX,), errno.EAFNOSUPPORT
    if not unix_sockets:  # a datagram socket of a pair can send to any path
        yield "socketpair", 1, 0xF, "not in", (_STREAM, _SEQPACKET), errno.EPROTONOSUPPORT
    # Socket buffers are memory that no process accounts for: the monitor assumes the system's default size.
    yield "setsockopt", 2, _ALL, "in", _BUFFER_SIZES, 0
    # It can lock every readable file, also the host's. ENOSYS: programs handle file systems without such locks.
    yield "flock", 1, _ALL, "not in", (_LOCK_UN,), errno.ENOSYS
    yield "personality", 0, _ALL, "not in", (0, _ALL), errno.EPERM
    yield "prlimit64", 0, _ALL, "not in", (0,), errno.EPERM
    # A process that is not dumpable hides its memory use from a host that runs as the same user.
    yield "prctl", 0, _ALL, "in", (_SET_DUMPABLE, _SET_MM, _SCHED_CORE, _SET_PTRACER), errno.EPERM
    owner = () if signals else (_SIOCSPGRP, _FIOSETOWN)
    yield "ioctl", 1, _ALL, "in", (_TIOCSTI, _TIOCSETD, _TIOCLINUX, *owner), errno.EPERM
    # A chosen signal on file access could wake a stopped process; a lease would make the host wait.
    owner = () if signals else (_F_SETOWN, _F_SETOWN_EX)
    yield "fcntl", 1, _ALL, "in", (_F_SETSIG, _F_SETLEASE, *owner), errno.EPERM
    if not signals:  # allowed: to its own group, and the first process to itself
        yield "kill", 0, _ALL, "not in", (0, _ITSELF), errno.EPERM
        yield "tgkill", 0, _ALL, "not in", (_ITSELF,), errno.EPERM
    if same_user:
        # Any descriptor allows setting flags, labels and snapshots of file systems. ENOTTY: "not supported".
        yield "ioctl", 1, _IOCTL_GROUP, "not in", (_TERMINAL,), errno.ENOTTY
        yield "fcntl", 1, _ALL, "in", (_F_SET_RW_HINT, _F_SET_FILE_RW_HINT), errno.EPERM
        for call in ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
            yield call, 0, _ALL, "not in", (0,), errno.EPERM
        for call, process in (("setpriority", 0), ("ioprio_set", 1)):
            yield call, 0, _ALL, "not in", (process,), errno.EPERM
            yield call, 1, _ALL, "not in", (0,), errno.EPERM


def _check(condition: Condition) -> Iterator[Instruction]:
    _, argument, mask, kind, values, error = condition
    yield _LOAD, 0, 0, 16 + 8 * argument  # the lower half: both machines store it first
    if mask != _ALL:
        yield _AND, 0, 0, mask
    if kind == "bits":
        yield _IF_BITS, 0, 1, values[0]
    elif kind == "in":
        last = len(values) - 1
        for place, value in enumerate(values):
            yield _IF_EQUAL, last - place, int(place == last), value
    else:
        for place, value in enumerate(values):
            yield _IF_EQUAL, len(values) - place, 0, value
    yield _RETURN, 0, 0, _ERRNO | error


def with_own_pid(code: bytes) -> bytes:
    placeholder = _ITSELF.to_bytes(4, "little")
    pid = os.getpid().to_bytes(4, "little")
    if placeholder not in code:
        return code
    steps = (code[at : at + 8] for at in range(0, len(code), 8))
    return b"".join(step[:4] + pid if step[4:] == placeholder else step for step in steps)


def _packed(instruction: Instruction) -> bytes:
    operation, then, otherwise, value = instruction
    return operation.to_bytes(2, "little") + bytes((then, otherwise)) + value.to_bytes(4, "little")
