"""The one way to the server for everything but appends: a script, what it is asked, and an answer or a reason.

Every question carries the mark of the store that was opened: a server that lost its data is noticed by the first one. Every
write carries a generation, which grows when an answer was lost; the server then refuses what is still under way from before,
so that a connection that was given up cannot act late.
"""

from __future__ import annotations

from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from clicket.errors import StoreUnavailable
from clicket.ports import Owner, Unstorable
from clicket.stores.liveness import host_clock
from clicket.stores.redis.address import Address
from clicket.stores.redis.line import Command, Lines, packed, refusal
from clicket.stores.redis.scripts import script
from clicket.stores.remote import Lost, insist

__all__ = ["Door"]

_encode = msgspec.msgpack.Encoder().encode


class Overtaken(Lost):
    """The server refused a question as it came from before a connection was given up. It is asked again."""


class Door:
    """`me` and `store` are known once the store is open."""

    def __init__(self, address: Address, owner: Owner, timeout: float) -> None:
        self.url = address.url
        self.base = address.base
        self._base = address.base.encode()
        self.owner = msgspec.json.encode(owner).decode()
        self._lease = owner.lease
        self._renew_by = 0.0
        self._told = 0
        self.timeout = timeout
        self.me = 0
        self.store = ""
        self.generation = 1
        self.listening = 0
        self.lines = Lines(address, timeout)

    def command(self, name: str, ask: dict[str, Any], *data: bytes) -> Command:
        try:
            question = _encode(ask)
        except (UnicodeEncodeError, OverflowError) as error:
            raise Unstorable(f"{self.url}: this cannot be asked: {error}.") from error
        return packed(b"EVALSHA", script(name).sha, b"1", self._base, question, *data)

    def sign(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The question of an owner. It lives as long as it asks, and says so when it has not for a while."""
        ask |= {"store": self.store, "me": self.me, "generation": self.generation, "listening": self.listening}
        if self._told != self.generation or host_clock() > self._renew_by:
            ask["owner"] = self.owner
        return ask

    def signed(self, ask: dict[str, Any]) -> None:
        """The question was answered."""
        if "owner" in ask:
            self._told, self._renew_by = ask["generation"], host_clock() + self._lease / 20

    async def read(self, name: str, ask: dict[str, Any], *data: bytes) -> Any:
        command = self.command(name, {**ask, "store": self.store}, *data)
        return await insist(self.url, self.timeout, lambda: self._ask(name, command))

    async def write(self, name: str, ask: dict[str, Any], *data: bytes, again: bool = False) -> Any:
        """`again`: it may have been done already."""

        async def ask_once() -> Any:
            nonlocal again
            try:
                return await self.once(name, {**ask, "again": again}, *data)
            except Lost:
                again = True
                raise

        return await insist(self.url, self.timeout, ask_once)

    async def once(self, name: str, ask: dict[str, Any], *data: bytes) -> Any:
        """Ask as an owner, a single time. Raises `Lost`."""
        ask = self.sign(dict(ask))
        try:
            answer = await self._ask(name, self.command(name, ask, *data))
        except Lost as lost:
            self.doubt(lost)
            raise
        self.signed(ask)
        return answer

    async def _ask(self, name: str, command: Command) -> Any:
        (answer,) = await self.lines.ask([command])
        if isinstance(answer, NoScriptError):
            _, answer = await self.lines.ask([script(name).load, command])
        return self.judged(answer)

    def judged(self, answer: Any) -> Any:
        if isinstance(answer, ResponseError):
            raise refusal(self.url, answer)
        if answer == b"lost":
            raise self.lost_data()
        if answer == b"old":
            raise self.overtaken()
        return answer

    def doubt(self, lost: Lost) -> None:
        """An answer was lost: what may still be under way must not be done any more. What was overtaken was not done."""
        if not isinstance(lost, Overtaken):
            self.generation += 1

    def overtaken(self) -> Overtaken:
        self._told = 0  # we may have been given up for dead: say that we live
        return Overtaken("a question was overtaken by a later one")

    def lost_data(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.url}: the server has lost its data: the store that was opened here is gone (FLUSHALL, another server "
            "behind the address, or a restart without persistence). Nothing more is written. Close this runtime and open it "
            "again to begin with an empty store; restore a backup first if there is one, and set `appendonly yes`.",
            url=self.url,
        )
