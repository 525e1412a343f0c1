"""`Client.credentials`: credentials of this key for services outside."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.client.connection import Connection, path_segment
from clicket.model.credential import Credential, CredentialLink

__all__ = ["Credentials"]


class Credentials:
    """The same methods as `Runtime.credentials`. `by` is not sent: the key's name is recorded. `caller` is for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(
        self,
        provider: str,
        secret: str,
        *,
        caller: str | None = None,
        scopes: Sequence[str] = (),
        expires_at: float | None = None,
        by: str = "",
    ) -> Credential:
        """Keep a token for a provider on the server, encrypted; needs the scope `call`."""
        body = {"secret": secret.strip(), "scopes": list(scopes), "expires_at": expires_at}
        return await self._connection.read("PUT", _path(provider), Credential, body=body, query={"caller": caller})

    async def list(self, *, caller: str | None = None) -> Sequence[Credential]:
        """The credentials of this key, or of all callers for an admin, without their secrets."""
        return await self._connection.read_field(
            "GET", "/credentials", "items", list[Credential], query={"caller": caller}
        )

    async def revoke(self, provider: str, *, caller: str | None = None, by: str = "") -> Credential:
        """Delete the secret. Calls that run keep what they have; the next call waits."""
        return await self._connection.read("DELETE", _path(provider), Credential, query={"caller": caller})

    async def link(self, provider: str, *, caller: str | None = None) -> CredentialLink:
        """A page on which a person connects an account for this key. Each link works once."""
        return await self._connection.read("POST", f"{_path(provider)}/link", CredentialLink, query={"caller": caller})


def _path(provider: str) -> str:
    return f"/credentials/{path_segment(provider)}"
