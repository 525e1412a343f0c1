"""Calls whose tools need credentials of their callers: let through, or waiting without a slot until the credential is there.

Nothing of a wait is in memory alone: it follows from the credentials in the store. A process that puts one changes a counter; owners of
waiting calls read the counter every second, and all credentials that they wait for every half minute. So a process that dies after it
put a credential costs time, and no call.

A credential that this process put concerns the calls of its caller alone. A few calls are looked at at the same time, however many wait,
and each by one look.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial

from msgspec import to_builtins

from clicket.engine.core import Core
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, CredentialMissing
from clicket.kernel import State
from clicket.model import Event, ToolError
from clicket.model.ports import elapsed, mark
from clicket.safety.credentials import CredentialBook

__all__ = ["LOOK_EVERY", "CredentialWaits", "not_believed"]

logger = logging.getLogger("clicket.engine")
LOOK_EVERY = 1.0
_LOOK_AT_ALL = 30.0
_MAX_ROUNDS = 4
"""Attempts in a row that ended for want of a credential that was there all the time."""
_FIRST_PAUSE = 0.1
_LOOKS = 8
"""Calls that are looked at at the same time, besides those that come."""


class CredentialWaits:
    """`timeout`: seconds for which a call waits; None: without a limit."""

    def __init__(self, core: Core, ending: Ending, book: CredentialBook, *, timeout: float | None) -> None:
        self._journal = core.journal
        self._clock = core.clock
        self._live = core.live
        self._timers = core.timers
        self._ending = ending
        self._caching = core.caching
        self._book = book
        self._timeout = timeout
        self._inputs = core.inputs
        self._spawn = core.spawn
        self._phase = core.phase
        self._waiting: dict[Call, tuple[str, ...]] = {}
        self._due: OrderedDict[Call, None] = OrderedDict()
        self._looked_at_now: set[Call] = set()
        self._looks = 0
        self._seen = 0
        self._looked_at = float("-inf")
        book.on_put.append(self._on_put)

    # A call comes.

    def enter(self, call: Call) -> None:
        """Let the call through if its caller has every credential; else it waits."""
        self._live.add(call)
        self._waiting[call] = ()
        self._spawn(self._look_alone(call))

    def enter_again(self, call: Call) -> bool:
        """The body is over, because a credential was missing or refused: the call is attempted again once it is there. False: the last
        attempts all ended so while it was there; nothing has changed, and the call is to fail."""
        entry = call.entry
        rounds = _rounds_without_wait(call.entry.events) + 1
        if rounds >= _MAX_ROUNDS:
            return False
        error = ToolError(
            code="credential_missing",
            message=f"attempt {entry.attempts} had no credential that works; the call is attempted again when there is one.",
            type="CredentialMissing",
        )
        data = {"attempt": entry.attempts, "error": to_builtins(error), "delay": None, "waiting_for": "credential"}
        self._journal.advance(entry, State.RETRYING, data)
        self._journal.wait_for(entry, "credential")
        self._journal.commit(entry)
        if rounds == 1:
            self.enter(call)
        else:
            self._live.add(call)
            self._waiting[call] = ()
            self._clock.call_later(_FIRST_PAUSE * 2.0 ** (rounds - 2), self._look_later, call)
        return True

    def _look_later(self, call: Call) -> None:
        if not self._phase.closing:
            self._spawn(self._look_alone(call))

    async def _look(self, call: Call) -> None:
        try:
            found, missing = await self._book.look(call.caller, call.required_tool().options.credentials)
        except ClicketError as error:
            if _is_over(call):
                self._waiting.pop(call, None)
            elif call.entry.durable:  # the next look tries again
                logger.warning("call %s: the credentials of its caller cannot be read yet: %s", call.id, error)
                self._looked_at = float("-inf")
            else:
                self._waiting.pop(call, None)
                self._ending.drop(call, error)
            return
        if call not in self._waiting:  # another look let it through
            return
        if _is_over(call):
            del self._waiting[call]
        elif missing:
            self._wait(call, missing)
        else:
            self._let_through(call, found)

    def _let_through(self, call: Call, found: tuple[str, ...]) -> None:
        entry = call.entry
        del self._waiting[call]
        if entry.waiting_for == "credential" or _last_wait(entry.events) is not None:
            self._timers.end_wait(call)
            self._journal.record(entry, "note", {"text": "The credential is there.", "waiting_for": None})
            self._journal.wait_for(entry, None)
        call.credentials = found
        if entry.state is State.PENDING:
            self._caching.fit(call)
        self._inputs.go_on(call)

    def _wait(self, call: Call, missing: dict[str, str]) -> None:
        entry = call.entry
        names = tuple(missing)
        if self._waiting.get(call) == names:
            return
        self._waiting[call] = names
        before = _last_wait(entry.events)
        left = self._timeout
        if before is not None and before.data.get("left") is not None:  # the time of the wait goes on
            left = max(before.data["left"] - elapsed(self._clock, before.at, before.data), 0.0)
        self._journal.wait_for(entry, "credential")
        if before is None or tuple(before.data.get("providers", ())) != names:
            at = self._journal.stamp(entry)
            note = {
                "text": f"It waits for a credential of its caller: {', '.join(names)}.",
                "waiting_for": "credential",
                "providers": list(names),
                "reasons": missing,
                "left": left,
                "deadline": None if left is None else at + left,
                **mark(self._clock),
            }
            self._journal.record(entry, "note", note, at)
        if left is not None:
            self._timers.wait(call, left, "credential")
        self._journal.commit(entry, partial(self._ending.on_created, call))

    # A credential comes.

    def _on_put(self, caller: str, provider: str) -> None:
        """This process put one. Calls that wait for it come before those that are looked at from time to time."""
        if self._phase.closing:
            return
        for call in self._waiting:
            if call.caller == caller and provider in call.required_tool().options.credentials:
                self._due[call] = None
                self._due.move_to_end(call, last=False)
        self._look_on()

    async def look(self) -> None:
        """Another process may have put one."""
        for call in [call for call in self._waiting if _is_over(call)]:
            del self._waiting[call]
        if not self._waiting or self._phase.closing:
            return
        changes = await self._book.documents.changes()
        now = self._clock.monotonic()
        if changes != self._seen or now - self._looked_at >= _LOOK_AT_ALL:
            self._seen = changes
            self._look_at_all()

    def _look_at_all(self) -> None:
        self._looked_at = self._clock.monotonic()
        self._due.update(dict.fromkeys(self._waiting))
        self._look_on()

    def _look_on(self) -> None:
        for _ in range(min(_LOOKS - self._looks, len(self._due))):
            self._looks += 1
            self._spawn(self._look_at_due())

    async def _look_at_due(self) -> None:
        try:
            while not self._phase.closing:
                call = next((each for each in self._due if each not in self._looked_at_now), None)
                if call is None:
                    return
                del self._due[call]
                if call in self._waiting:
                    await self._look_alone(call)
        finally:
            self._looks -= 1

    async def _look_alone(self, call: Call) -> None:
        """Look at a call that no other look is at. What is put meanwhile leads to another look afterwards."""
        self._looked_at_now.add(call)
        try:
            await self._look(call)
        finally:
            self._looked_at_now.discard(call)
            if call in self._due:
                self._look_on()


def _is_over(call: Call) -> bool:
    """Has the call ended meanwhile, or left this process?"""
    return call.ending or call.failure is not None


def _last_wait(events: list[Event]) -> Event | None:
    """The note of the wait that is not over; None: there is none."""
    for event in reversed(events):
        if event.type == "note" and "waiting_for" in event.data:
            return event if event.data["waiting_for"] == "credential" else None
        if event.type in ("state_changed", "created"):
            return None
    return None


def not_believed(missing: CredentialMissing) -> CredentialMissing:
    """The error of a call whose attempts keep ending with `missing`, though its caller has the credential."""
    error = CredentialMissing(
        missing.provider,
        f"{_MAX_ROUNDS} attempts in a row ended so ({missing.reason}), though its caller has one. A tool whose service refuses a token "
        "calls `ctx.renew_credential`; then the call waits for another one.",
    )
    error.__cause__ = missing
    return error


def _rounds_without_wait(events: list[Event]) -> int:
    """How many attempts ended for want of a credential since the call last waited for one."""
    rounds = 0
    for event in reversed(events):
        if event.type == "note" and event.data.get("waiting_for") == "credential":
            break
        if event.type == "state_changed" and event.state is State.RETRYING:
            rounds += (event.data.get("error") or {}).get("code") == "credential_missing"
    return rounds
