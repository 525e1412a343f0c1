"""The authorization server's own description (RFC 8414, or OpenID Connect Discovery): where its keys and its introspection are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from clicket import system
from clicket.safety.oauth.issuer_client import IssuerClient
from clicket.safety.oauth.refusals import IssuerUnavailable

__all__ = ["IssuerMetadata", "metadata_urls"]

_MAX_AGE = 3600.0


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where the description of an issuer may be, in the order in which they are tried."""
    parts = urlsplit(issuer)
    origin = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    return (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )


class IssuerMetadata:
    """Looked up when it is first needed, and again after an hour."""

    def __init__(self, issuer: str, client: IssuerClient, *, clock: Callable[[], float] = system.monotonic) -> None:
        self._issuer = issuer
        self._client = client
        self._clock = clock
        self._found: dict[str, Any] = {}
        self._found_at = float("-inf")

    async def endpoint(self, name: str) -> str:
        """A URL of the description, such as `jwks_uri`; raises `IssuerUnavailable`."""
        if self._clock() - self._found_at > _MAX_AGE:
            self._found = await self._look_up()
            self._found_at = self._clock()
        url = self._found.get(name)
        if not isinstance(url, str) or not url.startswith(("https://", "http://")):
            self.forget()
            raise IssuerUnavailable(f"the metadata of {self._issuer} has no {name}. Give it in [oauth].")
        return url

    def forget(self) -> None:
        """Look it up again next time: a URL of it did not work."""
        self._found_at = float("-inf")

    async def _look_up(self) -> dict[str, Any]:
        problem = IssuerUnavailable(f"{self._issuer} has no metadata.")
        for url in metadata_urls(self._issuer):
            try:
                found = await self._client.get(url)
            except IssuerUnavailable as error:
                problem = error
                continue
            if found.get("issuer") != self._issuer:  # RFC 8414, section 3.3: else one issuer could speak for another
                raise IssuerUnavailable(
                    f"the metadata at {url} is of the issuer {str(found.get('issuer'))[:200]!r}, not of {self._issuer!r}. "
                    "Write it in [oauth] exactly as the authorization server does."
                )
            return found
        raise problem
