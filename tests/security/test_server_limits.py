"""Limits: the server refuses clients that send too much or too slowly, or open too many connections, and stays up."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.server_kit import Api, served

from clicket.server import Options, http_server

SMALL = {
    "max_body_size": 2_000,
    "max_upload_size": 4_000,
    "body_timeout": 0.2,
    "header_timeout": 0.3,
    "max_header_size": 4_000,
}


async def raw(it: Api, *pieces: bytes, patience: float = 10.0) -> bytes:
    """Send raw bytes; returns the answer until the server closed."""
    reader, writer = await asyncio.open_connection(it.served.host, it.served.port)
    try:
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        async with asyncio.timeout(patience):
            return await reader.read()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def head(length: int | None, path: str = "/calls", **more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in more.items()]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("path", ["/calls", "/artifacts"])
async def test_a_body_that_says_it_is_too_large_is_not_read(path: str) -> None:
    async with served(options=SMALL) as it:
        answer = await raw(it, head(10**9, path))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"code":"too_large"' in answer
        assert (await it.get("/healthz")).status_code == 200


@pytest.mark.parametrize("path", ["/calls", "/artifacts"])
async def test_a_body_that_does_not_say_so_is_cut_off(path: str) -> None:
    async with served(options=SMALL) as it:
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        assert (await raw(it, head(None, path), *[chunk] * 5)).startswith(b"HTTP/1.1 413 ")


async def test_the_largest_body_is_taken() -> None:
    async with served(options=SMALL) as it:
        body = b'{"tool":"echo","wait":true,"arguments":{"value":"'
        body += b"x" * (2_000 - len(body) - 3) + b'"}}'
        assert len(body) == 2_000
        answer = await it.post("/calls", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200
        longer = await it.post("/calls", content=body + b" ", headers={"content-type": "application/json"})
        assert longer.status_code == 413
        assert (await it.post("/artifacts", content=b"x" * 4_000)).status_code == 201
        assert (await it.post("/artifacts", content=b"x" * 4_001)).status_code == 413


@pytest.mark.parametrize("path", ["/calls", "/artifacts"])
async def test_a_body_that_drips(path: str) -> None:
    async with served(options=SMALL) as it:
        answer = await raw(it, head(100, path), b"{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"request_timeout"' in answer


async def test_a_head_that_drips_and_a_connection_that_says_nothing() -> None:
    async with served(options=SMALL) as it:
        assert (await raw(it, b"GET /healthz HTTP/1.1\r\nHost: loc")).startswith(b"HTTP/1.1 408 ")
        assert await raw(it) == b""


async def test_a_slow_head_is_cut_off_on_a_connection_that_was_used_before() -> None:
    async with served(options=SMALL) as it:
        whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        reader, writer = await asyncio.open_connection(it.served.host, it.served.port)
        async with asyncio.timeout(PATIENCE):
            for _ in range(3):
                writer.write(whole)
                answer = await reader.readuntil(b"\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 200 ")
                await reader.readexactly(int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            writer.write(whole[:20])
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        await writer.wait_closed()


async def test_slow_clients_do_not_keep_others_waiting() -> None:
    async with served(options={**SMALL, "header_timeout": 5.0}) as it:
        slow = [asyncio.create_task(raw(it, b"GET / HTTP/1.1\r\nX-A:")) for _ in range(50)]
        await eventually(lambda: len(slow) == 50)
        for _ in range(20):
            assert (await it.call("add", {"a": 1, "b": 1})).status_code == 200
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


@pytest.mark.parametrize("lines", [1, 200], ids=["one long header", "many headers"])
async def test_a_head_that_is_too_long(lines: int) -> None:
    async with served(options=SMALL) as it:
        fields = b"".join(b"X-%d: %s\r\n" % (n, b"a" * (10_000 // lines)) for n in range(lines))
        answer = await raw(it, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 431 ")
        endless = await raw(it, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", *[b"a" * 1_000] * 10)
        assert endless.startswith(b"HTTP/1.1 431 ")
        long_url = await raw(it, b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert long_url.startswith(b"HTTP/1.1 431 ")
        fits = await raw(
            it, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"a" * 3_000 + b"\r\n\r\n"
        )
        assert fits.startswith(b"HTTP/1.1 200 ")


async def test_connections_are_kept_and_each_head_counts_for_itself() -> None:
    async with served(options=SMALL) as it:
        padding = {"x": "a" * 1_500}
        for _ in range(10):
            assert (await it.get("/healthz", headers=padding)).status_code == 200
            assert (await it.call("add", {"a": 1, "b": 1}, headers=padding)).status_code == 200


async def test_one_connection_too_many() -> None:
    async with served(options={"max_connections": 5}) as it:
        held: list[Any] = [await asyncio.open_connection(it.served.host, it.served.port) for _ in range(5)]
        for _, writer in held:  # each has an open request
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: _is_refused(it))
        for _, writer in held:
            writer.close()
        await eventually(lambda: _is_served(it))


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"],
                         ids=["silent", "slow", "kept alive"])  # fmt: skip
async def test_idle_connections_do_not_block_new_ones(said: bytes) -> None:
    async with served(options={"max_connections": 5}) as it:
        busy_reader, busy = await asyncio.open_connection(it.served.host, it.served.port)
        busy.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await busy_reader.readuntil(b"\r\n\r\n")
        held: list[Any] = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection(it.served.host, it.served.port)
            writer.write(said)
            if b"healthz" in said:
                await reader.readuntil(b"\r\n\r\n")
            held.append((reader, writer))
        assert await _is_served(it)
        assert await asyncio.wait_for(held[0][0].read(), PATIENCE) is not None, "the server closed the oldest"
        assert not busy_reader.at_eof(), "the server kept one with a request"
        for writer in (busy, *(writer for _, writer in held)):
            writer.close()


@pytest.mark.parametrize(("limit", "most"), [(256, 64), (1_024, 768), (20_000, 4_096), (resource.RLIM_INFINITY, 4_096)])
def test_no_more_connections_than_descriptors(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert http_server.within_file_limit(Options()).max_connections == most


@pytest.mark.parametrize(("hard", "soft"), [(4_096, 4_096), (1_048_576, 5_462), (resource.RLIM_INFINITY, 5_462)])
def test_the_command_asks_for_descriptors(monkeypatch: pytest.MonkeyPatch, hard: int, soft: int) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    http_server.allow_connections(4_096)
    assert asked == [(soft, hard)]


async def _is_refused(it: Api) -> bool:
    answer = await raw(it, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return answer.startswith(b"HTTP/1.1 503 ") and b"retry-after" in answer


async def _is_served(it: Api) -> bool:
    answer = await raw(it, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "nonsense",
    [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  /\r\n\r\n", b"POST /calls HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST /calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nHost : evil\r\n\r\n"],
)  # fmt: skip
async def test_malformed_requests_affect_no_other(nonsense: bytes) -> None:
    async with served(options=SMALL) as it:
        answer = await raw(it, nonsense)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
        assert (await it.get("/healthz")).status_code == 200


async def test_a_client_that_leaves_in_the_middle_of_its_request() -> None:
    async with served(options=SMALL) as it:
        for piece in (head(100), head(100) + b"{", b"GET /ca", head(100, "/artifacts") + b"x"):
            _, writer = await asyncio.open_connection(it.served.host, it.served.port)
            writer.write(piece)
            await writer.drain()
            writer.transport.abort()
        assert (await it.get("/healthz")).status_code == 200
        assert (await it.get("/calls")).json()["items"] == []
