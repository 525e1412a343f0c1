"""REST tools against a real server on loopback: what is sent, what comes back, and what each failure means."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import ssl
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.errors import ClicketError, InvalidInput, RetryableError, ToolUnavailable, UsageError
from clicket.tools.context import ToolContext
from clicket.tools.protocol import Tool
from clicket.tools.request import UrlTemplate, declare, prepare
from clicket.tools.response import decode, retry_after
from clicket.tools.rest import OutcomeUnknown, RestError, RestTool


class Quiet:
    """A sink that counts signs of life."""

    def __init__(self) -> None:
        self.beats = 0

    def emit(self, chunk: Any) -> None: ...
    def progress(self, step: float, total: float | None, text: str) -> None: ...
    def note(self, text: str, data: Any) -> None: ...
    async def drain(self) -> None: ...

    def heartbeat(self) -> None:
        self.beats += 1

    cancelled = False
    time_left = None


def make_context(key: str = "key-1", sink: Quiet | None = None) -> ToolContext:
    return ToolContext(
        sink or Quiet(), call_id="c1", tool="t", thread="t1", attempt=1, idempotency_key=key, metadata={}
    )


class Seen:
    """One request as it came over the wire."""

    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        self.body = body
        self.connection = connection


class Cut(bytes):
    """Written, and then the connection ends."""


Answer = bytes | Callable[[Seen], bytes]


def answer(body: bytes | str | Any = b"", status: str = "200 OK", **headers: str) -> bytes:
    if not isinstance(body, bytes | str):
        headers.setdefault("content_type", "application/json")
        body = json.dumps(body)
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


class Server:
    """Answers each request with the next of `answers`; the last one is repeated."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: list[Answer] = [answer({"ok": True})]
        self.connections = 0
        self.ended = asyncio.Event()
        self.got_request = asyncio.Event()
        self.hold = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = next((int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
                seen = Seen(head, await reader.readexactly(length), number)
                self.seen.append(seen)
                self.got_request.set()
                if self.hold:
                    await reader.read()  # until the client goes away
                    return
                now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                writer.write(now(seen) if callable(now) else now)
                await writer.drain()
                if isinstance(now, Cut):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()
            writer.close()


@contextlib.asynccontextmanager
async def serving(ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    served: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served[asyncio.ensure_future(server.serve(reader, writer))] = writer

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=ssl_context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for _ in range(10):  # connections on their way in or out
            await asyncio.sleep(0)
        for task, writer in served.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*served, return_exceptions=True)
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as started:
        yield started


@contextlib.asynccontextmanager
async def rest(*args: Any, **options: Any) -> AsyncIterator[RestTool]:
    tool = RestTool(*args, **{"allow_private": True, **options})
    try:
        yield tool
    finally:
        await tool.close()


async def call(tool: RestTool, ctx: ToolContext | None = None, /, **arguments: Any) -> Any:
    return await tool.run(tool.bind(arguments), ctx or make_context())


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


# --- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "output"),
    [
        (answer({"a": [1, 2.5, None]}), {"a": [1, 2.5, None]}),
        (answer("[1]", content_type="application/problem+json; charset=utf-8"), [1]),
        (answer(b"\xef\xbb\xbf{}", content_type="application/json"), {}),
        (answer("18446744073709551617", content_type="application/json"), 2**64 + 1),
        (answer("hi é", content_type="text/plain"), "hi é"),
        (answer("é".encode("latin-1"), content_type="text/html; charset=iso-8859-1"), "é"),
        (answer(b"\xff", content_type="text/plain; charset=no-such"), "\ufffd"),
        (answer(b"a-b9z", content_type="text/plain; charset=punycode"), "a-b9z"),
        (answer(b"\\u0041", content_type="text/plain; charset=unicode_escape"), "\\u0041"),
        (answer("中".encode("gb18030"), content_type="text/plain; charset=GB18030"), "中"),
        (answer("é".encode("cp1252"), content_type='text/plain; charset="Windows-1252"'), "é"),
        (answer("x" * 300_000, content_type="text/plain"), "x" * 300_000),
        (answer(b"\x00\x01", content_type="image/png"), {"content_type": "image/png", "base64": "AAE=", "size": 2}),
        (answer(b"x"), {"content_type": "application/octet-stream", "base64": "eA==", "size": 1}),
        (answer(b"", status="204 No Content"), None),
        (answer(b"", content_type="application/json"), None),
        (answer(gzip.compress(b'{"z":1}'), content_type="application/json", content_encoding="gzip"), {"z": 1}),
    ],
)
async def test_output_by_content_type(server: Server, response: bytes, output: Any) -> None:
    server.answers = [response]
    async with rest("t", "GET", server.url) as tool:
        assert await call(tool) == output


@pytest.mark.parametrize(
    "body", ["{", "NaN", "-Infinity", "1e400", "{'a': 1}", "[1,]", "[" * 100_000, "\xff", "9" * 5000]
)
def test_what_only_says_to_be_json_is_an_error(body: str) -> None:
    with pytest.raises(RestError, match="JSON") as caught:
        decode("application/json", body.encode("latin-1"))
    assert caught.value.code == "tool_error"


def test_half_a_sign_costs_that_sign_and_not_the_answer() -> None:
    """Services that cut texts by the length of UTF-16 send such halves."""
    body = rb'{"cut \ud83d": ["one \ud83d", "whole \ud83d\ude00", "\udc00", 1.5, "\\ud83d"]}'
    assert decode("application/json", body) == {"cut \ufffd": ["one \ufffd", "whole 😀", "\ufffd", 1.5, "\\ud83d"]}


async def test_size_limit(server: Server) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n"
    server.answers = [
        answer(b"x" * 1000, content_type="text/plain"),
        answer(b"x" * 1001, content_type="text/plain"),
        answer(bomb, content_type="text/plain", content_encoding="gzip"),
        chunked,  # never ends: the limit must not wait for the end
        answer("still works", content_type="text/plain"),
    ]
    async with rest("t", "GET", server.url, max_response_size=1000) as tool:
        assert len(await call(tool)) == 1000
        for _ in range(3):
            with pytest.raises(RestError, match="larger than 1000 bytes"):
                await call(tool)
        assert await call(tool) == "still works"


async def test_broken_compression_is_an_error(server: Server) -> None:
    server.answers = [answer(b"not gzip", content_type="text/plain", content_encoding="gzip")]
    async with rest("t", "GET", server.url) as tool:
        with pytest.raises(RestError, match="unpacked"):
            await call(tool)


async def test_signs_of_life(server: Server) -> None:
    sink = Quiet()
    async with rest("t", "GET", server.url) as tool:
        await call(tool, make_context(sink=sink))
    assert sink.beats >= 2


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_client_and_server_errors(server: Server) -> None:
    server.answers = [answer("no such user" + "!" * 2000, status="404 Not Found", content_type="text/plain")]
    async with rest("t", "GET", server.url + "/u?key=s3cret") as tool:
        with pytest.raises(RestError) as caught:
            await call(tool)
    assert caught.value.status == caught.value.details["status"] == 404
    assert caught.value.code == "tool_error"
    assert "no such user" in caught.value.message
    assert "s3cret" not in caught.value.message
    assert len(caught.value.details["body"]) < 600
    for status in ("400 Bad", "401 No", "500 Oops", "501 X", "304 Not Modified", "300 Choices"):
        server.answers = [answer("", status=status)]
        async with rest("t", "GET", server.url) as tool:
            with pytest.raises(RestError):
                await call(tool)


@pytest.mark.parametrize(("status", "blames"), [(400, False), (404, False), (422, False), (401, True), (500, True)])
async def test_a_service_that_refuses_its_input_works(server: Server, status: int, blames: bool) -> None:
    server.answers = [answer("", status=f"{status} X")]
    async with rest("t", "GET", server.url) as tool:
        with pytest.raises(RestError) as caught:
            await call(tool)
    assert caught.value.blames_tool is blames


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_transient_statuses_are_retryable(server: Server, status: int, method: str) -> None:
    server.answers = [answer("busy", status=f"{status} Busy", retry_after="7")]
    async with rest("t", method, server.url) as tool:
        with pytest.raises(RetryableError, match="busy") as caught:
            await call(tool)
    assert caught.value.retry_after == 7.0
    assert caught.value.details["status"] == status


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0), (" 0 ", 0.0), ("Fri, 31 Dec 1999 23:59:59 GMT", 59.0), ("Friday, 31-Dec-99 23:59:59 GMT", 59.0),
        ("Fri, 31 Dec 1999 23:00:00 GMT", 0.0), ("Fri, 31 Dec 1999 23:59:59 -0000", 59.0), (None, None), ("", None),
        ("soon", None), ("-5", None), ("1.5", None), ("١٢", None), ("9" * 400, None), ("inf", None),
    ],
)  # fmt: skip
def test_retry_after_in_both_forms(value: str | None, seconds: float | None) -> None:
    now = datetime(1999, 12, 31, 23, 59, 0, tzinfo=UTC).timestamp()
    assert retry_after(value, now) == seconds


async def test_retry_after_date_over_the_wire(server: Server) -> None:
    later = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 3600, UTC)
    server.answers = [answer("", status="503 Busy", retry_after=format_datetime(later, usegmt=True))]
    async with rest("t", "GET", server.url) as tool:
        with pytest.raises(RetryableError) as caught:
            await call(tool)
    assert 3500 < (caught.value.retry_after or 0) <= 3600


async def unused_port() -> int:
    listener = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = int(listener.sockets[0].getsockname()[1])
    listener.close()
    await listener.wait_closed()
    return port


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_request_that_was_never_sent_is_retryable(method: str) -> None:
    async with rest("t", method, f"http://127.0.0.1:{await unused_port()}/") as tool:
        with pytest.raises(RetryableError, match="could not be reached"):
            await call(tool)


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b"HTTP/9 nonsense\r\n\r\n"])
@pytest.mark.parametrize(
    ("method", "options", "error"),
    [
        ("GET", {}, RetryableError),
        ("PUT", {}, RetryableError),
        ("DELETE", {}, RetryableError),
        ("POST", {}, OutcomeUnknown),
        ("PATCH", {}, OutcomeUnknown),
        ("POST", {"idempotent": True}, RetryableError),
        ("POST", {"read_only": True}, RetryableError),
    ],
)
async def test_a_broken_connection_is_retried_only_where_repeating_is_safe(
    server: Server, method: str, options: dict[str, Any], error: type[ClicketError], cut: bytes
) -> None:
    server.answers = [Cut(cut)]
    async with rest("t", method, server.url, **options) as tool:
        with pytest.raises(error) as caught:
            await call(tool)
    assert caught.value.code == ("outcome_unknown" if error is OutcomeUnknown else "tool_error")
    assert len(server.seen) == 1  # nothing below the runtime tries again


async def test_cancelling_closes_the_connection(server: Server) -> None:
    server.hold = True
    async with rest("t", "GET", server.url) as tool:
        task = asyncio.ensure_future(call(tool))
        await server.got_request.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.ended.wait()  # the server sees the client go
        server.hold = False
        assert await call(tool) == {"ok": True}


# --- redirects --------------------------------------------------------------------------------------------------------


async def test_redirects_are_followed(server: Server) -> None:
    server.answers = [answer("", status="302 Found", location="/b?c=1#frag"), answer({"ok": 2})]
    async with rest("t", "GET", server.url + "/a", headers={"Authorization": "Bearer s"}) as tool:
        assert await call(tool) == {"ok": 2}
    assert [s.target for s in server.seen] == ["/a", "/b?c=1"]
    assert server.seen[1].headers["authorization"] == "Bearer s"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 M", "POST", "GET"), ("302 F", "POST", "GET"), ("303 S", "POST", "GET"), ("303 S", "PUT", "GET"),
        ("307 T", "POST", "POST"), ("308 P", "PUT", "PUT"), ("302 F", "DELETE", "DELETE"), ("303 S", "HEAD", "HEAD"),
    ],
)  # fmt: skip
async def test_method_after_a_redirect(server: Server, status: str, method: str, then: str) -> None:
    server.answers = [answer("", status=status, location="/b"), answer("")]
    body = {} if method in ("HEAD", "DELETE") else {"a": {"in": "body"}}
    async with rest("t", method, server.url, parameters=body) as tool:
        await call(tool, **dict.fromkeys(body, 1))
    first, second = server.seen
    assert (first.method, second.method) == (method, then)
    if then == method:
        assert second.body == first.body
        assert second.headers.get("idempotency-key") == first.headers.get("idempotency-key")
    else:
        assert second.body == b""
        assert "content-type" not in second.headers
        assert "idempotency-key" not in second.headers


async def test_another_origin_gets_no_secrets(server: Server) -> None:
    async with serving() as other:
        server.answers = [answer("", status="302 Found", location=other.url + "/x")]
        headers = {"Authorization": "Bearer s", "X-Api-Key": "s", "Cookie": "s=1", "Accept-Language": "eo"}
        parameters = {"token": {"in": "header", "name": "X-Token"}}
        async with rest("t", "GET", server.url, headers=headers, parameters=parameters) as tool:
            assert await call(tool, token="s") == {"ok": True}
        assert not {"authorization", "x-api-key", "cookie", "x-token"} & other.seen[0].headers.keys()
        assert other.seen[0].headers["accept-language"] == "eo"
        server.answers = [answer("", status="307 T", location=other.url + "/x")]
        async with rest("t", "POST", server.url, parameters={"a": {}}) as tool:
            with pytest.raises(RestError, match="another origin"):
                await call(tool, a="private")
        assert len(other.seen) == 1


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://x", "data:,x", "http://u:p@127.0.0.1/", "http://[bad"],
)
async def test_redirects_to_odd_places_are_not_followed(server: Server, location: str) -> None:
    server.answers = [answer("", status="302 Found", location=location)]
    async with rest("t", "GET", server.url) as tool:
        with pytest.raises((RestError, ToolUnavailable), match="redirect"):
            await call(tool)
    assert len(server.seen) == 1


async def test_number_of_redirects_is_limited(server: Server) -> None:
    server.answers = [answer("", status="302 Found", location="/again")]
    for limit in (0, 3):
        server.seen.clear()
        async with rest("t", "GET", server.url, max_redirects=limit) as tool:
            with pytest.raises(RestError, match="max_redirects"):
                await call(tool)
        assert len(server.seen) == limit + 1


async def test_failure_behind_a_taken_post_is_not_retryable(server: Server) -> None:
    see_other = answer("", status="303 See Other", location="/result")
    gone = answer("", status="303 See Other", location=f"http://127.0.0.1:{await unused_port()}/")
    for second in (answer("", status="503 Busy"), Cut(b""), None):
        server.answers = [gone] if second is None else [see_other, second]
        async with rest("t", "POST", server.url) as tool:
            with pytest.raises(OutcomeUnknown) as caught:
                await call(tool)
        assert not caught.value.retryable


# --- the client -------------------------------------------------------------------------------------------------------


async def test_one_connection_for_many_calls(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        for number in range(5):
            server.answers = [answer({"n": number}), answer("gone", status="404 Not Found")]
            assert await call(tool) == {"n": number}
            with pytest.raises(RestError):
                await call(tool)
        assert tool.connection.open
        assert tool.connection.request_count == 10
        assert (tool.connection.last_used_at or 0) > 0
    assert server.connections == 1
    assert not tool.connection.open


async def test_first_calls_at_once_share_one_client(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        await asyncio.gather(*(call(tool) for _ in range(10)))
        await call(tool)
        assert len(tool._clients) == 1
    assert server.connections <= 10


async def test_closed_tool_opens_again(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        await call(tool)
        await tool.close()
        await tool.close()
        assert await call(tool) == {"ok": True}
    assert server.connections == 2


def test_a_new_loop_gets_a_new_client() -> None:
    tool = RestTool("t", "GET", "http://127.0.0.1:{port}/", allow_private=True)

    async def once(close: bool) -> tuple[Any, int]:
        async with serving() as server:
            output = await call(tool, port=server.port)
            open_clients = len(tool._clients)
            if close:
                await tool.close()
            return output, open_clients

    with warnings.catch_warnings():
        # The first loop ends with its socket open, as a careless program's does.
        warnings.simplefilter("ignore", ResourceWarning)
        assert asyncio.run(once(close=False)) == ({"ok": True}, 1)
        assert not tool.connection.open
        assert asyncio.run(once(close=True)) == ({"ok": True}, 1)
        gc.collect()
    assert tool.connection.request_count == 2


async def test_no_cookies_are_kept(server: Server) -> None:
    server.answers = [answer({}, set_cookie="session=abc; Path=/")]
    async with rest("t", "GET", server.url) as tool:
        await call(tool)
        await call(tool)
    assert "cookie" not in server.seen[1].headers


async def test_environment_is_not_trusted(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{await unused_port()}")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with rest("t", "GET", server.url) as tool:
        assert await call(tool) == {"ok": True}
    assert "authorization" not in server.seen[0].headers


def test_httpx2_is_imported_by_the_first_request_only() -> None:
    code = (
        "import sys; from clicket.tools.rest import RestTool; RestTool('t', 'GET', 'https://x.example/{a}').bind({'a': 'b'});"
        "print([m for m in ('httpx2', 'httpcore2', 'anyio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
