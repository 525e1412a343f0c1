"""Reads a safetensors file in place: a length, a JSON table of names, then the numbers. Nothing in it is executed.

The file may be damaged or hostile, so every offset and size is checked before it is used.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["tensors"]

_TYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def tensors(path: Path) -> dict[str, Any]:
    """Every tensor of the file by its name, as a view of the mapped file: what is not used is not read."""
    import numpy as np

    try:
        whole = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as weights: {error}") from None
    begin = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    if not 8 < begin <= len(whole):
        raise UsageError(f"{path} is not a safetensors file: its table is said to end at byte {begin} of {len(whole)}")
    try:
        table = msgspec.json.decode(whole[8:begin].tobytes(), type=dict[str, msgspec.Raw])
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in table.items() if name != "__metadata__"}
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not a safetensors file: {error}") from None
    out: dict[str, Any] = {}
    for name, entry in entries.items():
        if entry.dtype not in _TYPES:
            raise UsageError(f"{path}: tensor {name!r} has the type {entry.dtype}, which is not read here")
        kind = np.dtype(_TYPES[entry.dtype])
        first, last = (begin + one for one in entry.data_offsets)
        size = prod(entry.shape) * kind.itemsize
        if min(entry.shape, default=0) < 0 or not begin <= first <= last <= len(whole) or last - first != size:
            raise UsageError(f"{path}: tensor {name!r} does not lie where the table says; the file is damaged")
        out[name] = np.frombuffer(whole[first:last], dtype=kind).reshape(entry.shape)
    return out
