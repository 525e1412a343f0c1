"""The append-only log of what people and policies decided. It has names and reasons, never arguments, outputs or keys.

A call's history is in its journal. This log has what an operator needs later: which person approved, denied, cancelled, reset,
cleared, created or revoked what, and what the policy refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from clicket.engine.live_call import Call
from clicket.errors import ClicketError, UsageError
from clicket.model.codec import clean, decode, encode
from clicket.model.output import plain_output
from clicket.model.ports import Audited, Clock, Records
from clicket.safety.vault import hide_known
from clicket.system.bridge import fulfil

__all__ = ["AuditEntry", "AuditLog", "entries", "note"]

logger = logging.getLogger("clicket.engine")
_MAX_WAITING = 10_000
_BATCH = 500
_OWN = ("at", "who", "what")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log. Numbers grow; `before` of a listing takes one."""

    number: int
    at: float
    who: str
    what: str
    details: dict[str, Any] = {}


async def note(store: Records, clock: Clock, *, who: str, what: str, **details: Any) -> None:
    """Write one entry, and wait until it is durable. `what` is a noun and a past tense: `call.approved`."""
    await store.audit([_line(clock, who, what, details)])


async def entries(store: Records, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
    """The newest first."""
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    if before is not None and (type(before) is not int or not 0 <= before < 1 << 63):
        raise UsageError(f"before must be the number of an entry, not {before!r}.")
    return [_read(audited) for audited in await store.audited(before=before, limit=limit)]


class AuditLog:
    """The log of one engine. `note` waits; `jot` does not, so it does not delay a call."""

    def __init__(self, store: Records, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._store = store
        self._clock = clock
        self._spawn = spawn
        self._waiting: list[bytes] = []
        self._writing = False
        self._lost = 0

    async def note(self, who: str, what: str, **details: Any) -> None:
        await note(self._store, self._clock, who=who, what=what, **details)

    async def kept(self, who: str, what: str, /, **details: Any) -> None:
        """Like `note`, for an action that is already done: a failure is logged and not raised, and the entry is written also if
        the caller is cancelled."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def write() -> None:
            try:
                await self.note(who, what, **details)
            except ClicketError as error:
                logger.warning("the audit log could not be written: %s by %r: %s", what, who, error)
            finally:
                fulfil(written)

        self._spawn(write())
        await written

    def jot(self, who: str, what: str, **details: Any) -> None:
        """Write one entry soon, in one batch with others."""
        if (
            len(self._waiting) >= _MAX_WAITING
        ):  # the store is too slow: drop the entry, or memory would grow without bound
            self._lost += 1
            return
        self._waiting.append(_line(self._clock, who, what, details))
        if not self._writing:
            self._writing = True
            self._spawn(self._write())

    def refused(self, call: Call) -> None:
        """The policy denied a call."""
        self.jot(
            call.caller,
            "policy.denied",
            call=call.id,
            tool=call.entry.tool,
            thread=call.thread,
            reason=call.reason,
        )

    async def _write(self) -> None:
        try:
            while self._waiting:
                lines, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                if self._lost:
                    lines.append(_line(self._clock, "", "audit.overrun", {"lost": self._lost}))
                    self._lost = 0
                await self._append(lines)
        finally:
            self._writing = False

    async def _append(self, lines: Sequence[bytes]) -> None:
        try:
            await self._store.audit(lines)
        except ClicketError as error:
            self._lost += len(lines)
            logger.warning("%d lines of the audit log could not be written: %s", len(lines), error)


def _line(clock: Clock, who: str, what: str, details: dict[str, Any]) -> bytes:
    plain = {name: hide_known(clean(value)) if isinstance(value, str) else value for name, value in details.items()}
    return encode(plain_output({"at": clock.now(), "who": hide_known(clean(who)), "what": what, **plain})[0])


def _read(audited: Audited) -> AuditEntry:
    """An entry that another program wrote is marked as such, and does not affect the others."""
    try:
        line = decode(audited.body)
        details = {name: value for name, value in line.items() if name not in _OWN}
        return AuditEntry(
            number=audited.number, at=float(line["at"]), who=str(line["who"]), what=str(line["what"]), details=details
        )
    except Exception:
        return AuditEntry(number=audited.number, at=audited.at, who="", what="damaged")
