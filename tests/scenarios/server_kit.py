"""Real servers for tests: uvicorn on a free port of loopback, a real HTTP client, and readers of server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import tests.kit.servers  # noqa: F401  # servers that end at once
from tests.kit.tools import echo_value
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make

from clicket import Policy, Runtime, ToolContext, tool
from clicket.server import Options, serving
from clicket.server.http_server import RunningServer
from clicket.server.keys import create

__all__ = ["TOOLS", "Api", "Sse", "api", "key_for", "read_sse", "served", "serving_in_thread"]


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail(message: str = "no") -> None:
    """Fail."""
    raise ValueError(message)


@tool
async def count(ctx: ToolContext, to: int = 3) -> str:
    """Count, one output each."""
    for number in range(to):
        ctx.emit(f"{number}\n")
    return "done"


@tool(max_result_size=1000)
async def long(size: int = 5000, letter: str = "x") -> str:
    """More than a model reads."""
    return letter * size


TOOLS = (add, echo_value, fail, count, long)


class Api:
    """A server and a client of it."""

    def __init__(self, served: RunningServer, client: httpx2.AsyncClient, runtime: Runtime) -> None:
        self.served = served
        self.client = client
        self.runtime = runtime
        self.url = served.url
        self.parts = served.parts

    async def call(self, tool: str, arguments: Any = None, **body: Any) -> httpx2.Response:
        headers = body.pop("headers", None)
        return await self.client.post(
            "/calls", json={"tool": tool, "arguments": arguments, "wait": True, **body}, headers=headers
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


@asynccontextmanager
async def served(
    tools: Iterable[Any] = TOOLS,
    store: str = "memory://",
    *,
    policy: Policy | None = None,
    host: str = "127.0.0.1",
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Api]:
    runtime = make(tools, store, policy=policy, **settings)
    await runtime.open()
    try:
        async with (
            serving(runtime, host=host, port=0, options=Options(**{"stop_timeout": 2.0, **(options or {})})) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
        ):
            yield Api(server, client, runtime)
    finally:
        await runtime.close()


api = served


async def key_for(it: Api, name: str, *scopes: str) -> dict[str, str]:
    """A new key as the header that carries it."""
    _, text = await create(it.runtime.store, name=name, scopes=scopes, now=1.0)
    it.parts.authenticator.checked_at = float("-inf")  # the authenticator looks for the first key once a second
    return {"authorization": f"Bearer {text}"}


class Sse(dict[str, Any]):
    """One event as sent: `id event data`."""


async def read_sse(
    response: httpx2.Response, *, until: Any = None, comments: list[str] | None = None
) -> AsyncIterator[Sse]:
    """Events of a stream, until it ends or `until(event)` is true."""
    event = Sse()
    async for line in response.aiter_lines():
        if line.startswith(":"):
            if comments is not None:
                comments.append(line[1:].strip())
        elif line:
            name, _, value = line.partition(": ")
            event[name] = json.loads(value) if name == "data" else value
        elif event:
            done, event = event, Sse()
            yield done
            if until is not None and until(done):
                return


@contextmanager
def serving_in_thread(tools: Iterable[Any] = TOOLS, store: str = "memory://", **settings: Any) -> Iterator[str]:
    """A server with its own event loop, for clients that block. Yields its URL."""
    ready: list[Any] = []
    came, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        try:
            async with served(tools, store, **settings) as it:
                ready.append(it.url)
                came.set()
                await stop.wait()
        except BaseException as error:
            ready.append(error)
            raise
        finally:
            came.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="clicket-test-server")
    thread.start()
    try:
        assert came.wait(PATIENCE), "the server did not start"
        assert isinstance(ready[0], str), ready
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()
