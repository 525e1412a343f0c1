"""A state table is data. A transition that is not listed raises `InvalidTransition` and changes nothing.

Changes of state go through `Table.advance`. Those of calls go through `Staging.advance` in `engine/journal/staging.py`, which reads `edges`
itself; only the two packed units of `engine/journal/journal.py` (a call that starts at once, a call that completes) are written without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Generic, TypeVar

from clicket.errors import InvalidTransition

__all__ = ["StrEnum", "Table", "to_mermaid"]


class StrEnum(str, Enum):
    """A string enum whose members print and format as their value."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]  # Enum's own would print the member's name


S = TypeVar("S", bound=StrEnum)


class Table(Generic[S]):
    """The edges of one machine. Look-ups are one dict and one frozenset probe."""

    __slots__ = ("edges", "initial", "name", "states", "terminal")

    def __init__(self, name: str, states: type[S], initial: S, edges: Mapping[S, Iterable[S]]) -> None:
        self.name = name
        self.states = states
        self.initial = initial
        self.edges: dict[S, frozenset[S]] = {state: frozenset(edges.get(state, ())) for state in states}
        self.terminal: frozenset[S] = frozenset(state for state, targets in self.edges.items() if not targets)

    def advance(self, current: S, to: S) -> S:
        """Return `to` if the table has the edge, else raise `InvalidTransition`."""
        if to in self.edges[current]:
            return to
        raise self.refusal(current, to)

    def refusal(self, current: S, to: S) -> InvalidTransition:
        allowed = ", ".join(sorted(self.edges[current])) or "nothing: it is terminal"
        return InvalidTransition(
            f"{self.name}: {current} -> {to} is not in the table; from {current} it may go to {allowed}",
            machine=self.name,
            current=str(current),
            to=str(to),
        )

    def pairs(self) -> Iterator[tuple[S, S]]:
        """Every edge, in the order of the state enum."""
        for state in self.states:
            for target in self.states:
                if target in self.edges[state]:
                    yield state, target


def to_mermaid(table: Table[S]) -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {table.initial}"]
    lines += [f"    {source} --> {target}" for source, target in table.pairs()]
    lines += [f"    {state} --> [*]" for state in table.states if state in table.terminal]
    return "\n".join(lines)
