"""HTTP without sockets: the server's ASGI application in the process of a member, and what travels between it and a client elsewhere.

A request reaches the server late, and so does each part of the answer. A connection may break at any moment: then the server sees a
client that has left, and the client does not know what became of its request. The client of a dead server waits until its patience ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from contextvars import Context
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from tests.simulation.loop import Node
from tests.simulation.world import World

from clicket.server import Options

__all__ = ["JUDGES", "OPTIONS", "SERVED", "Answer", "Connection", "key_of"]

SERVED = ("ann", "bob")
"""Callers that have a key."""
JUDGES = ("pat", "pam", "pia")
"""People with a key who decide about calls of others."""
_KEYS = {name: f"{name}-{'0123456789abcdef'}" for name in (*SERVED, *JUDGES)}
OPTIONS = Options(
    api_keys=(
        *(f"{name}:read+call:{_KEYS[name]}" for name in SERVED),
        *(f"{name}:read+approve:{_KEYS[name]}" for name in JUDGES),
    ),
    heartbeat=2.0,
    stall_timeout=5.0,
)
_PATIENCE = 6.0
"""Seconds without a part of the answer after which a client gives up."""


def key_of(name: str) -> str:
    return _KEYS[name]


class Answer(NamedTuple):
    status: int
    body: Any
    """Decoded JSON; None if there is none."""


class Connection:
    """One request, from a client outside of all nodes to the application of a node."""

    def __init__(self, world: World, node: Node, app: Callable[..., Any], *, breaks_after: float | None = None) -> None:
        self._world, self._node, self._app = world, node, app
        self._loop = world.loop
        self._parts: asyncio.Queue[Any] = asyncio.Queue()
        self._gone = asyncio.Event()
        """The client has left."""
        self.is_cut = False
        """The network has broken it."""
        if breaks_after is not None:
            self._loop.call_later(breaks_after, self._cut, context=Context())

    async def ask(
        self, method: str, path: str, key: str, body: Any = None, *, patience: float = _PATIENCE, **query: Any
    ) -> Answer | None:
        """The answer; None: there was none, and what became of the request is not known."""
        status, chunks = 0, b""
        async with aclosing(self._exchange(method, path, key, body, patience, query, {})) as parts:
            async for part in parts:
                if part["type"] == "http.response.start":
                    status = part["status"]
                else:
                    chunks += part.get("body", b"")
                    if not part.get("more_body"):
                        return Answer(status, msgspec.json.decode(chunks) if chunks else None)
        return None

    async def listen(self, path: str, key: str, after: int, **query: Any) -> AsyncGenerator[tuple[int, Any]]:
        """The server-sent events of a stream, with the status of the answer. It ends if the stream ends, or breaks."""
        status, rest = 0, b""
        headers = {"last-event-id": str(after)} if after else {}
        async with aclosing(self._exchange("GET", path, key, None, _PATIENCE, query, headers)) as parts:
            async for part in parts:
                if part["type"] == "http.response.start":
                    status = part["status"]
                    if status != 200:
                        yield status, None
                        return
                    continue
                *frames, rest = (rest + part.get("body", b"")).split(b"\n\n")
                for frame in frames:
                    fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if not line.startswith(b":"))
                    if b"data" in fields:
                        yield status, msgspec.json.decode(fields[b"data"])
                if not part.get("more_body"):
                    return

    async def _exchange(
        self,
        method: str,
        path: str,
        key: str,
        body: Any,
        patience: float,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> AsyncIterator[Any]:
        """The messages of the answer as they arrive at the client."""
        content = b"" if body is None else msgspec.json.encode(body)
        told = {"host": "localhost", "authorization": f"Bearer {key}", "content-length": str(len(content)), **headers}
        if body is not None:
            told["content-type"] = "application/json"
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
            "raw_path": path.encode(), "root_path": "", "client": ("10.0.0.9", 4711), "server": ("localhost", 8000),
            "query_string": urlencode({name: value for name, value in query.items() if value is not None}).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in told.items()],
        }  # fmt: skip
        self._loop.call_later(self._trip(), self._arrive, scope, content, context=Context())
        try:
            while True:
                async with asyncio.timeout(patience):
                    part = await self._parts.get()
                if part is None or self._node.is_forgotten:
                    return
                yield part
        except TimeoutError:
            return
        finally:
            self._break()

    def _arrive(self, scope: Any, content: bytes) -> None:
        if self._node.is_alive:
            self._world.spawn(self._node, self._serve(scope, content))

    async def _serve(self, scope: Any, content: bytes) -> None:
        parts = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(part: Any) -> None:
            self._loop.call_later(self._trip(), self._parts.put_nowait, part, context=Context())
            await asyncio.sleep(0)

        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self._world.wrong("the server answers", f"{scope['method']} {scope['path']} raised {error!r}")

    def _cut(self) -> None:
        self.is_cut = not self._gone.is_set()
        self._break()

    def _break(self) -> None:
        if not self._gone.is_set():
            self._gone.set()
            self._parts.put_nowait(None)

    def _trip(self) -> float:
        """Late by a little; always more than the part before it, as on one connection."""
        self._at = max(getattr(self, "_at", 0.0), self._loop.time() + self._loop.chance.expovariate(400)) + 1e-9
        return self._at - self._loop.time()
