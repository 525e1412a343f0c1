"""No spelling of a forbidden address is accepted as a public one."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.ssrf_kit import CONTEXT, FORBIDDEN, HOSTS, PUBLIC, Network, Resolver, fetching, ipv4_spellings

from clicket.errors import InvalidInput
from clicket.safety.guard import HostMalformed, numeric_host, verdict


def test_there_are_many_spellings() -> None:
    assert len(HOSTS) > 500


async def test_no_spelling_reaches_a_forbidden_address() -> None:
    """Checked twice: when the arguments are bound, and again when the socket is opened."""
    network = Network()
    resolver = Resolver(["127.0.0.1"])  # the most harmful resolver: it has an address for every text
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
    """A spelling that the C library reads as an address is read as the same address here, and refused."""
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
