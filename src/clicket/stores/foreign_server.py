"""Which kind of server answers at the address of a store, if it is not the kind that the URL names."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from clicket.errors import StoreUnavailable

__all__ = ["refuse_foreign_server"]

_KINDS = {
    "redis": ("Redis", 6379),
    "rediss": ("Redis", 6379),
    "postgresql": ("PostgreSQL", 5432),
    "postgres": ("PostgreSQL", 5432),
}
_HTTP = b"GET / HTTP/1.0\r\n\r\n"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_QUESTIONS = (
    (_HTTP, {b"HTTP/": "HTTP", b"-": "Redis"}),  # Redis reads it as a command, and answers with an error
    (_SSL_REQUEST, {b"S": "PostgreSQL", b"N": "PostgreSQL"}),  # PostgreSQL answers with one letter
)
_ADVICE = {
    "HTTP": "A clicket server is used with clicket.client.Client.",
    "Redis": "The URL of a Redis begins with redis://.",
    "PostgreSQL": "The URL of a PostgreSQL begins with postgresql://.",
}


async def refuse_foreign_server(url: str, shown: str, timeout: float) -> None:
    """Raise `StoreUnavailable` if another kind of server is at the URL. Called when the store could not be opened.

    A server that does not understand a client closes the connection, or waits for more: by that alone it looks like one that is down.
    """
    try:
        parts = urlsplit(url)
        kind, port = _KINDS[parts.scheme]
        host, port = parts.hostname, parts.port or port
    except (KeyError, ValueError):  # no server, or several
        return
    found = await _kind_at(host, port, timeout) if host else None
    if found is not None and found != kind:
        article = "an" if found == "HTTP" else "a"
        raise StoreUnavailable(
            f"{shown}: {article} {found} server answers at {host}:{port}, not {kind}. Look at the host and the port in the URL of the "
            f"store. {_ADVICE[found]}",
            url=shown,
        )


async def _kind_at(host: str, port: int, timeout: float) -> str | None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            for question, kinds in _QUESTIONS:
                answer = await _answer(host, port, question)
                for beginning, kind in kinds.items():
                    if answer.startswith(beginning):
                        return kind
    return None


async def _answer(host: str, port: int, question: bytes) -> bytes:
    """The first bytes that the server says; empty if it says nothing."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(question)
            return await reader.read(5)
        finally:
            writer.close()
    except OSError:
        return b""
