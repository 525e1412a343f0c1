"""Which owners are dead: those whose lease has run out by the server's clock, and those whose process is gone from this host.

The server's clock is a date, and dates get set. A jump is seen by comparing it with the monotonic clock of this process: after
one, leases are not checked until every owner has had the time to renew itself by the new date.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import msgspec

from clicket import system
from clicket.model.ports import Owner, Presence
from clicket.stores.liveness import process_gone
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["DeadOwner", "DeadOwners"]

logger = logging.getLogger("clicket.stores.redis")

_LEAP = 2.0
_owner = msgspec.json.Decoder(Owner)

DeadOwner = tuple[int, str]
"""An owner, and its last renewal as it was seen when its lease was found to have run out; empty: its process is gone."""


class DeadOwners:
    """`started`: the server's time when the store was opened, between our `before` and now."""

    def __init__(self, client: ScriptClient, started: float, before: float) -> None:
        self._client = client
        self._early, self._late = started - system.monotonic(), started - before
        self._leapt_at = -math.inf
        self._ahead: dict[int, tuple[bytes, float]] = {}

    async def presences(self) -> list[Presence]:
        return [
            Presence(id=id, owner=owner, alive=dead is None, mine=id == self._client.me)
            for id, owner, dead in await self._look()
        ]

    async def dead(self) -> list[DeadOwner]:
        return [dead for _, _, dead in await self._look() if dead is not None]

    def judge(self, id: int, record: bytes, renewed: bytes, now: float) -> tuple[Owner, DeadOwner | None]:
        """An owner, and its dead if it is dead."""
        try:
            owner = _owner.decode(record)
            stamp = float(renewed)
        except ValueError:  # not written by clicket: nothing says that it is alive
            return Owner(host="", boot="", pid=0, started="", lease=0.0), (id, renewed.decode(errors="replace"))
        if id == self._client.me:
            return owner, None
        if process_gone(owner):
            return owner, (id, "")
        if self._has_run_out(id, owner.lease, renewed, now - stamp):
            return owner, (id, renewed.decode())
        return owner, None

    def _has_run_out(self, id: int, lease: float, renewed: bytes, age: float) -> bool:
        if age >= 0:
            self._ahead.pop(id, None)
            return age > lease and system.monotonic() > self._leapt_at + lease
        # Renewed in the future: the date was set back. A living owner renews itself again; one that does not for a lease is dead.
        seen, since = self._ahead.get(id, (b"", 0.0))
        if seen != renewed:
            self._ahead[id] = (renewed, system.monotonic())
            return False
        return system.monotonic() > since + lease

    async def _look(self) -> list[tuple[int, Owner, DeadOwner | None]]:
        before = system.monotonic()
        time, found = await self._client.read("owners", {})
        now = float(time)
        owners: list[tuple[int, Any, Any]] = [(int(id), *rest) for id, *rest in found]
        self.check_clock(now, before)
        return [(id, *self.judge(id, record, renewed, now)) for id, record, renewed in sorted(owners)]

    def check_clock(self, now: float, before: float) -> None:
        """`now` was read on the server between `before` and this moment; so was the last one."""
        early, late = now - system.monotonic(), now - before
        if early > self._late + _LEAP or late < self._early - _LEAP:
            by = early - self._early
            logger.warning(
                "%s: the server's date leapt by about %.0f s; leases are not judged for a while", self._client.url, by
            )
            self._leapt_at = system.monotonic()
        self._early, self._late = early, late
