"""Keeps calls whose tools have an undo, and their undos, for as long as they can be undone.

Sweeps do not look again at calls that they have kept. So a document names each thread with such calls, and when it must be looked at
again: then its calls are released, and the next sweep decides about them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

import msgspec

from clicket.model.codec import encode
from clicket.model.ports import Clock, Store, Stored, StoredDocument
from clicket.model.undo import UNDO

__all__ = ["UndoableCalls"]

_KIND = "undo.kept"
_LOOK_AFTER = 24 * 3600.0
"""Seconds between two looks at one thread: a look is at all calls that are kept in it, so they may stay as much longer."""
_STEP = 200


class _Look(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: when the calls of a thread are looked at again. `is_empty`: no sweep has kept one since it was written."""

    at: float = 0.0
    is_empty: bool = True


class UndoableCalls:
    """`undo_for`: seconds from the end of a call."""

    def __init__(self, store: Store, clock: Clock, undo_for: float) -> None:
        self._store = store
        self._clock = clock
        self._undo_for = undo_for

    async def kept(self, calls: Sequence[Stored]) -> list[int]:
        """The keys of those calls that a sweep must leave."""
        now = self._clock.now()
        kept = [stored for stored in calls if self._end_of_undo(stored) > now]
        for place in {_key_of(stored) for stored in kept}:  # before the sweep marks them
            await self._note(place, now)
        return [stored.key for stored in kept]

    async def _note(self, place: str, now: float) -> None:
        """In the thread there is a call that must be looked at again."""
        known = await self._store.document(_KIND, place)
        look = _Look() if known is None else _look_in(known.body)
        if known is None or look.is_empty:
            at = look.at if known is not None else now + _LOOK_AFTER
            version = 0 if known is None else known.version
            await self._store.put_document(_KIND, place, encode(_Look(at=at, is_empty=False)), version)

    def _end_of_undo(self, stored: Stored) -> float:
        """0 for other calls."""
        if stored.damaged is not None or not stored.events:
            return 0.0
        first = stored.events[0].data
        if first.get("undo") is not True and not str(first.get("tool", "")).startswith(UNDO):
            return 0.0
        return stored.events[-1].at + self._undo_for

    async def release(self) -> None:
        """Let the next sweep look at threads whose time has come."""
        after, now = "", self._clock.now()
        while True:
            page = await self._store.documents(_KIND, after=after, limit=_STEP)
            for document in page:
                look = _look_in(document.body)
                if look.at <= now:
                    await self._look_again(document, look, now)
            if len(page) < _STEP:
                return
            after = page[-1].key

    async def _look_again(self, document: StoredDocument, look: _Look, now: float) -> None:
        """The time of the next look is on record before the calls are released, so that a crash in between loses nothing."""
        if look.is_empty:  # no sweep has kept a call of the thread since the last look
            await self._store.delete_document(_KIND, document.key)
            return
        caller, thread = (unquote(part) for part in document.key.split("/", 1))
        new = encode(_Look(at=now + _LOOK_AFTER))
        if await self._store.put_document(_KIND, document.key, new, document.version):
            await self._store.release(caller, thread)


def _key_of(stored: Stored) -> str:
    first = stored.events[0].data
    return f"{quote(first.get('caller', ''), safe='')}/{quote(first['thread'], safe='')}"


def _look_in(body: bytes) -> _Look:
    try:
        return msgspec.json.decode(body, type=_Look)
    except msgspec.MsgspecError:  # another program wrote it
        return _Look(is_empty=False)
