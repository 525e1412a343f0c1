"""How a person connects an account: a link, the redirect to the provider, and the callback.

A link is sealed data: the caller, the provider and its end. It is used up by the first press of its button, before anything else
happens. The state of the authorization request is a document that names the caller; the callback takes its caller from there and from
nowhere else. It is used up before the code is redeemed: a code is never sent twice, and a process that dies in between leaves a call
that still waits, for which there is a new link.

The browser that began must also end it: a cookie ties the two. So a callback that was sent to another person's browser does nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from clicket import system
from clicket.errors import ClicketError, UsageError
from clicket.model.credential import CredentialKind, CredentialLink
from clicket.model.ports import Clock, Records, StoredDocument
from clicket.model.printable import repr_without
from clicket.safety.credentials.book import CredentialBook
from clicket.safety.credentials.discovery import Endpoints
from clicket.safety.credentials.oauth_http import ProviderMoved
from clicket.safety.credentials.provider import Provider, check_name

__all__ = ["ConnectRefused", "Connecting", "Invitation", "Start"]

_LINK = "credential.link"
_STATE = "credential.state"
_PREFIX = "ckc_"
_PAGE = 500
_STATE_LASTS = 600.0
_MAX_TOKEN = 4_000
_MAX_CODE = 4_096
Refusal = Literal["invalid", "expired", "used", "browser", "issuer", "declined", "failed", "kind", "full"]


class ConnectRefused(ClicketError):
    """The link or the callback does not work; `why` says for which reason."""

    code = "link_refused"

    def __init__(self, why: Refusal) -> None:
        super().__init__(f"the account was not connected: {why}.")
        self.why = why


class Invitation(msgspec.Struct, frozen=True):
    """What a link is for."""

    caller: str
    provider: str
    expires_at: float
    nonce: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where the browser goes, and the cookie that it brings back."""

    url: str
    cookie_name: str
    cookie: str
    seconds: int = int(_STATE_LASTS)

    def __repr__(self) -> str:
        return repr_without(self, "url", "cookie")


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """One authorization request. `verifier` is sealed; the keys of documents are hashes."""

    caller: str
    provider: str
    expires_at: float
    cookie: str
    issuer: str = ""
    token_url: str = ""
    """Where the code is redeemed, and nowhere else."""
    sends_issuer: bool = False
    origin: str = ""
    sealed: str = ""
    used: bool = False


class Connecting:
    """Makes links and takes them. `book` keeps what is connected. `is_used`: does a tool need credentials for this provider?"""

    def __init__(
        self,
        book: CredentialBook,
        store: Records,
        clock: Clock,
        is_used: Callable[[str], bool] = lambda provider: False,
    ) -> None:
        self._book = book
        self._is_used = is_used
        self._store = store
        self._now = clock.now
        self._base = None if book.options.public_url is None else book.options.public_url.rstrip("/")

    # Links.

    @property
    def has_links(self) -> bool:
        return self._base is not None

    def link(self, caller: str, provider: str, *, known: bool = False) -> CredentialLink:
        """A new link. Nothing is stored before it is used. `known`: only for a provider that the settings or a tool name. Its page asks
        a person for a secret, in the server's name."""
        check_name(provider)
        if known and provider not in self._book.providers and not self._is_used(provider):
            raise UsageError(
                f"there is no provider {provider!r}: neither the settings (providers) nor a tool names it."
            )
        if self._base is None:
            raise UsageError(
                "a link needs the server's address: set public_url and secret_key, and run `clicket serve`. Without a link, "
                f"`clicket credentials put {provider}` stores a token."
            )
        until = self._now() + self._book.options.link_timeout
        invitation = Invitation(caller, provider, until, system.random_text(16))
        sealed = self._book.documents.check().seal(("", "", ""), _LINK, msgspec.json.encode(invitation))
        _, key, body = sealed.split(".", 2)
        token = f"{_PREFIX}{key}{body.rstrip('=').replace('+', '-').replace('/', '_')}"
        return CredentialLink(
            provider=provider, caller=caller, url=f"{self._base}/connect/start/{token}", expires_at=until
        )

    async def open(self, token: str) -> tuple[Invitation, Provider]:
        """What a link is for; `ConnectRefused` if it is over. It is not used up."""
        invitation = self._read(token)
        if await self._store.document(_LINK, invitation.nonce) is not None:
            raise ConnectRefused("used")
        return invitation, self._book.provider(invitation.provider)

    def _read(self, token: str) -> Invitation:
        body = token[len(_PREFIX) + 8 :].replace("-", "+").replace("_", "/")
        if not token.startswith(_PREFIX) or len(token) > _MAX_TOKEN or not token.isascii() or self._base is None:
            raise ConnectRefused("invalid")
        sealed = f"1.{token[len(_PREFIX) : len(_PREFIX) + 8]}.{body}{'=' * (-len(body) % 4)}"
        plain = self._book.documents.check().unsealed(("", "", ""), _LINK, sealed)
        if plain is None:
            raise ConnectRefused("invalid")
        invitation = msgspec.json.decode(plain, type=Invitation)
        if invitation.expires_at <= self._now():
            raise ConnectRefused("expired")
        return invitation

    async def _use(self, token: str) -> tuple[Invitation, Provider]:
        """Use the link up: of several that try, one goes on."""
        invitation = self._read(token)
        body = msgspec.json.encode({"expires_at": invitation.expires_at})
        if not await self._store.put_document(_LINK, invitation.nonce, body, 0):
            raise ConnectRefused("used")
        return invitation, self._book.provider(invitation.provider)

    async def put(self, token: str, secret: str) -> Provider:
        """Keep a token that a person wrote on the page of a link. A wrong form does not use the link up."""
        await self._opened(token, "token")
        invitation, provider = await self._use(token)
        await self._book.put(invitation.caller, provider.name, secret, by="link")
        return provider

    async def _opened(self, token: str, kind: CredentialKind) -> Provider:
        """The provider of a link that may be used up."""
        invitation, provider = await self.open(token)
        if provider.kind != kind:
            raise ConnectRefused("kind")
        if not await self._book.has_room(invitation.caller, provider.name):
            raise ConnectRefused("full")
        return provider

    # The provider's authorization.

    async def consent_origin(self, provider: Provider) -> str:
        """The origin of the page at the provider that asks the person."""
        return _origin((await self._book.oauth.endpoints(provider)).authorize_url)

    async def start(self, token: str) -> Start:
        """Use the link up, and send its holder to the provider."""
        provider = await self._opened(token, "oauth")
        endpoints = await self._book.oauth.endpoints(provider)  # before the link is used: the provider may be down
        state, verifier, cookie = system.random_text(32), system.random_text(48), system.random_text(32)
        url = await self._book.oauth.authorization(provider, state, verifier)
        invitation, provider = await self._use(token)
        request = self._request(invitation, endpoints, cookie)
        key = _digest(state)
        sealed = self._book.documents.check().seal(_bound(request, key), _STATE, verifier.encode())
        request = msgspec.structs.replace(request, sealed=sealed)
        await self._store.put_document(_STATE, key, msgspec.json.encode(request), 0)
        return Start(url=url, cookie_name=cookie_name(state), cookie=cookie)

    def _request(self, invitation: Invitation, endpoints: Endpoints, cookie: str) -> _Request:
        return _Request(
            caller=invitation.caller,
            provider=invitation.provider,
            expires_at=self._now() + _STATE_LASTS,
            cookie=_digest(cookie),
            issuer=endpoints.issuer,
            token_url=endpoints.token_url,
            sends_issuer=endpoints.sends_issuer,
            origin=_origin(endpoints.authorize_url),
        )

    async def check(self, state: str) -> None:
        """Raise `ConnectRefused` if no request with this state is open. It changes nothing."""
        await self._known(_digest(state))

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Provider:
        """Take the callback: check it, use its state up, redeem the code, and keep the tokens for the caller of the state."""
        key = _digest(query.get("state", ""))
        request, version = await self._known(key)
        # Each request has a cookie of its own name, so that two tabs do not disturb each other.
        if not hmac.compare_digest(_digest(cookies.get(cookie_name(query.get("state", "")), "")), request.cookie):
            raise ConnectRefused("browser")
        used = msgspec.structs.replace(request, used=True, sealed="")
        if not await self._store.put_document(_STATE, key, msgspec.json.encode(used), version):
            raise ConnectRefused("used")
        if not _issuer_fits(request, query.get("iss")):
            raise ConnectRefused("issuer")
        code = query.get("code", "")
        if query.get("error") or not 0 < len(code) <= _MAX_CODE:
            raise ConnectRefused("declined")
        verifier = self._book.documents.check().unsealed(_bound(request, key), _STATE, request.sealed)
        if verifier is None:
            raise ConnectRefused("invalid")
        provider = self._book.provider(request.provider)
        if provider.kind != "oauth":
            raise ConnectRefused("kind")
        try:
            at = await self._book.oauth.token_endpoint(provider, issuer=request.issuer, token_url=request.token_url)
        except ProviderMoved:
            raise ConnectRefused("issuer") from None
        issued = await self._book.oauth.redeem(at, code, verifier.decode())
        await self._book.connect(request.caller, provider, issued)
        return provider

    async def _known(self, key: str) -> tuple[_Request, int]:
        document = await self._store.document(_STATE, key)
        request = None if document is None else _read_request(document)
        if document is None or request is None:
            raise ConnectRefused("invalid")
        if request.used:
            raise ConnectRefused("used")
        if request.expires_at <= self._now():
            raise ConnectRefused("expired")
        return request, document.version

    async def sweep(self) -> None:
        """Delete links and requests that are over, and what is left of revoked credentials."""
        await self._book.sweep()
        for kind in (_LINK, _STATE):
            after = ""
            while True:
                page = await self._store.documents(kind, after=after, limit=_PAGE)
                for document in page:
                    if _ends(document) <= self._now():
                        await self._store.delete_document(kind, document.key)
                if len(page) < _PAGE:
                    break
                after = page[-1].key


def cookie_name(state: str) -> str:
    """The name of the cookie that belongs to a state."""
    return f"clicket_connect_{_digest(state)[:16]}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _bound(request: _Request, key: str) -> tuple[str, str, str]:
    return request.caller, request.provider, key


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _issuer_fits(request: _Request, issuer: str | None) -> bool:
    """RFC 9207. Where the issuer is not known, one that is named must be of the origin that the person was sent to."""
    if issuer is None:
        return not request.sends_issuer
    return issuer == request.issuer if request.issuer else _origin(issuer) == request.origin


def _read_request(document: StoredDocument) -> _Request | None:
    try:
        return msgspec.json.decode(document.body, type=_Request)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _ends(document: StoredDocument) -> float:
    try:
        return float(msgspec.json.decode(document.body)["expires_at"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return 0.0
