"""The way to a server and back: one pooled HTTP client, problems as the errors that the runtime itself would raise."""

from __future__ import annotations

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

__all__ = ["Problem", "ServerUnavailable", "Wire", "part"]

T = TypeVar("T")
_CONNECT = 5.0
_LOOKS = 3
_PATIENCE = 60.0
"""Seconds without a byte after which an answer is given up; streams have heartbeats well within."""


class ServerUnavailable(StoreUnavailable):
    """The server could not be reached, broke off, or is shutting down."""


class Problem(msgspec.Struct, kw_only=True):
    """An RFC 9457 problem as our server writes it; others' answers become one, too."""

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
    "permission_denied": PermissionDenied,
    "queue_full": QueueFull,
    "store_unavailable": StoreUnavailable,
    "shutting_down": ServerUnavailable,
    "closed": ServerUnavailable,
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


class Failed(ClicketError):
    """The server answered with a problem."""

    code = "problem"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def part(text: str) -> str:
    """A name as one part of a path. Dots alone would mean another path."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


class Wire:
    def __init__(self, url: str, key: str | None, *, transport: Any = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no address of a server. Write http://127.0.0.1:8000, or https://….")
        self.url = url.rstrip("/")
        key = os.environ.get("CLICKET_API_KEY") if key is None else key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx2.Timeout(_PATIENCE, connect=_CONNECT)
        self._http = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=timeout, transport=transport)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """One exchange. A problem is raised as the error that it stands for."""
        given = dict(headers or {})
        content = raw
        if body is not None:
            content = body if isinstance(body, bytes) else msgspec.json.encode(body)
            given["content-type"] = "application/json"
        params = {name: _plain(value) for name, value in (query or {}).items() if value is not None}
        left = _LOOKS if method == "GET" else 1
        while True:
            left -= 1
            try:
                answer = await self._http.request(method, path, content=content, params=params, headers=given)
            except httpx2.HTTPError as error:  # to look again does no harm; a server that is not there stays so
                if not left or isinstance(error, httpx2.ConnectError):
                    raise self.lost(error) from error
                continue
            if answer.status_code >= 400:
                raise Failed(_problem(answer.status_code, answer.content))
            return answer

    async def get(self, path: str, kind: type[T], **options: Any) -> T:
        return await self.read("GET", path, kind, **options)

    async def read(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        answer = await self._raising(method, path, **options)
        return decoded(answer.content, kind)

    async def _raising(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            return await self.ask(method, path, **options)
        except Failed as failed:
            raise failed.problem.error() from None

    async def send(self, method: str, path: str, **options: Any) -> bytes:
        return bytes((await self._raising(method, path, **options)).content)

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, Any], headers: Mapping[str, str], body: Any = None
    ) -> AsyncIterator[AsyncIterator[str]]:
        """A stream of server-sent lines; with a body it is asked for by POST."""
        params = {name: _plain(value) for name, value in query.items() if value is not None}
        content = None if body is None else msgspec.json.encode(body)
        given = dict(headers) if body is None else {**headers, "content-type": "application/json"}
        method = "GET" if body is None else "POST"
        try:
            async with self._http.stream(method, path, content=content, params=params, headers=given) as answer:
                if answer.status_code >= 400:
                    raise _problem(answer.status_code, await answer.aread()).error()
                yield _lines(answer.aiter_bytes())
        except httpx2.HTTPError as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> ServerUnavailable:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ServerUnavailable(f"{self.url} cannot be reached ({why}). Is `clicket serve` running there?")


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Lines end with a newline and with nothing else: JSON may hold any other character that Unicode breaks lines at."""
    begun: list[bytes] = []
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join((*begun, line)).removesuffix(b"\r").decode(errors="replace")
            begun.clear()
        begun.append(rest)


def decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ServerUnavailable(f"the server's answer is not one of clicket's: {error}.") from error


def _problem(status: int, content: bytes) -> Problem:
    try:
        problem = msgspec.json.decode(content, type=Problem)
    except msgspec.MsgspecError:
        problem = Problem(detail=f"the server answered {status}: {content[:200].decode(errors='replace')}")
    problem.status = status
    return problem


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
