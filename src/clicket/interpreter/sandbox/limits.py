"""`Limits`: what a program in the sandbox may use. Sizes are bytes, or text like `"512MiB"`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["KIB", "MIB", "Limits", "size_of"]

KIB = 1024
MIB = 1024 * KIB
_UNITS = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": 1024 * MIB, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"\s*+(\d++(?:\.\d++)?)\s*+([A-Za-z]*+)\s*+")
_MIN = {"memory": (64 * MIB, "64MiB"), "processes": (2, "2"), "open_files": (16, "16")}
"""bubblewrap takes one of the processes."""
_MAX = {"processes": 1 << 22, "open_files": 1 << 30, "files": 1 << 40}
_MAX_BYTES = 1 << 50
"""The largest values that the kernel accepts."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one session: of all its processes together, unless a field says otherwise."""

    memory: int = 1024 * MIB
    """All processes together."""
    processes: int = 64
    """Processes and threads at once."""
    file_size: int = 256 * MIB
    """One file."""
    disk: int = 512 * MIB
    """All files in the work folder together."""
    files: int = 10_000
    """Entries in the work folder."""
    scratch: int = 64 * MIB
    """`/tmp` and `/dev/shm`, each. Both are in memory, and count as memory where a cgroup counts it."""
    open_files: int = 256
    """One process."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or value <= 0:
                raise UsageError(f"sandbox limit {name} must be a whole number above 0, not {value!r}.")
            if value > (most := _MAX.get(name, _MAX_BYTES)):
                raise UsageError(f"sandbox limit {name} may be {most:,} at most, not {value:,}.")
        for name, (least, text) in _MIN.items():
            if (value := getattr(self, name)) < least:
                raise UsageError(f"sandbox limit {name} must be at least {text}, not {value}: Python needs that much.")


def size_of(value: Any, name: str) -> int:
    """Bytes, from a number or from text like `1GiB`, `500 MB`, `4096`. Raises `UsageError` with the option's `name`."""
    if type(value) is int and value > 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].upper()) if match else None
    size = int(float(match[1]) * unit) if match is not None and unit is not None else 0
    if size <= 0:
        raise UsageError(f"{name} must be a number of bytes or text like '512MiB', not {value!r}.")
    return size
