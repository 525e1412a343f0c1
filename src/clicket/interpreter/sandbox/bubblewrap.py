"""The layer `namespaces`: the arguments of bubblewrap. A program sees its work folder, the system's programs and its Python, but
no other files, processes or networks of the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clicket.interpreter.sandbox.python_runtime import PythonRuntime

__all__ = [
    "GID",
    "HOME",
    "LIBRARY",
    "SCRATCH",
    "SHARED",
    "UID",
    "FilesystemView",
    "arguments",
    "obstacle",
    "shown_python",
    "tool",
]

HOME = "/work"
LIBRARY = "/run/clicket"
SCRATCH, SHARED = "/tmp", "/dev/shm"  # noqa: S108 -- the program's own, new and empty
UID = GID = 1000
"""The user id that a program sees when the host is not root."""

_VENV = "/run/venv"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "fonts", "alternatives", "mime.types", "python3")
_NIX = ("/nix/store", "/gnu/store")  # on Nix and Guix, what /usr has elsewhere
_KEPT_FOR_SETPRIV = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


class FilesystemView(msgspec.Struct, frozen=True, kw_only=True):
    """What one program sees, as paths of the host."""

    work: Path
    etc: Path
    """A folder with its `passwd` and `group`."""
    library: Path
    python: PythonRuntime
    readable: tuple[Path, ...] = ()
    scratch: int


def tool() -> str | None:
    return shutil.which("bwrap")


def shown_python(python: PythonRuntime) -> PythonRuntime:
    """Python as the program sees it: at the host's path, unless the program has its own folder there."""
    if not _moves(python.prefix):
        return python
    inner = os.path.relpath(python.executable, python.prefix)
    return msgspec.structs.replace(python, executable=f"{_VENV}/{inner}", prefix=_VENV)


def obstacle(python: PythonRuntime) -> str | None:
    """Why this Python cannot be mounted in the sandbox; None if it can."""
    if _hidden(python.base_prefix):
        return (
            f"Python is in {python.base_prefix}, and in the sandbox {HOME} is the program's own folder; use another one"
        )
    return None


def arguments(view: FilesystemView, *, root: bool, drops: bool = True, disable_userns: bool = True) -> list[str]:
    """All arguments but the descriptors and the command. As root, no user namespace is made: in it the program would still be
    the host's uid 0, which owns much of /proc. `drops`: the command changes the user id and needs the capabilities for that."""
    return [*_namespaces(root=root, drops=drops, disable_userns=disable_userns), *_files(view)]


def _namespaces(*, root: bool, drops: bool, disable_userns: bool) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session")
    yield from ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    yield from ("--hostname", "sandbox")
    if root:
        yield from ("--cap-drop", "ALL")
        for name in _KEPT_FOR_SETPRIV if drops else ():
            yield from ("--cap-add", name)
        return
    yield from ("--unshare-user", "--uid", str(UID), "--gid", str(GID))
    if disable_userns:
        yield "--disable-userns"


def _files(view: FilesystemView) -> Iterator[str]:
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in _NIX:
        yield from ("--ro-bind-try", path, path)
    yield from ("--perms", "0755", "--dir", "/etc")
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for name in ("passwd", "group"):
        yield from ("--ro-bind", str(view.etc / name), f"/etc/{name}")
    # No terminals: all programs and the host share a small number of them. And /dev is unlimited memory, so it is read-only.
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts")
    for path in (SCRATCH, SHARED):
        yield from ("--perms", "1777", "--size", str(view.scratch), "--tmpfs", path)
    yield from ("--remount-ro", "/dev")
    yield from _read_only(str(view.library), LIBRARY)
    yield from _interpreter(view.python)
    for folder in view.readable:
        yield from _read_only(str(folder), str(folder))
    yield from ("--bind", str(view.work), HOME, "--chdir", "/", "--remount-ro", "/")


def _interpreter(python: PythonRuntime) -> Iterator[str]:
    for folder in python.folders:
        shown = _VENV if folder == python.prefix and _moves(folder) else folder
        yield from _read_only(folder, shown)


def _read_only(source: str, target: str) -> Iterator[str]:
    """A folder of the host, and its parents: the program could not pass those that bubblewrap creates itself."""
    if _in_system(target):
        return  # mounted already
    for parent in reversed(Path(target).parents):
        if str(parent) not in {"/", SCRATCH, *_SYSTEM}:
            yield from ("--perms", "0755", "--dir", str(parent))
    yield from ("--ro-bind", source, target)


def _in_system(folder: str) -> bool:
    return any(Path(folder).is_relative_to(path) for path in _SYSTEM)


def _hidden(folder: str) -> bool:
    return Path(folder).is_relative_to(HOME)


def _moves(prefix: str) -> bool:
    """Installed files must not appear below the program's own folders."""
    return _hidden(prefix) or Path(prefix).is_relative_to(SCRATCH)
