"""This process as the server knows it: an owner, and the epoch that its statements must show.

A statement that was not answered may still be on its way: in a socket of a server that hangs, in a slow network. Before anything
is said again, the owner takes the next epoch. That waits for what runs, and from then on the old statement is refused when it
arrives: it can neither create a call that was reported as failed, nor claim one whose response is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from clicket.model.ports import Owner
from clicket.stores.postgres.connection import Param, Refused, Row
from clicket.stores.postgres.pool import Pool

__all__ = ["Membership"]

_OTHER_EPOCH = "CK001"


class Membership:
    """Every statement that changes what an owner holds goes through `run`."""

    def __init__(self, pool: Pool, owner: Owner) -> None:
        self.id = 0
        self._pool = pool
        self._facts = msgspec.json.encode(owner).decode()
        self._epoch = 0
        self._in_doubt = False
        self._entering = asyncio.Lock()

    async def join(self) -> None:
        ((self.id,),) = await self._pool.query("SELECT nextval('owner_ids')")
        await self._pool.patiently(lambda: self._enter(0))

    async def renew(self) -> None:
        """Also for one that was given up for dead: it is an owner again, under the same number."""
        await self.run(self._pool.run, "SELECT stay($1::bigint, $2::bigint)")

    async def run(self, send: Callable[..., Awaitable[list[Row]]], sql: str, *params: Param) -> list[Row]:
        """Send a statement whose first two parameters are the owner and its epoch. Raises `Lost` or `Refused`."""
        while True:
            epoch = self._epoch
            if self._in_doubt:
                await self._enter(epoch)
                continue
            try:
                return await send(sql, self.id, epoch, *params)
            except Refused as refused:
                if refused.code != _OTHER_EPOCH:
                    raise
                await self._enter(epoch)
            except BaseException:  # also a cancelled wait leaves a statement behind
                self._in_doubt = True
                raise

    async def _enter(self, known: int) -> None:
        """Take the next epoch, unless another task did so since `known`."""
        async with self._entering:
            if self._epoch == known:
                sql = "SELECT enter($1::bigint, $2::json)"
                ((self._epoch,),) = await self._pool.run(sql, self.id, self._facts)
                self._in_doubt = False
