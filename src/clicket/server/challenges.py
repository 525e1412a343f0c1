"""`WWW-Authenticate` of refused requests, and the URLs of this server as a protected resource (RFC 6750, RFC 9728).

MCP's clients begin with these headers: from `resource_metadata` they find the authorization server, from `scope` what to ask it for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from clicket.safety.oauth.config import OAuthConfig

__all__ = ["MCP", "WELL_KNOWN", "Challenges"]

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
_REALM = 'Bearer realm="clicket"'


class Challenges:
    """`config` is None while the settings have no `[oauth]`: then the header names the scheme alone."""

    def __init__(self, config: OAuthConfig | None, public_url: str | None = None) -> None:
        self.config = config
        self._public = None if public_url is None else _origin(public_url)

    def header(self, scope: Any, path: str, error: str = "", needed: Iterable[str] = ()) -> tuple[bytes, bytes]:
        """`error`: of RFC 6750; empty if no token was sent. `needed`: scopes of ours, of which the request needs one."""
        parts = [_REALM]
        if self.config is not None:
            if error:
                parts.append(f'error="{error}"')
            wanted = self.config.scope_for(next(iter(needed), "")) if needed else None
            if wanted is not None:
                parts.append(f'scope="{wanted}"')
            suffix = MCP if path == MCP else ""
            parts.append(f'resource_metadata="{self.base(scope)}{WELL_KNOWN}{suffix}"')
        return b"www-authenticate", ", ".join(parts).encode("latin-1", "replace")

    def base(self, scope: Any) -> str:
        """The origin by which the client knows this server. Behind a proxy that ends TLS, `public_url` or the audience says it."""
        if self._public is not None:
            return self._public
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        resource = None if self.config is None else self.config.resource
        if resource is not None and urlsplit(resource).netloc.lower() == host.lower():
            return _origin(resource)
        return f"{scope.get('scheme', 'http')}://{host}"

    def resource(self, scope: Any, path: str = "") -> str:
        """The resource identifier of this server, or of its `/mcp`."""
        given = None if self.config is None else self.config.resource
        base = (given or self.base(scope)).removesuffix("/")
        return base if not path or base.endswith(path) else base + path

    def audiences(self, path: str) -> tuple[str, ...]:
        """Audiences that are accepted on a path beside those of the settings: a token for `…/mcp` works at `/mcp` alone."""
        if self.config is None or path != MCP or self.config.resource is None:
            return ()
        return (self.resource(None, MCP),)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
