"""Layers between a program and the host, and the isolation level that they give. A layer counts when the probe saw it work."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clicket.errors import ClicketError, UsageError, did_you_mean

__all__ = ["LAYERS", "LEVELS", "Isolation", "NotIsolated", "check_layers", "check_level", "isolation_of"]

LEVELS = ("none", "process", "partial", "full")
"""From the weakest to the strongest."""

LAYERS = {
    "environment": "the program inherits the host's environment variables and open files",
    "namespaces": "the program sees host files that its user may read, and shares process ids and network interfaces",
    "identity": "the program runs as the user of the host process",
    "seccomp": "the program may make every system call, also those of the network",
    "landlock": "no second barrier around the file system",
    "rlimits": "no limits on file size, processes and address space",
    "cgroup": "memory is measured four times a second, not limited by the kernel, and more processes get more CPU time",
    "watch": "memory and disk are not measured",
    "subreaper": "a daemon may outlive its session",
}
"""Every layer, and what is missing without it."""

_NEEDED = {
    "full": {"environment", "namespaces", "identity", "seccomp", "rlimits"},
    "partial": {"environment", "landlock", "seccomp", "rlimits", "subreaper"},
    "process": {"environment", "rlimits"},
}
"""The layers that each level needs."""


class NotIsolated(ClicketError):
    """The host cannot give the required level, so nothing was run."""

    code = "not_isolated"


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """In every result: the level, the layers that held, and the gaps that they leave."""

    level: str
    layers: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def isolation_of(layers: Iterable[str], gaps: Iterable[str] = ()) -> Isolation:
    """The level that these layers give, and the gaps of missing ones. `gaps` adds those that the probe found.

    `identity` means: another user than the host's, or one without rights on the host. Namespaces kill all of their processes,
    so beside them a missing `subreaper` is not a gap.
    """
    has = frozenset(layers)
    covered = has | {"subreaper"} if "namespaces" in has else has
    level = next((name for name, needed in _NEEDED.items() if needed <= covered), "none")
    missing = [f"{name}: {text}" for name, text in LAYERS.items() if name not in covered]
    kernel = ["kernel: the program and the host share one kernel; for stronger isolation use a virtual machine"]
    return Isolation(level=level, layers=tuple(n for n in LAYERS if n in has), gaps=(*missing, *gaps, *kernel))


def check_layers(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(names)
    for name in found - set(LAYERS):
        raise UsageError(f"without: {name!r} is not a layer of the sandbox.{did_you_mean(str(name), LAYERS)}")
    return found


def check_level(level: str) -> str:
    if level not in LEVELS:
        known = ", ".join(reversed(LEVELS))
        raise UsageError(f"require must be one of {known}, not {level!r}.{did_you_mean(str(level), LEVELS)}")
    return level
