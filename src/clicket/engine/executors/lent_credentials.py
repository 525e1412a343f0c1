"""Lends the caller's tokens to an attempt, and masks them in everything that the attempt reports.

A token is fetched for each attempt, just before its body runs, and for the caller of the call. A body has no other way to one; code of the
process that is not a tool uses `rt.credentials.token`.
"""

from __future__ import annotations

from clicket.engine.executors.stopping import attempt_of
from clicket.engine.live_call import Call
from clicket.safety.credentials import CredentialBook
from clicket.safety.vault import watch_for, with_values

__all__ = ["LentCredentials"]


class LentCredentials:
    def __init__(self, book: CredentialBook) -> None:
        self._book = book

    async def lend(self, call: Call) -> None:
        """Give the attempt the tokens that its tool declares. `CredentialMissing`: the caller has none for one of them."""
        names = call.required_tool().options.credentials
        tokens = {name: (await self._book.token(call.caller, name)).token for name in names}
        attempt_of(call).tokens = tokens
        self._hide(call, *tokens.values())

    async def renew(self, call: Call, provider: str, used: str, *, refused: bool) -> str:
        """Another token for the running attempt, after the service did not take `used`."""
        token = (await self._book.renew(call.caller, provider, used, refused=refused)).token
        self._hide(call, token)
        tokens = attempt_of(call).tokens
        assert tokens is not None, "they were lent"
        tokens[provider] = token
        return token

    def _hide(self, call: Call, *tokens: str) -> None:
        call.secrets = with_values(call.secrets, tokens, call.arguments, call.request.metadata)
        watch_for(call.secrets)
