"""What a cage's boot code is told to put on from within: bounds, the fence around files, the filter of system calls."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from clicket.sandbox import landlock, rlimits, seccomp
from clicket.sandbox.limits import Limits
from clicket.sandbox.python_runtime import PythonRuntime

__all__ = ["order"]

_COUNTS_BY_NAMESPACE = (5, 14)
"""Since then the kernel counts a user's processes in each user namespace for itself."""

_KEEPS_SIGNALS = 6
"""The version of Landlock from which on it keeps signals inside."""


def order(
    *,
    program: str,
    settings: dict[str, Any],
    home: str,
    scratch: str,
    layers: frozenset[str],
    limits: Limits,
    uid: int | None,
    python: PythonRuntime,
    library: str,
    readable: Iterable[str],
    path: Iterable[str] = (),
) -> dict[str, Any]:
    """The first frame that a cage is sent."""
    apart = "namespaces" in layers
    return {
        "op": "boot",
        "rlimits": _bounds(limits, uid=uid, apart=apart) if "rlimits" in layers else None,
        "landlock": _fence([home, scratch], python, library, readable, apart=apart) if "landlock" in layers else None,
        "seccomp": _filter(layers, same_user=uid is None) if "seccomp" in layers else None,
        "program": program,
        "home": home,
        "path": [*path],
        "settings": settings,
    }


def _bounds(limits: Limits, *, uid: int | None, apart: bool) -> dict[str, int]:
    alone = uid is not None or (apart and _kernel() >= _COUNTS_BY_NAMESPACE)
    return rlimits.rules(
        memory=limits.memory,
        processes=limits.processes,
        file_size=limits.file_size,
        open_files=limits.open_files,
        alone=alone,
        uid=uid if uid is not None else os.getuid(),
    )


def _fence(
    own: list[str], python: PythonRuntime, library: str, readable: Iterable[str], *, apart: bool
) -> dict[str, Any]:
    if apart:  # what is there at all has been chosen already: what is left to say is where it may be changed
        return landlock.rules(read=["/"], write=[*own, "/dev/shm", *landlock.SYSTEM_WRITE])  # noqa: S108
    read = [*landlock.SYSTEM_READ, *python.folders, library, *readable]
    return landlock.rules(read=read, write=[*own, *landlock.SYSTEM_WRITE])


@functools.cache
def _filter(layers: frozenset[str], *, same_user: bool) -> str | None:
    apart = "namespaces" in layers
    scoped = "landlock" in layers and landlock.version() >= _KEEPS_SIGNALS
    found = seccomp.program(
        unix_sockets=apart, same_user=same_user and not apart, signals=apart or scoped or not same_user
    )
    return found.hex() if found is not None else None


def _kernel() -> tuple[int, ...]:
    digits = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) for part in digits[:2] if part.isdigit())
