"""Which messages an append causes. The urgent ones go out with the commit itself, if the store can send them: a process that waits for
them need not wait until this one has read the store's answer. The others are posted once the append is durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Raw
from msgspec.json import encode

from clicket.model.ports import Append, Bus
from clicket.stores.bus import BusMessage
from clicket.stores.remote import Unit

__all__ = ["Announcer", "Enclosure", "Outbox"]

_MAX_GIVERS = 10_000
"""Calls whose givers are remembered; of the others the giver hears once the outcome is durable."""


class Outbox(Bus, Protocol):
    """Messages of a process whose store can send envelopes itself."""

    def seal(self, to: int, messages: Sequence[BusMessage], new: int = 0) -> tuple[list[BusMessage], bytes] | None:
        """An envelope to one process, for the store to send: messages to it that waited, which are taken out, and these. `new`: how many
        of them have no key yet. None: it cannot be one message now."""
        ...


class Enclosure(msgspec.Struct, frozen=True, gc=False):
    """A message that the store sends with a commit, if all these units of the group are applied by it."""

    to: int
    text: bytes
    units: list[int]
    new: list[int]
    """Those of the units that create a call: the store puts the keys of their calls in front of the text."""
    taken: list[BusMessage]
    """Messages that waited, and went into it."""

    def is_sent(self, applied: Sequence[bool]) -> bool:
        return all(map(applied.__getitem__, self.units))


class Announcer:
    """`encloses`: the store sends envelopes with a commit. False: a carrier of its own sends them."""

    def __init__(self, bus: Outbox, *, encloses: bool) -> None:
        self._bus = bus
        self._encloses = encloses
        self._givers: dict[int, int] = {}
        """The process that waits for the outcome of a call that runs here."""

    def enclose(self, units: Sequence[Unit]) -> list[Enclosure]:
        """The messages that go with the commit of a group."""
        if not self._encloses:
            return []
        found: dict[int, tuple[list[BusMessage], list[int], list[int]]] = {}
        for number, (change, body) in enumerate(units):
            if change.ended_at is not None:
                to = self._givers.get(change.key, 0)
                is_new = False
                if not to or change.unit is None:
                    continue
                message = BusMessage("events", change.key, Raw(encode((change.id, Raw(body)))))
            elif not change.owned and change.to > 0 and change.expect == 0:
                to = change.to
                is_new = True
                message = BusMessage("work", -1, Raw(_offer(change, body)))
            else:
                continue
            messages, numbers, new = found.setdefault(to, ([], [], []))
            messages.append(message)
            numbers.append(number)
            if is_new:
                new.append(number)
        enclosures = []
        for to, (messages, numbers, new) in found.items():
            sealed = self._bus.seal(to, messages, len(new))
            if sealed is not None:
                taken, text = sealed
                enclosures.append(Enclosure(to, text, numbers, new, taken))
        return enclosures

    def give_back(self, enclosures: Sequence[Enclosure]) -> None:
        """These were not sent: post what waited for them."""
        for enclosure in enclosures:
            for message in enclosure.taken:
                body = bytes(message.body)
                self._bus.post(message.kind, message.key, enclosure.to, b"" if body == b"null" else body)

    def announce(
        self,
        units: Sequence[Unit],
        applied: Sequence[bool],
        givers: Sequence[int],
        enclosures: Sequence[Enclosure] = (),
    ) -> None:
        """Post what others want to know of the units that were just written. `givers`: the processes that left their calls to others;
        0: none."""
        told: set[int] = set()
        for enclosure in enclosures:
            if enclosure.is_sent(applied):
                told.update(enclosure.units)
            else:
                self.give_back((enclosure,))
        for number, (change, body) in enumerate(units):
            if applied[number]:
                self._announce(change, body, givers[number], told=number in told)

    def _announce(self, change: Append, body: bytes, giver: int, *, told: bool) -> None:
        bus = self._bus
        key = change.key
        ends = change.ended_at is not None
        if giver == bus.me:
            giver = 0
        if not change.owned and not ends:
            to = change.to
            if to > 0 and change.expect == 0:
                if not told:
                    bus.post("work", key, to, _offer(change, body))
            else:
                bus.post("work", 0 if to else key, abs(to), soon=to == 0)
            self._givers.pop(key, None)
        elif ends:
            if giver and change.unit is not None and not told:
                bus.post("events", key, giver, encode((change.id, Raw(body))))
            self._givers.pop(key, None)
        elif giver:
            if change.unit is not None:
                bus.post("events", key, giver, encode((change.id, Raw(body))), soon=False)
            self._givers[key] = giver
            if len(self._givers) > _MAX_GIVERS:  # of calls that other processes took over since
                del self._givers[next(iter(self._givers))]
        if change.signal:
            bus.post("signal", key)
        if change.stats is not None and change.stats.effect == "failed":
            bus.post("health", 0)


def _offer(change: Append, body: bytes) -> bytes:
    call = change.call
    return encode((call.id, change.fence, call.created_at, Raw(body)))
