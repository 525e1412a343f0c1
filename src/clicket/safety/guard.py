"""Which addresses a tool may reach. A name is looked up once, all its addresses are checked, and only those are used.

A name proves nothing: addresses are checked. Numeric hosts are read here as `inet_aton` reads them (decimal,
octal, hex, short forms), so that no resolver interprets them. IPv6 is judged by what may pass (global unicast), not by a
list of what may not, and IPv4 addresses inside IPv6 ones are taken out and judged as well.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from clicket.errors import ClicketError

__all__ = ["Address", "AddressGuard", "AddressRefused", "HostMalformed", "Resolve", "numeric_host", "verdict"]

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""`await resolve(host, port)`: every address of the host, as text."""


class AddressRefused(ClicketError):
    """The host has an address that the tool may not reach; nothing was connected to."""

    code = "permission_denied"


class HostMalformed(AddressRefused):
    """No host is written like this; it was not looked up."""


_SPECIAL_IPV4 = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("168.63.129.16/32", "a cloud's host agent"),
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local translation (NAT64)"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "a tunnel (Teredo)"),
        ("2002::/16", "a tunnel (6to4)"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved for documentation"),
        ("3fff::/20", "reserved for documentation"),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP_MARKS = (0x00005EFE, 0x02005EFE)

# Cloud providers hand out credentials at these addresses to every process inside. `allow_private` alone does not open them:
# a tool that may reach 10.0.0.5 would otherwise be one redirect away from the machine's keys.
_METADATA = frozenset(
    map(
        ip_address,
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"),
    )
)

_LABELS = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*", re.ASCII)
_LAST_LABEL_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)


def numeric_host(host: str) -> Address | None:
    """The address that a numeric host means in any spelling; None for a name; `HostMalformed` for what is neither."""
    text = host.lower().removesuffix(".")
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            raise HostMalformed(f"{host!r} is not a host: square brackets hold an IPv6 address.")
    if ":" in text:
        try:
            return IPv6Address(text)
        except ValueError:
            raise HostMalformed(f"{host!r} is not a host: it is not a valid IPv6 address.") from None
    if not text.isascii() or not _LABELS.fullmatch(text) or len(text) > 253:
        raise HostMalformed(f"{host!r} is not a host name. Write names in ASCII (IDNA for others), without escapes.")
    if not _LAST_LABEL_NUMERIC.fullmatch(text):
        return None
    address = _inet_aton(text)
    if address is None:
        raise HostMalformed(f"{host!r} is not a host: it ends in a number but is not an IPv4 address.")
    return address


def _inet_aton(text: str) -> IPv4Address | None:
    parts = text.split(".")
    if len(parts) > 4:
        return None
    numbers = []
    for part in parts:
        base = 16 if part.startswith("0x") else 8 if part.startswith("0") and len(part) > 1 else 10
        digits = part[2:] if base == 16 else part
        # int() would also take signs and underscores, and very long digits are its slow path.
        if not digits.isalnum() or len(digits) > 24:
            return None
        try:
            numbers.append(int(digits, base))
        except ValueError:
            return None
    *heads, tail = numbers
    if any(n > 255 for n in heads) or tail >= 256 ** (4 - len(heads)):
        return None
    return IPv4Address(sum(n << (24 - 8 * i) for i, n in enumerate(heads)) + tail)


def verdict(address: Address) -> str | None:
    """Why the address is not on the public internet, or None when it is."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _SPECIAL_IPV4 if address in network), None)
    if address.scope_id is not None:
        return "tied to one interface (zone id)"
    plain = int(address)
    if address in _MAPPED or address in _NAT64:
        return verdict(IPv4Address(plain & 0xFFFFFFFF))
    special = next((why for network, why in _SPECIAL_IPV6 if address in network), None)
    if special is not None:
        return special
    if address not in _GLOBAL_IPV6:
        return "reserved"
    if plain >> 32 & 0xFFFFFFFF in _ISATAP_MARKS:
        return verdict(IPv4Address(plain & 0xFFFFFFFF))
    return None


def _inner(address: Address) -> Address:
    """The IPv4 address that a mapped or translated one stands for, else the address itself."""
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


async def _system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


class AddressGuard:
    """Decides where connections may go.

    `allow_hosts` opens single hosts; `allow_private` opens every address but those where clouds hand out credentials.
    """

    __slots__ = ("_allow_hosts", "_allow_private", "_resolve")

    def __init__(
        self, *, allow_private: bool = False, allow_hosts: Iterable[str] = (), resolve: Resolve | None = None
    ) -> None:
        self._allow_private = allow_private
        self._allow_hosts = frozenset(_canonical(host) for host in allow_hosts)
        self._resolve = resolve or _system_resolve

    def check_literal(self, host: str) -> None:
        """Check a host without a look-up: one that is written as an address, or that is not a valid host at all."""
        address = numeric_host(host)
        if address is not None:
            self._judge(host, address)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses to connect to, in order. They are looked up once and all checked; one forbidden address refuses the host."""
        literal = numeric_host(host)
        found = [literal] if literal is not None else await self._look_up(host, port)
        for address in found:
            self._judge(host, address)
        return [str(address) for address in found]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        found: dict[Address, None] = {}
        for text in await self._resolve(host, port):
            try:
                found[ip_address(text)] = None
            except ValueError:
                raise AddressRefused(f"{host!r} was resolved to {text!r}, which is not an address.") from None
        if not found:
            raise OSError(f"{host!r} has no address")
        return list(found)

    def _judge(self, host: str, address: Address) -> None:
        if _canonical(host) in self._allow_hosts:
            return
        named = f"{host!r}" if str(address) == host else f"{host!r} ({address})"
        if _inner(address) in _METADATA:
            raise AddressRefused(
                f"{named} hands out the machine's credentials and is not reached by tools. "
                f"If this tool must, declare it with allow_hosts=[{host!r}]."
            )
        if self._allow_private:
            return
        why = verdict(address)
        if why is not None:
            raise AddressRefused(
                f"{named} is not on the public internet: {why}. If this tool may reach it, declare it with "
                f"allow_hosts=[{host!r}], or with allow_private=True for every such address."
            )


def _canonical(host: str) -> str:
    """One spelling for each host, so that `allow_hosts` means the host and not the way it is written."""
    address = numeric_host(host)
    return host.lower().removesuffix(".") if address is None else str(address)
