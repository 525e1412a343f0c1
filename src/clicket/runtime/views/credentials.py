"""`Runtime.credentials`: credentials of callers for services outside, put, listed, revoked, and connected by a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clicket.engine import Engine
from clicket.errors import PermissionDenied
from clicket.model.credential import Credential, CredentialLink
from clicket.safety.credentials import Connecting, CredentialBook

__all__ = ["Credentials", "credentials"]


class Credentials:
    """`await rt.credentials.put("github", token)`. The runtime of one caller (`acting_for`) has that caller's; the program's own runtime
    names the caller, and means itself without one. Only `token` returns a secret."""

    def __init__(self, book: CredentialBook, connecting: Connecting, caller: str | None) -> None:
        self._book = book
        self.connecting = connecting
        """The pages on which people connect accounts, for a server."""
        self._caller = caller

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
        """Keep a token for a provider, encrypted, in place of the one before. Calls that wait for it go on. `expires_at`: seconds since
        the epoch, if it is known."""
        return await self._book.put(
            self._whose(caller), provider, secret, scopes=tuple(scopes), expires_at=expires_at, by=by
        )

    async def list(self, *, caller: str | None = None) -> Sequence[Credential]:
        """The credentials without their secrets: of this caller; for the program's own runtime of all callers, or of one."""
        whose = self._caller if self._caller is not None and caller is None else caller
        return await self._book.listed(whose if whose is None else self._whose(whose))

    async def revoke(self, provider: str, *, caller: str | None = None, by: str = "") -> Credential:
        """Delete the secret. Calls that run keep what they have; the next call waits. `NotFound`: there is no such credential."""
        return await self._book.revoke(self._whose(caller), provider, by=by)

    async def link(self, provider: str, *, caller: str | None = None) -> CredentialLink:
        """A page on which a person connects an account, or writes a token, for this caller. Each link works once. Give it to that person
        alone: the account that is connected with it is used by this caller's calls. The runtime of one caller makes links for providers
        that the settings or a tool name, and raises `UsageError` for others."""
        return self.connecting.link(self._whose(caller), provider, known=self._caller is not None)

    async def token(self, provider: str) -> str:
        """The secret of this caller, refreshed if need be, for code of this process. `CredentialMissing`: there is none."""
        return (await self._book.token(self._whose(None), provider)).token

    def check_secret(self, secret: str) -> None:
        """Raise `UsageError` if `put` would refuse the secret."""
        self._book.check_secret(secret)

    def _whose(self, caller: str | None) -> str:
        if self._caller is not None and caller not in (None, self._caller):
            raise PermissionDenied("this runtime acts for one caller, and has that caller's credentials alone.")
        return (self._caller or "") if caller is None else caller


class _HasEngine(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


class _Credentials:
    """Credentials of callers: `await rt.credentials.put("github", token)`, `list()`, `revoke("github")`, `link("github")`."""

    def __get__(self, runtime: _HasEngine, owner: Any = None) -> Credentials:
        engine = runtime._opened
        return Credentials(engine.credentials, engine.connecting, runtime._caller)


credentials = _Credentials()
