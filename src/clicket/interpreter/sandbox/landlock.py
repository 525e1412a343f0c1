"""The layer `landlock`: the child process irrevocably restricts itself to the named files and folders.

TCP is refused too, and on newer kernels also abstract sockets and signals to processes outside.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` would double the start-up time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["SYSTEM_READ", "SYSTEM_WRITE", "apply", "gaps", "rules", "version"]

SYSTEM_READ = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *(
        f"/etc/{name}"
        for name in "passwd group nsswitch.conf ld.so.cache ld.so.conf localtime timezone mime.types".split()
    ),
    *(f"/etc/{name}" for name in "fonts alternatives ssl/certs ssl/openssl.cnf pki/tls/certs ca-certificates".split()),
    *(f"/proc/{name}" for name in "self cpuinfo meminfo stat uptime version loadavg filesystems".split()),
    *(f"/proc/sys/{name}" for name in "kernel/osrelease kernel/pid_max vm/overcommit_memory fs/file-max".split()),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup/cpu.max", "/sys/kernel/mm/transparent_hugepage"),
    *("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
"""What a Python program may read where no mount namespace hides the rest: of /proc its own process and a few figures of the
machine, of /etc no secrets, of home folders nothing."""

SYSTEM_WRITE = ("/dev/null",)

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # the rights that a rule for a file may name
_FIRST = (1 << 13) - 1  # the rights of version 1
_TCP = 0b11  # bind, connect
_OUTSIDE = 0b11  # abstract sockets, signals
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine
_ASK_VERSION, _PATH_BENEATH = 1, 1

_LACKS = (
    (2, "files cannot be moved from one folder to another"),
    (3, "files can be truncated by path"),
    (4, "TCP is not refused"),
    (5, "open devices accept every ioctl"),
    (6, "signals and abstract sockets of the host can be reached"),
)


def rules(*, read: Iterable[str | os.PathLike[str]], write: Iterable[str | os.PathLike[str]]) -> dict[str, Any]:
    """What may be read and executed, and what may also be written; a folder includes all below it."""
    return {"read": [os.fspath(path) for path in read], "write": [os.fspath(path) for path in write]}


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none."""
    from clicket.interpreter.sandbox.libc import machine, syscall

    if machine() is None:
        return 0
    try:
        return syscall(_CREATE_RULESET, 0, 0, _ASK_VERSION)
    except OSError:
        return 0


def gaps(version: int) -> list[str]:
    """The gaps of this version, and of all versions."""
    found = [f"landlock: {text} (version {version}, needs {needed})" for needed, text in _LACKS if version < needed]
    return [*found, "landlock: names, sizes and times of all files can be read, though the files cannot be opened"]


def apply(rules: dict[str, Any]) -> None:
    """Restrict this process and its future children. Paths to read may be missing; paths to write must exist."""
    from clicket.interpreter.sandbox.libc import no_new_privileges, syscall

    known = version()
    if not known:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or it is switched off")
    handled = _handled(known)
    fields = [handled, _TCP, _OUTSIDE][: 1 + (known >= 4) + (known >= 6)]
    attributes = b"".join(field.to_bytes(8, "little") for field in fields)
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in rules["read"]:
            _allow(ruleset, path, _READ & handled, needed=False)
        for path in rules["write"]:
            _allow(ruleset, path, handled, needed=True)
        no_new_privileges()
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _handled(version: int) -> int:
    """All file rights of this version: a handled right that no rule grants is refused."""
    return _FIRST | _REFER * (version >= 2) | _TRUNCATE * (version >= 3) | _IOCTL_DEV * (version >= 5)


def _allow(ruleset: int, path: str, access: int, *, needed: bool) -> None:
    from clicket.interpreter.sandbox.libc import syscall

    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if needed:
            raise
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _FILE
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, access.to_bytes(8, "little") + fd.to_bytes(4, "little"), 0)
    finally:
        os.close(fd)
