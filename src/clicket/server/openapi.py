"""The OpenAPI 3.1 document, made from the operations and from the Structs into which bodies are decoded."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from msgspec import NODEFAULT

from clicket.model import Record, ToolResult
from clicket.server.operations import ANY_SCOPE, EVENT_STREAM, Operation, ResponseSpec
from clicket.server.parameters import Parameter
from clicket.server.problems import STATUS_OF, Problem
from clicket.server.request import Request
from clicket.server.responses import Response, json_response
from clicket.server.schemas import FIELDS, BulkRequest, CallRequest

__all__ = ["document", "operations"]

_KINDS = {"text": "string", "integer": "integer", "number": "number", "boolean": "boolean"}
_STATUS_DESCRIPTIONS = {
    400: "The request cannot be understood: its query, its JSON, or how it was put.",
    401: "No key or access token, or one that is unknown, revoked or expired.",
    403: "The key lacks the scope, the policy denies the call, or the host or origin is foreign.",
    404: "There is no such thing, or it is not yours.",
    408: "The body came too slowly.",
    409: "It conflicts with how things stand.",
    413: "The body is too large.",
    415: "The body must be JSON, and say so.",
    416: "There are no such bytes.",
    422: "The input does not fit its schema.",
    429: "The waiting line is full.",
    503: "The store or the authorization server is not reachable, or the server is shutting down.",
}
_NO_NUL = "^[^\\u0000]*$"
_ANY = {"$ref": "#/components/schemas/Json"}
_JSON_OBJECT = {"type": "object", "propertyNames": {"pattern": _NO_NUL}, "additionalProperties": _ANY}
_JSON_VALUE = {
    "description": "Any JSON; text without NUL, which not every store can keep.",
    "anyOf": [
        {"type": ["number", "boolean", "null"]},
        {"type": "string", "pattern": _NO_NUL},
        {"type": "array", "items": _ANY},
        _JSON_OBJECT,
    ],
}
_IDS_OR_FILTER = [
    {
        "required": ["ids"],
        "properties": {"ids": {"type": "array"}, "filter": {"type": "null"}, "cursor": {"type": "null"}},
    },
    {"required": ["filter"], "properties": {"filter": {"type": "object", "minProperties": 1}, "ids": {"type": "null"}}},
]
_OF_A_CALL = ("get_calls_id", "get_calls_id_events", "get_calls_id_result", "post_calls_id_cancel")
_EMPTY = (list, dict, set)
"""Fields with one of these for their default are left out like those with another default value."""
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "The scheme, and where the authorization server is.",
        "schema": {"type": "string"},
    }
}


def document(operations: Iterable[Operation], version: str, *, keyed: bool) -> dict[str, Any]:
    """`keyed`: requests need a key. While no key exists, they need none."""
    table = list(operations)
    schemas = _schemas(table)
    paths: dict[str, Any] = {}
    for operation in table:
        described = _operation(operation, keyed=keyed)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
        if operation.head:
            paths[operation.path]["head"] = _head(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clicket",
            "version": version,
            "summary": "Tool calls as durable, observable state machines.",
            "description": "Errors are RFC 9457 problems with a `code`. What belongs to one key is not there for another.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer ck_…`, or an access token",
                },
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _sent(table: list[Operation]) -> list[Any]:
    """The types of responses and of events."""
    specs = [response for operation in table for response in operation.responses.values()]
    found = {Problem: None} | {model: None for spec in specs for model in (spec.schema, spec.or_schema, spec.events)}
    return [model for model in found if _is_struct(model)]


def _received(table: list[Operation]) -> list[Any]:
    """The types of the bodies of requests."""
    found = {operation.body.schema: None for operation in table if operation.body is not None}
    return [model for model in found if _is_struct(model)]


def _is_struct(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, msgspec.Struct)


def _schema(model: Any) -> dict[str, Any]:
    """A reference to a Struct's schema; any other model is an object with any fields."""
    return {"$ref": f"#/components/schemas/{model.__name__}"} if _is_struct(model) else _JSON_OBJECT


def _structs(models: Iterable[Any]) -> set[type[msgspec.Struct]]:
    """These Structs and those that they contain."""
    found: set[type[msgspec.Struct]] = set()

    def visit(node: Any) -> None:
        if isinstance(node, tuple):
            for each in node:
                visit(each)
        elif isinstance(node, msgspec.inspect.StructType) and node.cls in found:
            return
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
            if isinstance(node, msgspec.inspect.StructType):
                found.add(node.cls)
            for name in node.__struct_fields__:
                visit(getattr(node, name))

    visit(msgspec.inspect.multi_type_info(models))
    return found


def _always_sent(model: type[msgspec.Struct]) -> list[str]:
    """The fields that the Struct's JSON has whatever their values are."""
    sparse = model.__struct_config__.omit_defaults
    return [
        field.encode_name
        for field in msgspec.structs.fields(model)
        if field.required or not (sparse and (field.default is not NODEFAULT or field.default_factory in _EMPTY))
    ]


def _schemas(table: list[Operation]) -> dict[str, Any]:
    sent = _sent(table)
    received = _received(table)
    models = [*received, *sent]
    fields = [(model, name, type) for model, known in FIELDS.items() for name, type in known.items()]
    made, schemas = msgspec.json.schema_components(
        [*models, *(type for _, _, type in fields)], ref_template="#/components/schemas/{name}"
    )
    for (owner, name, _), schema in zip(fields, made[len(models) :], strict=True):
        if owner in schemas:
            schemas[owner]["properties"][name] = schema
    for model in _structs([*sent, *(type for _, _, type in fields)]):
        schemas[model.__name__]["required"] = _always_sent(model)
    for model in (ToolResult, Record):
        if model in sent:
            schema = schemas[model.__name__]
            schema["properties"] = {"success": {"type": "boolean"}, **schema["properties"]}
            schema["required"] = ["success", *schema["required"]]
    if CallRequest in models:
        schemas["CallRequest"]["properties"]["arguments"] = {
            "description": "What the tool is called with; its own schema judges it.",
            "default": None,
            "anyOf": [{"type": "object"}, {"type": "null"}],
        }
        schemas["CallRequest"]["properties"]["metadata"] = {
            "description": "Kept with the call.",
            "default": None,
            "anyOf": [{"type": "null"}, _JSON_OBJECT],
        }
    schemas["Json"] = _JSON_VALUE
    for name, field in (("Decision", "arguments"), ("Again", "arguments"), ("CallFilter", "metadata")):
        if name in schemas:
            schemas[name]["properties"][field] = {"default": None, "anyOf": [{"type": "null"}, _JSON_OBJECT]}
    if BulkRequest in models:
        schemas["BulkRequest"]["oneOf"] = _IDS_OR_FILTER
    schemas["Problem"]["properties"]["code"]["enum"] = sorted(STATUS_OF)
    return schemas


def _operation(operation: Operation, *, keyed: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.description,
        "tags": [operation.tag],
        "parameters": [_path(name) for name in re.findall(r"{(\w+)}", operation.path)]
        + [_parameter(parameter) for parameter in operation.parameters],
        "responses": _responses(operation),
        "security": [] if operation.public else [{"bearer": []}, {"apiKey": []}] + ([] if keyed else [{}]),
    }
    if operation.scopes and operation.scopes != ANY_SCOPE:
        made["description"] = f"Needs scope {' or '.join(f'`{scope}`' for scope in operation.scopes)}, or `admin`."
    body = operation.body
    if body is not None:
        if body.schema is None:
            content: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        else:
            content = {"application/json": {"schema": _schema(body.schema)}}
        made["requestBody"] = {"required": not body.optional, "content": content}
    return made


def _head(described: dict[str, Any]) -> dict[str, Any]:
    """The same as GET, without a body."""
    bare = {
        status: {name: part for name, part in response.items() if name in ("description", "headers")}
        for status, response in described["responses"].items()
    }
    name = described["operationId"].replace("get", "head", 1)
    return {**described, "operationId": name, "summary": "As GET, but without the body.", "responses": bare}


def _path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": _NO_NUL}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _KINDS[parameter.kind]}
    if parameter.kind == "text":
        schema |= {"maxLength": parameter.max_length, "minLength": parameter.min_length, "pattern": _NO_NUL}
        if parameter.pattern:
            schema = {"type": "string", "pattern": parameter.pattern}
        if parameter.choices:
            schema = {"type": "string", "enum": list(parameter.choices)}
    if parameter.minimum is not None:
        schema["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        schema["maximum"] = parameter.maximum
    if parameter.schema is not None:
        schema = parameter.schema
    made = {"name": parameter.name, "in": parameter.source, "description": parameter.description, "schema": schema}
    if not parameter.prefix:
        return made
    names = (
        f"^{re.escape(parameter.name)}[^\u0000]{{1,100}}$"  # the properties of an object are parameters of their own
    )
    schema = {"type": "object", "patternProperties": {names: schema}, "additionalProperties": False}
    return {**made, "name": parameter.name.rstrip("."), "schema": schema, "style": "form", "explode": True}


def _responses(operation: Operation) -> dict[str, Any]:
    made = {str(status): _response(each) for status, each in operation.responses.items()}
    for status in _problems(operation):
        made.setdefault(str(status), _problem(status))
    return dict(sorted(made.items()))


def _problems(operation: Operation) -> list[int]:
    """The statuses of problems that every operation may answer with, and those of this one."""
    statuses = {400, 403, *operation.problems}
    if not operation.public:
        statuses |= {401, 503}
    if operation.body is not None:
        statuses |= {408, 413}
        if operation.body.schema is not None:
            statuses |= {415, 422}
    return sorted(statuses)


def _response(response: ResponseSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"description": response.description}
    if response.schema is not None:
        schema = _schema(response.schema)
        if response.or_schema is not None:
            schema = {"anyOf": [schema, _schema(response.or_schema)]}
        made["content"] = {response.media_type: {"schema": schema}}
    elif response.media_type:
        made["content"] = {response.media_type: {"schema": {}}}
    if response.also:
        made["content"][response.also] = {"schema": {}}
    if response.stream:
        made["content"][EVENT_STREAM] = {"schema": {}}
    if response.events is not None:
        made["content"][EVENT_STREAM]["x-event-data"] = _schema(response.events)
    if response.id_at:
        made["links"] = {
            name: {"operationId": name, "parameters": {"id": f"$response.body#/{response.id_at}"}}
            for name in _OF_A_CALL
        }
    if response.headers:
        made["headers"] = {
            name: {"description": about, "schema": {"type": "string"}} for name, about in response.headers.items()
        }
    return made


def _problem(status: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": _STATUS_DESCRIPTIONS[status],
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in (429, 503):
        made["headers"] = _RETRY
    if status == 401:
        made["headers"] = _CHALLENGE
    return made


def operations(
    document_for: Callable[[bool], dict[str, Any]], needs_key: Callable[[], Awaitable[bool]]
) -> tuple[Operation, ...]:
    """`GET /openapi.json`. `document_for(keyed)` makes the document, as `document` does."""

    async def show(request: Request) -> Response:
        return json_response(document_for(await needs_key()))

    description = "This document."
    return (
        Operation(
            route="GET /openapi.json",
            description=description,
            handler=show,
            scopes=ANY_SCOPE,
            responses={200: ResponseSpec(description=description)},
            tag="health",
        ),
    )
