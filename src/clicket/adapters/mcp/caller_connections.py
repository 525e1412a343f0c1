"""Connections to an MCP server that knows callers by their tokens: each caller has a connection, and a session, of its own.

A token is set for one connection and sent over that one alone, so no request can carry the token of another caller, and no session is
used by two of them. After the server refused a token for good, the caller's next call gets another connection; calls that are under way
keep theirs, so that none of them is broken by the refusal of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from clicket.adapters.mcp.connection import Connection, Opener, Unreachable
from clicket.errors import CredentialMissing
from clicket.tools import ToolContext

__all__ = ["Bearer", "CallerConnection", "CallerConnections"]

_MAX_IDLE = 100


class Bearer:
    """The token of one connection. `contexts` are the calls that use it now, all of one caller."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._renewing = asyncio.Lock()
        self.token = ""
        self.contexts: list[ToolContext] = []
        self._missing: CredentialMissing | None = None

    def __repr__(self) -> str:
        return f"<bearer token for {self._provider}>"

    def refused(self) -> CredentialMissing | None:
        """Why there is no other token, if the server refused this one."""
        return None if self._missing is None else CredentialMissing(self._provider, self._missing.reason)

    async def renewed(self, used: str) -> str | None:
        """Another token, after the server refused `used` with a 401, which comes before it does anything. None: there is none."""
        async with self._renewing:
            if self.token != used:
                return self.token
            for ctx in list(self.contexts):  # each masks the new token in what its call reports
                try:
                    self.token = await ctx.renew_credential(self._provider)
                except CredentialMissing as missing:
                    if self.token == used:  # else a call came with another one meanwhile
                        self._missing = missing
                    break
        return None if self.token == used else self.token


class CallerConnection:
    """One caller's connection. `users`: how many use it now."""

    def __init__(self, connection: Connection, bearer: Bearer) -> None:
        self.connection = connection
        self.bearer = bearer
        self.users = 0


class CallerConnections:
    """`open(bearer)` makes the opener of a connection that sends this token. `max_idle`: connections that are kept for callers without
    a call; the one that was used least recently is closed first."""

    def __init__(
        self,
        name: str,
        provider: str,
        open: Callable[[Bearer], Opener],
        *,
        timeout: float,
        changed: Callable[[], None],
        max_idle: int = _MAX_IDLE,
    ) -> None:
        self._name = name
        self._provider = provider
        self._open = open
        self._timeout = timeout
        self._changed = changed
        self._max_idle = max_idle
        self._of: dict[str, CallerConnection] = {}
        self._refused: list[CallerConnection] = []
        """Their tokens were refused, and calls still use them."""

    @asynccontextmanager
    async def borrowed(self, ctx: ToolContext) -> AsyncIterator[CallerConnection]:
        """The connection of the call's caller, with the call's token. `CredentialMissing` if no connection can be made, because the
        server refused the token for good. What else the call ends with is its own outcome: its request may have been done."""
        async with self.lent(ctx.caller, ctx.credential(self._provider)) as used:
            used.bearer.contexts.append(ctx)
            try:
                yield used
            except Unreachable as error:
                missing = used.bearer.refused()
                if missing is None:
                    raise
                raise missing from error
            finally:
                used.bearer.contexts.remove(ctx)

    @asynccontextmanager
    async def lent(self, caller: str, token: str) -> AsyncIterator[CallerConnection]:
        """The caller's connection, with this token of the caller's."""
        used = self._of.pop(caller, None)
        if used is not None and used.bearer.refused() is not None:  # the next token gets a session of its own
            self._refused.append(used)
            used = None
        if used is None:
            bearer = Bearer(self._provider)
            used = CallerConnection(
                Connection(self._name, self._open(bearer), timeout=self._timeout, changed=self._changed), bearer
            )
        self._of[caller] = used  # last: it is the one that was used most recently
        used.bearer.token = token
        used.users += 1
        try:
            yield used
        finally:
            used.users -= 1
            if not used.users and used.bearer.refused() is not None:
                await self._end(caller, used)
            await self._close_idle()

    async def _end(self, caller: str, used: CallerConnection) -> None:
        if self._of.get(caller) is used:
            del self._of[caller]
        if used in self._refused:
            self._refused.remove(used)
        await used.connection.close()

    async def _close_idle(self) -> None:
        # Each one is judged and removed in one step: while another one is closed, any caller may borrow its own again.
        while len(idle := [caller for caller, used in self._of.items() if not used.users]) > self._max_idle:
            await self._of.pop(idle[0]).connection.close()

    async def close(self) -> None:
        every = [*self._of.values(), *self._refused]
        self._of, self._refused = {}, []
        for used in every:
            await used.connection.close()
