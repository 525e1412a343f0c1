"""Run a command as an ordinary user. The interpreter and the checkout may lie below folders that only root may enter: in a
mount namespace of the child's own such a folder is covered by an empty one that everybody may enter, with just them inside."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "UID", "as_user"]

ROOT = Path(__file__).resolve().parents[2]
UID = 41_731 + os.getpid() % 10_000
"""Each process of the tests has its own: the kernel counts the processes of a user, whoever started them."""


def _needed() -> list[Path]:
    every = {ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    return sorted(path for path in every if every.isdisjoint(path.parents))


def _is_closed(folder: Path) -> bool:
    return folder.stat().st_mode & 0o005 != 0o005


def _closed() -> list[Path]:
    """The topmost folders that others may not enter, of those that are needed and those above them."""
    found = (next(filter(_is_closed, (*reversed(path.parents), path)), None) for path in _needed())
    return sorted({folder for folder in found if folder is not None})


def _shown(path: Path, spot: str) -> list[str]:
    """Commands that show `path` at `spot`. A bind mount keeps the mode: of a closed folder the entries are shown, each by itself."""
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
    """`command` as a user without any power. Started by an ordinary user, it is simply run."""
    clean = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    if os.getuid() == 0:
        drop = f"exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all"
        script = f"{_covering()}\ncd {shlex.quote(cwd)}\n{drop} {shlex.join(command)}"
        command = ["unshare", "--mount", "sh", "-c", script]
    return subprocess.run(command, env=clean, timeout=timeout, capture_output=True, text=True, check=False)
