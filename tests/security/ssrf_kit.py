"""Forbidden addresses in all their spellings, and a network, a resolver and a server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from ipaddress import IPv4Address
from typing import Any

import httpcore2

from clicket.tools.context import ToolContext
from clicket.tools.rest import RestTool

PUBLIC = "93.184.216.34"
FORBIDDEN = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.192", "198.18.0.1", "203.0.113.7",
    "168.63.129.16",
]  # fmt: skip


def ipv4_spellings(address: str) -> Iterator[str]:
    a, b, c, d = (int(part) for part in address.split("."))
    number = int(IPv4Address(address))
    yield address
    yield f"{address}."
    yield str(number)
    yield f"{number}."
    yield f"00{number:o}"
    yield f"0{number:o}"
    yield f"0x{number:x}"
    yield f"0X{number:X}"
    yield f"0x{number:012x}"
    yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
    yield f"000{a:o}.000{b:o}.000{c:o}.000{d:o}"
    yield f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"
    yield f"0X{a:02X}.0X{b:02X}.0X{c:02X}.0X{d:02X}"
    yield f"0x{a:x}.{b}.0{c:o}.{d}"
    yield f"{a}.0x{b:x}.{c}.0{d:o}"
    yield f"{a}.{b}.{c * 256 + d}"
    yield f"{a}.{b * 65536 + c * 256 + d}"
    yield f"0x{a:x}.{b * 65536 + c * 256 + d}"
    yield f"{a}.0{b * 65536 + c * 256 + d:o}"
    yield f"{a}.0{b:o}.0x{c * 256 + d:x}"
    # digits that only look like digits, dots that only look like dots, escapes
    yield "".join(chr(ord(ch) + 0xFEE0) if ch.isdigit() else ch for ch in address)
    yield "".join(chr(0x2460 + int(ch) - 1) if ch in "123456789" else ch for ch in address)
    yield "".join(chr(0x0660 + int(ch)) if ch.isdigit() else ch for ch in address)
    yield "".join(chr(0x1D7CE + int(ch)) if ch.isdigit() else ch for ch in address)
    yield address.replace(".", "。")
    yield address.replace(".", "．")
    yield address.replace(".", "｡")
    yield "".join(f"%{ord(ch):02x}" for ch in address)
    yield address.replace(".", "%2e")
    yield f"{a + 256}.{b + 256}.{c + 256}.{d + 256}"
    yield f"{number + 2**32}"
    yield f"{address}%00.example.com"


def ipv6_spellings(address: str) -> Iterator[str]:
    number = int(IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    yield f"[::ffff:{address}]"
    yield f"[::FFFF:{address}]"
    yield f"[::ffff:{high}:{low}]"
    yield f"[0:0:0:0:0:ffff:{high}:{low}]"
    yield f"[0000:0000:0000:0000:0000:ffff:{address}]"
    yield f"[::{address}]"
    yield f"[::{high}:{low}]"
    yield f"[::ffff:0:{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[64:ff9b::{high}:{low}]"
    yield f"[64:ff9b:1::{address}]"
    yield f"[2002:{high}:{low}::]"
    yield f"[2002:{high}:{low}::1]"
    yield f"[2001:0:{high}:{low}::1]"
    yield f"[2001::{(number ^ 0xFFFFFFFF) >> 16:x}:{(number ^ 0xFFFFFFFF) & 0xFFFF:x}]"
    yield f"[2600::5efe:{address}]"
    yield f"[2600::200:5efe:{address}]"
    yield f"[::ffff:{address}%lo]"
    yield f"[::ffff:{address}%25lo]"
    yield f"[fe80::1%25{low}]"


NATIVE_IPV6 = [
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::1%25lo]", "[::1%lo]",
    "[fe80::1]", "[fe80::1%25eth0]", "[FE80::1]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]",
    "[100::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[2001:10::1]", "[4000::1]", "[::1].", "[[::1]]", "[v1.x]",
    "[127.0.0.1]", "[]",
]  # fmt: skip
HOSTS = sorted({h for a in FORBIDDEN for h in (*ipv4_spellings(a), *ipv6_spellings(a))}) + NATIVE_IPV6


class Quiet:
    cancelled = False
    time_left = None

    def emit(self, chunk: Any) -> None: ...
    def progress(self, step: float, total: float | None, text: str) -> None: ...
    def heartbeat(self) -> None: ...
    def note(self, text: str, data: Any) -> None: ...
    async def drain(self) -> None: ...


CONTEXT = ToolContext(Quiet(), call_id="c", tool="t", thread="t", attempt=1, idempotency_key="k", metadata={})


class Network(httpcore2.AsyncNetworkBackend):
    """Records where connections would go, and redirects them all to one port on loopback."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port
        self.reached: list[tuple[str, int]] = []

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        self.reached.append((host, port))
        if self.port is None:
            raise httpcore2.ConnectError("nobody is there")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.port)


class Resolver:
    """Returns the next list of addresses at each look-up; repeats the last."""

    def __init__(self, *answers: Iterable[str]) -> None:
        self.answers = [list(answer) for answer in answers]
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Server:
    def __init__(self) -> None:
        self.port = 0
        self.hosts: list[str] = []
        self.location = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                self.hosts.append(head.partition("\r\nhost: ")[2].partition("\r\n")[0])
                if self.location:
                    writer.write(
                        f"HTTP/1.1 302 Found\r\nlocation: {self.location}\r\ncontent-length: 0\r\n\r\n".encode()
                    )
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nsecret")
                await writer.drain()
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
        for _ in range(10):  # connections being opened or closed
            await asyncio.sleep(0)
        for task, writer in served.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*served, return_exceptions=True)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def fetching(url: str = "{url}", **options: Any) -> AsyncIterator[RestTool]:
    tool = RestTool("fetch", "GET", url, **options)
    try:
        yield tool
    finally:
        await tool.close()
