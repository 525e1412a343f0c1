"""Where the server is. A password is for connecting and for nothing else: no message and no log shows it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from clicket.errors import UsageError

__all__ = ["Address", "address"]

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """`url` may be shown; `base` begins every key. Its braces make a cluster keep all keys in one place."""

    url: str
    base: str
    pool: Any
    """Makes connections; it does not keep them."""


def address(url: str, prefix: str, timeout: float) -> Address:
    """Take a URL apart. `?prefix=` wins over the argument; all other options of the query are redis-py's."""
    parts = urlsplit(url)
    try:
        host = parts.hostname or "localhost"
        place = f"{f'[{host}]' if ':' in host else host}:{parts.port or 6379}"
    except ValueError as error:
        raise UsageError(f"a redis URL names no port that exists: {error}. Write redis://host:6379/0.") from error
    if parts.scheme not in ("redis", "rediss"):
        raise UsageError(
            f"{parts.scheme!r} is not a scheme of Redis. Write redis://host:6379/0, or rediss:// with TLS."
        )
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", prefix)
    options.pop("protocol", None)
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"{prefix!r} is not a prefix for keys: up to 64 letters, digits, and . _ : - are.")
    user = f"{parts.username or ''}:***@" if parts.password else (f"{parts.username}@" if parts.username else "")
    shown = f"{parts.scheme}://{user}{place}{parts.path.rstrip('/')}" + (
        f"?prefix={prefix}" if prefix != "clicket" else ""
    )
    plain = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(options), ""))
    try:
        pool = ConnectionPool.from_url(plain, protocol=2)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{shown} cannot be read as the URL of a Redis server: {error}.") from error
    pool.connection_kwargs.update(  # ours, whatever the URL says: the store has its own clock, retries and decoding
        socket_timeout=None,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        health_check_interval=0,
        decode_responses=False,
    )
    return Address(url=shown, base=f"{{{prefix}}}:", pool=pool)
