"""What a body on a Ray cluster needs: CPUs, GPUs and memory. A wrong value is refused where the tool is declared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean

__all__ = ["Resources", "make_resources"]

_NAMES = ("cpu", "gpu", "memory")
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s{0,4}([KMGT]i?)?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"KI": 1024, "MI": 1024**2, "GI": 1024**3, "TI": 1024**4}


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """`memory` is in bytes. A part of a GPU (0.5) is shared with other bodies; more than one must be a whole number."""

    cpu: float = 1.0
    gpu: float = 0.0
    memory: int | None = None

    def __str__(self) -> str:
        parts = [f"cpu {self.cpu:g}"]
        if self.gpu:
            parts.append(f"gpu {self.gpu:g}")
        if self.memory is not None:
            parts.append(f"memory {self.memory:,} bytes")
        return ", ".join(parts)


def make_resources(where: str, given: Any) -> Resources:
    """Check resources as they were written; `where` names the tool in every error message."""
    if isinstance(given, Resources):
        return given
    example = 'Write for example {"cpu": 1, "gpu": 0.5, "memory": "2GB"}.'
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: resources must be a table, not {given!r}. {example}")
    for name in given:
        if name not in _NAMES:
            near = did_you_mean(name, _NAMES) if isinstance(name, str) else ""
            raise UsageError(f"{where}: resources has no {name!r}.{near} Known: {', '.join(_NAMES)}. {example}")
    values: dict[str, Any] = {name: _amount(where, name, given[name]) for name in ("cpu", "gpu") if name in given}
    if given.get("memory") is not None:
        values["memory"] = _bytes(where, given["memory"])
    return Resources(**values)


def _amount(where: str, name: str, value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
    if not good or (value > 1 and value != int(value)):
        raise UsageError(
            f"{where}: resources[{name!r}] must be a part of one (0.5) or a whole number from 0 on, not {value!r}."
        )
    return float(value)


def _bytes(where: str, value: Any) -> int:
    size = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (parts := _SIZE.fullmatch(value.strip())) is not None:
        unit = (parts[2] or "").upper()
        size = int(float(parts[1]) * (_BINARY.get(unit) or _UNITS[unit]))
    if size < 1:
        raise UsageError(
            f'{where}: resources["memory"] must be a number of bytes or a text like "2GB" or "512MiB", not {value!r}.'
        )
    return size
