"""`/connect/…`: the pages on which a person connects an account. A link authorises, works once, and needs no key.

GET shows what is connected for which caller, and changes nothing: mail scanners open links. POST uses the link up. The callback takes
what the provider's server sends through the browser: its state says for which caller.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.safety.credentials import Connecting, ConnectRefused, Start
from clicket.safety.credentials.oauth_http import ProviderRefused, ProviderUnreachable
from clicket.safety.oauth.subjects import subject_of
from clicket.server import keys
from clicket.server.connect_html import connect_page, message_page, put_page
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.page_html import language_of, policy_for
from clicket.server.parameters import Parameter
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response

__all__ = ["ConnectPageHandlers"]

_HTML = b"text/html; charset=utf-8"
_MAX_FORM = 80 * 1024
_MAX_QUERY = 16 * 1024
_LOOKUPS = 8
"""States that are looked up at the same time."""
_STATUS = {"invalid": 404, "expired": 410, "used": 410}
_READ = ("state", "code", "iss", "error")


class ConnectPageHandlers:
    def __init__(self, runtime: Runtime, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._body_reader = body_reader
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    @property
    def _connecting(self) -> Connecting:
        return self._runtime.credentials.connecting

    async def show(self, request: Request) -> Response:
        language = _language(request)
        try:
            invitation, provider = await self._connecting.open(request.path("token"))
            caller = await self._shown(invitation.caller)
            until = invitation.expires_at
            if provider.kind == "token":
                return _html(200, put_page(provider.shown, caller, until, language))
            where = await self._connecting.consent_origin(provider)
        except Exception as error:
            return _refused(error, language)
        return _html(200, connect_page(provider.shown, caller, where, until, language), where)

    async def _shown(self, caller: str) -> str:
        """A caller as a person knows it: the name and the holder of a key before its id, or the subject of a token."""
        subject = subject_of(caller)
        if subject or not caller:
            return subject
        document = await self._runtime.store.document(keys.KIND, caller)
        if document is None:
            return caller
        key = keys.read(document.body)
        return " · ".join(dict.fromkeys(filter(None, (key.name, key.holder, caller))))

    async def begin(self, request: Request) -> Response:
        language = _language(request)
        token = request.path("token")
        try:
            _, provider = await self._connecting.open(token)
            if provider.kind == "oauth":
                return self._redirect(await self._connecting.start(token))
            try:
                await self._connecting.put(token, await self._secret(request))
            except UsageError:
                return _html(400, message_page("secret_wrong", language))
        except Exception as error:
            return _refused(error, language)
        return _html(200, message_page("connected", language))

    async def callback(self, request: Request) -> Response:
        language = _language(request)
        try:
            answer = _answer(request.scope["query_string"])
            async with self._lookups:  # requests without a key must not load the store
                await self._connecting.check(answer.get("state", ""))
            await self._connecting.finish(answer, _cookies(request))
        except Exception as error:
            return _refused(error, language)
        return _html(200, message_page("connected", language))

    def _redirect(self, start: Start) -> Response:
        base = urlsplit(self._runtime.settings.server.public_url or "")
        cookie = (
            f"{start.cookie_name}={start.cookie}; Path={base.path.rstrip('/')}/connect/callback; Max-Age={start.seconds}; HttpOnly; "
            f"SameSite=Lax{'; Secure' if base.scheme == 'https' else ''}"
        )
        return Response(303, b"", None, (b"location", start.url.encode("ascii")), (b"set-cookie", cookie.encode()))

    async def _secret(self, request: Request) -> str:
        kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
        body = b"".join([chunk async for chunk in self._body_reader.chunks(request, _MAX_FORM)])
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10) if "urlencoded" in kind else {}
        except ValueError:
            fields = {}
        given = fields.get("secret", [])
        if len(given) != 1:
            raise UsageError("the form has one secret.")
        self._runtime.credentials.check_secret(given[0])  # a wrong one does not use the link up
        return given[0]

    def operations(self) -> tuple[Operation, ...]:
        pages = {
            400: ResponseSpec(description="Nothing was connected; the page says why.", media_type="text/html"),
            404: ResponseSpec(description="The link is not valid.", media_type="text/html"),
            410: ResponseSpec(description="The link has expired or was used.", media_type="text/html"),
            502: ResponseSpec(description="The service does not answer.", media_type="text/html"),
        }
        return tagged(
            "credentials",
            Operation(
                route="GET /connect/start/{token}",
                description="The page of a link to connect an account. It changes nothing.",
                handler=self.show,
                public=True,
                responses={200: ResponseSpec(description="The page.", media_type="text/html"), **pages},
            ),
            Operation(
                route="POST /connect/start/{token}",
                description="Use the link up: go to the service's authorization server, or save the token of the form (`secret`).",
                handler=self.begin,
                public=True,
                body=BodySpec(optional=True),
                responses={
                    200: ResponseSpec(description="The token is saved.", media_type="text/html"),
                    303: ResponseSpec(description="To the authorization server.", media_type=""),
                    **pages,
                },
                problems=(408, 409, 413),
            ),
            Operation(
                route="GET /connect/callback",
                description="Where the authorization server sends the browser back to (OAuth 2.1, RFC 9207).",
                handler=self.callback,
                public=True,
                any_query=True,
                parameters=tuple(
                    Parameter(name=name, description=f"`{name}` of the authorization response.", max_length=4_096)
                    for name in _READ
                ),
                responses={200: ResponseSpec(description="The account is connected.", media_type="text/html"), **pages},
            ),
        )


def _answer(query: bytes) -> dict[str, str]:
    """The parameters of an authorization response. One that is sent twice makes it invalid."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=32, errors="strict")
    except (ValueError, UnicodeError):
        raise ConnectRefused("invalid") from None
    found = [(name, value) for name, value in pairs if name in _READ]
    if len(query) > _MAX_QUERY or len(found) != len(dict(found)):
        raise ConnectRefused("invalid")
    return dict(found)


def _cookies(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.headers:
        if name == b"cookie":
            for part in value.decode("latin-1")[:_MAX_QUERY].split(";"):
                key, _, rest = part.strip().partition("=")
                found[key] = rest
    return found


def _language(request: Request) -> str:
    found = [value.decode("latin-1") for name, value in request.headers if name == b"accept-language"]
    return language_of(",".join(found))


def _refused(error: Exception, language: str) -> Response:
    """The page for what a person can do something about. Every other error is the server's."""
    if isinstance(error, ConnectRefused):
        return _html(_STATUS.get(error.why, 400), message_page(error.why, language))
    if isinstance(error, ProviderRefused):
        return _html(400, message_page("failed", language))
    if isinstance(error, ProviderUnreachable):
        return _html(502, message_page("unreachable", language))
    raise error


def _html(status: int, body: bytes, target: str = "") -> Response:
    """Browsers send the origin of a form only if the page allows a referrer within its own origin; nothing is sent to others."""
    headers: tuple[Any, ...] = ((b"vary", b"accept-language"),)
    response = Response(status, body, _HTML, *headers, policy=policy_for(target))
    response.headers = [
        (name, b"same-origin" if name == b"referrer-policy" else value) for name, value in response.headers
    ]
    return response
