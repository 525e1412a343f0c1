"""Questions of another server to a person (`elicitation/create`), as questions of the call that they belong to.

The other server is not trusted. Its question is shown with the name that it has in our settings, its text without control characters. A
form has flat fields of the types that the protocol allows, and is rebuilt from them: nothing else of the server's schema is kept or
compiled. A link is shown, and never opened by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
import msgspec

from clicket.errors import ClicketError
from clicket.model.printable import marked
from clicket.tools.question import InputAnswer, InputQuestion

__all__ = ["BadQuestion", "elicit_result", "explained", "question_from"]

_MAX_MESSAGE = 4_000
_MAX_SCHEMA = 32 * 1024
"""Bytes of a form's schema, as JSON."""
_MAX_FIELDS = 50
_MAX_CHOICES = 500
_MAX_TEXT = 1_000
_MAX_URL = 2_048
_FORMATS = ("date", "date-time", "email", "uri")
_NUMBERS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
"""The types of a field, and the limits that each may have."""


_OLD_WAY = "no back-channel for server-initiated requests"
_ADVICE = (
    "The tool asks in the way of protocol 2025-11-25, and the connection speaks 2026-07-28, which has no such questions. Set "
    'protocol = "2025-11-25" for this server, in clicket.toml or McpServer(…), and call it again'
)


class BadQuestion(ClicketError):
    """The server's question cannot be shown to a person."""

    code = "tool_error"


def question_from(server: str, key: str, params: types.ElicitRequestParams) -> InputQuestion:
    """Raises `BadQuestion`. `server`: its name in our settings; `key`: tells the questions of one call apart."""
    source = f"MCP server {server!r}"
    message = _shown(params.message, _MAX_MESSAGE)
    if isinstance(params, types.ElicitRequestURLParams):
        return InputQuestion(key=key, source=source, message=message, url=_link(params.url))
    return InputQuestion(key=key, source=source, message=message, schema=_form(params.requested_schema))


def elicit_result(question: InputQuestion, answer: InputAnswer) -> types.ElicitResult:
    """The answer for the server. Fields that a person left out have the form's defaults."""
    if answer.action != "accept":
        return types.ElicitResult(action=answer.action)
    if question.schema is None:
        return types.ElicitResult(action="accept")
    fields: dict[str, Any] = question.schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return types.ElicitResult(action="accept", content={**defaults, **(answer.content or {})})


def explained(text: str) -> str:
    """What the server said; and what to do, if its tool asked on the connection (2025-11-25) while the connection speaks 2026-07-28.

    The official SDK offers both versions, but `ctx.elicit`, `ctx.sample` and `list_roots` of its tools need the older one. The tool has run
    up to its question by then, so the call is not repeated with the other version by itself."""
    return f"{text.rstrip('.')}. {_ADVICE}" if _OLD_WAY in text else text


def _shown(text: Any, size: int) -> str:
    shown = marked(str(text), lines=True)
    return shown if len(shown) <= size else f"{shown[: size - 1]}…"


def _link(url: str) -> str:
    """A link that reads as what it is: no user, no invisible or foreign letters, a host."""
    plain = 0 < len(url) <= _MAX_URL and url.isascii() and url.isprintable() and " " not in url
    try:
        parts = urlsplit(url)
        usable = plain and parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        raise BadQuestion("its link is not a plain http or https address")
    return url


def _form(schema: Any) -> dict[str, Any]:
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError):
        raise BadQuestion("its form is not JSON") from None
    if size > _MAX_SCHEMA:
        raise BadQuestion(f"its form is larger than {_MAX_SCHEMA} bytes")
    fields = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    if not isinstance(fields, Mapping) or schema.get("type", "object") != "object" or len(fields) > _MAX_FIELDS:
        raise BadQuestion(f"its form is not an object with at most {_MAX_FIELDS} fields")
    required = schema.get("required") or []
    if not isinstance(required, list) or not all(isinstance(name, str) and name in fields for name in required):
        raise BadQuestion("its form requires fields that it does not have")
    made = {_name(name): _field(field) for name, field in fields.items()}
    return {"type": "object", "properties": made, **({"required": required} if required else {})}


def _name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
        raise BadQuestion("a field of its form has no printable name of at most 100 characters")
    return name


def _field(field: Any) -> dict[str, Any]:
    kind = field.get("type") if isinstance(field, Mapping) else None
    if not isinstance(kind, str) or kind not in _NUMBERS:
        raise BadQuestion("a field of its form is not text, a number, a yes or no, or a choice")
    made: dict[str, Any] = {"type": kind}
    for key in ("title", "description"):
        if isinstance(field.get(key), str):
            made[key] = _shown(field[key], _MAX_TEXT)
    for key in _NUMBERS[kind]:
        if type(field.get(key)) in (int, float):
            made[key] = field[key]
    if kind == "string":
        made.update(_choices(field))
        if field.get("format") in _FORMATS:
            made["format"] = field["format"]
    elif kind == "array":
        made["items"] = {"type": "string", **_choices(field.get("items"))}
        if "enum" not in made["items"]:
            raise BadQuestion("a list in its form names no choices")
    default = field.get("default")
    if _fits(default, kind, made):
        made["default"] = default
    return made


def _choices(field: Any) -> dict[str, Any]:
    """`enum`, or `oneOf` and `anyOf` with constants and titles."""
    if not isinstance(field, Mapping):
        return {}
    titled = field.get("oneOf", field.get("anyOf"))
    if titled is not None:
        known = isinstance(titled, list) and all(isinstance(each, Mapping) for each in titled)
        values = [each.get("const") for each in titled] if known else None
        titles = [each.get("title") for each in titled] if known else []
    else:
        values = field.get("enum")
        titles = field.get("enumNames") or []
    if values is None and titled is None:
        return {}
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_CHOICES or not all(type(v) is str for v in values):
        raise BadQuestion(f"the choices of a field are not 1 to {_MAX_CHOICES} texts")
    shown = [_shown(title, 200) for title in titles] if isinstance(titles, list) and len(titles) == len(values) else []
    return {"enum": values, **({"enumNames": shown} if shown else {})}


def _fits(value: Any, kind: str, field: Mapping[str, Any]) -> bool:
    """May the value be the field's default?"""
    if kind == "array":
        return isinstance(value, list) and all(each in field["items"]["enum"] for each in value)
    if kind == "string":
        return type(value) is str and len(value) <= _MAX_TEXT and ("enum" not in field or value in field["enum"])
    if kind == "boolean":
        return type(value) is bool
    return type(value) is int or (kind == "number" and type(value) is float)
