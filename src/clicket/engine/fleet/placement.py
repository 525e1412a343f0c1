"""Which worker gets the message of a call that this process leaves to others: one that has room for its tool.

What is known of workers comes from their messages, so it may be old or missing. A wrong choice costs time alone: a worker that cannot
take the call leaves it, and every worker looks for waiting calls from time to time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clicket.model.ports import Bus, Clock

__all__ = ["ROOM_EVERY", "Placement"]

ROOM_EVERY = 5.0
"""Seconds between two messages of a worker about its room."""
_FORGET = 3 * ROOM_EVERY
_MAX_PLACED = 10_000
_ROTATE_EVERY = 0.005
"""Seconds for which one of several full workers is the one that is told of waiting calls."""
_decode = msgspec.json.Decoder(dict[str, int]).decode


class _Worker(msgspec.Struct, eq=False):
    rooms: Mapping[str, int]
    """How many more calls of each tool it could start, when it said so."""
    heard_at: float
    most: dict[str, int]
    """The most room for each tool that it ever told."""
    given: int = 0
    """Calls that it was given since then, less those of this process that have ended."""


class Placement:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._workers: dict[int, _Worker] = {}
        self._placed: dict[int, int] = {}
        self._ended: dict[int, bool] = {}
        """Calls that ended before this process knew that they were placed."""
        self._rotation = 0
        self._told = 0
        """Calls since the last change."""
        self._rotate_at = float("-inf")
        self._has_asked = False

    def ask_once(self) -> None:
        """Ask workers for their room, as soon as messages arrive."""
        if self._bus.trouble is not None:
            self._has_asked = False
        elif not self._has_asked:
            self._has_asked = True
            self._bus.post("rooms", 0, body=b"true")

    def on_room(self, worker: int, body: bytes) -> None:
        """A worker says how much room it has; nothing: it leaves."""
        try:
            rooms = _decode(body)
        except msgspec.MsgspecError:
            return
        if rooms:
            known = self._workers.get(worker)
            before = {} if known is None else known.most
            most = {tool: max(room, before.get(tool, 0)) for tool, room in rooms.items()}
            self._workers[worker] = _Worker(rooms, self._clock.monotonic(), most)
        else:
            self._workers.pop(worker, None)

    def choose(self, tool: str) -> int:
        """As `Append.to`: the worker with most room; negative: none is known to have room, so one is only told that there is work;
        0: no worker is known to have the tool."""
        now = self._clock.monotonic()
        best = 0
        most = 0
        able: list[int] = []
        for number, worker in list(self._workers.items()):
            if now - worker.heard_at > _FORGET:
                del self._workers[number]
                continue
            room = worker.rooms.get(tool)
            if room is None:
                continue
            able.append(number)
            if room - worker.given > most:
                best = number
                most = room - worker.given
        if best:
            self._workers[best].given += 1
            return best
        if not able:
            self.ask_once()
            return 0
        told = able[self._rotation % len(able)]
        if now >= self._rotate_at or self._told >= max(self._workers[told].most[tool], 1):
            # Calls of about the same time are one message to one worker, as many as it could start.
            self._rotation += 1
            self._told = 0
            self._rotate_at = now + _ROTATE_EVERY
            told = able[self._rotation % len(able)]
        self._told += 1
        return -told

    def placed(self, key: int, worker: int) -> None:
        """The call is durable, and the worker was told of it."""
        if self._ended.pop(key, None):
            self._free(worker)
            return
        self._placed[key] = worker
        if len(self._placed) > _MAX_PLACED:  # messages of their ends were lost
            del self._placed[next(iter(self._placed))]

    def ended(self, key: int) -> None:
        """A call of this process has ended: its worker has room again."""
        if key in self._placed:
            self._free(self._placed.pop(key))
        else:  # its worker was faster than the store's answer; or it was not placed
            self._ended[key] = True
            if len(self._ended) > _MAX_PLACED:
                del self._ended[next(iter(self._ended))]

    def _free(self, number: int) -> None:
        worker = self._workers.get(number)
        if worker is not None and worker.given > 0:  # else it was given the call before it said how much room it has
            worker.given -= 1
