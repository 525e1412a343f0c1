"""The work that pydantic has with arguments, counted before it starts: unlike `Judge` it keeps no verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clicket.errors import InvalidInput
from clicket.tools.judge import is_of_type
from clicket.tools.schema_graph import Node, SchemaGraph

__all__ = ["UnionBound"]

_MAX_VISITS = 100_000
"""The most values that pydantic may look at. It takes half a microsecond for each, and four for one that it refuses."""


class UnionBound:
    """Pydantic looks at a value once for each alternative of a union; in a union that holds itself these multiply with each level.
    Refuses arguments for which they would be too many."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        graph = SchemaGraph(dict(schema))
        self._root = None if graph.is_bounded else graph.root

    def visits(self, arguments: dict[str, Any], most: int = _MAX_VISITS) -> int:
        """How many values pydantic looks at, if there is a union that holds itself; no more than `most` and one are counted."""
        try:
            return 0 if self._root is None else _visits(self._root, arguments, {}, most)
        except RecursionError:
            return most + 1

    def check(self, arguments: dict[str, Any]) -> None:
        """Raises `InvalidInput`."""
        if self.visits(arguments) > _MAX_VISITS:
            raise InvalidInput(
                "they are nested too deeply for a union that holds itself: to check them takes too long",
                "Send fewer levels. The tool's author can allow more: give each alternative a field with a value of its own, and name "
                "the field in Field(discriminator=…).",
            )


def _visits(node: Node, value: Any, known: dict[tuple[int, int], int], most: int) -> int:
    key = (node.index, id(value))
    count = known.get(key)
    if count is None:
        count = 1 if node.own or node.maps else 0  # a reference or a union looks at nothing itself
        if "type" not in node.own or is_of_type(node.own["type"], value):
            for each in _tried(node, value):
                count += _visits(each, value, known, most)
                if count > most:
                    break
            for member, inner in _members(node, value):
                if count > most:
                    break
                count += _visits(inner, member, known, most)
        known[key] = count = min(count, most + 1)
    return count


def _tried(node: Node, value: Any) -> Sequence[Node]:
    """The subschemas that pydantic tries: of a union with a discriminator it is one."""
    chosen = node.schema.get("discriminator") if isinstance(node.schema, dict) else None
    if not isinstance(chosen, dict) or not isinstance(value, dict):
        return node.in_place
    target = chosen.get("mapping", {}).get(value.get(chosen.get("propertyName")))
    return [
        each
        for each in node.lists.get("oneOf", ())
        if isinstance(each.schema, dict) and each.schema.get("$ref") == target
    ]


def _members(node: Node, value: Any) -> Iterator[tuple[Any, Node]]:
    if isinstance(value, dict):
        named = node.maps.get("properties", {})
        others = node.one.get("additionalProperties")
        for name, member in value.items():
            inner = named.get(name, others)
            if inner is not None:
                yield member, inner
    elif isinstance(value, list | tuple):
        first = node.lists.get("prefixItems", [])
        rest = node.one.get("items")
        for place, member in enumerate(value):
            inner = first[place] if place < len(first) else rest
            if inner is not None:
                yield member, inner
