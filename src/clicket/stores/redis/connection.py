"""Connections. Commands go out together and as many answers come back in time, or the connection is dropped: `Lost`.

They are redis-py's connections. Its client and its pool are left aside: several commands go out in one round trip as they are, and the
store decides itself what is sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from clicket.errors import ClicketError, StoreUnavailable
from clicket.stores.redis.address import Address
from clicket.stores.remote import Lost

__all__ = ["Command", "Connection", "ConnectionPool", "packed", "refusal"]

Command = bytes
"""As it goes over the connection."""
_TRANSIENT = ("LOADING", "BUSY ", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "UNBLOCKED")
_MAX_CONNECTIONS = 8


def packed(*parts: bytes) -> Command:
    """A command in the protocol of Redis. redis-py's own encoder accepts parts of any type, and takes ten times as long."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


class Connection:
    """One connection, for one conversation at a time. `on_connect` is asked whenever it has been connected anew."""

    def __init__(
        self, address: Address, timeout: float, on_connect: Callable[[Connection], Awaitable[None]] | None = None
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._on_connect = on_connect
        self._wire: Any = address.pool.make_connection()

    async def connect(self) -> None:
        if not self._wire.is_connected:
            await self._wire.connect()
            if self._on_connect is not None:
                await self._on_connect(self)

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in their order; an error that the server gave for one is among them."""
        try:
            async with asyncio.timeout(self._timeout):
                await self.connect()
                await self._wire.send_packed_command(b"".join(commands), check_health=False)
                return [await self._reply() for _ in commands]
        except BaseException as error:
            await self._break_off(error)
            raise

    async def _reply(self) -> Any:
        try:
            return await self._wire.read_response(disable_decoding=True, disconnect_on_error=False)
        except ResponseError as error:
            return error

    async def listen(self, *parts: bytes) -> None:
        """Send a command after which the server speaks unasked."""
        try:
            async with asyncio.timeout(self._timeout):
                await self.connect()
                await self.say(*parts)
        except BaseException as error:
            await self._break_off(error)
            raise

    async def say(self, *parts: bytes) -> None:
        """Send a command on a listening connection."""
        await self._wire.send_packed_command(packed(*parts), check_health=False)

    async def heard(self, seconds: float) -> Any:
        """What the server said next; None: nothing in this time. Raises `Lost` when the connection breaks before."""
        try:
            return await self._wire.read_response(disable_decoding=True, timeout=seconds)
        except BaseException as error:
            await self._break_off(error)
            raise

    async def _break_off(self, error: BaseException) -> None:
        """After any trouble, answers could be taken for those of other questions."""
        await self.drop()
        trouble = self._translated(error)
        if trouble is not error:
            raise trouble from error

    async def drop(self) -> None:
        """What was sent may still arrive: the server refuses it by its generation (`session`)."""
        with contextlib.suppress(RedisError, OSError):
            await self._wire.disconnect(nowait=True)

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, AuthenticationError):
            text = str(error).rstrip(".")
            return StoreUnavailable(
                f"{self._address.url} refused the login: {text}. Look at the user and the password in the URL of the store.",
                url=self._address.url,
            )
        if isinstance(error, TimeoutError | RedisTimeout):
            return Lost(f"no answer within {self._timeout:g} s")
        if isinstance(error, ResponseError):
            return refusal(self._address.url, error)
        if isinstance(error, RedisError | OSError | EOFError | ValueError):
            return Lost(str(error).rstrip(".") or type(error).__name__)
        return error


class ConnectionPool:
    """A few connections, shared by all requests. When one breaks, the idle ones are dropped: the server may have been restarted."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._idle: list[Connection] = []
        self._closed = False

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        async with self._free:
            connection = self._idle.pop() if self._idle else Connection(self._address, self._timeout)
            try:
                answers = await connection.execute(commands)
            except Lost:
                await self._drop_idle()
                raise
            if self._closed:
                await connection.drop()
            else:
                self._idle.append(connection)
            return answers

    async def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.drop()

    async def close(self) -> None:
        self._closed = True
        await self._drop_idle()


def refusal(url: str, error: ResponseError) -> ClicketError | Lost:
    """An error of the server with advice; `Lost` if the command is worth sending again soon."""
    text = str(error).rstrip(".")
    named = type(error).__name__
    if text.startswith(_TRANSIENT) or named in (
        "ReadOnlyError",
        "BusyLoadingError",
        "MasterDownError",
        "TryAgainError",
    ):
        return Lost(text or named)
    if named == "OutOfMemoryError" or text.startswith("OOM") or "maxmemory" in text:
        advice = (
            "The server's memory is full (maxmemory): nothing was written. Give it more, or remove calls with `clicket gc`; "
            "clicket goes on by itself."
        )
    elif named == "NoPermissionError" or text.startswith("NOPERM"):
        advice = "The user in the URL may not do that: it needs EVALSHA, SCRIPT, and read and write access to the store's keys."
    elif text.startswith(("MISCONF", "NOWRITE")):
        advice = "The server cannot save to its disk, and takes no writes until it can: look at its log."
    elif named in ("MovedError", "AskError") or text.startswith(("MOVED", "ASK", "CROSSSLOT")):
        advice = "This is a node of a cluster: put the address of the node that has the store's keys into the URL."
    else:
        advice = "Nothing was written; look at the server's log."
    return StoreUnavailable(f"{url}: {text or named}. {advice}", url=url, redis=named)
