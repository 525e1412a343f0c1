"""The providers of the settings: `[[providers]]` with `name`, `kind`, and for OAuth where its server is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from clicket.errors import UsageError
from clicket.model.credential import CredentialKind
from clicket.model.tables import SECRET, tables

__all__ = ["Provider", "check_name", "declared_providers", "is_confidential"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_PLAIN = re.compile(r"[!-~]{1,2000}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
"""Of a URL: host and port, and neither user nor password."""
_URLS = ("authorize_url", "token_url", "registration_url", "issuer", "mcp")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A service for which callers have credentials. An OAuth provider has `authorize_url` and `token_url`, or an `issuer` (RFC 8414),
    or the URL of an MCP server (`mcp`, RFC 9728) that says where they are."""

    name: str
    """1 to 64 of the characters `a-z`, `0-9`, `.`, `_` and `-`."""
    kind: CredentialKind = "token"
    """`token`: callers put their tokens; `oauth`: they connect their accounts."""
    title: str = ""
    """How pages name it; its name unless given."""
    authorize_url: str = ""
    """Where a caller allows the use of the account."""
    token_url: str = ""
    """Where tokens are fetched."""
    registration_url: str = ""
    """Where a client is registered (RFC 7591), if there is no `client_id`."""
    issuer: str = ""
    """The authorization server, whose metadata (RFC 8414) says the rest."""
    mcp: str = ""
    """An MCP server, whose metadata (RFC 9728) says the rest."""
    client_id: str = ""
    """The id of this server at the provider."""
    client_secret: Annotated[str, SECRET] = ""
    """Never shown."""
    client_auth: Literal["", "basic", "post"] = ""
    """How the secret is sent; as the server's metadata say, else `basic`, unless given."""
    scopes: tuple[str, ...] = ()
    """What callers are asked to allow."""
    resource: str = ""
    """The service that tokens are for (RFC 8707); with `mcp` the one that its metadata name."""
    authorize_parameters: dict[str, str] = {}
    """Further parameters of the page where a caller allows the use."""
    allow_private: bool = False
    """Its addresses may be private ones, and plain http."""
    timeout: Annotated[float, Meta(gt=0, le=20)] = 10.0
    """Seconds of one request."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for key in _URLS:
            url = getattr(self, key)
            if url and not _is_address(url, allow_private=self.allow_private):
                raise UsageError(
                    f"{key} must be an address that begins with https://, without user, password or fragment. "
                    "allow_private = true also allows http://."
                )
        if self.kind == "token":
            return
        if not (self.issuer or self.mcp or (self.authorize_url and self.token_url)):
            raise UsageError(
                f"{self.name!r} needs authorize_url and token_url, or an issuer, or mcp (the URL of an MCP server)."
            )
        if self.client_secret and self.mcp and not (self.issuer or self.token_url):
            raise UsageError(
                f"{self.name!r} has a client_secret, and its MCP server would choose where it is sent. Set issuer or token_url, too."
            )
        if not (self.client_id or self.registration_url or self.issuer or self.mcp):
            raise UsageError(f"{self.name!r} needs a client_id, or a registration_url where a client is registered.")

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    @property
    def shown(self) -> str:
        return self.title or self.name


def check_name(name: Any) -> str:
    """The name of a provider, or `UsageError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r:.100} is not a name of a provider. It has 1 to 64 of the characters a-z, 0-9, '.', '_' and '-', and begins with a "
            "letter or digit."
        )
    return name


def declared_providers(given: Sequence[Mapping[str, Any]], where: str = "[[providers]]") -> tuple[Provider, ...]:
    """The providers; `UsageError` names the one that is wrong, and shows no secret."""
    return tables(Provider, given, where, lambda provider: provider.name)


def is_confidential(url: str, *, allow_private: bool) -> bool:
    """May a secret be sent to this URL? Over https, or, where private addresses are allowed, over plain http."""
    if not _PLAIN.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and _HOST.fullmatch(parts.netloc) is not None and (parts.port or 1) > 0
    except ValueError:
        return False
    return named and (parts.scheme == "https" or (parts.scheme == "http" and allow_private))


def _is_address(url: str, *, allow_private: bool) -> bool:
    return is_confidential(url, allow_private=allow_private) and "#" not in url
