"""Measures the time in which at least one tool call of a step runs. A call that waits for a person does not
run, nor does a program while one of its uses waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clicket.bridge import fulfil
from clicket.model import Event
from clicket.model.ids import alias_of, is_of_turn, program_of
from clicket.model.waits import waits_after
from clicket.ports import Clock, Timer

__all__ = ["Stopwatch"]


class Stopwatch:
    """`up` is done after `bound` seconds. Implements `ports.Watch`: it follows the calls in `thread` that the turn `mark` made."""

    def __init__(self, clock: Clock, bound: float, caller: str, thread: str, mark: str) -> None:
        self._clock = clock
        self._bound = bound
        self._thread = (caller, thread)
        self._mark = mark
        # Short names: the id of a use has that of its program, and not the id that the provider gave the program.
        self._open: set[str] = set()
        self._waiting: set[str] = set()
        self._counted = 0.0
        self._since: float | None = None
        self._timer: Timer | None = None
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
        if (caller, thread) == self._thread and is_of_turn(call_id, self._mark):
            name = alias_of(call_id)
            waits = before = name in self._waiting
            for event in events:
                waits = waits_after(event, waits)
            if waits is not before:
                (self._waiting.add if waits else self._waiting.discard)(name)
                self._update()

    @property
    def seconds(self) -> float:
        return self._counted + (0.0 if self._since is None else self._clock.monotonic() - self._since)

    def begin(self, call_id: str) -> None:
        self._open.add(alias_of(call_id))
        self._update()

    def wait(self, call_id: str) -> None:
        self._waiting.add(alias_of(call_id))
        self._update()

    def end(self, call_id: str) -> None:
        name = alias_of(call_id)
        self._open.discard(name)
        self._waiting = {each for each in self._waiting if program_of(each) != name}
        self._update()

    def stop(self) -> None:
        self._open.clear()
        self._update()

    def _update(self) -> None:
        works = bool(self._open - {program_of(name) for name in self._waiting})
        if works and self._since is None:
            self._since = self._clock.monotonic()
            self._timer = self._clock.call_later(max(self._bound - self._counted, 0.0), fulfil, self.up)
        elif not works and self._since is not None:
            self._counted, self._since = self.seconds, None
            if self._timer is not None:
                self._timer.cancel()
