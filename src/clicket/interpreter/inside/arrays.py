"""Shape and a small part of the content of numpy arrays and pandas tables. Only of the real types, and without running `__repr__` of
the program's objects."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, clean
from clicket.interpreter.inside.safe_repr import belongs, name_of, short

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Arrays"]

globals()["__builtins__"] = BUILTINS

_SAFE = "biufcSUmM"
"""numpy dtype kinds whose items are plain values."""
_MAX_ITEM = 256
_SMALL = 16 * 1024
_MAX_SAMPLE = 512
_MAX_PARTS = 64


class Arrays:
    def __init__(self) -> None:
        self._array: Any = None
        self._tables: tuple[Any, ...] = ()

    def refresh(self) -> None:
        """Find the types, if the libraries are imported by now."""
        if self._array is None and (numpy := sys.modules.get("numpy")) is not None:
            kind = vars(numpy).get("ndarray")
            self._array = kind if isinstance(kind, type) and belongs(kind, "numpy", "ndarray") else None
        if not self._tables and self._array is not None and (pandas := sys.modules.get("pandas")) is not None:
            kinds = [vars(pandas).get(name) for name in ("DataFrame", "Series")]
            self._tables = tuple(kind for kind in kinds if type(kind) is type)

    def look(self, value: Any) -> tuple[list[int] | None, str] | None:
        """Shape and text; None if it is neither array nor table."""
        kind = type(value)
        try:
            if kind is self._array:
                return list(value.shape), _array_text(value)
            if self._is_table(kind):
                return list(value.shape), _table_text(value, kind)
            if self._array is not None and belongs(kind, "numpy", name_of(kind)):
                return _number(value)
        except Exception:  # in a state that its own library does not expect
            return None, f"<{name_of(kind)}>"
        return None

    def mark(self, value: Any, kind: Any) -> Any:
        """A sample of the content, to detect changes."""
        if self._array is None:
            return None
        try:
            if kind is self._array:
                return value.shape, value.dtype.str, _sample(value)
            if self._is_table(kind):
                axes, parts = value._mgr.axes, value._mgr.arrays
                return (
                    value.shape,
                    [*map(id, axes)],
                    [*map(self._part, parts[:_MAX_PARTS]), *map(id, parts[_MAX_PARTS:])],
                )
        except Exception:
            return None
        return None

    def _part(self, column: Any) -> Any:
        """The same for a table's column, or for several that pandas keeps as one array."""
        for name in ("_ndarray", "_data", "_pa_array"):  # where pandas' own arrays have their content
            column = getattr(column, name, column)
        return (id(column), _sample(column)) if type(column) is self._array else id(column)

    def _is_table(self, kind: Any) -> bool:
        return any(kind is table for table in self._tables)


def _sample(array: Any) -> Any:
    """A hash of the content; of a large array, of items from all over it."""
    if array.dtype.itemsize > _MAX_ITEM or not array.size:
        return None
    if array.nbytes > _SMALL:
        array = array.flat[:: array.size // _MAX_SAMPLE + 1]
    if array.dtype.kind in _SAFE:
        return hash(array.tobytes())
    return hash(tuple(map(id, array.ravel().tolist()))) if array.dtype.kind == "O" else None


def _number(value: Any) -> tuple[None, str] | None:
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in _SAFE or dtype.itemsize > _MAX_ITEM:
        return None
    return None, short(value.item())


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
