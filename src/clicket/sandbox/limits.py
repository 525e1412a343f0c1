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
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_LEAST_MEMORY = 64 * MIB


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
        if self.memory < _LEAST_MEMORY:
            raise UsageError(
                f"sandbox limit memory must be at least 64MiB, not {self.memory} bytes: Python needs some."
            )


def size_of(value: Any, name: str) -> int:
    """A number of bytes from a number or from text like `1GiB`, `500 MB`, `4096`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{name} must be a number of bytes or text like '512MiB', not {value!r}.")
    return int(float(match[1]) * unit)
