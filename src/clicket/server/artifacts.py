"""`/artifacts` and `/calls/{id}/result`: uploads, downloads and ranges of bytes.

The name of an artifact is the hash of its content, so knowing the name gives no right to it: only callers that uploaded it or whose
calls stored it may read it. It is sent as an attachment without a specific type, so that no browser runs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from clicket.engine.executors import spooled
from clicket.errors import NotFound
from clicket.model import notes_of
from clicket.runtime.runtime import Runtime
from clicket.server.artifact_access import ArtifactAccess
from clicket.server.call_lookup import CALLER, THREAD, CallLookup
from clicket.server.operations import BodySpec, Operation, ResponseSpec
from clicket.server.parameters import Parameter
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import ChunkedResponse, Response, json_response

__all__ = ["ArtifactHandlers"]

_CHUNK = 256 * 1024
_MAX_CACHED = 10_000
_BYTES = b"application/octet-stream"


class Uploaded(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the hash of the content. A file that no call uses is kept for the retention; uploading it again renews that."""

    id: str
    size: int


class _Sizes:
    """The sizes of artifacts. The content of a name never changes, so each is measured once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    async def of(self, view: Runtime, name: str) -> int:
        known = self._known.get(name)
        if known is not None:
            await view.artifact(name, 0, 0)  # it may have been swept since
        else:
            known = await _measure(view, name)
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            self._known[name] = known
        return known


async def _measure(view: Runtime, name: str) -> int:
    """A store has no call for the size: search for the end, doubling first, then halving."""
    high = _CHUNK
    if len(first := await view.artifact(name, 0, high)) < high:
        return len(first)
    while await view.artifact(name, high, high + 1):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if await view.artifact(name, middle, middle + 1):
            low = middle
        else:
            high = middle
    return high


_RANGE = Parameter(
    name="Range",
    description="One range of bytes: `bytes=0-99`. The response to any other value is the whole.",
    source="header",
    schema={"type": "string"},
)
_PARTS = {
    206: ResponseSpec(
        description="The range.",
        media_type="*/*",
        headers={"Content-Range": "Which part of how much.", "Accept-Ranges": "bytes"},
    ),
}


class ArtifactHandlers:
    """`max_upload_size` in bytes; a client that reads nothing for `stall_timeout` seconds is disconnected."""

    def __init__(
        self,
        runtime: Runtime,
        lookup: CallLookup,
        body_reader: BodyReader,
        access: ArtifactAccess,
        *,
        max_upload_size: int,
        stall_timeout: float,
    ) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._body_reader = body_reader
        self._access = access
        self._max_upload_size = max_upload_size
        self._stall_timeout = stall_timeout
        self._sizes = _Sizes()

    async def download(self, request: Request) -> ChunkedResponse | Response:
        name = request.path("id")
        view = request.principal.sees
        await self._access.check(request.principal, name)
        size = await self._sizes.of(view, name)
        return self._send(request, size, lambda start, end: _read(view, name, start, end), _BYTES, name)

    async def result(self, request: Request) -> ChunkedResponse | Response:
        _, record = await self._lookup.find(request, waiting=False)
        if not record.state.is_terminal:
            raise Refused(
                "not_ended", f"call {record.id!r} is {record.state}: there is no result yet. Wait for its end."
            )
        if not record.success:
            raise NotFound(f"call {record.id!r} ended as {record.state}, without a result. `GET /calls/…` says why.")
        is_text = isinstance(record.output, str)
        if record.artifact is not None:
            is_text = notes_of(record).get("artifact_type") != "json"
            name = record.artifact
            whole = self._runtime  # a principal that may read the call may read its result
            size = await self._sizes.of(whole, name)
            kind = b"text/plain; charset=utf-8" if is_text else b"application/json"
            return self._send(request, size, lambda start, end: _read(whole, name, start, end), kind, name)
        body = record.content.encode()
        kind = b"text/plain; charset=utf-8" if is_text else b"application/json"
        return self._send(request, len(body), lambda start, end: _one(body[start:end]), kind, "")

    def _send(self, request: Request, size: int, read: Any, kind: bytes, name: str) -> ChunkedResponse | Response:
        """The whole, or the one requested range. The response to several ranges is the whole, as HTTP allows."""
        headers = [(b"accept-ranges", b"bytes"), (b"content-disposition", b"attachment")]
        patience = self._stall_timeout
        etag = f'"{name}"' if name else None
        if etag is not None:
            headers.append((b"etag", etag.encode("ascii", "replace")))
        wanted = request.header(b"range")
        condition = request.header(b"if-range")
        span = None if wanted is None or (condition is not None and condition != etag) else _range(wanted, size)
        if span is None:
            return ChunkedResponse(200, read(0, size), size, kind, *headers, patience=patience)
        start, end = span
        if start >= end:
            unsatisfied = (b"content-range", b"bytes */%d" % size)
            raise Refused("range_not_satisfiable", f"there are {size} bytes; ask for some of them.", unsatisfied)
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size)))
        return ChunkedResponse(206, read(start, end), end - start, kind, *headers, patience=patience)

    async def upload(self, request: Request) -> Response:
        async with spooled(self._body_reader.chunks(request, self._max_upload_size)) as whole:
            await self._runtime.store.put_artifact(whole.name, whole.chunks, keep_until=self._runtime.pin_until())
        name = whole.name
        if request.principal.id:
            await self._access.allow_reading(request.principal.id, name)
        return json_response(Uploaded(id=name, size=whole.size), 201, request.location(f"/artifacts/{name}"))

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                route="POST /artifacts",
                description="Keep a file. Equal content is kept once, under one id.",
                handler=self.upload,
                scopes=("call",),
                body=BodySpec(optional=True),
                responses={
                    201: ResponseSpec(
                        description="It is kept.", schema=Uploaded, headers={"Location": "Where it is read."}
                    )
                },
                tag="artifacts",
            ),
            Operation(
                route="GET /artifacts/{id}",
                description="A file, or a range of it.",
                handler=self.download,
                scopes=("read",),
                parameters=(_RANGE,),
                responses={
                    200: ResponseSpec(description="The whole.", media_type="application/octet-stream"),
                    **_PARTS,
                },
                problems=(404, 416),
                tag="artifacts",
            ),
            Operation(
                route="GET /calls/{id}/result",
                description="The whole result of a completed call, or a range of it: text as it is, everything else as JSON.",
                handler=self.result,
                scopes=("read",),
                parameters=(THREAD, CALLER, _RANGE),
                responses={200: ResponseSpec(description="The whole.", media_type="*/*"), **_PARTS},
                problems=(404, 409, 416),
            ),
        )


def _range(text: str, size: int) -> tuple[int, int] | None:
    """A single byte range as start and end; None: not a single range, so the whole is sent. Takes linear time."""
    unit, _, spec = text.partition("=")
    first, dash, last = spec.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or len(spec) > 64:
        return None
    first, last = first.strip(), last.strip()
    if not all(part == "" or (part.isascii() and part.isdecimal()) for part in (first, last)) or not first + last:
        return None
    if not first:
        return max(size - int(last), 0), size
    start = int(first)
    end = int(last) + 1 if last else size
    if last and end <= start:
        return None
    return start, min(end, size)


async def _read(view: Runtime, name: str, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        chunk = await view.artifact(name, start, min(start + _CHUNK, end))
        if not chunk:
            return
        start += len(chunk)
        yield chunk


async def _one(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body
