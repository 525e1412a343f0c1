"""The pooled HTTP client of REST tools (`rest.py`) and of web pages (`search/web/pages.py`). It connects only to checked addresses
(`guard.py`).

The address is looked up where the socket is opened, so nothing can change between the check and the use; the Host header, the
TLS server name and the certificate check still go by the host's name. Importing this module is what imports httpx2.
Failures leave here as one of two: `Unsent` (the server cannot have seen the request) or `Broken` (it may have).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast

import httpcore2
import httpx2

from clicket.errors import ClicketError
from clicket.safety.guard import AddressGuard

__all__ = ["CONNECT_TIMEOUT", "Broken", "PinnedBackend", "Unsent", "open_client"]

CONNECT_TIMEOUT = 5.0
KEEPALIVE = 30.0
MAX_CONNECTIONS = 100


class Unsent(ClicketError):
    """No connection was made, so the server never saw the request."""

    code = "tool_error"


class Broken(ClicketError):
    """The exchange broke off; the server may have acted on the request."""

    code = "tool_error"


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to checked addresses only; `inner` does the opening."""

    def __init__(self, guard: AddressGuard, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._guard = guard
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (CONNECT_TIMEOUT if timeout is None else timeout)
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._guard.addresses(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"looking up {host} took too long") from None
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} could not be looked up: {error}") from error
        for left in range(len(addresses), 1, -1):
            # Each address gets its share of the time, so that a dead first one does not starve the next.
            share = max(0.0, deadline - loop.time()) / left
            with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._inner.connect_tcp(addresses[-left], port, share, local_address, socket_options)
        rest = max(0.0, deadline - loop.time())
        return await self._inner.connect_tcp(addresses[-1], port, rest, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol("REST tools do not connect to unix sockets")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _PinnedTransport(httpx2.AsyncBaseTransport):
    """httpx2's own transport takes no network backend, so the pool is made here."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, ssl_context: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEPALIVE,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        inner = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _border(request.url.host):
            response = await self._pool.handle_async_request(inner)
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(cast("httpcore2.AsyncConnectionInterface", response.stream), request.url.host),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: object, host: str) -> None:
        self._stream = stream
        self._host = host

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _border(self._host):
            async for part in cast("AsyncIterator[bytes]", self._stream):
                yield part

    async def aclose(self) -> None:
        await cast("httpcore2.AsyncConnectionPool", self._stream).aclose()


@contextlib.contextmanager
def _border(host: str) -> Iterator[None]:
    try:
        yield
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
        raise Unsent(_says(error, f"{host} could not be reached"), certificate=_certificate_failed(error)) from error
    except (httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise Unsent(_says(error, "the request cannot be sent"), malformed=True) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        raise Broken(_says(error, f"the connection to {host} broke off")) from error


def _says(error: Exception, what: str) -> str:
    told = str(error).rstrip(".")
    return f"{what}: {told}" if told else f"{what} ({type(error).__name__})"


def _certificate_failed(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def open_client(
    guard: AddressGuard, ssl_context: ssl.SSLContext, inner: httpcore2.AsyncNetworkBackend | None = None
) -> httpx2.AsyncClient:
    """A client that keeps connections, and nothing else: no cookies, no proxies or credentials from the environment."""
    backend = PinnedBackend(guard, inner or httpcore2.AnyIOBackend())
    return httpx2.AsyncClient(
        transport=_PinnedTransport(backend, ssl_context),
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        headers={"user-agent": "clicket", "accept": "application/json, */*;q=0.5", "accept-encoding": "gzip, deflate"},
    )
