"""Refuses requests whose `Host` is not a name of this server, or whose `Origin` is a foreign web page.

This protects a server on loopback from web pages that its user opens. A page can send requests to it (CSRF), and a DNS name can
point to it (DNS rebinding), but neither can choose `Host` and `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clicket.server.problems import Refused

__all__ = ["HostCheck", "is_loopback"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared here, not bound
_MAX_CACHED = 256


def is_loopback(host: str) -> bool:
    host = host.strip("[]").lower()
    return host in _LOOPBACK or (host.startswith("127.") and host.count(".") == 3 and host.replace(".", "").isdecimal())


class HostCheck:
    """The accepted names and origins."""

    def __init__(self, bound: str, names: Iterable[str], origins: Iterable[str]) -> None:
        given = {_bare(name) for name in names}
        self._names = _LOOPBACK | given | ({bound.strip("[]").lower()} - _ANY)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._accepted: set[tuple[bytes, Any]] = set()

    def check(self, scope: Any) -> bytes | None:
        """The origin that needs CORS headers in the response, or None; raises `Refused`."""
        host: bytes | None = None
        origin: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    raise _foreign_host("two")
                host = value
            elif name == b"origin":
                if origin is not None:
                    raise _foreign_origin("two")
                origin = value
        server = scope.get("server")
        local = server[0] if server else ""
        if host is None or (host, local) not in self._accepted:
            self._check_host(host, local)
        return None if origin is None else self._check_origin(origin, host or b"")

    def _check_host(self, host: bytes | None, local: str) -> None:
        text = (host or b"").decode("latin-1").lower()
        name = _bare(text)
        # The address of the connection itself is accepted: no DNS name is involved.
        if not name or (name not in self._names and name != local.lower()):
            raise _foreign_host(repr(text[:100]))
        if len(self._accepted) < _MAX_CACHED and host is not None:
            self._accepted.add((host, local))

    def _check_origin(self, origin: bytes, host: bytes) -> bytes | None:
        text = origin.decode("latin-1").lower()
        if text in self._origins:
            return origin
        scheme, _, rest = text.partition("://")
        if scheme in ("http", "https") and rest and rest == host.decode("latin-1").lower():
            return None
        raise _foreign_origin(repr(text[:100]))


def _bare(host: str) -> str:
    """A host without its port. Text that is not `name`, `name:port`, `[address]` or `[address]:port` is returned unchanged: it
    matches no accepted name."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and (not rest or (rest[0] == ":" and rest[1:].isdecimal())) else host
    name, colon, port = host.partition(":")
    return name if not colon or port.isdecimal() else host


def _foreign_host(what: str) -> Refused:
    text = f"this server does not accept the host {what}. Use its own name, or start it with --allowed-host."
    return Refused("foreign_host", text)


def _foreign_origin(what: str) -> Refused:
    text = f"pages of the origin {what} may not use this server. Its owner can allow them with --allowed-origin."
    return Refused("foreign_origin", text)
