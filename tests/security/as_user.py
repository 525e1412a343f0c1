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
    return sorted({ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()})


def _closed() -> list[Path]:
    """The topmost folders above what is needed that others may not enter."""
    found: list[Path] = []
    for path in _needed():
        for folder in reversed(path.parents):
            if folder.stat().st_mode & 0o005 != 0o005:
                found.append(folder)
                break
    return sorted(set(found))


def _covering() -> str:
    lines = ["set -e", "mount --make-rprivate /"]
    for number, folder in enumerate(_closed()):
        inside = [path for path in _needed() if path.is_relative_to(folder)]
        side = f"/tmp/.clicket-cover-{os.getpid()}-{number}"
        lines.append(f"mkdir -p {side} && mount -t tmpfs -o mode=755 tmpfs {side}")
        for path in inside:
            spot = shlex.quote(f"{side}/{path.relative_to(folder)}")
            lines += [f"mkdir -p {spot}", f"mount --rbind {shlex.quote(str(path))} {spot}"]
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
