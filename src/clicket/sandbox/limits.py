"""What a program in the sandbox may use. Sizes are bytes; people write them as `"512MiB"`, too."""

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
_LEAST = {"memory": (64 * MIB, "64MiB"), "processes": (2, "2"), "open_files": (16, "16")}
"""One process is bubblewrap's."""
_MOST = {"processes": 1 << 22, "open_files": 1 << 30, "files": 1 << 40}
_MOST_BYTES = 1 << 50
"""What the kernel can be told."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one session, all its processes together unless a line says otherwise."""

    memory: int = 1024 * MIB
    processes: int = 64
    """Processes and threads at once."""
    file_size: int = 256 * MIB
    """One file."""
    disk: int = 512 * MIB
    """The work folder, all in all."""
    files: int = 10_000
    """Entries in the work folder."""
    scratch: int = 64 * MIB
    """`/tmp` and `/dev/shm`, each; they are memory, and counted as such where cgroups count."""
    open_files: int = 256
    """One process."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or value <= 0:
                raise UsageError(f"sandbox limit {name} must be a whole number above 0, not {value!r}.")
        for name, (least, text) in _LEAST.items():
            if getattr(self, name) < least:
                raise UsageError(
                    f"sandbox limit {name} must be at least {text}, not {getattr(self, name)}: Python needs some."
                )
        for name in self.__struct_fields__:
            if getattr(self, name) > (most := _MOST.get(name, _MOST_BYTES)):
                raise UsageError(f"sandbox limit {name} may be {most:,} at most, not {getattr(self, name):,}.")


def size_of(value: Any, name: str) -> int:
    """A number of bytes from a number or from text like `1GiB`, `500 MB`, `4096`."""
    if type(value) is int and value > 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].upper()) if match else None
    size = int(float(match[1]) * unit) if match is not None and unit is not None else 0
    if size <= 0:
        raise UsageError(f"{name} must be a number of bytes or text like '512MiB', not {value!r}.")
    return size
