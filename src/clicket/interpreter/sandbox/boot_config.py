"""The first frame for a sandboxed child: which layers `boot` applies from inside (rlimits, Landlock, seccomp), and their rules."""

from __future__ import annotations

import functools
import os
from typing import Any

from clicket.interpreter.sandbox import landlock, rlimits, seccomp
from clicket.interpreter.sandbox.launch_resources import LaunchResources

__all__ = ["boot_config"]

_KERNEL_COUNTS_PER_NAMESPACE = (5, 14)
"""From this version on, the kernel counts a user's processes separately in each user namespace."""
_LANDLOCK_SCOPES_SIGNALS = 6
"""The first version of Landlock that blocks signals to processes outside."""


def boot_config(resources: LaunchResources, program: str, settings: dict[str, Any]) -> dict[str, Any]:
    layers = resources.plan.layers
    return {
        "op": "boot",
        "rlimits": _rlimits(resources) if "rlimits" in layers else None,
        "landlock": _landlock(resources) if "landlock" in layers else None,
        "seccomp": _seccomp(layers, same_user=resources.uid is None or resources.owns_files)
        if "seccomp" in layers
        else None,
        "program": program,
        "home": resources.home,
        "path": [str(folder) for folder in resources.shared.path],
        "settings": settings,
    }


def _rlimits(resources: LaunchResources) -> dict[str, int]:
    limits, uid = resources.limits, resources.uid
    in_namespaces = "namespaces" in resources.plan.layers
    return rlimits.rules(
        memory=limits.memory,
        processes=limits.processes,
        file_size=limits.file_size,
        open_files=limits.open_files,
        alone=(uid is not None and not resources.owns_files)
        or (in_namespaces and _kernel() >= _KERNEL_COUNTS_PER_NAMESPACE),
        uid=uid if uid is not None else os.getuid(),
    )


def _landlock(resources: LaunchResources) -> dict[str, Any]:
    own = [resources.home, resources.scratch]
    shared = resources.shared
    if (
        "namespaces" in resources.plan.layers
    ):  # the mounts already hide the host's files: only writing is restricted here
        return landlock.rules(read=["/"], write=[*own, "/dev/shm", *landlock.SYSTEM_WRITE])  # noqa: S108
    read = [*landlock.SYSTEM_READ, *shared.python.folders, str(shared.library), *map(str, shared.readable)]
    return landlock.rules(read=read, write=[*own, *landlock.SYSTEM_WRITE])


@functools.cache
def _seccomp(layers: frozenset[str], *, same_user: bool) -> str | None:
    in_namespaces = "namespaces" in layers
    scoped = "landlock" in layers and landlock.version() >= _LANDLOCK_SCOPES_SIGNALS
    found = seccomp.make_filter(
        unix_sockets=in_namespaces,
        same_user=same_user and not in_namespaces,
        signals=in_namespaces or scoped or not same_user,
    )
    return found.hex() if found is not None else None


def _kernel() -> tuple[int, ...]:
    digits = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) for part in digits[:2] if part.isdigit())
