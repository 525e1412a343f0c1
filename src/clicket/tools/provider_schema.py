"""A tool's schema in the form that a model provider accepts. The runtime still checks every call against the whole schema.

Providers want an object at the top, without `anyOf` and the like. Their strict mode guarantees that arguments fit, but knows only
a few keywords; a tool whose schema uses others is offered without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["allows_null", "nullable", "shown", "strict"]

_COMPOSING = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "$ref", "$dynamicRef")
_PLAIN = frozenset(
    "type properties required additionalProperties items anyOf enum const description title $ref $defs".split()
)
# The keywords that each provider's strict mode knows beside the plain ones.
_WORDS = {
    "openai": _PLAIN
    | set("pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split()),
    "anthropic": _PLAIN | set("format default".split()),
}
_Provider = Literal["openai", "anthropic"]


def shown(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a plain object at its top. Fields that only its alternatives have become optional ones."""
    top = {key: value for key, value in schema.items() if key not in _COMPOSING and key != "$schema"}
    fields: dict[str, Any] = {}
    for part in _parts(schema, schema):
        for name, field in part.get("properties", {}).items():
            fields.setdefault(name, field)
    return {**top, "type": "object", "properties": fields}


def _parts(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 8) -> list[Mapping[str, Any]]:
    found = [schema]
    inner: list[Any] = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    inner += [schema[word] for word in ("then", "else") if word in schema]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        inner.append(root.get("$defs", {}).get(reference.removeprefix("#/$defs/")))
    for part in inner:
        if isinstance(part, Mapping) and depth:
            found += _parts(part, root, depth - 1)
    return found


def strict(schema: Mapping[str, Any], provider: _Provider) -> dict[str, Any] | None:
    """The schema in the keywords of a provider's strict mode, or None when it cannot be expressed in them.

    OpenAI wants every field required: one that may be left out may be null instead, and null is taken as left out.
    """
    if any(word in schema for word in _COMPOSING):
        return None
    made = shown(schema)
    made["additionalProperties"] = False
    if schema.get("additionalProperties", False) not in (False, None):
        return None
    if provider == "openai":
        required = set(made.get("required", ()))
        made["properties"] = {
            name: field if name in required else nullable(field, field, schema)
            for name, field in made["properties"].items()
        }
        made["required"] = list(made["properties"])
    return made if _is_strict(made, provider) else None


def nullable(field: Any, original: Any, root: Mapping[str, Any]) -> Any:
    """The schema of a field that may be null in place of being left out. `original`: the same field as `root` has it."""
    if not isinstance(field, Mapping):
        return field
    plain = {key: value for key, value in field.items() if key != "default"}
    if allows_null(original, root):
        return plain
    text = {"description": plain.pop("description")} if "description" in plain else {}
    return {"anyOf": [plain, {"type": "null"}], **text}


def _is_strict(schema: Any, provider: _Provider) -> bool:
    """Does it use only keywords that the mode knows, with each object closed and, for OpenAI, all its fields required?"""
    if not isinstance(schema, Mapping) or not set(schema) <= _WORDS[provider]:
        return False
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return False
        if provider == "openai" and set(schema.get("required", ())) != set(schema.get("properties", ())):
            return False
    elif not ({"type", "anyOf", "enum", "const", "$ref"} & set(schema)):
        return False
    if "array" in ([kind] if isinstance(kind, str) else kind or ()) and "items" not in schema:
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return all(_is_strict(part, provider) for part in inner)


def allows_null(field: Any, root: Mapping[str, Any], depth: int = 8) -> bool:
    """Can the field be null? True when that is hard to tell, so that no value is removed."""
    if not isinstance(field, Mapping):
        return field is not False
    if field.get("nullable") is True or "not" in field or "if" in field or not depth:
        return True
    reference = field.get("$ref")
    if reference is not None:
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return True
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        return target is None or allows_null(target, root, depth - 1)
    kind = field.get("type")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return False
    if "enum" in field and None not in field["enum"]:
        return False
    if "const" in field and field["const"] is not None:
        return False
    return all(
        any(allows_null(part, root, depth - 1) for part in field[word]) for word in ("anyOf", "oneOf") if word in field
    ) and all(allows_null(part, root, depth - 1) for part in field.get("allOf", ()))
