"""What an agent's turn has done so far, as events of the call that drives it: written before what follows from it, read again by
whoever takes the turn up after a crash. An entry that holds a secret is sealed; without a key only its masked form is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from clicket.journal import Journal, LiveCall, Then
from clicket.model import Event
from clicket.model.codec import decode, encode
from clicket.tools import ToolContext
from clicket.vault import Vault, has_token, hide, hide_text

__all__ = ["TurnLog", "entries_in"]

_KIND = "entry"


class TurnLog:
    """Of one call, in the process that runs it. `entries` are those that were on record when it was taken up."""

    __slots__ = ("_call", "_journal", "count", "entries", "must_stop")

    def __init__(self, ctx: ToolContext) -> None:
        sink: Any = ctx._sink  # the loop's own: an inner tool is async, and runs there
        self._journal: Journal = sink._journal
        self._call: LiveCall = sink._call
        self.entries: list[dict[str, Any]] = entries_in(self._call.events, self._journal.vault, self._identity)
        self.count: int = len(self.entries)
        """How many are on record by now."""
        self.must_stop: bool = any(event.type == "cancel_requested" for event in self._call.events)
        """The turn was to be stopped when it was taken up: somebody had asked for that while nobody had it."""

    @property
    def _identity(self) -> tuple[str, str, str]:
        return self._call.caller, self._call.thread, self._call.id

    @property
    def scopes(self) -> frozenset[str]:
        """What the turn's caller may do."""
        return self._call.scopes

    @property
    def stopping(self) -> str | None:
        """Why the turn was told to stop: `cancel`, `shutdown`, …"""
        return self._call.stopping

    @property
    def lost(self) -> bool:
        """Another process has the turn: what is written here counts no more."""
        return self._call.fenced

    def write(
        self,
        text: str,
        entry: dict[str, Any],
        *,
        looked_at: Iterable[Any] = (),
        then: Callable[[bool], None] | None = None,
        soon: bool = False,
    ) -> None:
        """Hand an entry to the store. It is durable before anything that is handed over later; `flush` waits for it.

        `looked_at`: what is in it that people or models wrote, and that may hold a secret. `then` is told whether it is durable
        now, or will never be. `soon`: nothing outside follows from it, so it may wait for the entry that comes next, if that
        comes at once.
        """
        self.count += 1
        data: dict[str, Any] = {"text": text, "entry": entry}
        if any(has_token(each) for each in looked_at):
            shown = hide(entry, None)
            if shown != entry:
                data["text"], data["entry"] = hide_text(text, None), shown
                vault = self._journal.vault
                if vault is not None and vault.seals:
                    data["sealed"] = vault.seal(self._identity, _KIND, encode(entry))
        self._journal.record(self._call, "note", data)
        commit = self._journal.commit_soon if soon else self._journal.commit
        commit(self._call, None if then is None else _told(then))

    async def flush(self) -> None:
        """Wait until everything written so far is durable."""
        if self._call.inflight is not None or self._call.staged:
            await self._journal.flush(self._call)

    async def sent(self) -> None:
        """Wait until everything written so far is with the store: calls that are made from now on are durable after it."""
        if self._call.staged:
            self._journal.commit(self._call)
            await self._journal.sent(self._call)

    def waits(self, text: str) -> None:
        """Say that the turn waits for somebody: a process that dies meanwhile does not die of it."""
        self._journal.record(self._call, "note", {"text": text, "waits": True})
        self._journal.commit(self._call)

    def give_in(self) -> NoReturn:
        """Stop, as was asked for while nobody had the turn."""
        asked = next(event for event in self._call.events if event.type == "cancel_requested")
        self._call.stopping, self._call.cancel_reason = "cancel", str(asked.data.get("reason") or "")
        raise asyncio.CancelledError

    def hand_back(self) -> NoReturn:
        """Leave the turn to whoever opens the store next: the runtime closes, and takes no more calls."""
        self._call.stopping = "shutdown"
        raise asyncio.CancelledError


def _told(then: Callable[[bool], None]) -> Then:
    return lambda _, error: then(error is None)


def entries_in(
    events: Sequence[Event], vault: Vault | None, identity: tuple[str, str, str], after: int = 0
) -> list[dict[str, Any]]:
    """The entries among a call's events, in order; what is no entry of ours is passed over."""
    found: list[dict[str, Any]] = []
    for event in events:
        if event.type != "note" or event.seq <= after:
            continue
        entry, sealed = event.data.get("entry"), event.data.get("sealed")
        if type(entry) is not dict:
            continue
        if type(sealed) is str and vault is not None:
            plain = vault.unsealed(identity, _KIND, sealed)
            try:
                opened = None if plain is None else decode(plain)
            except (msgspec.MsgspecError, ValueError):
                opened = None
            entry = opened if type(opened) is dict else entry
        found.append(entry)
    return found
