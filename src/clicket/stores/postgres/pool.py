"""A few connections for everything but appends. One that broke, or whose statement was cancelled, is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from clicket.errors import StoreUnavailable
from clicket.stores.postgres.address import Address, quoted
from clicket.stores.postgres.connection import Connection, Hopeless, Param, Refused, Row
from clicket.stores.remote import Lost, retry_while_lost, unreachable

__all__ = ["Pool", "Server"]

T = TypeVar("T")

# A setting of the role or the database must not weaken what a commit means. The compiler of expressions pays off for reports
# over millions of rows, never for ours.
_SETUP = """SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
SET search_path = {schema};
SET statement_timeout = {limit};
SET idle_in_transaction_session_timeout = {idle};
SET jit = off"""


class Server:
    """How to reach the database, and how patient to be with it."""

    def __init__(self, address: Address, *, timeout: float) -> None:
        self.address = address
        self.name = address.name
        self.timeout = timeout
        self._sound = True

    @property
    def limit(self) -> float:
        """Seconds for one statement. While the server does not answer at all, less: other statements wait behind it."""
        return self.timeout if self._sound else max(self.timeout / 3, min(self.timeout, 1.0))

    async def connect(self) -> Connection:
        setup = _SETUP.format(
            schema=quoted(self.address.schema),
            limit=max(int(self.timeout * 900), 1),  # before we lose patience: then the connection need not be given up
            idle=max(int(self.timeout * 2000), 1),
        )
        connection: Connection | None = None
        try:
            connection = await Connection.open(await self.address.attempts(), self.limit)
            await connection.script(setup, limit=self.limit)
        except Refused as refused:
            assert connection is not None
            connection.close()
            raise Hopeless(str(refused)) from refused
        except Lost:
            self._sound = False
            if connection is not None:
                connection.close()
            raise
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return connection

    def judge(self, connection: Connection) -> None:
        """Note whether the server answers, by what became of a connection."""
        if connection.broken is None or connection.silent:
            self._sound = not connection.silent


class Pool:
    """At most `size` connections, made when they are needed."""

    def __init__(self, server: Server, size: int) -> None:
        self.server = server
        self._size = size
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._closed = False

    def adopt(self, connection: Connection) -> None:
        """Keep one that is open: a new one costs the server a process."""
        self._all.add(connection)
        self._idle.append(connection)

    async def query(self, sql: str, *params: Param) -> list[Row]:
        """A statement that may be asked twice without harm. Raises `StoreUnavailable`."""
        return await self.patiently(lambda: self.run(sql, *params))

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer. Raises `StoreUnavailable`."""
        server = self.server

        async def once() -> T:
            try:
                return await ask()
            except Hopeless as lost:
                raise unreachable(server.name, lost) from lost
            except Refused as refused:
                raise StoreUnavailable(
                    f"{server.name}: the server refused: {refused} ({refused.code}). Look whether its tables are as "
                    "clicket made them.",
                    url=server.name,
                    code=refused.code,
                ) from refused

        return await retry_while_lost(server.name, server.timeout, once)

    async def run(self, sql: str, *params: Param, limit: float | None = None) -> list[Row]:
        """One statement on one connection. Raises `Lost` or `Refused`."""
        connection = await self._take()
        try:
            return await connection.run(sql, params, limit=limit or self.server.limit)
        finally:
            self._give(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Several statements on one connection, all or nothing."""
        connection = await self._take()
        limit = self.server.timeout
        try:
            await connection.script("BEGIN", limit=limit)
            yield connection
            await connection.script("COMMIT", limit=limit)
        except BaseException:
            connection.close()  # and with it the transaction
            raise
        finally:
            self._give(connection)

    async def _take(self) -> Connection:
        if self._closed:
            raise StoreUnavailable(f"{self.server.name} is closed.", url=self.server.name)
        try:
            async with asyncio.timeout(self.server.timeout):
                await self._places.acquire()
        except TimeoutError:
            raise Lost(f"all {self._size} connections have been busy for {self.server.timeout:g} s") from None
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.broken is None:
                    return connection
                self._all.discard(connection)
            connection = await self.server.connect()
        except BaseException:
            self._places.release()
            raise
        self._all.add(connection)
        if self._closed:
            connection.close()
        return connection

    def _give(self, connection: Connection) -> None:
        if connection.busy:  # the caller was cancelled; the result is still to come
            connection.when_free(lambda: self._give(connection))
            return
        self.server.judge(connection)
        if connection.worn or self._closed:
            connection.close()
        if connection.broken is None:
            self._idle.append(connection)
        else:
            self._all.discard(connection)
        self._places.release()

    def close(self) -> None:
        self._closed = True
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._idle.clear()
