"""A clicket server with a public address, and a browser: follows links, keeps cookies, and presses the one button of a page."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import tests.kit.servers  # noqa: F401  # servers that end at once
from tests.kit.authorization_server import AuthorizationServer
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make
from tests.scenarios.server_kit import Api

from clicket.server import Options, serving

__all__ = ["KEY", "Browser", "connecting_server", "free_port"]

KEY = "the key of the scenarios of connecting"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@asynccontextmanager
async def connecting_server(
    server: AuthorizationServer,
    tools: Iterable[Any],
    store: str = "memory://",
    *,
    providers: Any = None,
    **settings: Any,
) -> AsyncIterator[Api]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server.control(callback=f"{url}/connect/callback")
    chosen = (server.provider(),) if providers is None else providers
    runtime = make(tools, store, secret_key=KEY, public_url=url, providers=chosen, **settings)
    await runtime.open()
    try:
        async with (
            serving(runtime, host="127.0.0.1", port=port, options=Options(stop_timeout=2.0)) as running,
            httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE) as client,
        ):
            yield Api(running, client, runtime)
    finally:
        await runtime.close()


class Browser:
    """Goes where it is sent, as a person's browser does. `came` are the addresses that it was at."""

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}
        self.came: list[str] = []

    async def get(self, url: str) -> httpx2.Response:
        return await self._follow("GET", url)

    async def press(self, url: str, **form: str) -> httpx2.Response:
        """Open a page, and send its form."""
        page = await self.get(url)
        assert page.status_code == 200, page.text
        return await self._follow("POST", url, data=form)

    async def until_callback(self, url: str) -> str:
        """Press the button, and stop before the callback; returns its address."""
        response = await self._follow("POST", url, stop="/connect/callback")
        return str(response.headers["location"])

    async def _follow(self, method: str, url: str, *, data: Any = None, stop: str = "") -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=PATIENCE, follow_redirects=False) as http:
            for _ in range(10):
                parts = urlsplit(url)
                self.came.append(f"{parts.scheme}://{parts.netloc}{parts.path}")
                headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
                if method == "POST":
                    headers["origin"] = f"{parts.scheme}://{parts.netloc}"
                response = await http.request(method, url, headers=headers, data=data)
                for name, value in response.cookies.items():
                    self.cookies[name] = value
                if not response.is_redirect:
                    return response
                url, method, data = urljoin(url, response.headers["location"]), "GET", None
                if stop and urlsplit(url).path == stop:
                    return response
        raise AssertionError("it is sent in circles")
