"""The OAuth client: registration (RFC 7591), authorization requests with PKCE (RFC 7636), codes and refresh tokens for tokens."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from clicket.model.ports import Records
from clicket.safety.credentials.credential_documents import CredentialDocuments
from clicket.safety.credentials.discovery import Discovery, Endpoints
from clicket.safety.credentials.oauth_http import OAuthHttp, ProviderMoved, ProviderRefused, ProviderUnreachable
from clicket.safety.credentials.provider import Provider

__all__ = ["IssuedTokens", "OAuth", "TokenEndpoint", "challenge_of"]

_CLIENT = "credential.client"
_MAX_TOKEN = 64 * 1024
_METHODS = {"client_secret_basic": "basic", "client_secret_post": "post"}


class IssuedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a server gave. `expires_in`: seconds; None: it did not say."""

    access: str
    refresh: str = ""
    expires_in: float | None = None
    scopes: tuple[str, ...] | None = None
    issuer: str = ""
    token_url: str = ""
    """Where they came from: a refresh token goes there and to no other server."""

    def __repr__(self) -> str:
        return "<issued tokens>"


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """This program, as the authorization server knows it."""

    client_id: str
    client_secret: str = ""
    auth: str = ""
    """How it proves who it is, `basic` or `post`, if the server has said so at its registration."""

    def __repr__(self) -> str:
        return "<client>"


class TokenEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where codes and refresh tokens are sent, and as which client."""

    provider: Provider
    endpoints: Endpoints
    client: ClientIdentity


class OAuth:
    """`redirect_uri`: where servers send people back; None: nothing can be connected here."""

    def __init__(
        self,
        http: OAuthHttp,
        discovery: Discovery,
        store: Records,
        documents: CredentialDocuments,
        redirect_uri: str | None,
    ) -> None:
        self._http = http
        self._discovery = discovery
        self._store = store
        self._documents = documents
        self.redirect_uri = redirect_uri

    async def endpoints(self, provider: Provider) -> Endpoints:
        return await self._discovery.endpoints(provider)

    async def authorization(self, provider: Provider, state: str, verifier: str) -> str:
        """The URL at the provider that asks a person. What it has is not a secret."""
        endpoints = await self.endpoints(provider)
        client = await self._client(provider, endpoints)
        query = {
            **provider.authorize_parameters,
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self.redirect_uri or "",
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        if endpoints.scopes:
            query["scope"] = " ".join(endpoints.scopes)
        if endpoints.resource:
            query["resource"] = endpoints.resource
        parts = urlsplit(endpoints.authorize_url)
        own = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in query]
        return urlunsplit(
            (parts.scheme, parts.netloc, parts.path, urlencode([*own, *query.items()], quote_via=quote), "")
        )

    async def token_endpoint(self, provider: Provider, *, issuer: str, token_url: str) -> TokenEndpoint:
        """Find the server that a code or a refresh token is for, and our client there. `ProviderMoved`: the provider names another
        server now, which must not get it."""
        endpoints = await self.endpoints(provider)
        if (endpoints.issuer, endpoints.token_url) != (issuer, token_url):  # what this process knows may be old
            endpoints = await self._discovery.endpoints(provider, again=True)
            if (endpoints.issuer, endpoints.token_url) != (issuer, token_url):
                raise ProviderMoved(f"provider {provider.name!r} names another authorization server than before.")
        return TokenEndpoint(provider=provider, endpoints=endpoints, client=await self._client(provider, endpoints))

    async def redeem(self, at: TokenEndpoint, code: str, verifier: str) -> IssuedTokens:
        """Tokens for a code. A code works once."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": self.redirect_uri or "",
        }
        return await self._tokens(at, form, "a code")

    async def refresh(self, at: TokenEndpoint, token: str) -> IssuedTokens:
        """New tokens for a refresh token. Many servers take it once."""
        return await self._tokens(at, {"grant_type": "refresh_token", "refresh_token": token}, "a refresh token")

    async def _tokens(self, at: TokenEndpoint, form: dict[str, str], what: str) -> IssuedTokens:
        provider, endpoints, client = at.provider, at.endpoints, at.client
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if endpoints.resource:
            form = {**form, "resource": endpoints.resource}
        if client.client_secret and (client.auth or endpoints.client_auth) == "basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": client.client_id}
            if client.client_secret:
                form["client_secret"] = client.client_secret
        content = urlencode(form).encode()
        answer = await self._http.post(provider, endpoints.token_url, content, headers, what=what)
        return msgspec.structs.replace(
            _issued(provider, answer), issuer=endpoints.issuer, token_url=endpoints.token_url
        )

    # The client's registration.

    async def _client(self, provider: Provider, endpoints: Endpoints) -> ClientIdentity:
        if provider.client_id:
            return ClientIdentity(client_id=provider.client_id, client_secret=provider.client_secret)
        known = await self._registered(provider, endpoints)
        if known is not None:
            return known
        if not endpoints.registration_url or self.redirect_uri is None:
            raise ProviderRefused(
                f"provider {provider.name!r} has no client_id, and its authorization server registers no clients. Register one there, "
                "and set client_id."
            )
        made = await self._register(provider, endpoints)
        sealed = self._documents.check().seal(self._place(provider, endpoints), _CLIENT, msgspec.json.encode(made))
        body = msgspec.json.encode({"sealed": sealed})
        await self._store.put_document(_CLIENT, self._client_key(provider, endpoints), body, 0)
        return await self._registered(provider, endpoints) or made  # another process may have been first

    async def _registered(self, provider: Provider, endpoints: Endpoints) -> ClientIdentity | None:
        document = await self._store.document(_CLIENT, self._client_key(provider, endpoints))
        if document is None:
            return None
        try:
            sealed = msgspec.json.decode(document.body)["sealed"]
            plain = self._documents.check().unsealed(self._place(provider, endpoints), _CLIENT, sealed)
            if plain is not None:
                return msgspec.json.decode(plain, type=ClientIdentity)
        except (msgspec.MsgspecError, KeyError, TypeError):
            pass
        await self._store.delete_document(_CLIENT, document.key)  # the keys have changed: register again
        return None

    async def _register(self, provider: Provider, endpoints: Endpoints) -> ClientIdentity:
        wanted: dict[str, Any] = {
            "client_name": "clicket",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        if endpoints.scopes:
            wanted["scope"] = " ".join(endpoints.scopes)
        answer = await self._http.post(
            provider,
            endpoints.registration_url,
            msgspec.json.encode(wanted),
            {"content-type": "application/json"},
            what="the registration of a client",
        )
        id, secret = answer.get("client_id"), answer.get("client_secret", "")
        if not isinstance(id, str) or not id or not isinstance(secret, str):
            raise ProviderUnreachable(f"provider {provider.name!r} registered a client without an id.")
        # The server may register another method than the one that was asked for, and may give a client without one a secret.
        method = answer.get("token_endpoint_auth_method")
        if method == "none":
            return ClientIdentity(client_id=id)
        return ClientIdentity(client_id=id, client_secret=secret, auth=_METHODS.get(str(method), ""))

    def _client_key(self, provider: Provider, endpoints: Endpoints) -> str:
        place = msgspec.json.encode([endpoints.issuer, endpoints.registration_url, self.redirect_uri])
        return f"{provider.name}:{sha256(place).hexdigest()[:32]}"

    def _place(self, provider: Provider, endpoints: Endpoints) -> tuple[str, str, str]:
        return "", provider.name, self._client_key(provider, endpoints)


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a PKCE verifier."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _issued(provider: Provider, answer: Mapping[str, Any]) -> IssuedTokens:
    access = answer.get("access_token")
    refresh = answer.get("refresh_token")
    kind = answer.get("token_type", "bearer")
    usable = isinstance(access, str) and 0 < len(access) <= _MAX_TOKEN and access.isascii() and access.isprintable()
    if not usable or not isinstance(kind, str) or kind.lower() != "bearer" or " " in str(access):
        raise ProviderRefused(f"provider {provider.name!r} gave a token that is not a bearer token.")
    seconds, scope = answer.get("expires_in"), answer.get("scope")
    try:
        lasts = None if seconds is None or isinstance(seconds, bool) else float(seconds)
    except (TypeError, ValueError):
        lasts = None
    return IssuedTokens(
        access=str(access),
        refresh=refresh if isinstance(refresh, str) and len(refresh) <= _MAX_TOKEN else "",
        expires_in=lasts if lasts is not None and isfinite(lasts) and lasts > 0 else None,
        scopes=tuple(scope.split()) if isinstance(scope, str) else None,
    )
