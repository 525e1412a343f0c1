"""`GET /`, its files under `/console/`, and `GET /whoami`: the web console, and what its key may do.

The files are built from `web/` by `make console` and ship inside the package. They need no key and hold no data: the page asks the
same routes as every client, with the key that its user enters.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from clicket.model.version import version
from clicket.runtime.settings import Settings
from clicket.server.authentication import Authenticator
from clicket.server.operations import ANY_SCOPE, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["ASSETS", "ConsoleHandlers"]

ASSETS = {
    "app.js": b"text/javascript; charset=utf-8",
    "app.css": b"text/css; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
_HTML = b"text/html; charset=utf-8"
# Scripts and styles come from files of this server alone. Requests go to this server alone. HTML of programs is shown in frames
# with an empty sandbox, whose content goes through the one trusted-types policy.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types clicket-frame"
)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long ended calls are kept; null means no bound. Those of an agent's turns are kept as long as their thread."""

    seconds: float
    bytes: int | None
    calls: int | None


class Whoami(msgspec.Struct, frozen=True, kw_only=True):
    """The key of the request. `keyed`: requests to this server need a key; false: this one came without."""

    id: str
    name: str
    scopes: list[str]
    keyed: bool
    version: str
    retention: Retention


class _File(msgspec.Struct, frozen=True):
    body: bytes
    packed: bytes
    etag: bytes


@cache
def _file(name: str) -> _File:
    body = files("clicket.server").joinpath("static", *name.split("/")).read_bytes()
    etag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
    return _File(body, gzip.compress(body, 9, mtime=0), etag)


def _send(request: Request, name: str, kind: bytes, policy: bytes = b"") -> Response:
    """A file, compressed if the client can read that; 304 if it has it already."""
    file = _file(name)
    headers = [(b"etag", file.etag), (b"vary", b"accept-encoding")]
    if (request.header(b"if-none-match") or "").encode() == file.etag:
        return _revalidated(Response(304, b"", None, *headers, policy=policy))
    packs = "gzip" in (request.header(b"accept-encoding") or "")
    if packs:
        headers.append((b"content-encoding", b"gzip"))
    return _revalidated(Response(200, file.packed if packs else file.body, kind, *headers, policy=policy))


def _revalidated(response: Response) -> Response:
    """The browser may keep the file, but asks each time whether it is still the same."""
    response.headers = [
        (name, b"no-cache" if name == b"cache-control" else value)
        for name, value in response.headers
        if not (response.status == 304 and name == b"content-length")
    ]
    return response


def _asset(name: str, kind: bytes) -> Operation:
    async def send(request: Request) -> Response:
        return _send(request, f"console/{name}", kind)

    return Operation(
        route=f"GET /console/{name}",
        description="A file of the console.",
        handler=send,
        public=True,
        responses={
            200: ResponseSpec(description="The file.", media_type=kind.decode().partition(";")[0]),
            304: ResponseSpec(description="It has not changed.", media_type=""),
        },
    )


def _retention(settings: Settings) -> Retention:
    return Retention(
        seconds=settings.retention.age, bytes=settings.retention.most_bytes, calls=settings.retention.calls
    )


class ConsoleHandlers:
    def __init__(self, authenticator: Authenticator, settings: Settings) -> None:
        self._authenticator = authenticator
        self._settings = settings

    async def page(self, request: Request) -> Response:
        return _send(request, "index.html", _HTML, _POLICY)

    async def whoami(self, request: Request) -> Response:
        principal = request.principal
        scopes = sorted(principal.scopes)
        keyed = not await self._authenticator.is_off()
        return json_response(
            Whoami(
                id=principal.id,
                name=principal.name,
                scopes=scopes,
                keyed=keyed,
                version=version(),
                retention=_retention(self._settings),
            )
        )

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "console",
            Operation(
                route="GET /",
                description="The console, for browsers.",
                handler=self.page,
                public=True,
                responses={
                    200: ResponseSpec(description="The page.", media_type="text/html"),
                    304: ResponseSpec(description="It has not changed.", media_type=""),
                },
            ),
            *(_asset(name, kind) for name, kind in ASSETS.items()),
            Operation(
                route="GET /whoami",
                description="The key of this request, and its scopes; and how long this server keeps ended calls.",
                handler=self.whoami,
                scopes=ANY_SCOPE,
                responses={200: ResponseSpec(description="The key.", schema=Whoami)},
            ),
        )
