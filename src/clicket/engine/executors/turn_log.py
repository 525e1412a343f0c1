"""The steps of an agent's turn, as events of the turn's call. An entry is durable before the turn acts on it; the process that resumes
the turn after a crash reads it again. An entry that holds a secret is sealed; without a key only its masked form is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import msgspec

from clicket.engine.executors.stopping import stop_inside
from clicket.engine.journal import Journal, OnDurable
from clicket.engine.live_call import Call
from clicket.model import Event
from clicket.model.codec import decode, encode
from clicket.model.deps import NO_DEPS, RunDeps
from clicket.model.files import FileRef
from clicket.safety.vault import Vault, any_token, hide, hide_text

__all__ = ["TurnLog", "entries_in"]

_KIND = "entry"


class TurnLog:
    """The log of one call, in the process that runs it. `entries` are those that were on record when this process started it."""

    __slots__ = ("_call", "_journal", "_vault", "count", "entries", "entry", "must_stop")

    def __init__(self, journal: Journal, vault: Vault, call: Call) -> None:
        self._journal = journal
        self._vault = vault
        self._call = call
        self.entry = entry = call.entry
        """The turn's call in the journal; only the journal writes to it. `fenced`: another process owns the turn, and this one can write
        no more."""
        self.entries: list[dict[str, Any]] = entries_in(entry.events, vault, self._identity)
        self.count: int = len(self.entries)
        """How many entries are on record."""
        self.must_stop: bool = any(event.type == "cancel_requested" for event in entry.events)
        """A stop was requested while no process had the turn."""

    def read_again(self) -> TurnLog:
        """The log with the entries that are on record now. `flush` first: those that are not durable yet are left out."""
        return TurnLog(self._journal, self._vault, self._call)

    @property
    def _identity(self) -> tuple[str, str, str]:
        return self.entry.caller, self.entry.thread, self.entry.id

    @property
    def shown_entries(self) -> list[dict[str, Any]]:
        """`entries` as readers get them."""
        return entries_in(self.entry.events, self._vault, self._identity, for_readers=True)

    @property
    def scopes(self) -> frozenset[str]:
        """What the turn's caller may do."""
        return self._call.origin.scopes

    @property
    def requesters(self) -> frozenset[str]:
        """Names of the person who began the turn in the name of its caller."""
        return self._call.origin.requesters

    @property
    def deps(self) -> RunDeps:
        """Of the run whose call it is."""
        return self._call.origin.deps or NO_DEPS

    @property
    def stopping(self) -> str | None:
        """Why the turn is being stopped: `cancel`, `shutdown`, …"""
        return self._call.stopping

    def write(
        self,
        text: str,
        entry: dict[str, Any],
        looked_at: Sequence[Any] = (),
        shown: dict[str, Any] | None = None,
        then: Callable[[bool], None] | None = None,
        soon: bool = False,
    ) -> None:
        """Append an entry. It is durable before anything that is appended later; `flush` waits for it.

        `looked_at`: the part of it that people or models wrote, and that may hold a secret. `shown`: the entry without the
        values of declared fields, if it has any; readers get this one, also if the other can be unsealed. `then` is called
        with True once it is durable, or with False if it never will be. `soon`: nothing outside depends on it, so it may be
        written together with the next entry of this iteration of the loop.
        """
        self.count += 1
        data: dict[str, Any] = {"text": text, "entry": entry}
        is_declared = shown is not None and shown is not entry and shown != entry
        if shown is None or not is_declared:
            shown = entry
        if looked_at and any_token(looked_at):
            shown = hide(shown, None)
        if shown is not entry and shown != entry:
            data.update(text=hide_text(text, None), entry=shown, masked=True)
            if is_declared:
                data["declared"] = True
            if self._vault.seals:
                data["sealed"] = self._vault.seal(self._identity, _KIND, encode(entry))
        journal = self._journal
        on_durable = None if then is None else _on_durable(then)
        journal.record(self.entry, "note", data)
        if soon:
            journal.commit_soon(self.entry, on_durable)
        else:
            journal.commit_with_next(self.entry, on_durable)

    def keep_files(self, files: Sequence[FileRef]) -> None:
        """With the next entry: the turn's call names these files, so that they live as long as it does."""
        for ref in dict.fromkeys(files):
            self._journal.name_artifact(self.entry, ref.artifact, ref.size)

    async def note(self, text: str) -> None:
        """Record something that is not an entry. When it is durable this process owns the turn, or `entry.fenced` says that it does not."""
        self._journal.record(self.entry, "note", {"text": text})
        await self._journal.flush(self.entry)

    async def catch_up(self) -> None:
        """Read what other processes wrote into the turn: a stop among it takes effect, and `entry.fenced` says if another one owns it."""
        await self._journal.flush(self.entry)

    async def flush(self) -> None:
        """Wait until everything written so far is durable."""
        if not self.entry.is_idle:
            await self._journal.flush(self.entry)

    def sent(self) -> Awaitable[None] | None:
        """None: the store has everything written so far, and calls that are made from now on become durable after it. Else await that."""
        if not self.entry.rows:
            return None
        self._journal.commit_with_next(self.entry)
        return self._journal.sent(self.entry)

    def waits(self, text: str) -> None:
        """Record that the turn waits for a person: if the process dies meanwhile, the death is not counted against the turn."""
        self._journal.record(self.entry, "note", {"text": text, "waits": True})
        self._journal.commit(self.entry)

    def wait_for(self, what: str | None, text: str) -> None:
        """Record what the turn waits for, other than a person; None: it goes on. Readers see it as `waiting_for`."""
        if self.entry.waiting_for != what:
            self._journal.wait_for(self.entry, what)
            data = {"text": text, "waiting_for": what}
            self._journal.record(self.entry, "note", data if what is None else {**data, "waits": True})
            self._journal.commit(self.entry)

    def give_in(self) -> NoReturn:
        """Apply a stop that was requested while no process had the turn."""
        asked = next(event for event in self.entry.events if event.type == "cancel_requested")
        stop_inside(self._call, "cancel", str(asked.data.get("reason") or ""))
        raise asyncio.CancelledError

    def hand_back(self) -> NoReturn:
        """Leave the turn to the next process that opens the store: the runtime closes, and takes no more calls."""
        stop_inside(self._call, "shutdown")
        raise asyncio.CancelledError

    def leave_to(self, queue: str, what: str, text: str) -> NoReturn:
        """Leave the turn to the processes that claim from a queue: it waits for `what`, which this one does not have."""
        self.wait_for(what, text)
        self._journal.wait_in(self.entry, queue)
        stop_inside(self._call, "elsewhere")
        raise asyncio.CancelledError


def _on_durable(then: Callable[[bool], None]) -> OnDurable:
    return lambda error: then(error is None)


def entries_in(
    events: Sequence[Event],
    vault: Vault | None,
    identity: tuple[str, str, str],
    after: int = 0,
    *,
    for_readers: bool = False,
) -> list[dict[str, Any]]:
    """The entries among a call's events, in order; other notes are skipped. An entry that stays masked has `masked` in it.

    `for_readers`: an entry with values of declared fields stays masked, whether it can be unsealed or not.
    """
    found: list[dict[str, Any]] = []
    for event in events:
        if event.type != "note" or event.seq <= after:
            continue
        entry, sealed = event.data.get("entry"), event.data.get("sealed")
        if type(entry) is not dict:
            continue
        stays = for_readers and event.data.get("declared") is True
        opened = None
        if type(sealed) is str and vault is not None and not stays:
            plain = vault.unsealed(identity, _KIND, sealed)
            try:
                opened = None if plain is None else decode(plain)
            except (msgspec.MsgspecError, ValueError):
                opened = None
        if type(opened) is dict:
            entry = opened
        elif event.data.get("masked") is True:
            entry = {**entry, "masked": True}
        found.append(entry)
    return found
