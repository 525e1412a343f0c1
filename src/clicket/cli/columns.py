"""Tables that fit the terminal: ids and states are never cut, less important columns are left out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "fitted"]

_GAP = 2


class Column(msgspec.Struct):
    """`keep`: always shown, uncut. Other columns are left out, the lowest `rank` first, when there is no room, or when they are
    empty. `least`: the column may be cut to this width."""

    name: str
    cells: Sequence[str | Text]
    keep: bool = False
    rank: int = 0
    least: int | None = None
    style: str = ""
    right: bool = False

    @property
    def width(self) -> int:
        return max(
            [len(self.name), *(Text(cell).cell_len if isinstance(cell, str) else cell.cell_len for cell in self.cells)]
        )

    @property
    def needed(self) -> int:
        return self.width if self.least is None else min(self.width, self.least)

    @property
    def is_empty(self) -> bool:
        return not self.keep and not any(len(cell) for cell in self.cells)


def fitted(columns: Sequence[Column], width: int) -> Table:
    """A table of the columns that fit into `width`, in their order."""
    shown = [column for column in columns if column.keep or not column.is_empty]
    while sum(column.needed + _GAP for column in shown) - _GAP > width:
        spare = [column for column in shown if not column.keep]
        if not spare:
            break
        shown.remove(min(spare, key=lambda column: column.rank))
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bright_black", pad_edge=False)
    left = width - sum(column.needed + _GAP for column in shown) + _GAP
    for column in shown:
        room = column.needed
        if column.least is not None:
            room = min(column.width, column.needed + max(left, 0))
            left -= room - column.needed
        table.add_column(
            column.name,
            no_wrap=not column.keep,
            overflow="fold" if column.keep else "ellipsis",
            style=column.style,
            justify="right" if column.right else "left",
            width=room if column.least is not None else None,
        )
    for number in range(len(shown[0].cells) if shown else 0):
        table.add_row(*(Text(cell) if isinstance(cell := column.cells[number], str) else cell for column in shown))
    return table
