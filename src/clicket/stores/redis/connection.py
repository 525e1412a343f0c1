"""Connections. Commands go out together and as many answers come back in time, or the connection is dropped: `Lost`.

redis-py connects and logs in; from then on `Line` has the connection. redis-py's client is left aside: a command through it costs three
times what it costs here.
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
from clicket.stores.redis.line import Line, OnAnswer, OnReply
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
        self._line: Line | None = None

    async def connect(self) -> Line:
        if self._line is None or self._line.lost is not None:
            await self.drop()
            async with asyncio.timeout(self._timeout):
                await self._wire.connect()
                self._line = Line(self._wire._writer.transport, self._refused)
                if self._on_connect is not None:
                    await self._on_connect(self)
        return self._line

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        """The answers in their order; an error that the server gave for one is among them."""
        try:
            line = self._line
            if line is None or line.lost is not None:
                line = await self.connect()
            data = commands[0] if len(commands) == 1 else b"".join(commands)
            return await line.ask(data, len(commands), self._timeout)
        except BaseException as error:
            await self._break_off(error)
            raise

    def begin(self, command: Command, on_answer: OnAnswer, *, count: int = 1) -> bool:
        """Send this many commands at once; `on_answer` gets their answers, or an error, after which the next conversation connects anew.
        False: they were not sent, as there is no connection, or it is in use."""
        line = self._line
        if line is None or not line.is_free:
            return False
        line.send(command, count, self._timeout, on_answer)
        return True

    def _refused(self, text: str) -> ResponseError:
        """An error that the server sent: of one command, or of the whole connection, which is raised."""
        error = self._wire._parser.parse_error(text)
        if not isinstance(error, ResponseError):
            raise error
        return error

    async def listen(self, *parts: bytes, on_reply: OnReply) -> None:
        """Send a command after which the server speaks unasked; `on_reply` gets everything that it sends from now on."""
        try:
            line = await self.connect()
            line.on_reply = on_reply
            line.say(packed(*parts))
        except BaseException as error:
            await self._break_off(error)
            raise

    def say(self, *parts: bytes) -> None:
        """Send a command on a listening connection."""
        if self._line is not None:
            self._line.say(packed(*parts))

    def end(self, why: Exception) -> None:
        """The server said something after which the connection is of no use."""
        if self._line is not None:
            self._line.end(why)

    async def stays(self, seconds: float) -> None:
        """Wait this many seconds. Raises `Lost` when the connection breaks before."""
        try:
            if self._line is None:
                raise ConnectionResetError("the connection was closed")
            await self._line.stays(seconds)
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
        self._line = None
        writer = getattr(self._wire, "_writer", None)
        if writer is not None:
            writer.transport.abort()  # what was not sent yet must not be sent now, nor waited for
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
