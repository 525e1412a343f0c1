"""OpenAPI documents become REST tools with self-contained schemas and requests that fit the document."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema_rs
import pytest

from clicket.errors import UsageError
from clicket.tools.openapi import read_operations
from clicket.tools.request import Prepared
from clicket.tools.rest import RestTool

PETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://{region}.pets.example/v1/", "variables": {"region": {"default": "eu"}}}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "All pets.",
                "description": "Paged.",
                "parameters": [
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"type": "integer", "maximum": 100},
                        "description": "How many",
                    },
                    {"name": "filter[tag]", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array"}},
                    {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "createPet",
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
            },
        },
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/petId"}],
            "get": {},
            "put": {
                "operationId": "replacePet",
                "parameters": [{"name": "petId", "in": "query", "schema": {"type": "string"}}],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}
                    },
                },
            },
            "patch": {
                "operationId": "patchPet",
                "requestBody": {
                    "content": {
                        "application/merge-patch+json": {"schema": {"properties": {"petId": {"type": "string"}}}}
                    }
                },
            },
            "delete": {"operationId": "delete pet!"},
        },
    },
    "components": {
        "parameters": {"petId": {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["id", "name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "minLength": 1},
                    "parent": {"$ref": "#/components/schemas/Pet"},
                    "home": {"$ref": "#/components/schemas/Home"},
                    "$odd name": {"type": "string"},
                },
            },
            "Home": {
                "type": "object",
                "properties": {"pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}},
            },
        },
    },
}


def tools(document: Any = PETS, **options: Any) -> dict[str, RestTool]:
    return {tool.name: tool for tool in RestTool.from_openapi(document, **options)}


def request(tool: RestTool, **arguments: Any) -> Prepared:
    jsonschema_rs.validator_for(dict(tool.input_schema)).validate(arguments)
    return tool.prepare(tool.bind(arguments))


def minimal(operation: dict[str, Any], path: str = "/x", method: str = "post", **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "servers": [{"url": "https://x.example"}], "paths": {path: {method: operation}}, **more}


def body(schema: dict[str, Any], media: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {media: {"schema": schema}}, **more}}


def test_each_operation_is_a_tool() -> None:
    found = tools()
    assert sorted(found) == ["createPet", "delete_pet", "get_pets_petId", "listPets", "patchPet", "replacePet"]
    assert found["listPets"].description == "All pets.\n\nPaged."
    assert found["listPets"].options.read_only
    assert not found["createPet"].options.read_only
    assert tools(json.dumps(PETS)).keys() == found.keys()
    for tool in found.values():
        jsonschema_rs.meta.validate(dict(tool.input_schema))


def test_query_and_header_parameters() -> None:
    tool = tools()["listPets"]
    assert list(tool.input_schema["properties"]) == ["limit", "filter_tag", "ids", "where", "X-Trace"]
    assert tool.input_schema["properties"]["limit"] == {"type": "integer", "maximum": 100, "description": "How many"}
    assert tool.input_schema["required"] == []
    sent = request(tool, limit=5, filter_tag=["a", "b"], ids=[1, 2], where={"k": [1]}, **{"X-Trace": "t"})
    assert sent.url == (
        "https://eu.pets.example/v1/pets?limit=5&filter%5Btag%5D=a&filter%5Btag%5D=b&ids=1%2C2&where=%7B%22k%22%3A%5B1%5D%7D"
    )
    assert sent.headers == {"x-trace": "t"}


def test_object_body_becomes_arguments() -> None:
    tool = tools()["createPet"]
    assert list(tool.input_schema["properties"]) == ["name", "parent", "home", "odd_name"]
    assert tool.input_schema["required"] == ["name"]
    sent = request(tool, name="Rex", odd_name="o", parent={"name": "Max", "parent": {"name": "Old"}})
    assert json.loads(sent.content or b"") == {
        "name": "Rex",
        "$odd name": "o",
        "parent": {"name": "Max", "parent": {"name": "Old"}},
    }
    with pytest.raises(jsonschema_rs.ValidationError):
        request(tool, name="Rex", home={"pets": [{"name": "Kid", "parent": {"name": ""}}]})


def test_recursive_schemas_are_kept_as_definitions() -> None:
    schema = tools()["createPet"].input_schema
    assert sorted(schema["$defs"]) == ["Home", "Pet"]
    assert schema["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert schema["$defs"]["Pet"]["required"] == ["name"]  # the server sets the id
    assert "components" not in json.dumps(schema)


def test_other_bodies_are_one_argument() -> None:
    tool = tools()["replacePet"]
    assert tool.input_schema["required"] == ["petId", "body"]
    assert list(tool.input_schema["properties"]) == ["petId", "petId_2", "body"]
    sent = request(tool, petId=3, petId_2="q", body=[{"name": "A"}])
    assert sent.url == "https://eu.pets.example/v1/pets/3?petId=q"
    assert json.loads(sent.content or b"") == [{"name": "A"}]


def test_names_that_clash_keep_the_body_whole() -> None:
    tool = tools()["patchPet"]
    assert tool.input_schema["required"] == ["petId"]
    assert json.loads(request(tool, petId=3, body={"petId": "x"}).content or b"") == {"petId": "x"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "additionalProperties": True},
        {"allOf": [{"type": "object", "properties": {"a": {}}}]},
        {"type": "object", "properties": {"a": {}}, "minProperties": 1},
        {"type": "string"},
        {},
    ],
)
def test_objects_that_say_more_than_their_fields_stay_whole(schema: dict[str, Any]) -> None:
    (tool,) = RestTool.from_openapi(minimal(body(schema)))
    assert list(tool.input_schema["properties"]) == ["body"]


def test_form_and_text_bodies() -> None:
    (form,) = RestTool.from_openapi(
        minimal(body({"type": "object", "properties": {"a": {}}}, "application/x-www-form-urlencoded"))
    )
    assert request(form, a="1 2").content == b"a=1%202"
    (text,) = RestTool.from_openapi(minimal(body({"type": "string"}, "text/plain; charset=utf-8", required=True)))
    assert request(text, body="hi").content == b"hi"


def test_openapi_3_0_words_are_translated() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
            "s": {"type": "string", "nullable": True, "enum": ["a"], "example": "a"},
            "r": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/R"}]},
            "any": {"nullable": True},
        },
    }
    document = minimal(body(schema), components={"schemas": {"R": {"type": "object", "xml": {"name": "r"}, "x-k": 1}}})
    (tool,) = RestTool.from_openapi(document)
    assert tool.input_schema["properties"] == {
        "n": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        "s": {"type": ["string", "null"], "enum": ["a", None]},
        "r": {"anyOf": [{"allOf": [{"$ref": "#/$defs/R"}]}, {"type": "null"}]},
        "any": {},
    }
    assert tool.input_schema["$defs"] == {"R": {"type": "object"}}
    request(tool, n=1, s=None, r=None, any=None)


def test_properties_named_like_keywords_are_not_keywords() -> None:
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "nullable": {"type": "string"}, "x-a": {"enum": [{"$ref": "no"}]}},
    }
    (tool,) = RestTool.from_openapi(minimal(body({"type": "object", "properties": {"inner": schema}})))
    inner = tool.input_schema["properties"]["inner"]
    assert inner["properties"] == schema["properties"]


@pytest.mark.parametrize(
    "reference",
    [
        "https://evil.example/schema.json",
        "other.json#/X",
        "file:///etc/passwd",
        "//evil.example/x",
        "#anchor",
        "",
        5,
        "#/components/no",
    ],
)
def test_references_out_of_the_document_are_refused(reference: Any) -> None:
    for operation in (
        body({"$ref": reference}),
        body({"type": "object", "properties": {"a": {"items": {"$ref": reference}}}}),
        {"parameters": [{"$ref": reference}]},
        {"parameters": [{"name": "a", "in": "query", "schema": {"anyOf": [{"$ref": reference}]}}]},
    ):
        with pytest.raises(UsageError, match=r"\$ref"):
            RestTool.from_openapi(minimal(operation))


def test_references_in_circles_are_refused_or_kept() -> None:
    circle = {
        "components": {"schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}}
    }
    with pytest.raises(UsageError, match="itself"):
        RestTool.from_openapi(minimal(body({"$ref": "#/components/schemas/A"}), **circle))
    deep: dict[str, Any] = {}
    for _ in range(min(5000, sys.getrecursionlimit() // 4)):
        deep = {"items": deep}
    with pytest.raises(UsageError, match="deep"):
        RestTool.from_openapi(minimal(body(deep)))


def test_pointers_are_unescaped() -> None:
    names = {"a/b": {"type": "integer"}, "c~d": {"type": "string"}, "e f": {"type": "null"}}
    properties = {str(n): {"$ref": f"#/components/schemas/{p}"} for n, p in enumerate(("a~1b", "c~0d", "e%20f"))}
    (tool,) = RestTool.from_openapi(
        minimal(body({"type": "object", "properties": properties}), components={"schemas": names})
    )
    assert [schema["type"] for schema in tool.input_schema["$defs"].values()] == ["integer", "string", "null"]
    jsonschema_rs.meta.validate(dict(tool.input_schema))
    request(tool, **{"0": 1, "1": "s", "2": None})


def test_operations_are_chosen_by_name() -> None:
    assert list(tools(operations=["listPets", "delete pet!"])) == ["listPets", "delete_pet"]
    assert list(tools(operations=["delete_pet"])) == ["delete_pet"]
    assert list(tools(operations="listPets")) == ["listPets"]
    with pytest.raises(UsageError, match="Did you mean 'listPets'"):
        tools(operations=["listPet"])


def test_options_and_headers_go_to_every_tool() -> None:
    found = tools(base_url="https://api.example.com/", headers={"X-Key": "k"}, timeout=7, max_redirects=0)
    assert {tool.options.timeout for tool in found.values()} == {7}
    sent = request(found["get_pets_petId"], petId=1)
    assert (sent.url, sent.headers) == ("https://api.example.com/pets/1", {"x-key": "k"})


def test_operations_without_or_with_the_same_name() -> None:
    document = {
        "openapi": "3.0.0",
        "paths": {f"/{p}": {"get": {"operationId": "same" + "x" * 80}} for p in "abc"}
        | {"x-ext": {}, "/": {"post": {}}},
    }
    names = list(tools(document, base_url="https://x.example"))
    assert len(set(names)) == 4
    assert all(len(name) <= 64 for name in names)
    assert names[-1] == "post"


def test_what_cannot_be_sent_is_left_out_aloud() -> None:
    upload = body({"type": "object"}, "multipart/form-data", required=True)
    document = minimal({**upload, "operationId": "upload"})
    with pytest.warns(UserWarning, match="'upload' is left out.*multipart"):
        assert RestTool.from_openapi(document) == []
    with pytest.raises(UsageError, match="multipart"):
        RestTool.from_openapi(document, operations=["upload"])
    cookie = {"parameters": [{"name": "sid", "in": "cookie", "required": True}]}
    with pytest.warns(UserWarning, match="cookie"):
        assert RestTool.from_openapi(minimal(cookie)) == []
    (optional,) = RestTool.from_openapi(minimal(body({}, "application/octet-stream")))
    assert request(optional).content is None
    clash = {
        **body({"properties": {"a": {}}}, "application/x-www-form-urlencoded"),
        "parameters": [{"name": "a", "in": "query"}],
    }
    with pytest.warns(UserWarning, match="form"):
        assert RestTool.from_openapi(minimal(clash)) == []


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("openapi: 3.0.0", "not JSON"),
        ("[]", "mapping"),
        ({}, "version"),
        ({"swagger": "2.0"}, "says 2.0"),
        ({"openapi": "4.0.0"}, "says 4.0.0"),
        ({"openapi": "3.0.0", "paths": []}, None),
        ({"openapi": "3.0.0", "paths": [1]}, "paths"),
        ({"openapi": "3.0.0", "paths": {"/x": {"get": {}}}}, "names no server"),
        ({"openapi": "3.0.0", "servers": [{"url": "/v1"}], "paths": {"/x": {"get": {}}}}, "base_url"),
        (minimal({"parameters": [{"in": "query"}]}), "no name"),
        (minimal({"parameters": [{"name": "a", "in": "formData"}]}), "unknown 'in'"),
        (minimal({"parameters": ["a"]}), "object was expected"),
        (minimal(body({"properties": {"a": "string"}})), "schema was expected"),
    ],
)
def test_documents_that_cannot_be_read(document: Any, complaint: str | None) -> None:
    if complaint is None:
        assert RestTool.from_openapi(document) == []
        return
    with pytest.raises(UsageError, match=complaint):
        RestTool.from_openapi(document)


def test_reading_changes_nothing_in_the_document() -> None:
    before = json.dumps(PETS)
    read_operations(PETS)
    assert json.dumps(PETS) == before
