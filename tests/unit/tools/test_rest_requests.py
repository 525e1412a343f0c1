"""What a REST tool sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tools.rest_kit import Server, call, make_context, rest

from clicket.errors import InvalidInput, UsageError
from clicket.tools.protocol import Tool
from clicket.tools.request import UrlTemplate, declare, prepare
from clicket.tools.rest import RestTool

# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_each_argument_goes_to_its_place(server: Server) -> None:
    async with rest(
        "t",
        "post",
        server.url + "/users/{id}/items?v=1",
        parameters={
            "id": {"type": "string"},
            "page": {"type": "integer", "in": "query"},
            "tags": {"type": "array", "in": "query"},
            "joined": {"type": "array", "in": "query", "explode": False},
            "deep": {"type": "object", "in": "query", "style": "deepObject"},
            "flag": {"type": "boolean", "in": "query"},
            "trace": {"type": "string", "in": "header", "name": "X-Trace"},
            "title": {"type": "string"},
            "count": {"type": "integer"},
        },
        required=["title"],
        headers={"Authorization": "Bearer s3cret"},
    ) as tool:
        await call(
            tool, id="a b", page=2, tags=["x&y", "z"], joined=["1", "2"], deep={"k": "v w"}, flag=True,
            trace="grüße", title="é", count=3,
        )  # fmt: skip
    seen = server.seen[0]
    assert seen.method == "POST"
    assert seen.target == ("/users/a%20b/items?v=1&page=2&tags=x%26y&tags=z&joined=1%2C2&deep%5Bk%5D=v%20w&flag=true")
    assert json.loads(seen.body) == {"title": "é", "count": 3}
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["authorization"] == "Bearer s3cret"
    assert seen.headers["x-trace"].encode("latin-1").decode() == "grüße"
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert "s3cret" not in repr(tool)


def test_schema_and_options() -> None:
    tool = RestTool(
        "get_user", "GET", "https://api.example.com/users/{id}", description="A user.",
        parameters={"id": {"type": "integer", "in": "path"}, "full": {"type": "boolean"}, "lang": {"default": "en"}},
        timeout=5, cache=60,
    )  # fmt: skip
    assert isinstance(tool, Tool)
    assert tool.input_schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "full": {"type": "boolean"}, "lang": {"default": "en"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert tool.options.timeout == 5
    assert tool.options.read_only
    assert not RestTool("t", "POST", "https://api.example.com").options.read_only
    assert RestTool("t", "POST", "https://api.example.com", read_only=True).options.read_only
    assert RestTool("t", "GET", "https://x.example/{a}/{b}").input_schema["required"] == ["a", "b"]
    assert not tool.connection.open


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"method": "GETT"}, "Did you mean 'GET'"),
        ({"url": "ftp://x/"}, "http"),
        ({"url": "x.example/a"}, "http"),
        ({"url": "https://me:pw@x.example/"}, "user or password"),
        ({"url": "https://x.example/{}"}, "needs a name"),
        ({"url": "https://x.example/a#b"}, "fragment"),
        ({"timeuot": 3}, "Did you mean 'timeout'"),
        ({"required": ["idd"], "parameters": {"id": {}}}, "Did you mean 'id'"),
        ({"required": "id", "parameters": {"id": {}}}, "list of names"),
        ({"parameters": {"id": {"in": "paht"}}}, "Did you mean 'path'"),
        ({"parameters": {"id": {"in": "path"}}}, "not in the url"),
        ({"url": "https://x.example/{id}", "parameters": {"id": {"in": "query"}}}, "is in the url"),
        ({"parameters": {"id": {"in": "body"}}}, "takes no body"),
        ({"parameters": {"id": {"in": "header", "name": "Host"}}}, "set by the client"),
        ({"parameters": {"id": {"in": "header", "name": "a b"}}}, "not a header name"),
        ({"parameters": {"id": "string"}}, "JSON Schema"),
        ({"parameters": {"id": {"style": "matrix"}}}, "style"),
        ({"headers": {"X": "a\r\nb"}}, "line breaks"),
        ({"headers": {"Content-Length": "1"}}, "set by the client"),
        ({"body": "xml"}, "body must be"),
        ({"method": "POST", "body": "raw", "parameters": {"a": {}, "b": {}}}, "whole body"),
        ({"isolation": "process"}, "event loop"),
        ({"max_redirects": -1}, "max_redirects"),
        ({"max_response_size": 0}, "max_response_size"),
        ({"allow_hosts": "localhost"}, "list"),
        ({"allow_hosts": ["http://localhost"]}, "without port or scheme"),
    ],
)
def test_wrong_declarations_are_refused(arguments: dict[str, Any], complaint: str) -> None:
    given = {"method": "GET", "url": "https://x.example/", **arguments}
    with pytest.raises(UsageError, match=complaint):
        RestTool("t", given.pop("method"), given.pop("url"), **given)


TRAVERSALS = [
    ".", "..", "../", "/..", "../../admin", "..\\..\\x", "a/../b", "a/./b", "%2e%2e", "%2e%2e%2f", "..%2fadmin",
    "%252e%252e%252f", "..;/../x", "\\..\\", "./", "%2E", "a%2f..%2fb", "..%5c..%5cx",
]  # fmt: skip


@pytest.mark.parametrize("value", TRAVERSALS)
def test_path_argument_with_dot_segments_is_refused(value: str) -> None:
    tool = RestTool("t", "GET", "https://x.example/files/{name}/meta")
    with pytest.raises(InvalidInput, match="/name"):
        tool.bind({"name": value})


@pytest.mark.parametrize("value", ["", "a\r\nb", "a\0b", None])
def test_path_argument_that_is_no_segment_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        RestTool("t", "DELETE", "https://x.example/files/{name}").bind({"name": value})


def test_dot_segments_made_of_harmless_parts_are_refused() -> None:
    tool = RestTool("t", "GET", "https://x.example/f/.{a}/x")
    with pytest.raises(InvalidInput):
        tool.bind({"a": "."})
    assert tool.bind({"a": "gitignore"}) == {"a": "gitignore"}


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("a/b", "a%2Fb"), ("a?b=c", "a%3Fb%3Dc"), ("a#b", "a%23b"), ("100%", "100%25"), ("a%2Fb", "a%252Fb"),
        ("...", "..."), ("é", "%C3%A9"), ("a;b@c:d", "a%3Bb%40c%3Ad"), (" ", "%20"), (7, "7"), (True, "true"),
        (["a", "b/c"], "a,b%2Fc"),
    ],
)  # fmt: skip
async def test_path_argument_stays_one_segment(server: Server, value: Any, wire: str) -> None:
    async with rest("t", "GET", server.url + "/f/{name}/x") as tool:
        await call(tool, name=value)
    assert server.seen[0].target == f"/f/{wire}/x"


@given(st.text(max_size=20))
def test_no_path_argument_leaves_its_segment(value: str) -> None:
    template = UrlTemplate("t", "https://x.example/f/{name}/x?k=1")
    parameters, _ = declare("t", "GET", template, {}, "json")
    try:
        url = prepare("GET", template, parameters, {}, "json", {"name": value}).url
    except InvalidInput:
        return
    assert url.startswith("https://x.example/f/")
    assert url.endswith("/x?k=1")
    assert not set(url.removeprefix("https://x.example/f/").removesuffix("/x?k=1")) & set("/?#\\ \r\n")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\x7fb", "\x1b[2J"])
def test_header_injection_is_refused(value: str) -> None:
    tool = RestTool("t", "GET", "https://x.example/", parameters={"trace": {"in": "header"}})
    with pytest.raises(InvalidInput, match="/trace"):
        tool.bind({"trace": value})


async def test_bodies(server: Server) -> None:
    fields = {"a": {"type": "string"}, "b": {"type": "array"}}
    async with rest("t", "POST", server.url, parameters=fields, body="form") as tool:
        await call(tool, a="x&y=z", b=[1, 2])
    async with rest("t", "PUT", server.url, parameters={"text": {"type": "string"}}, body="raw") as tool:
        await call(tool, text="plain é")
    async with rest("t", "POST", server.url, parameters=fields) as tool:
        await call(tool)
    async with rest("t", "POST", server.url, parameters={"x": {"in": "body", "whole": True}}) as tool:
        await call(tool, x=[1, None])
    async with rest("t", "POST", server.url) as tool:
        await call(tool)
    assert [seen.body for seen in server.seen] == [b"a=x%26y%3Dz&b=1&b=2", "plain é".encode(), b"{}", b"[1,null]", b""]
    assert server.seen[0].headers["content-type"] == "application/x-www-form-urlencoded"
    assert server.seen[1].headers["content-type"].startswith("text/plain")
    assert "content-type" not in server.seen[4].headers


async def test_defaults_and_nulls(server: Server) -> None:
    parameters = {"lang": {"default": "en"}, "off": {"type": ["string", "null"]}}
    async with rest("t", "GET", server.url + "/{id}", parameters={**parameters, "id": {"default": "me"}}) as tool:
        assert tool.input_schema["required"] == []
        await call(tool, off=None)
    async with rest("t", "PATCH", server.url, parameters={"lang": {"default": "en"}, "n": {}}) as tool:
        await call(tool, n=None)
    assert server.seen[0].target == "/me?lang=en"
    assert json.loads(server.seen[1].body) == {"n": None}


def test_unwritable_body_is_invalid_input() -> None:
    tool = RestTool("t", "POST", "https://x.example/", parameters={"a": {}})
    for value in ("\ud800", float("nan")):
        with pytest.raises(InvalidInput):
            tool.bind({"a": value})
    with pytest.raises(InvalidInput, match="surrogate"):
        RestTool("t", "GET", "https://x.example/", parameters={"a": {}}).bind({"a": "\ud800"})


async def test_idempotency_key(server: Server) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        async with rest("t", method, server.url) as tool:
            await call(tool, make_context("key-7"))
    async with rest("t", "POST", server.url) as tool:
        await call(tool, make_context("bad\r\nX: 1"))
        await call(tool, make_context("\ud800"))
    assert [s.headers.get("idempotency-key") for s in server.seen[:5]] == [None, *["key-7"] * 4]
    for seen in server.seen[5:]:
        assert len(seen.headers["idempotency-key"]) == 64
        assert "x" not in seen.headers


async def test_caller_names_the_url(server: Server) -> None:
    async with rest("fetch", "GET", "{url}", parameters={"q": {}}) as tool:
        assert await call(tool, url=f"{server.url}/a?b=c#frag", q="1") == {"ok": True}
        for bad in ("file:///etc/passwd", "gopher://x/", "http://", "//x/", "http://u:p@x/", "http://x/ y",
                    "http://x\\@y/", "http://[::1/", "http://x:99999999/", "javascript:1", 3, "http://x/\r\n"):  # fmt: skip
            with pytest.raises(InvalidInput, match="/url"):
                tool.bind({"url": bad})
    assert server.seen[0].target == "/a?b=c&q=1"


async def test_host_argument_is_one_host(server: Server) -> None:
    async with rest("t", "GET", "http://{host}:{port}/x") as tool:
        await call(tool, host="127.0.0.1", port=server.port)
        for bad in ("a/b", "a@b", "a:1", "a?b", "a#b", "", "a b", "[::1]x", "é"):
            with pytest.raises(InvalidInput, match="/host"):
                tool.bind({"host": bad, "port": 1})
