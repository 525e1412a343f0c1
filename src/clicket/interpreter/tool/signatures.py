"""Tools as Python signatures, from their JSON Schemas: for the description that the model reads, and for `help` in the program.

Schemas may come from other servers. What is made here is text: bounded, on one line, and never run.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clicket.tools import FunctionTool, Tool

__all__ = ["Parameter", "Signature", "attributes_of", "signature_of"]

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MAX_DEPTH = 4
_MAX_TYPE = 200
_MAX_DEFAULT = 80
_MAX_LITERALS = 12
_MAX_DOC = 2_000
_MAX_SUMMARY = 160
_MAX_PARAMETERS = 50


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """`default` is None for a required one, else text."""

    name: str
    type: str
    default: str | None = None


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Required parameters come first, as in a function."""

    name: str
    attribute: str
    """How it is called: `tools.ATTRIBUTE`; empty: only as `tools["NAME"]`."""
    parameters: tuple[Parameter, ...]
    returns: str
    doc: str

    @property
    def text(self) -> str:
        """`price(item: str, count: int = 1) -> float`."""
        listed = [_shown(each) for each in self.parameters]
        return f"{self.attribute or self.name}({', '.join(listed)}) -> {self.returns}"

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        line = _line(" ".join(self.doc.split("\n\n", 1)[0].split()), _MAX_DOC)
        end = min((at for mark in (". ", "! ", "? ") if (at := line.find(mark)) >= 0), default=len(line))
        return line[: min(end + 1, _MAX_SUMMARY)]

    def entry(self) -> dict[str, Any]:
        """As the program's `tools` takes it. A parameter whose name Python does not allow is passed with `**{…}`."""
        ordered = [(each.name, each.type, each.default) for each in self.parameters if _is_name(each.name)]
        return {
            "name": self.name,
            "attribute": self.attribute,
            "signature": self.text,
            "doc": self.doc,
            "returns": self.returns,
            "parameters": ordered,
        }


def signature_of(tool: Tool, attribute: str) -> Signature:
    schema = tool.input_schema
    types = _Types(schema.get("$defs") or schema.get("definitions"))
    properties = schema.get("properties") or {}
    required = frozenset(each for each in schema.get("required") or () if isinstance(each, str))
    found = [
        Parameter(
            name=_line(str(name), 100),
            type=types.of(each),
            default=None if name in required else _default(each),
        )
        for name, each in list(properties.items())[:_MAX_PARAMETERS]
    ]
    output = tool.output_schema
    returns = _annotation(tool) if output is None else _Types(output.get("$defs")).of(output)
    return Signature(
        name=tool.name,
        attribute=attribute,
        parameters=tuple(sorted(found, key=lambda each: each.default is not None)),
        returns=returns,
        doc=str(tool.description or "")[:_MAX_DOC],
    )


def attributes_of(names: Iterable[str]) -> dict[str, str]:
    """How each tool is called in Python. Of two names that become the same, the first has it; the other has none."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    listed = list(names)
    for name in sorted(listed, key=lambda each: not _is_name(each)):  # a name that is one already keeps it
        attribute = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not attribute.isidentifier() or keyword.iskeyword(attribute):
            attribute = f"{attribute}_" if attribute.isidentifier() else f"_{attribute}"
        if attribute.isidentifier() and not attribute.startswith("__") and attribute not in taken:
            taken.add(attribute)
            found[name] = attribute
        else:
            found[name] = ""
    return {name: found[name] for name in listed}


def _annotation(tool: Tool) -> str:
    """What a function says that it returns."""
    hint = getattr(tool.fn, "__annotations__", {}).get("return", Any) if isinstance(tool, FunctionTool) else Any
    text = hint if isinstance(hint, str) else hint.__name__ if type(hint) is type else str(hint)
    text = _line(text.replace("typing.", ""), _MAX_TYPE + 1)
    return text if len(text) <= _MAX_TYPE else "Any"


def _shown(parameter: Parameter) -> str:
    if not _is_name(parameter.name):
        return f"**{{{parameter.name!r}: {parameter.type}}}"
    return f"{parameter.name}: {parameter.type}" + ("" if parameter.default is None else f" = {parameter.default}")


def _is_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _default(schema: Any) -> str:
    value = schema.get("default") if isinstance(schema, Mapping) else None
    return _literal(value) or "..."


def _literal(value: Any) -> str:
    """A JSON value as Python writes it; empty if it is long."""
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _MAX_DEFAULT else ""
    text = json.dumps(value) if isinstance(value, list | dict) else ""
    return (
        text if len(text) <= _MAX_DEFAULT and "true" not in text and "false" not in text and "null" not in text else ""
    )


class _Types:
    """Types as Python writes them. What cannot be said shortly is `Any`, `dict` or `list`. Each part of a schema is read once for each
    depth: references may lead to the same parts again and again."""

    def __init__(self, definitions: Any) -> None:
        self._definitions = definitions if isinstance(definitions, Mapping) else {}
        self._known: dict[tuple[int, int], str] = {}

    def of(self, schema: Any) -> str:
        text = _line(self._text(schema, 0), _MAX_TYPE + 1)
        return text if len(text) <= _MAX_TYPE else "Any"

    def _text(self, schema: Any, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return "Any"
        key = (id(schema), depth)
        text = self._known.get(key)
        if text is None:
            text = self._made(schema, depth)
            # A longer one makes every type too long that holds it.
            text = self._known[key] = text if len(text) <= 2 * _MAX_TYPE else text[: 2 * _MAX_TYPE]
        return text

    def _made(self, schema: Mapping[str, Any], depth: int) -> str:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._text(self._definitions.get(reference.rpartition("/")[2]), depth + 1)
        if "const" in schema:
            return f"Literal[{_literal(schema['const']) or '...'}]"
        choices = schema.get("enum")
        if isinstance(choices, list) and 0 < len(choices) <= _MAX_LITERALS:
            return f"Literal[{', '.join(_literal(each) or '...' for each in choices)}]"
        for key in ("anyOf", "oneOf"):
            several = schema.get(key)
            if isinstance(several, list) and 0 < len(several) <= _MAX_LITERALS:
                return _either(self._text(each, depth + 1) for each in several)
        kind = schema.get("type")
        if isinstance(kind, list):
            return _either(self._made({**schema, "type": each}, depth + 1) for each in kind[:_MAX_LITERALS])
        if kind == "array":
            items = schema.get("items")
            return f"list[{self._text(items, depth + 1)}]" if isinstance(items, Mapping) else "list"
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and 0 < len(properties) <= _MAX_LITERALS and depth < _MAX_DEPTH - 1:
            required = schema.get("required") or ()
            fields = [
                f"{str(name)!r}{'' if name in required else '?'}: {self._text(each, depth + 1)}"
                for name, each in properties.items()
            ]
            text = "{" + ", ".join(fields) + "}"
            if len(text) <= _MAX_TYPE:
                return text
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values:
            return f"dict[str, {self._text(values, depth + 1)}]"
        return "dict"


def _either(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _line(text: str, limit: int) -> str:
    """Printable, on one line."""
    return "".join(each if each.isprintable() else "?" for each in text[:limit])
