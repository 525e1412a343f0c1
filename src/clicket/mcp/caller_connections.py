"""Connections to an MCP server that knows callers by their tokens: each caller has a connection, and a session, of its own.

A token is set for one connection and sent over that one alone, so no request can carry the token of another caller, and no session is
used by two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from clicket.errors import CredentialMissing
from clicket.mcp.connection import Connection, Opener
from clicket.tools import ToolContext

__all__ = ["Bearer", "CallerConnections"]

_MAX_IDLE = 100
"""Connections that are kept for callers without a call; the one that was used least recently is closed first."""


class Bearer:
    """The token of one connection. `contexts` are the calls that use it now, all of one caller."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._renewing = asyncio.Lock()
        self.token = ""
        self.contexts: list[ToolContext] = []
        self.missing: CredentialMissing | None = None
        """Why there is no other token, after the server refused this one."""

    def __repr__(self) -> str:
        return f"<bearer token for {self._provider}>"

    async def renewed(self, used: str) -> str | None:
        """Another token, after the server refused `used` with a 401, which comes before it does anything. None: there is none."""
        async with self._renewing:
            if self.token != used:
                return self.token
            for ctx in list(self.contexts):  # each masks the new token in what its call reports
                try:
                    self.token = await ctx.renew_credential(self._provider)
                except CredentialMissing as missing:
                    self.missing = missing
                    return None
        return None if self.token == used else self.token


class _Used:
    """One caller's connection."""

    def __init__(self, connection: Connection, bearer: Bearer) -> None:
        self.connection = connection
        self.bearer = bearer


class CallerConnections:
    """`open(bearer)` makes the opener of a connection that sends this token."""

    def __init__(
        self, name: str, provider: str, open: Callable[[Bearer], Opener], *, timeout: float, changed: Callable[[], None]
    ) -> None:
        self._name = name
        self._provider = provider
        self._open = open
        self._timeout = timeout
        self._changed = changed
        self._of: dict[str, _Used] = {}

    @asynccontextmanager
    async def borrowed(self, ctx: ToolContext) -> AsyncIterator[Connection]:
        """The connection of the call's caller, with the call's token. `CredentialMissing` if the server refused it for good."""
        used = self._of.pop(ctx.caller, None)
        if used is None:
            bearer = Bearer(self._provider)
            used = _Used(
                Connection(self._name, self._open(bearer), timeout=self._timeout, changed=self._changed), bearer
            )
        self._of[ctx.caller] = used  # last: it is the one that was used most recently
        bearer = used.bearer
        bearer.token, bearer.missing = ctx.credential(self._provider), None
        bearer.contexts.append(ctx)
        try:
            yield used.connection
        except Exception as error:
            if bearer.missing is not None and not isinstance(error, CredentialMissing):
                used.connection.lose()  # the next token gets a session of its own
                raise bearer.missing from error
            raise
        finally:
            bearer.contexts.remove(ctx)
            await self._close_idle()

    async def _close_idle(self) -> None:
        idle = [caller for caller, used in self._of.items() if not used.bearer.contexts]
        for caller in idle[: max(len(idle) - _MAX_IDLE, 0)]:
            await self._of.pop(caller).connection.close()

    async def close(self) -> None:
        of, self._of = self._of, {}
        for used in of.values():
            await used.connection.close()
