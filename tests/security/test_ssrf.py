"""No spelling, redirect or resolver brings a REST tool to an address that it may not reach. Traffic stays on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.errors import ClicketError, InvalidInput, RetryableError, ToolUnavailable
from clicket.tools import transport
from clicket.tools.context import ToolContext
from clicket.tools.guard import AddressGuard, AddressRefused, HostMalformed, numeric_host, verdict
from clicket.tools.rest import RestError, RestTool

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
    """Notes where connections would go, and leads them all to one port on loopback."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port
        self.reached: list[tuple[str, int]] = []

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        self.reached.append((host, port))
        if self.port is None:
            raise httpcore2.ConnectError("nobody is there")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.port)


class Resolver:
    """Gives the next list of addresses at each look-up; the last is repeated."""

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
        for _ in range(10):  # connections on their way in or out
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


# --- spellings --------------------------------------------------------------------------------------------------------


def test_there_are_many_spellings() -> None:
    assert len(HOSTS) > 500


async def test_no_spelling_reaches_a_forbidden_address() -> None:
    """Judged twice: when the arguments are bound, and, for what would slip through there, when the socket is opened."""
    network = Network()
    resolver = Resolver(["127.0.0.1"])  # the most harmful resolver: it finds something for every text
    passed = []
    async with fetching(network=network, resolve=resolver) as tool:
        for host in HOSTS:
            for url in (f"http://{host}/", f"http://{host}:8080/x", f"https://{host}"):
                with contextlib.suppress(InvalidInput):
                    tool.bind({"url": url})
                try:
                    await tool.run({"url": url}, CONTEXT)
                except InvalidInput:
                    continue
                passed.append(url)
    assert passed == []
    assert network.reached == []


@pytest.mark.parametrize("address", FORBIDDEN)
def test_numeric_spellings_are_read_as_inet_aton_reads_them(address: str) -> None:
    """Refused for what they mean: a spelling that the C library reads as an address is read as the same one here."""
    for host in ipv4_spellings(address):
        try:
            meant = socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
        except (OSError, UnicodeError):
            continue
        assert numeric_host(host) == IPv4Address(meant)


@given(
    st.from_regex(
        r"(?:0[xX][0-9a-fA-F]{0,9}|[0-9]{1,11})(?:\.(?:0[xX][0-9a-fA-F]{0,4}|[0-9]{1,4})){0,3}", fullmatch=True
    )
)
def test_numbers_are_an_address_or_no_host(text: str) -> None:
    try:
        ours = numeric_host(text)
    except HostMalformed:
        return
    assert ours == IPv4Address(socket.inet_aton(text))


@given(st.ip_addresses(v=4))
def test_ipv4_inside_ipv6_is_judged_like_ipv4(address: IPv4Address) -> None:
    number = int(address)
    reason = verdict(address)
    if not address.is_global:
        assert reason
    for inside in (0xFFFF << 32 | number, 0x64FF9B << 96 | number):
        assert verdict(IPv6Address(inside)) == reason
    assert verdict(IPv6Address(0x2600 << 112 | 0x5EFE << 32 | number)) == reason
    for unroutable in (number, 0xFFFF << 48 | number, 0x20010000 << 96 | number << 64, 0x2002 << 112 | number << 80):
        assert verdict(IPv6Address(unroutable))


@given(st.ip_addresses(v=6))
def test_what_is_not_global_is_refused(address: IPv6Address) -> None:
    if not address.is_global and not address.ipv4_mapped and address not in ipaddress.ip_network("64:ff9b::/96"):
        assert verdict(address)
    if address not in ipaddress.ip_network("2000::/3") and verdict(address) is None:
        assert address.ipv4_mapped or address in ipaddress.ip_network("64:ff9b::/96")


@pytest.mark.parametrize(
    "address", [PUBLIC, "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"]
)
def test_public_addresses_pass(address: str) -> None:
    assert verdict(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "..",
        "1.2.3.4.5",
        "0x",
        "08.1",
        "[x]",
        "[1::2::3]",
        "9" * 60,
        "a..b",
        "-a.example",
        "a b",
        "a/b",
        "a\0b",
        "a" * 64,
        "é.example",
        "%6c",
        "x" * 300,
    ],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(HostMalformed):
        numeric_host(host)


# --- names and resolvers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1.nip.io", "xn--1lqs71d"]
)
@pytest.mark.parametrize("answer", [["127.0.0.1"], ["::1"], ["::ffff:10.0.0.1"], [PUBLIC, "10.0.0.1"], ["fe80::1%lo"]])
async def test_names_are_judged_by_all_their_addresses(name: str, answer: list[str]) -> None:
    network = Network()
    async with fetching(network=network, resolve=Resolver(answer)) as tool:
        with pytest.raises(InvalidInput, match="allow_hosts"):
            await tool.run({"url": f"http://{name}/"}, CONTEXT)
    assert network.reached == []


async def test_system_resolver_is_judged_too() -> None:
    async with fetching() as tool:
        with pytest.raises(InvalidInput, match="loopback"):
            await tool.run({"url": "http://localhost:9/"}, CONTEXT)


async def test_host_of_the_declaration_makes_the_tool_unavailable() -> None:
    network = Network()
    async with fetching("http://169.254.169.254/latest/meta-data/", network=network) as tool:
        tool.bind({})
        with pytest.raises(ToolUnavailable, match="allow_hosts"):
            await tool.run({}, CONTEXT)
    async with fetching("http://inside.example.test/", network=network, resolve=Resolver(["10.1.2.3"])) as tool:
        with pytest.raises(ToolUnavailable, match="private"):
            await tool.run({}, CONTEXT)
    assert network.reached == []


async def test_rebinding_resolver_gets_one_question() -> None:
    """Public at the first look-up, loopback at the second: the second look-up must not exist."""
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    async with serving() as server:
        network = Network(server.port)
        async with fetching(network=network, resolve=resolver) as tool:
            url = {"url": "http://rebind.example.test/"}
            assert await tool.run(tool.bind(url), CONTEXT) == "secret"
            assert await tool.run(tool.bind(url), CONTEXT) == "secret"  # over the same connection
            assert resolver.asked == ["rebind.example.test"]
            await tool.close()
            with pytest.raises(InvalidInput, match="loopback"):
                await tool.run(tool.bind(url), CONTEXT)
        assert network.reached == [(PUBLIC, 80)]
        assert server.hosts == ["rebind.example.test"] * 2


async def test_the_judged_address_is_the_one_connected_to() -> None:
    async with serving() as server:
        resolver = Resolver(["127.0.0.1"])
        url = f"http://api.example.test:{server.port}/"
        async with fetching(resolve=resolver, allow_hosts=["API.example.test."]) as tool:
            assert await tool.run({"url": url}, CONTEXT) == "secret"
            with pytest.raises(InvalidInput):
                await tool.run({"url": f"http://127.0.0.1:{server.port}/"}, CONTEXT)
        assert server.hosts == [f"api.example.test:{server.port}"]


async def test_next_address_is_tried_when_one_is_dead() -> None:
    async with serving() as server:
        resolver = Resolver(["127.0.0.9", "127.0.0.8", "127.0.0.1"])
        async with fetching(resolve=resolver, allow_private=True) as tool:
            assert await tool.run({"url": f"http://x.example.test:{server.port}/"}, CONTEXT) == "secret"


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_failed_look_ups_are_retryable(failure: Exception) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise failure

    async def nothing(host: str, port: int) -> list[str]:
        return []

    for resolver in (resolve, nothing):
        async with fetching(resolve=resolver) as tool:
            with pytest.raises(RetryableError, match="looked up"):
                await tool.run({"url": "http://x.example.test/"}, CONTEXT)


async def test_look_up_counts_towards_the_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT", 0.02)

    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with fetching(resolve=never) as tool:
        with pytest.raises(RetryableError, match="too long"):
            await tool.run({"url": "http://x.example.test/"}, CONTEXT)


async def test_resolver_that_gives_no_address() -> None:
    async with fetching(resolve=Resolver(["not an address"])) as tool:
        with pytest.raises(InvalidInput, match="no address"):
            await tool.run({"url": "http://x.example.test/"}, CONTEXT)


# --- what is allowed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "0xa9fea9fe", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200"]
)
def test_credentials_of_the_machine_need_their_own_permission(host: str) -> None:
    with pytest.raises(AddressRefused, match="credentials"):
        AddressGuard(allow_private=True).check_literal(host)
    AddressGuard(allow_hosts=[host]).check_literal(host)
    AddressGuard(allow_private=True).check_literal("10.0.0.1")


def test_allowed_host_is_meant_in_every_spelling() -> None:
    guard = AddressGuard(allow_hosts=["127.0.0.1", "localhost"])
    for same in ("127.0.0.1", "127.1", "0x7f000001", "2130706433"):
        guard.check_literal(same)
    AddressGuard(allow_hosts=["[::1]"]).check_literal("::1")
    for other in ("127.0.0.2", "::1", "[::1]"):
        with pytest.raises(AddressRefused):
            guard.check_literal(other)


async def test_allowed_name_may_have_a_private_address() -> None:
    guard = AddressGuard(allow_hosts=["db.example.test"], resolve=Resolver(["10.0.0.5", "10.0.0.5", "fd00::5"]))
    assert await guard.addresses("DB.example.test", 80) == ["10.0.0.5", "fd00::5"]
    with pytest.raises(AddressRefused):
        await guard.addresses("x.db.example.test", 80)


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "169.254.169.254"],
)
async def test_redirect_to_a_forbidden_address_is_not_followed(host: str) -> None:
    async with serving() as outside, serving() as inside:
        outside.location = f"http://{host}:{inside.port}/"
        resolver = Resolver([PUBLIC], ["127.0.0.1"])
        network = Network(outside.port)
        async with fetching("http://api.example.test/", network=network, resolve=resolver) as tool:
            with pytest.raises(ToolUnavailable, match="redirects to a place that is not allowed"):
                await tool.run({}, CONTEXT)
        assert network.reached == [(PUBLIC, 80)]
        assert inside.hosts == []


async def test_each_hop_is_looked_up_once() -> None:
    async with serving() as server:
        server.location = "http://b.example.test/"
        resolver = Resolver([PUBLIC])
        network = Network(server.port)
        async with fetching("http://a.example.test/", network=network, resolve=resolver, max_redirects=2) as tool:
            with pytest.raises(RestError, match="max_redirects"):
                await tool.run({}, CONTEXT)
        assert resolver.asked == ["a.example.test", "b.example.test"]


# --- TLS --------------------------------------------------------------------------------------------------------------

# For api.example.test only, good for a hundred years, trusted by nobody but these tests.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUiMeTBHRY41Mw+lf
208RWvqmCVaZOQBg4DvgRg2pmTChRANCAATbWr6SGMdkoYD/2WJLOAI1FfoOB0Hr
8iNMrBwY7KyK/MhoVW0YFx7IeIBC7KPa0MzSeu/DOkPwO6a6/kd2g9zw
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBqzCCAVCgAwIBAgIUC1N8pwvgLq7MN6/ewt8J93nHppQwCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQYXBpLmV4YW1wbGUudGVzdDAgFw0yNjExMTUwMjU0MTlaGA8y
MTI2MTAyMjAyNTQxOVowGzEZMBcGA1UEAwwQYXBpLmV4YW1wbGUudGVzdDBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABNtavpIYx2ShgP/ZYks4AjUV+g4HQevyI0ys
HBjsrIr8yGhVbRgXHsh4gELso9rQzNJ678M6Q/A7prr+R3aD3PCjcDBuMB0GA1Ud
DgQWBBTRGCx6mRAup3vPlGUJBVjgk7dB5jAfBgNVHSMEGDAWgBTRGCx6mRAup3vP
lGUJBVjgk7dB5jAPBgNVHRMBAf8EBTADAQH/MBsGA1UdEQQUMBKCEGFwaS5leGFt
cGxlLnRlc3QwCgYIKoZIzj0EAwIDSQAwRgIhAPjtlc2AxO91CaYFUC2e5dH+esbs
arzydN/fOSH+HSxnAiEAvuigBScntAgN4s4cEZGDjELzHUIw1aqoE/j/CJZxf/Y=
-----END CERTIFICATE-----
"""


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext, list[str | None]]:
    """The server's context, a client's that trusts it, and the names that clients asked for."""
    pem = tmp_path / "api.pem"
    pem.write_text(CERTIFICATE)
    asked: list[str | None] = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    return server, ssl.create_default_context(cafile=str(pem)), asked


async def test_pinned_connection_keeps_the_name_for_tls(
    tls: tuple[ssl.SSLContext, ssl.SSLContext, list[str | None]],
) -> None:
    server_tls, client_tls, asked = tls
    async with serving(server_tls) as server:
        network = Network(server.port)
        options = {"network": network, "resolve": Resolver([PUBLIC]), "ssl_context": client_tls}
        async with fetching("https://api.example.test/", **options) as tool:
            assert await tool.run({}, CONTEXT) == "secret"
        assert network.reached == [(PUBLIC, 443)]
        assert asked == ["api.example.test"]
        assert server.hosts == ["api.example.test"]


async def test_certificate_of_another_name_is_an_error_that_is_not_retried(
    tls: tuple[ssl.SSLContext, ssl.SSLContext, list[str | None]],
) -> None:
    server_tls, client_tls, _ = tls
    async with serving(server_tls) as server:
        options = {"network": Network(server.port), "resolve": Resolver([PUBLIC])}
        for url, context in (("https://other.example.test/", client_tls), ("https://api.example.test/", None)):
            async with fetching(url, ssl_context=context, **options) as tool:
                with pytest.raises(RestError, match="certificate"):
                    await tool.run({}, CONTEXT)
        assert server.hosts == []


async def test_redirect_from_https_to_http_is_not_followed(
    tls: tuple[ssl.SSLContext, ssl.SSLContext, list[str | None]],
) -> None:
    server_tls, client_tls, _ = tls
    async with serving(server_tls) as server:
        server.location = "http://api.example.test/"
        network = Network(server.port)
        options = {"network": network, "resolve": Resolver([PUBLIC]), "ssl_context": client_tls}
        async with fetching("https://api.example.test/", **options) as tool:
            with pytest.raises(RestError, match="plain http"):
                await tool.run({}, CONTEXT)
        assert network.reached == [(PUBLIC, 443)]


def test_refusals_are_clicket_errors_with_a_way_out() -> None:
    with pytest.raises(ClicketError) as caught:
        RestTool("t", "GET", "http://{host}/").bind({"host": "127.1"})
    assert caught.value.code == "invalid_input"
    assert "allow_private=True" in caught.value.message
    assert json.dumps(caught.value.details)
