"""Which owner holds which calls and slots. A claim whose response was lost is requested again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence

from clicket.model.ports import Bus, OnHint, Owner, Presence, Stored
from clicket.stores.fair_order import last_caller
from clicket.stores.liveness import process_gone
from clicket.stores.postgres.calls import Calls, claimed_call
from clicket.stores.postgres.connection import Row
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.pool import Pool

__all__ = ["Ownership"]

_OWNERS = """SELECT id, host, boot, pid, started, lease, renewed + make_interval(secs => lease) < clock_timestamp()
    FROM owners ORDER BY id"""
_CLAIM = """SELECT keys, freed FROM claim($1::bigint, $2::bigint, $3::bigint, $4::bigint[], $5::text, $6::bigint[],
    $7::text[], $8::bigint, $9::integer)"""
_CLAIM_WAITING = """SELECT key, id, fence, claims, owner, taken_from, bodies, passed FROM claim_waiting(
    $1::bigint, $2::bigint, $3::bigint, $4::bigint[], $5::text[], $6::text, $7::integer)"""
_HOLD = "SELECT granted, freed FROM hold($1::bigint, $2::bigint, $3::text, $4::integer, $5::bigint)"
_MOST = 2**31 - 1
_LOCKED = 0.01
"""Seconds after which waiting calls are looked for again that other transactions had locked."""


class Ownership:
    """`on_hint("work", 0)` is called when waiting calls were locked by others, some time later."""

    def __init__(self, pool: Pool, membership: Membership, calls: Calls, bus: Bus, on_hint: OnHint) -> None:
        self._pool = pool
        self._membership = membership
        self._calls = calls
        self._bus = bus
        self._on_hint = on_hint
        self._later: asyncio.TimerHandle | None = None
        self._undelivered: set[int] = set()
        self._claiming = asyncio.Lock()
        self._last_caller = ""
        self._holding: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def owners(self) -> list[Presence]:
        return [presence for presence, _ in await self._owners()]

    async def _owners(self) -> list[tuple[Presence, bool]]:
        """All owners, and whether their process is known to be gone. The server decides whether a lease has run out."""
        found = []
        for id, host, boot, pid, started, lease, expired in await self._pool.query(_OWNERS):
            owner = Owner(host=host, boot=boot, pid=pid, started=started, lease=lease)
            mine = id == self._membership.id
            gone = not mine and process_gone(owner)
            found.append((Presence(id=id, owner=owner, alive=mine or not (expired or gone), mine=mine), gone))
        return found

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return await self._claim("orphans", await self._gone(), sorted(tools), limit)

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return await self._claim_waiting(sorted(tools), limit) if tools else []

    async def claim(self, key: int) -> Stored | None:
        taken = await self._claim("one", await self._gone(), [], 1, key)
        return taken[0] if taken else None

    async def _gone(self) -> list[int]:
        return [presence.id for presence, gone in await self._owners() if gone]

    async def _claim(
        self, what: str, gone: Sequence[int], tools: Sequence[str], limit: int, key: int | None = None
    ) -> list[Stored]:
        async with self._claiming:
            asked, first, ticket = self._new_ticket(alone=what == "one")

            async def once() -> list[int]:
                nonlocal first
                unheard = [] if first else sorted(asked)
                first = False
                params = (ticket, unheard, what, gone, tools, key, min(limit, _MOST // 8))
                ((keys, freed),) = await self._membership.run(self._pool.run, _CLAIM, *params)
                if freed:
                    self._bus.post("slot", 0)
                return list(keys)

            keys = await self._pool.patiently(once)
            claimed = await self._calls.claimed(keys, self._membership.id) if keys else []
            self._undelivered -= asked
        return sorted(claimed, key=lambda stored: stored.key)

    async def _claim_waiting(self, tools: Sequence[str], limit: int) -> list[Stored]:
        """In one question, with the calls' events. Calls are returned in the order in which they were taken."""
        async with self._claiming:
            asked, first, ticket = self._new_ticket(alone=False)

            async def once() -> list[Row]:
                nonlocal first
                unheard = [] if first else sorted(asked)
                first = False
                params = (ticket, unheard, tools, self._last_caller, min(limit, _MOST // 8))
                return await self._membership.run(self._pool.run, _CLAIM_WAITING, *params)

            rows = await self._pool.patiently(once)
            self._undelivered -= asked
        claimed = [claimed_call(row[:-1]) for row in rows if row[0] is not None]
        if any(row[-1] for row in rows):
            self.look_later()
        self._last_caller = last_caller(claimed, self._last_caller)
        return claimed

    def _new_ticket(self, *, alone: bool) -> tuple[set[int], bool, int]:
        """The tickets whose calls a claim may return, whether there is none but its own, and its own. Calls that an earlier claim
        took, and whose response was lost, are returned by the next claim of several calls."""
        ticket = random.getrandbits(62)
        asked = {ticket} if alone else self._undelivered | {ticket}
        first = alone or not self._undelivered
        self._undelivered.add(ticket)
        return asked, first, ticket

    def look_later(self) -> None:
        """Waiting calls were passed over that may be free soon."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_LOCKED, self._look)

    def _look(self) -> None:
        self._later = None
        self._on_hint("work", 0)

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()

    async def owned(self) -> list[int]:
        sql = "SELECT key FROM calls WHERE owner = $1::bigint AND ended_at IS NULL"
        return [row[0] for row in await self._pool.query(sql, self._membership.id)]

    async def signals(self) -> list[int]:
        sql = "SELECT key FROM calls WHERE owner = $1::bigint AND ended_at IS NULL AND signal"
        return [row[0] for row in await self._pool.query(sql, self._membership.id)]

    async def hand_back(self, keys: Sequence[int]) -> None:
        sql = "SELECT hand_back($1::bigint, $2::bigint, $3::bigint[])"
        rows = await self._pool.patiently(lambda: self._membership.run(self._pool.run, sql, list(keys)))
        for key in rows[0][0]:
            self._bus.post("work", key)

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        params = (name, count, max(min(capacity, _MOST), -_MOST))
        async with self._holding[name]:  # requests for one name must arrive in order
            rows = await self._pool.patiently(lambda: self._membership.run(self._pool.run, _HOLD, *params))
        granted, freed = rows[0]
        if freed:
            self._bus.post("slot", 0)
        return bool(granted)

    async def sign_off(self) -> None:
        sql = "SELECT keys, freed FROM sign_off($1::bigint, $2::bigint)"
        ((keys, freed),) = await self._pool.patiently(lambda: self._membership.run(self._pool.run, sql))
        for key in keys:
            self._bus.post("work", key)
        if freed:
            self._bus.post("slot", 0)
