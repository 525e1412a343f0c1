"""No resolver, redirect or certificate brings a REST tool to an address that it may not reach. Traffic stays on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path

import pytest
from tests.security.ssrf_kit import CONTEXT, PUBLIC, Network, Resolver, fetching, serving

from clicket.errors import ClicketError, InvalidInput, RetryableError, ToolUnavailable
from clicket.safety import transport
from clicket.safety.guard import AddressGuard, AddressRefused
from clicket.tools.rest import RestError, RestTool

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
    """Public at the first look-up, loopback at the second: there must be no second look-up."""
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
        with pytest.raises(InvalidInput, match="not an address"):
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

# For api.example.test only, valid for a hundred years, trusted only by these tests.
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
    """The server's context, a client context that trusts it, and the server names that clients requested."""
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
