"""System calls that Python's `os` lacks. They raise OSError."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` would double the start-up time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["adopt_orphans", "die_with_parent", "machine", "no_new_privileges", "pointer", "syscall"]

_MACHINES = ("x86_64", "aarch64")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_RTLD_NOW = 2

_loaded: dict[str, Any] = {}


def machine() -> str | None:
    """The machine type whose system call numbers this process uses, or None if `syscalls` does not have them."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return None
    name = os.uname().machine
    return name if name in _MACHINES else None


def syscall(number: int, *arguments: int | bytes) -> int:
    """Bytes are passed as a pointer to them."""
    return _call("syscall", number, *arguments)


def pointer(data: bytes) -> bytes:
    """The address of the first byte, as a C struct holds it. The caller must keep `data` referenced while it is used."""
    return bytes(memoryview(_load()["text"](data)))


def no_new_privileges() -> None:
    """Required before an unprivileged process can apply seccomp or Landlock to itself."""
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def adopt_orphans() -> None:
    """Orphaned descendants become children of this process."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number: int) -> None:
    """The signal that this process gets when its parent ends. A change of the user id resets it."""
    _call("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)


def _call(name: str, *arguments: int | bytes) -> int:
    known = _load()
    long = known["long"]
    result: int = known[name](*[a if isinstance(a, bytes) else long(a) for a in arguments])
    if result == -1:
        code = known["errno"]()
        raise OSError(code, os.strerror(code))
    return result


def _load() -> dict[str, Any]:
    """Functions of the C library, argument types, and the getter of errno."""
    if not _loaded:
        # Not `ctypes`: importing that package takes a good part of a program's start-up time.
        import _ctypes as c

        simple: Any = c._SimpleCData
        long = type("long", (simple,), {"_type_": "l"})
        flags = c.FUNCFLAG_CDECL | c.FUNCFLAG_USE_ERRNO
        function: Any = type("function", (c.CFuncPtr,), {"_flags_": flags, "_restype_": long})
        itself: Any = None
        library = c.dlopen(itself, _RTLD_NOW)
        for name in ("syscall", "prctl"):
            _loaded[name] = function(c.dlsym(library, name))
        _loaded.update(long=long, text=type("text", (simple,), {"_type_": "z"}), errno=c.get_errno)
    return _loaded
