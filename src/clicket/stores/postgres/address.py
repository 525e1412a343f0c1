"""Where the server is: a libpq URL, and one parameter of our own in it, `?schema=`. Nothing here ever shows a password."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
from urllib.parse import unquote, urlsplit, urlunsplit

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from clicket.errors import UsageError
from clicket.stores.remote import Lost

__all__ = ["Address", "quoted"]

_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_SECRET = ("password", "sslpassword")


class Address:
    """`name` is fit for messages; `schema` has been checked."""

    def __init__(self, url: str, *, timeout: float) -> None:
        parts = urlsplit(url)
        fields = [each for each in parts.query.split("&") if each]
        self.name = _shown(url)
        self.schema = next((unquote(w.partition("=")[2]) for w in fields if w.startswith("schema=")), "clicket")
        if not _SCHEMA.fullmatch(self.schema):
            raise UsageError(
                f"{self.name}: {self.schema!r} cannot be a schema's name. Take up to 63 letters, digits and underscores, "
                "not beginning with a digit or pg_."
            )
        query = "&".join(each for each in fields if not each.startswith("schema="))
        try:
            given = conninfo_to_dict(urlunsplit(parts._replace(query=query)))
        except Error:  # its text repeats parts of the URL, and the password may be among them
            raise UsageError(
                f"{self.name} is not a URL that libpq understands. Write postgresql://user:password@host:5432/database, "
                "with special characters as %XX."
            ) from None
        ours = {
            "fallback_application_name": "clicket",
            "gssencmode": "disable",  # asks a key server, and libpq waits for it in the middle of the loop
            "keepalives_idle": "15",
            "keepalives_interval": "5",
            "keepalives_count": "3",
            "tcp_user_timeout": str(int(timeout * 1000)),
        }
        self._options = {**ours, **{k: str(v) for k, v in given.items() if v is not None}, "client_encoding": "UTF8"}

    async def attempts(self) -> list[bytes]:
        """What to try, in order: every address of every host. libpq would look names up in the middle of the loop."""
        hosts = (self._options.get("host") or os.environ.get("PGHOST", "")).split(",")
        ports = self._options.get("port", "").split(",")
        if "hostaddr" in self._options:
            return [self._conninfo({})]
        found: list[bytes] = []
        trouble: OSError | None = None
        for number, host in enumerate(hosts):
            port = ports[number] if number < len(ports) else ports[0]
            own = {"host": host, "port": port}
            if not host or host.startswith(("/", "@")) or _is_ip(host):
                found.append(self._conninfo(own))
                continue
            try:
                loop = asyncio.get_running_loop()
                known = await loop.getaddrinfo(host, port or 5432, type=socket.SOCK_STREAM)
            except OSError as error:
                trouble = error
            else:
                found += [self._conninfo({**own, "hostaddr": str(each[4][0])}) for each in known]
        if not found:
            raise Lost(f"the host {self._options.get('host')!r} is unknown ({trouble})")
        return found

    def _conninfo(self, own: dict[str, str]) -> bytes:
        return make_conninfo(**{k: v for k, v in {**self._options, **own}.items() if v}).encode()


def quoted(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _shown(url: str) -> str:
    """The URL without its secrets."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    query = "&".join(each for each in parts.query.split("&") if each.partition("=")[0] not in _SECRET)
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{place}", query=query))
