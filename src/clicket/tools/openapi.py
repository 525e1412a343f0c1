"""Declarations of REST tools from an OpenAPI 3 document. Nothing is fetched: references must point into the document."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.tools.request import BodyKind
from clicket.tools.schema_refs import Document, Schemas

__all__ = ["Operation", "read_operations"]

_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
# The client's own headers: OpenAPI says that parameters of these names are ignored.
_IGNORED_HEADERS = frozenset({"accept", "authorization", "content-type"})
_FLAT_KEYS = frozenset(
    "type properties required title description additionalProperties example examples default xml externalDocs".split()
)
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 64


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, as `RestTool` takes it."""

    name: str
    method: str
    url: str
    description: str
    parameters: dict[str, dict[str, Any]]
    required: list[str]
    body: BodyKind
    definitions: dict[str, Any]


class _Unsupported(Exception):
    """This operation needs something that a REST tool cannot send."""


def read_operations(
    document: Mapping[str, Any] | str, *, base_url: str | None = None, only: Iterable[str] | None = None
) -> list[Operation]:
    """Every operation of the document, or those in `only`. One that cannot be a tool is left out with a warning."""
    source = Document(_parsed(document))
    wanted = None if only is None else list(dict.fromkeys([only] if isinstance(only, str) else only))
    found: list[Operation] = []
    names: set[str] = set()
    for path, method, item, spec in _walk(source):
        name = _unique(_operation_name(path, method, spec), names)
        names.add(name)
        if wanted is not None and name not in wanted and spec.get("operationId") not in wanted:
            continue
        url = _base(source, base_url, item, spec) + path
        try:
            found.append(_operation(source, name, method, url, item, spec))
        except _Unsupported as reason:
            if wanted is not None:
                raise UsageError(f"OpenAPI: {name!r} cannot be a tool: {reason}.") from None
            warnings.warn(f"OpenAPI: {name!r} is left out: {reason}.", UserWarning, stacklevel=4)
    known = names | {str(spec["operationId"]) for _, _, _, spec in _walk(source) if "operationId" in spec}
    for name in wanted or ():
        if name not in known:
            raise UsageError(f"OpenAPI: there is no operation {name!r}.{did_you_mean(name, known)}")
    return found


def _parsed(document: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"OpenAPI: the document is not JSON ({error}). Load YAML yourself and pass the mapping."
            ) from None
    if not isinstance(document, Mapping):
        raise UsageError("OpenAPI: the document must be a mapping or the JSON text of one.")
    version = str(document.get("openapi", ""))
    if not re.match(r"3\.[012](\.|$)", version):
        told = document.get("swagger") or version or "none"
        raise UsageError(f"OpenAPI: version 3.0 or 3.1 is needed, this document says {told}. Convert it first.")
    return document


def _walk(source: Document) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    paths = source.root.get("paths") or {}
    if not isinstance(paths, Mapping):
        raise UsageError("OpenAPI: 'paths' must be an object.")
    for path, raw in paths.items():
        if not str(path).startswith("/"):
            continue  # extensions (x-…) live here too
        item = source.resolved(raw)
        for method in _METHODS:
            if isinstance(item.get(method), Mapping):
                yield str(path), method, item, item[method]


def _operation_name(path: str, method: str, spec: Mapping[str, Any]) -> str:
    given = str(spec.get("operationId") or f"{method}{path}")
    return _UNFIT.sub("_", given).strip("_")[:_MAX_NAME] or method


def _unique(name: str, taken: Container[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while (other := f"{name[: _MAX_NAME - 4]}_{number}") in taken:
        number += 1
    return other


def _base(source: Document, base_url: str | None, item: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    if base_url is not None:
        return base_url.rstrip("/")
    servers = spec.get("servers") or item.get("servers") or source.root.get("servers") or []
    url = str(servers[0].get("url", "")) if servers and isinstance(servers[0], Mapping) else ""
    for name, variable in ((servers[0].get("variables") or {}) if url else {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    if urlsplit(url).scheme not in ("http", "https"):
        told = f"the document's server is {url!r}" if url else "the document names no server"
        raise UsageError(f"OpenAPI: {told}; say where the service is: base_url='https://…'.")
    return url.rstrip("/")


def _operation(
    source: Document, name: str, method: str, url: str, item: Mapping[str, Any], spec: Mapping[str, Any]
) -> Operation:
    schemas = Schemas(source)
    parameters: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    for raw in _merged_parameters(source, item, spec):
        wire = str(raw["name"])
        place = raw["in"]
        if place == "cookie" or (place == "header" and wire.lower() in _IGNORED_HEADERS):
            if place == "cookie" and raw.get("required"):
                raise _Unsupported(f"it needs the cookie {wire!r}")
            continue
        # A path parameter must keep its name, which is also in the URL.
        argument = wire if place == "path" else _unique(_argument_name(wire), parameters)
        parameters[argument] = _parameter(schemas, raw, wire, argument)
        if raw.get("required") or place == "path":
            required.append(argument)
    body: BodyKind = "json"
    if spec.get("requestBody") and method not in ("get", "head"):
        body, fields, needed = _body(source, schemas, source.resolved(spec["requestBody"]), parameters)
        parameters.update(fields)
        required.extend(needed)
    told = [str(spec[key]).strip() for key in ("summary", "description") if spec.get(key)]
    return Operation(
        name=name,
        method=method.upper(),
        url=url,
        description="\n\n".join(dict.fromkeys(told)) or str(item.get("summary") or ""),
        parameters=parameters,
        required=required,
        body=body,
        definitions=schemas.definitions,
    )


def _merged_parameters(source: Document, item: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The path's parameters, overridden by the operation's own; path ones first, since their names are fixed."""
    merged: dict[tuple[str, str], Mapping[str, Any]] = {}
    for raw in [*(item.get("parameters") or ()), *(spec.get("parameters") or ())]:
        parameter = source.resolved(raw)
        if "name" not in parameter or parameter.get("in") not in ("path", "query", "header", "cookie"):
            raise UsageError(f"OpenAPI: a parameter has no name, or an unknown 'in': {dict(parameter)!r:.200}")
        merged[(str(parameter["name"]), str(parameter["in"]))] = parameter
    return sorted(merged.values(), key=lambda parameter: parameter["in"] != "path")


def _argument_name(wire: str) -> str:
    """Models' APIs take letters, digits, '_' and '-' in argument names; the wire keeps the real one."""
    return _UNFIT.sub("_", wire).strip("_")[:_MAX_NAME] or "value"


def _parameter(schemas: Schemas, raw: Mapping[str, Any], wire: str, argument: str) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    if raw.get("content"):
        media = next(iter(raw["content"].values()))
        declared = {**schemas.convert(media.get("schema", {})), "style": "json"}
    else:
        declared = dict(schemas.convert(raw.get("schema", {"type": "string"})))
        if raw.get("style") == "deepObject":
            declared["style"] = "deepObject"
        if raw["in"] == "query" and raw.get("explode") is False:
            declared["explode"] = False
    declared["in"] = raw["in"]
    if wire != argument:
        declared["name"] = wire
    if raw.get("description"):
        declared["description"] = str(raw["description"])
    return declared


def _body(
    source: Document, schemas: Schemas, request_body: Mapping[str, Any], taken: Mapping[str, Any]
) -> tuple[BodyKind, dict[str, dict[str, Any]], list[str]]:
    """How the body is written, its arguments, and those that are required.

    Required fields are required arguments even when the document forgot to call the body required: most do.
    """
    content = request_body.get("content") or {}
    kind, media = _media(content)
    if kind is None:
        if not request_body.get("required"):
            return "json", {}, []
        raise _Unsupported(f"its body is {', '.join(content) or 'of no type'}; JSON, form and text can be sent")
    schema = source.resolved(media.get("schema") or {})
    fields = None if kind == "raw" else _fields(schemas, schema, taken)
    if fields is not None:
        needed = {str(name) for name in schema.get("required") or ()}
        return kind, fields, [argument for argument, field in fields.items() if field.get("name", argument) in needed]
    if kind == "form":
        raise _Unsupported("its form has fields that cannot be told apart from its parameters")
    whole = _unique("body", taken)
    declared = {**schemas.convert(media.get("schema") or {}), "in": "body", "whole": True}
    if request_body.get("description"):
        declared["description"] = str(request_body["description"])
    return kind, {whole: declared}, [whole] if request_body.get("required") else []


def _media(content: Mapping[str, Any]) -> tuple[BodyKind | None, Mapping[str, Any]]:
    kinds: dict[BodyKind, Mapping[str, Any]] = {}
    for media_type, media in content.items():
        plain = str(media_type).partition(";")[0].strip().lower()
        if plain in ("application/json", "*/*", "application/*") or plain.endswith("+json"):
            kinds.setdefault("json", media)
        elif plain == "application/x-www-form-urlencoded":
            kinds.setdefault("form", media)
        elif plain == "text/plain":
            kinds.setdefault("raw", media)
    for kind in ("json", "form", "raw"):
        if kind in kinds:
            return kind, kinds[kind]
    return None, {}


def _fields(schemas: Schemas, schema: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """One argument for each field of an object; None if the object says more than its fields can, or names clash."""
    properties = schema.get("properties")
    extra = {key for key in schema if key not in _FLAT_KEYS and not key.startswith("x-")}
    open_ended = schema.get("additionalProperties", False) is not False
    if (
        not isinstance(properties, Mapping)
        or not properties
        or extra
        or open_ended
        or schema.get("type") not in (None, "object")
    ):
        return None
    fields: dict[str, dict[str, Any]] = {}
    for name, field in properties.items():
        if isinstance(field, Mapping) and field.get("readOnly"):
            continue
        argument = _argument_name(str(name))
        if argument in taken or argument in fields:
            return None
        converted = schemas.convert(field)
        fields[argument] = (
            {**converted, "in": "body"} if argument == name else {**converted, "in": "body", "name": str(name)}
        )
    return fields
