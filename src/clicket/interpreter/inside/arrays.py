"""What can be told of numpy's arrays and pandas' tables: shape, a small part of the content. Only of the real ones, and only
where none of the program's own objects would be asked for its text."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.own import BUILTINS, clean
from clicket.interpreter.inside.texts import belongs, name_of, short

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Arrays"]

__builtins__ = BUILTINS

_SAFE = "biufcSUmM"
"""Kinds of numpy's types whose items are plain values."""
_MAX_ITEM = 256
_SMALL = 4096


class Arrays:
    def look(self, value: Any) -> tuple[list[int], str] | None:
        """Shape and text; None when it is neither array nor table."""
        kind = type(value)
        try:
            if _is_array(kind):
                return list(value.shape), _array_text(value)
            if _is_number(kind) and value.dtype.kind in _SAFE and value.dtype.itemsize <= _MAX_ITEM:
                return [], short(value.item())
            if _is_table(kind):
                return list(value.shape), _table_text(value, kind)
        except Exception:  # an array in a state that its own library does not expect
            return [], f"<{name_of(kind)}>"
        return None

    def mark(self, value: Any) -> Any:
        kind = type(value)
        try:
            if _is_array(kind):
                plain = value.dtype.kind in _SAFE and value.nbytes <= _SMALL
                return value.shape, value.dtype.str, hash(value.tobytes()) if plain else None
            if _is_table(kind):
                return value.shape
        except Exception:
            return None
        return None


def _is_array(kind: Any) -> bool:
    return belongs(kind, "numpy", "ndarray")


def _is_number(kind: Any) -> bool:
    """One of numpy's scalars: its class is C, and one of `numpy`'s names."""
    return belongs(kind, "numpy", name_of(kind))


def _is_table(kind: Any) -> bool:
    pandas = sys.modules.get("pandas")
    if pandas is None or name_of(kind) not in ("DataFrame", "Series"):
        return False
    names = vars(pandas)
    return names.get("DataFrame") is kind or names.get("Series") is kind


def _array_text(array: Any) -> str:
    dtype = array.dtype
    if dtype.kind not in _SAFE or dtype.itemsize > _MAX_ITEM:
        return f"array of {clean(str(dtype)) if dtype.kind in _SAFE else 'objects'}"
    head = array[tuple(slice(6) for _ in array.shape)] if array.ndim else array
    return f"{short(head.tolist())} {dtype}"


def _table_text(table: Any, kind: Any) -> str:
    rows = table.shape[0]
    if name_of(kind) == "Series":
        return f"{rows} values of {_plain(table.dtype)}: {_head(table)}"
    columns = [short(label, 40) for label in table.columns[:12].tolist()]
    more = ", …" if table.shape[1] > 12 else ""
    return f"{rows} rows × {table.shape[1]} columns: {', '.join(columns)}{more}"[:400]


def _head(series: Any) -> str:
    return short(series.iloc[:6].tolist())


def _plain(dtype: Any) -> str:
    return clean(str(dtype))[:60]
