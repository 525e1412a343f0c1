"""The console's `types.ts`, from the schemas of the server's OpenAPI document. `scripts/console.py` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clicket import Runtime
from clicket.server import create_app

__all__ = ["types"]

Schema = Mapping[str, Any]

_HEAD = """// Written by scripts/console_types.py from the server's OpenAPI document: change the server, then run `make console`.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };
"""
_NAMES = {"Record": "CallRecord", "Event": "CallEvent"}
"""Schemas whose names mean something else in TypeScript or in a browser."""
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_IMPORT = re.compile(r'import type \{([^}]*)\} from "[./]*(?:api/)?types";')


def types(sources: Iterable[str]) -> str:
    """The text of types.ts: the types that these sources import from it, and those that they contain."""
    imports = [name for source in sources for names in _IMPORT.findall(source) for name in names.split(",")]
    imported = {name.split(" as ")[0].strip() for name in imports}
    schemas = create_app(Runtime(store="memory://")).openapi()["components"]["schemas"]
    schema_of = {_name(schema): schema for schema in schemas}
    missing = imported - {*schema_of, "Json", "JsonObject"}
    if missing:
        raise SystemExit(f"the server's OpenAPI document has no schema {', '.join(sorted(missing))}")
    found: set[str] = set()
    left = {schema_of[name] for name in imported if name in schema_of}
    while left:
        found |= left
        left = {name for known in left for name in _references(schemas[known])} - found
    found.discard("Json")
    return "\n".join([_HEAD, *(_declaration(name, schemas[name]) for name in sorted(found, key=_name))])


def _references(part: Any) -> Iterator[str]:
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if key == "$ref":
            yield _target(value)
        elif isinstance(value, dict | list):
            yield from _references(value)


def _target(reference: str) -> str:
    return reference.rpartition("/")[2]


def _name(schema: str) -> str:
    return _NAMES.get(schema, schema)


def _declaration(name: str, schema: Schema) -> str:
    about = " ".join(schema.get("description", "").split()).replace("*/", "* /")
    comment = f"/** {about} */\n" if about else ""
    if "properties" not in schema:
        return f"{comment}export type {_name(name)} = {_type(schema)};\n"
    return f"{comment}export interface {_name(name)} {_body(schema)}\n"


def _body(schema: Schema) -> str:
    required = schema.get("required", ())
    fields = [
        f"  {_key(name)}{'' if name in required else '?'}: {_type(each)};\n"
        for name, each in schema["properties"].items()
    ]
    return "{\n" + "".join(fields) + "}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name) else json.dumps(name)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return _name(_target(schema["$ref"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": each}) for each in kind)
    if kind == "array":
        item = _type(schema.get("items", {}))
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kind == "object":
        if "properties" in schema:
            raise ValueError(f"give this object a name in the server's schemas: {schema}")
        values = schema.get("additionalProperties")
        return f"{{ [name: string]: {_type(values)} }}" if isinstance(values, dict) and values else "JsonObject"
    if kind is None:
        return "Json"
    return _PRIMITIVES[kind]
