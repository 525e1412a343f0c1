"""How a REST tool handles responses and failures."""

from __future__ import annotations

import asyncio
import gzip
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from tests.unit.tools.rest_kit import Cut, Quiet, Server, answer, call, make_context, rest, unused_port

from clicket.errors import ClicketError, RetryableError
from clicket.tools.response import decode, retry_after
from clicket.tools.rest import OutcomeUnknown, RestError

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
    """Services that truncate texts by UTF-16 length send such halves."""
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
    assert len(server.seen) == 1  # no layer below the runtime retries


async def test_cancelling_closes_the_connection(server: Server) -> None:
    server.hold = True
    async with rest("t", "GET", server.url) as tool:
        task = asyncio.ensure_future(call(tool))
        await server.got_request.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.ended.wait()  # the server sees the client close
        server.hold = False
        assert await call(tool) == {"ok": True}
