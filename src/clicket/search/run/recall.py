"""What an earlier run of the same search has kept, taken in order. With the first thing that is missing the work begins again,
and nothing that was kept after it counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from clicket.search.run.checkpoints import Checkpoints, Kept, SearchKept, pack, unpack

__all__ = ["Recall"]

_MAX_RECORD = 32 * 1024 * 1024
_MAX_SIZE = 256 * 1024 * 1024
"""Bytes of one search, and of all searches, that are kept: documents may be whole books."""

K = TypeVar("K", bound=Kept)


class Recall:
    """`live`: is it work that is done now, and no longer taken over?"""

    def __init__(self, checkpoints: Checkpoints | None, fingerprint: str) -> None:
        self.live = False
        self.taken = 0
        self._size = 0
        self._checkpoints = checkpoints
        self._fingerprint = fingerprint
        self._kept: Mapping[str, bytes] = {}

    @property
    def keeps(self) -> bool:
        """Is there anybody who keeps what is finished?"""
        return self._checkpoints is not None

    @property
    def anything(self) -> bool:
        return bool(self._kept)

    def load(self) -> None:
        if self._checkpoints is not None:
            self._kept = self._checkpoints.load()

    def go_live(self) -> None:
        self.live = True

    def has(self, key: str) -> bool:
        return key in self._kept

    def take(self, key: str, type: type[K]) -> tuple[K | None, str]:
        """The record, or None; and what is to be noted of one that cannot be used."""
        if self.live or key not in self._kept:
            return None, ""
        record = unpack(self._kept[key], type, self._fingerprint)
        if isinstance(record, str):
            return None, f"The checkpoint {key!r} was not used: {record}"
        self.taken += 1
        return record, ""

    def peek(self, key: str, type: type[K]) -> K | None:
        """The record, without taking it over."""
        record = None if self.live or key not in self._kept else unpack(self._kept[key], type, self._fingerprint)
        return None if isinstance(record, str) else record

    async def keep(self, key: str, record: K, seq: int) -> K:
        if self._checkpoints is not None:
            record = msgspec.structs.replace(record, fingerprint=self._fingerprint, seq=seq)
            data = pack(record)
            if isinstance(record, SearchKept):
                if len(data) > _MAX_RECORD or self._size + len(data) > _MAX_SIZE:
                    return record  # it will be searched again, should it come to that
                self._size += len(data)
            await self._checkpoints.save(key, data)
        return record
