"""The one way to the server for everything but appends: a script, what it is asked, and an answer or a reason.

Every question carries the mark of the store that was opened: a server that lost its data is noticed by the first one. Every
write carries a generation, which grows when an answer was lost; the server then refuses what is still under way from before,
so that a connection that was given up cannot act late.
"""

from __future__ import annotations

from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from clicket import system
from clicket.errors import StoreUnavailable
from clicket.model.ports import Owner, Unstorable
from clicket.stores.redis.address import Address
from clicket.stores.redis.connection import Command, ConnectionPool, packed, refusal
from clicket.stores.redis.scripts import script
from clicket.stores.remote import Lost, retry_while_lost

__all__ = ["ScriptClient"]

_encode = msgspec.msgpack.Encoder().encode


class Superseded(Lost):
    """The server refused a question as it came from before a connection was given up. It is asked again."""


class ScriptClient:
    """`me` and `store` are known once the store is open."""

    def __init__(self, address: Address, owner: Owner, timeout: float) -> None:
        self.url = address.url
        self.base = address.base
        self._base = address.base.encode()
        self.owner = msgspec.json.encode(owner).decode()
        self._lease = owner.lease
        self._renew_by = 0.0
        self._announced = 0
        self.timeout = timeout
        self.me = 0
        self.store = ""
        self.generation = 1
        self.pool = ConnectionPool(address, timeout)

    def command(self, name: str, arguments: dict[str, Any], *data: bytes) -> Command:
        return packed(b"EVALSHA", script(name).sha, b"1", self._base, self.encoded(arguments), *data)

    def encoded(self, question: object) -> bytes:
        """A question, or a part of one, as scripts read it. Raises `Unstorable`."""
        try:
            return _encode(question)
        except (UnicodeEncodeError, OverflowError) as error:
            raise Unstorable(f"{self.url}: this cannot be asked: {error}.") from error

    def identified(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The question of an owner. It lives as long as it asks, and says so when it has not for a while."""
        arguments |= {"store": self.store, "me": self.me, "generation": self.generation}
        if self._announced != self.generation or system.uptime() > self._renew_by:
            arguments["owner"] = self.owner
        return arguments

    def renewed(self, arguments: dict[str, Any]) -> None:
        """The question was answered."""
        if "owner" in arguments:
            self._announced, self._renew_by = arguments["generation"], system.uptime() + self._lease / 20

    async def read(self, name: str, arguments: dict[str, Any], *data: bytes) -> Any:
        command = self.command(name, {**arguments, "store": self.store}, *data)
        return await retry_while_lost(self.url, self.timeout, lambda: self._execute(name, command))

    async def ask(self, command: Command) -> Any:
        """A command of the server itself that changes nothing."""

        async def once() -> Any:
            (answer,) = await self.pool.execute([command])
            return self.checked(answer)

        return await retry_while_lost(self.url, self.timeout, once)

    async def write(self, name: str, arguments: dict[str, Any], *data: bytes, again: bool = False) -> Any:
        """`again`: it may have been done already."""

        async def write_once() -> Any:
            nonlocal again
            try:
                return await self.once(name, {**arguments, "again": again}, *data)
            except Lost:
                again = True
                raise

        return await retry_while_lost(self.url, self.timeout, write_once)

    async def once(self, name: str, arguments: dict[str, Any], *data: bytes) -> Any:
        """Ask as an owner, a single time. Raises `Lost`."""
        arguments = self.identified(dict(arguments))
        try:
            answer = await self._execute(name, self.command(name, arguments, *data))
        except Lost as lost:
            self.response_lost(lost)
            raise
        self.renewed(arguments)
        return answer

    async def _execute(self, name: str, command: Command) -> Any:
        (answer,) = await self.pool.execute([command])
        if isinstance(answer, NoScriptError):
            _, answer = await self.pool.execute([script(name).load, command])
        return self.checked(answer)

    def checked(self, answer: Any) -> Any:
        if isinstance(answer, ResponseError):
            raise refusal(self.url, answer)
        if answer == b"lost":
            raise self.lost_data()
        if answer == b"old":
            raise self.superseded()
        return answer

    def response_lost(self, lost: Lost) -> None:
        """An answer was lost: what may still be under way must not be done any more. What was overtaken was not done."""
        if not isinstance(lost, Superseded):
            self.generation += 1

    def superseded(self) -> Superseded:
        self._announced = 0  # we may have been given up for dead: say that we live
        return Superseded("a question was overtaken by a later one")

    def lost_data(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.url}: the server has lost its data: the store that was opened here is gone (FLUSHALL, another server "
            "behind the address, or a restart without persistence). Nothing more is written. Close this runtime and open it "
            "again to begin with an empty store; restore a backup first if there is one, and set `appendonly yes`.",
            url=self.url,
        )
