"""Removes what is left of forks whose process was killed before they could be seen."""

from __future__ import annotations

import msgspec

from clicket.agents.memory import FORK, HEAD, delete_past
from clicket.model.ports import Records

__all__ = ["ForkSweep"]

_BATCH = 200


class _Done(msgspec.Struct):
    done: bool = False


class ForkSweep:
    """Looks at a bounded number of marks at a time, and remembers where to continue."""

    def __init__(self) -> None:
        self._after = ""

    async def step(self, records: Records, before: float) -> int:
        """Remove the copies of forks that were begun before a time and are not there; returns how many."""
        marks = await records.documents(FORK, after=self._after, limit=_BATCH)
        self._after = marks[-1].key if len(marks) == _BATCH else ""
        removed = 0
        for mark in marks:
            caller, agent, _, to = mark.key.split("/", 3)
            fork = f"{caller}/{agent}/{to}"
            if mark.updated_at >= before or await records.document(HEAD, fork) is not None:
                continue
            if not _is_done(mark.body):
                await delete_past(records, fork)
                removed += 1
            await records.delete_document(FORK, mark.key)
        return removed


def _is_done(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Done).done
    except msgspec.MsgspecError:  # another program wrote it
        return False
