"""Run a command as an ordinary user. The interpreter and the checkout may lie below folders that only root may enter.
So the child gets a mount namespace in which an empty folder, open to all users, covers each of them and shows only the
needed paths."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "as_user", "uid"]

ROOT = Path(__file__).resolve().parents[2]


def uid() -> int:
    """Each test process has its own user: the kernel counts a user's processes over all test processes."""
    return 41_731 + os.getpid() % 10_000


def _needed() -> list[Path]:
    every = {ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    return sorted(path for path in every if every.isdisjoint(path.parents))


def _is_closed(folder: Path) -> bool:
    return folder.stat().st_mode & 0o005 != 0o005


def _closed() -> list[Path]:
    """The topmost folders, of those needed and their parents, that other users may not enter."""
    found = (next(filter(_is_closed, (*reversed(path.parents), path)), None) for path in _needed())
    return sorted({folder for folder in found if folder is not None})


def _shown(path: Path, spot: str) -> list[str]:
    """Commands that show `path` at `spot`. A bind mount keeps the mode, so a closed folder's entries are mounted one by one."""
    here, there = shlex.quote(str(path)), shlex.quote(spot)
    if path.is_symlink():
        return [f"cp -P {here} {there}"]
    if not path.is_dir():
        return [f"touch {there}", f"mount --bind {here} {there}"]
    if not _is_closed(path):
        return [f"mkdir -p {there}", f"mount --rbind {here} {there}"]
    return [
        f"mkdir -p {there}",
        *(line for each in sorted(path.iterdir()) for line in _shown(each, f"{spot}/{each.name}")),
    ]


def _covering() -> str:
    lines = ["set -e", "umask 022", "mount --make-rprivate /"]
    for number, folder in enumerate(_closed()):
        inside = [path for path in _needed() if path.is_relative_to(folder)]
        side = f"/tmp/.clicket-cover-{os.getpid()}-{number}"
        lines.append(f"mkdir -p {side} && mount -t tmpfs -o mode=755 tmpfs {side}")
        for path in inside:
            lines += _shown(path, f"{side}/{path.relative_to(folder)}")
        lines += [f"mount --move {side} {shlex.quote(str(folder))}", f"rmdir {side}"]
    return "\n".join(lines)


def as_user(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 90, cwd: str = "/tmp"
) -> subprocess.CompletedProcess[str]:
    """`command` as a user without privileges. An ordinary user runs it directly."""
    clean = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    if os.getuid() == 0:
        drop = f"exec setpriv --reuid {uid()} --regid {uid()} --clear-groups --inh-caps=-all --bounding-set=-all"
        script = f"{_covering()}\ncd {shlex.quote(cwd)}\n{drop} {shlex.join(command)}"
        command = ["unshare", "--mount", "sh", "-c", script]
    return subprocess.run(command, env=clean, timeout=timeout, capture_output=True, text=True, check=False)
