"""Measures the time in which at least one tool call of a step runs. A call that waits for a person does not run, nor does a program
while one of its uses waits for a person, nor a call of an agent while a call of that agent, or of one below it, does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clicket.agents.task_threads import is_inside, thread_of_task
from clicket.model import Event
from clicket.model.ids import alias_of, program_of
from clicket.model.ports import Clock, Timer
from clicket.model.waits import waits_after
from clicket.system.bridge import fulfil

__all__ = ["Stopwatch"]


class Stopwatch:
    """`up` is done after `bound` seconds. Implements `ports.Watch`: it follows the open calls in `thread`, and the calls below them."""

    def __init__(self, clock: Clock, bound: float, caller: str, thread: str) -> None:
        self._clock = clock
        self._bound = bound
        self._caller = caller
        self._thread = thread
        # Short names: the id of a use has that of its program, and not the id that the provider gave the program.
        self._open: dict[str, str] = {}
        """The calls of the step, with the threads in which agents would work on their tasks."""
        self._waiting: dict[tuple[str, str], str] = {}
        """Calls that wait, by thread and name, with the open calls that do not run because of them."""
        self._counted = 0.0
        self._since: float | None = None
        self._timer: Timer | None = None
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
        held_up = self._held_up_by(thread, call_id) if caller == self._caller else None
        if held_up is not None:
            place = (thread, alias_of(call_id))
            waits = before = place in self._waiting
            for event in events:
                waits = waits_after(event, waits)
            if waits and not before:
                self._waiting[place] = held_up
                self._update()
            elif before and not waits:
                del self._waiting[place]
                self._update()

    def _held_up_by(self, thread: str, call_id: str) -> str | None:
        """The open call that does not run while this call waits."""
        if thread == self._thread:
            name = program_of(alias_of(call_id))
            return name if name in self._open else None
        return next((name for name, task in self._open.items() if is_inside(thread, task)), None)

    @property
    def seconds(self) -> float:
        return self._counted + (0.0 if self._since is None else self._clock.monotonic() - self._since)

    def begin(self, call_id: str) -> None:
        self._open[alias_of(call_id)] = thread_of_task(self._thread, call_id)
        self._update()

    def wait(self, thread: str, call_id: str) -> None:
        """A call waits since before this process began."""
        held_up = self._held_up_by(thread, call_id)
        if held_up is not None:
            self._waiting[thread, alias_of(call_id)] = held_up
            self._update()

    def end(self, call_id: str) -> None:
        name = alias_of(call_id)
        self._open.pop(name, None)
        self._waiting = {place: held_up for place, held_up in self._waiting.items() if held_up != name}
        self._update()

    def stop(self) -> None:
        self._open.clear()
        self._update()

    def _update(self) -> None:
        works = bool(self._open.keys() - self._waiting.values())
        if works and self._since is None:
            self._since = self._clock.monotonic()
            self._timer = self._clock.call_later(max(self._bound - self._counted, 0.0), fulfil, self.up)
        elif not works and self._since is not None:
            self._counted = self.seconds
            self._since = None
            if self._timer is not None:
                self._timer.cancel()
