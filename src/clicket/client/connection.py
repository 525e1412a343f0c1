"""HTTP to a server: one pool of connections; the server's problems become the errors that a runtime would raise.

Also what every stream of events needs: `Reconnection`, the waits before a broken stream is opened again.
The streams are in `handle.py` (one call), `subscription.py` (all calls) and `agent.py` (one thread of an agent).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from clicket.errors import (
    AgentBusy,
    ClicketError,
    Conflict,
    InvalidInput,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    QueueFull,
    StoreUnavailable,
    ToolNotFound,
    UsageError,
)
from clicket.model.text.server_sent_events import EventParser, ServerSentEvent
from clicket.safety.certificates import ssl_context

__all__ = [
    "Connection",
    "Problem",
    "ProblemResponse",
    "Reconnection",
    "ServerUnavailable",
    "decoded",
    "decoded_field",
    "path_segment",
]

T = TypeVar("T")
_CONNECT_TIMEOUT = 5.0
_GET_TRIES = 3
_READ_TIMEOUT = 60.0
"""Seconds without a byte. The heartbeats of streams come more often."""
_FIRST_DELAY = 0.05
_LONGEST_DELAY = 2.0
_STREAM_TRIES = 8
_FOREIGN = "not_a_clicket_server"
_UNKNOWN_PATH = (400, 404, 405, 501)
"""What another server answers to a path or a method that it does not have."""
_IS_IT_OURS = (
    "Look at the address: is it that of `clicket serve`, with the path under which an application is mounted, if it is?"
)


class ServerUnavailable(StoreUnavailable):
    """The server cannot be reached, closed the connection before it answered, or is shutting down."""


class Problem(msgspec.Struct, kw_only=True):
    """An RFC 9457 problem. An error response in another format, as of a proxy, becomes one with its status and text."""

    status: int = 0
    title: str = ""
    detail: str = ""
    code: str = ""
    errors: list[dict[str, str]] = []
    call_id: str | None = None

    def error(self) -> ClicketError:
        if self.code == "unauthorized":
            return PermissionDenied(
                f"{self.detail} From Python: Client(url, key=…), or CLICKET_API_KEY.", status=self.status
            )
        if self.code == "invalid_input":
            return InvalidInput(self.errors or self.detail)
        kind = _KINDS.get(self.code) or _BY_STATUS.get(self.status, UsageError)
        return kind(self.detail or self.title or f"the server answered {self.status}.", status=self.status)


_KINDS: Mapping[str, type[ClicketError]] = {
    "agent_busy": AgentBusy,
    "conflict": Conflict,
    "invalid_transition": InvalidTransition,
    "missing_scope": PermissionDenied,
    "not_found": NotFound,
    "not_started": UsageError,
    "permission_denied": PermissionDenied,
    "queue_full": QueueFull,
    "store_unavailable": StoreUnavailable,
    "shutting_down": ServerUnavailable,
    "closed": ServerUnavailable,
    "issuer_unavailable": ServerUnavailable,
    _FOREIGN: UsageError,
    "tool_not_found": ToolNotFound,
    "unauthorized": PermissionDenied,
}
_BY_STATUS: Mapping[int, type[ClicketError]] = {
    401: PermissionDenied,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    429: QueueFull,
    500: ServerUnavailable,
    502: ServerUnavailable,
    503: StoreUnavailable,
    504: ServerUnavailable,
}


class ProblemResponse(ClicketError):
    """The server answered with a problem. `problem.error()` is the error to raise."""

    code = "problem"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def path_segment(text: str) -> str:
    """A name as one segment of a URL path. `.` and `..` are quoted too: they would mean another path."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


class Connection:
    def __init__(self, url: str, key: str | None, *, transport: Any = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not the URL of a server. Write http://127.0.0.1:8000, or https://….")
        self.url = url.rstrip("/")
        key = os.environ.get("CLICKET_API_KEY") if key is None else key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx2.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT)
        self._http = httpx2.AsyncClient(
            base_url=self.url, headers=headers, timeout=timeout, transport=transport, verify=ssl_context(trust_env=True)
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: bytes | AsyncIterator[bytes] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one request; `body` is sent as JSON. Raises `ProblemResponse` or `ServerUnavailable`.

        A GET whose connection breaks is sent again, unless no connection could be made at all.
        """
        options = _options(body, raw, query, headers)
        left = _GET_TRIES if method == "GET" else 1
        while True:
            left -= 1
            try:
                response = await self._http.request(method, path, **options)
            except httpx2.HTTPError as error:
                if not left or isinstance(error, httpx2.ConnectError):
                    raise self._unavailable(error) from error
                continue
            if response.status_code >= 400:
                raise ProblemResponse(_problem(self.url, response.status_code, response.content))
            return response

    async def post_until_answered(
        self, path: str, body: Any, *, tries: int, query: Mapping[str, Any] | None = None
    ) -> httpx2.Response:
        """Send the same request until the server answers. Only for requests that name what they create: they take effect once."""
        delay = _FIRST_DELAY
        for left in reversed(range(tries)):
            try:
                return await self.request("POST", path, body=body, query=query)
            except (ProblemResponse, ServerUnavailable) as error:
                # A server that shuts down will be replaced; one that failed may have created it all the same.
                meaning = error.problem.error() if isinstance(error, ProblemResponse) else error
                if not left or not isinstance(meaning, ServerUnavailable):
                    raise
            await asyncio.sleep(delay)
            delay *= 2
        raise AssertionError("unreachable")

    async def get(self, path: str, kind: type[T], **options: Any) -> T:
        return await self.read("GET", path, kind, **options)

    async def read(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        """The response's JSON as `kind`. A problem is raised as the error that it stands for."""
        return decoded(await self.send(method, path, **options), kind)

    async def read_field(self, method: str, path: str, name: str, kind: type[T], **options: Any) -> T:
        """One field of the response's JSON object."""
        return decoded_field(await self.send(method, path, **options), name, kind)

    async def send(self, method: str, path: str, **options: Any) -> bytes:
        """The response's body. A problem is raised as the error that it stands for."""
        try:
            return bytes((await self.request(method, path, **options)).content)
        except ProblemResponse as refused:
            raise refused.problem.error() from None

    async def chunks(self, path: str, *, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body of a response as it arrives. Raises `ProblemResponse` or `ServerUnavailable`."""
        try:
            async with self._http.stream("GET", path, headers=dict(headers)) as response:
                if response.status_code >= 400:
                    raise ProblemResponse(_problem(self.url, response.status_code, await response.aread()))
                async for chunk in response.aiter_bytes():
                    yield chunk
        except httpx2.HTTPError as error:
            raise self._unavailable(error) from error

    @asynccontextmanager
    async def events(
        self, path: str, *, query: Mapping[str, Any] | None = None, last_id: str | None = None, body: Any = None
    ) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
        """A stream of server-sent events after `last_id`. With a body the request is a POST."""
        headers = {"accept": "text/event-stream", **({} if last_id is None else {"last-event-id": last_id})}
        options = _options(body, None, query, headers)
        try:
            async with self._http.stream("GET" if body is None else "POST", path, **options) as response:
                if response.status_code >= 400:
                    raise _problem(self.url, response.status_code, await response.aread()).error()
                yield self._parsed(response)
        except httpx2.HTTPError as error:
            raise self._unavailable(error) from error

    async def _parsed(self, response: httpx2.Response) -> AsyncIterator[ServerSentEvent]:
        """Translates errors itself: a subscription reads outside of the block that opened the stream."""
        try:
            parser = EventParser()
            async for part in response.aiter_bytes():
                for event in parser.feed(part):
                    yield event
        except httpx2.HTTPError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> ServerUnavailable:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ServerUnavailable(f"{self.url} cannot be reached ({why}). Is `clicket serve` running there?")


class Reconnection:
    """The waits before a broken stream is opened again: they double. Eight failures in a row are too many."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The stream delivered something."""
        self._failures = 0
        self._delay = _FIRST_DELAY

    def failed(self, error: ServerUnavailable) -> None:
        """Count a failure. Raises the error when there were too many in a row."""
        self._failures += 1
        if self._failures >= _STREAM_TRIES:
            raise error

    async def wait(self) -> None:
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, _LONGEST_DELAY)


def _options(
    body: Any,
    raw: bytes | AsyncIterator[bytes] | None,
    query: Mapping[str, Any] | None,
    headers: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The keywords of a request. Query parameters that are None are left out."""
    given = dict(headers or {})
    if body is not None:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        given["content-type"] = "application/json"
    params = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    return {"content": raw, "params": params, "headers": given}


def decoded(content: bytes | str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ServerUnavailable(f"the response is not one of a clicket server: {error}. {_IS_IT_OURS}") from error


def decoded_field(content: bytes, name: str, kind: type[T]) -> T:
    """One field of a JSON object. A missing field raises `ServerUnavailable`, as other content does that is not a server's."""
    return decoded(bytes(decoded(content, dict[str, msgspec.Raw]).get(name, b"")), kind)


def _problem(url: str, status: int, content: bytes) -> Problem:
    try:
        problem = msgspec.json.decode(content, type=Problem)
    except msgspec.MsgspecError:
        problem = Problem(detail=f"the server answered {status}: {content[:200].decode(errors='replace')}")
    problem.status = status
    if not problem.code and status in _UNKNOWN_PATH:  # a 404 of another server does not mean that there is no such call
        problem.code = _FOREIGN
        problem.detail = f"{url} answered {status}, and not as a clicket server does. {_IS_IT_OURS}"
    return problem


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
