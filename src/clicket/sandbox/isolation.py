"""What stands between a program and the host, and what that is worth. A level is computed from the layers that were seen to
work; nothing is taken on the word of a version number."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clicket.errors import ClicketError, UsageError, did_you_mean

__all__ = ["LAYERS", "LEVELS", "Isolation", "NotIsolated", "check_layers", "check_level", "judge"]

LEVELS = ("none", "process", "partial", "full")
"""From the weakest to the strongest."""

LAYERS = {
    "environment": "the host's environment variables and open files would be the program's, too",
    "namespaces": "files of the host that its user may read can be seen, and processes and the network's names are shared",
    "identity": "the program runs as the user of the host process",
    "seccomp": "every system call is open to the program, the network's among them",
    "landlock": "no second fence around the file system",
    "rlimits": "no bounds on file size, processes and address space",
    "cgroup": "memory is looked at four times a second, not bounded by the kernel, and many processes get the time of many",
    "watch": "nobody looks at memory and disk",
    "subreaper": "a daemon may outlive its session",
}
"""Every layer, and what is missing without it."""

_FULL = frozenset({"environment", "namespaces", "identity", "seccomp", "rlimits"})
_PARTIAL = frozenset({"environment", "landlock", "seccomp", "rlimits", "subreaper"})
_PROCESS = frozenset({"environment", "rlimits"})


class NotIsolated(ClicketError):
    """The host cannot give the level that was asked for, so nothing was run."""

    code = "not_isolated"


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """In every result: how the program was kept, by which layers, and what they leave open."""

    level: str
    layers: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def judge(layers: Iterable[str], gaps: Iterable[str] = ()) -> Isolation:
    """The level that these layers make, and what their absence leaves open. `gaps` adds what a layer itself found lacking.

    `identity` stands for "not the host's user, or without any power over what is the host's"; namespaces end all of their
    processes, so `subreaper` is no gap beside them.
    """
    has = frozenset(layers)
    ended = has | {"subreaper"} if "namespaces" in has else has
    level = "none"
    for name, needed in (("full", _FULL), ("partial", _PARTIAL), ("process", _PROCESS)):
        if needed <= ended:
            level = name
            break
    spared = {"subreaper"} if "namespaces" in has else set()
    missing = [f"{name}: {text}" for name, text in LAYERS.items() if name not in has and name not in spared]
    kernel = ["kernel: the program and the host share one kernel; who needs more than that needs a virtual machine"]
    return Isolation(level=level, layers=tuple(n for n in LAYERS if n in has), gaps=(*missing, *gaps, *kernel))


def check_layers(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(names)
    for name in found - set(LAYERS):
        raise UsageError(f"without names layers of the sandbox, and {name!r} is none.{did_you_mean(str(name), LAYERS)}")
    return found


def check_level(level: str) -> str:
    if level not in LEVELS:
        known = ", ".join(reversed(LEVELS))
        raise UsageError(f"require must be one of {known}, not {level!r}.{did_you_mean(str(level), LEVELS)}")
    return level
