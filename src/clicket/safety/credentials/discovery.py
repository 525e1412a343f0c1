"""Where an authorization server is: from the settings, from its metadata (RFC 8414), or from an MCP server's (RFC 9728).

Metadata are checked against the URL that they were asked for: a server cannot speak for another issuer or another resource.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from clicket.safety.credentials.oauth_http import OAuthHttp, ProviderRefused
from clicket.safety.credentials.provider import Provider, is_confidential

__all__ = ["Discovery", "Endpoints"]

_FRESH = 3600.0
_METADATA = re.compile(r'resource_metadata\s*=\s*"([^"\\]{1,2000})"', re.IGNORECASE)


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a provider's authorization server."""

    authorize_url: str
    token_url: str
    registration_url: str = ""
    issuer: str = ""
    sends_issuer: bool = False
    """Its responses name the issuer (RFC 9207): one without it is refused."""
    client_auth: str = "basic"
    scopes: tuple[str, ...] = ()
    resource: str = ""


class Discovery:
    """Metadata are read again after an hour."""

    def __init__(self, http: OAuthHttp, monotonic: Callable[[], float]) -> None:
        self._http = http
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, Endpoints]] = {}

    async def endpoints(self, provider: Provider, *, again: bool = False) -> Endpoints:
        """`again`: what was read before does not count."""
        known = None if again else self._known.get(provider.name)
        if known is not None and self._monotonic() - known[0] < _FRESH:
            return known[1]
        found = await self._find(provider)
        self._known[provider.name] = (self._monotonic(), found)
        return found

    async def _find(self, provider: Provider) -> Endpoints:
        issuer, resource, scopes = provider.issuer, provider.resource, provider.scopes
        if provider.mcp:
            document = await self._resource(provider)
            servers = document.get("authorization_servers")
            first = servers[0] if isinstance(servers, list) and servers else None
            issuer = issuer or (first if isinstance(first, str) else "")
            if not issuer:
                raise ProviderRefused(f"provider {provider.name!r}: its MCP server names no authorization server.")
            resource = resource or str(document["resource"])
            scopes = scopes or _texts(document.get("scopes_supported"))
        metadata = await self._metadata(provider, issuer) if issuer else {}
        auth = provider.client_auth or _client_auth(metadata)
        found = Endpoints(
            authorize_url=provider.authorize_url or _text(metadata, "authorization_endpoint"),
            token_url=provider.token_url or _text(metadata, "token_endpoint"),
            registration_url=provider.registration_url or _text(metadata, "registration_endpoint"),
            issuer=issuer,
            sends_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
            client_auth=auth,
            scopes=scopes,
            resource=resource,
        )
        for url in filter(None, (found.authorize_url, found.token_url, found.registration_url)):
            if not is_confidential(url, allow_private=provider.allow_private):
                raise ProviderRefused(f"provider {provider.name!r} names an address that does not begin with https://.")
        if not found.authorize_url or not found.token_url:
            raise ProviderRefused(
                f"provider {provider.name!r}: its metadata have no authorization_endpoint or token_endpoint."
            )
        return found

    async def _resource(self, provider: Provider) -> dict[str, Any]:
        """The metadata of the MCP server as a protected resource."""
        named = _METADATA.search(await self._http.challenge(provider, provider.mcp))
        places = [named[1]] if named else []
        places += _well_known(provider.mcp, "oauth-protected-resource")
        for place in places:
            if not _same_host(place, provider.mcp):  # a challenge of another host says nothing about this one
                continue
            document = await self._http.get(provider, place)
            if document is None:
                continue
            if not _covers(document.get("resource"), provider.mcp):
                raise ProviderRefused(
                    f"provider {provider.name!r}: the metadata of its MCP server are about another resource."
                )
            return document
        raise ProviderRefused(f"provider {provider.name!r}: its MCP server has no metadata of a protected resource.")

    async def _metadata(self, provider: Provider, issuer: str) -> dict[str, Any]:
        places = [*_well_known(issuer, "oauth-authorization-server"), *_well_known(issuer, "openid-configuration")]
        places.append(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        for place in dict.fromkeys(places):
            document = await self._http.get(provider, place)
            if document is None:
                continue
            if document.get("issuer") != issuer:
                raise ProviderRefused(
                    f"provider {provider.name!r}: the metadata of its issuer name another issuer. Write the issuer exactly as they do."
                )
            methods = document.get("code_challenge_methods_supported")
            if (methods is not None or provider.mcp) and "S256" not in _texts(methods):
                raise ProviderRefused(f"provider {provider.name!r}: its authorization server has no PKCE with S256.")
            return document
        if provider.authorize_url and provider.token_url:
            return {}
        raise ProviderRefused(f"provider {provider.name!r}: its issuer has no metadata (RFC 8414).")


def _well_known(url: str, name: str) -> list[str]:
    """Where metadata of a URL are: with its path, then without."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    found = [urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{name}{path}", "", ""))]
    if path and name == "oauth-protected-resource":
        found.append(urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{name}", "", "")))
    return found


def _same_host(one: str, other: str) -> bool:
    here, there = urlsplit(one), urlsplit(other)
    return (here.scheme, here.netloc) == (there.scheme, there.netloc)


def _covers(resource: Any, url: str) -> bool:
    """Is the resource this URL, or a part of the path above it?"""
    if not isinstance(resource, str) or not _same_host(resource, url):
        return False
    above = urlsplit(resource).path.rstrip("/")
    path = urlsplit(url).path.rstrip("/")
    return path == above or path.startswith(f"{above}/")


def _client_auth(metadata: dict[str, Any]) -> str:
    methods = _texts(metadata.get("token_endpoint_auth_methods_supported"))
    return "post" if "client_secret_post" in methods and "client_secret_basic" not in methods else "basic"


def _text(metadata: dict[str, Any], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
