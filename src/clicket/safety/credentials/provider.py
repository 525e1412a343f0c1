"""The providers of the settings: `[[providers]]` with `name`, `kind`, and for OAuth where its server is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.credential import CredentialKind

__all__ = ["Provider", "check_name", "declared_providers", "is_confidential", "secrets_of"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_PLAIN = re.compile(r"[!-~]{1,2000}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
"""Of a URL: host and port, and neither user nor password."""
_URLS = ("authorize_url", "token_url", "registration_url", "issuer", "mcp")


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service for which callers have credentials. An OAuth provider has `authorize_url` and `token_url`, or an `issuer` (RFC 8414),
    or the URL of an MCP server (`mcp`, RFC 9728) that says where they are."""

    name: str
    kind: CredentialKind = "token"
    title: str = ""
    """How pages name it; else its name."""
    authorize_url: str = ""
    token_url: str = ""
    registration_url: str = ""
    """Where a client is registered (RFC 7591), if there is no `client_id`."""
    issuer: str = ""
    mcp: str = ""
    client_id: str = ""
    client_secret: str = ""
    client_auth: Literal["", "basic", "post"] = ""
    """How the secret is sent; empty: as the server's metadata say, else `basic`."""
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """The service that tokens are for (RFC 8707); with `mcp` the one that its metadata name."""
    authorize_parameters: dict[str, str] = {}
    allow_private: bool = False
    """Its addresses may be private ones, and plain http."""
    timeout: float = 10.0

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


def declared_providers(given: Sequence[Mapping[str, Any]], origin: str = "Settings") -> tuple[Provider, ...]:
    """The providers; `UsageError` names the one that is wrong, and shows no secret."""
    made: list[Provider] = []
    for number, each in enumerate(given, start=1):
        try:
            made.append(_provider(each))
        except UsageError as error:
            raise UsageError(f"setting providers (from {origin}), number {number}: {error.message}") from None
    names = [each.name for each in made]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"setting providers (from {origin}): two have the name {name!r}. Give each its own.")
    return tuple(made)


def secrets_of(given: Sequence[Any]) -> list[str]:
    """Every text in the settings that must not be shown; they need not be valid."""
    found = [each.get("client_secret") for each in given if isinstance(each, Mapping)]
    return [text for text in found if isinstance(text, str) and text]


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


def _provider(given: Any) -> Provider:
    if not isinstance(given, Mapping):
        raise UsageError("it must be a table with name and kind.")
    known = Provider.__struct_fields__
    for key in given:
        if key not in known:
            raise UsageError(f"there is no option {key!r}.{did_you_mean(str(key), known)} Known: {', '.join(known)}.")
    try:
        made = msgspec.convert(dict(given), Provider)
    except msgspec.ValidationError as error:  # it names the field and the type, and no value
        raise UsageError(f"{error}.") from None
    check_name(made.name)
    if not 0 < made.timeout <= 20:
        raise UsageError("timeout is a number of seconds above 0, at most 20.")
    for key in _URLS:
        url = getattr(made, key)
        if url and not _is_address(url, allow_private=made.allow_private):
            raise UsageError(
                f"{key} must be an address that begins with https://, without user, password or fragment. "
                "allow_private = true also allows http://."
            )
    if made.kind == "token":
        return made
    if not (made.issuer or made.mcp or (made.authorize_url and made.token_url)):
        raise UsageError(
            f"{made.name!r} needs authorize_url and token_url, or an issuer, or mcp (the URL of an MCP server)."
        )
    if made.client_secret and made.mcp and not (made.issuer or made.token_url):
        raise UsageError(
            f"{made.name!r} has a client_secret, and its MCP server would choose where it is sent. Set issuer or token_url, too."
        )
    if not (made.client_id or made.registration_url or made.issuer or made.mcp):
        raise UsageError(f"{made.name!r} needs a client_id, or a registration_url where a client is registered.")
    return made


def _is_address(url: str, *, allow_private: bool) -> bool:
    return is_confidential(url, allow_private=allow_private) and "#" not in url
