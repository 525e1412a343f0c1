"""Runs a body in its caller's task, and can detach it.

Awaiting a body in the caller's own task costs no task and no iteration of the loop. But a body that swallows its cancellation, or
takes long to clean up, would keep its caller waiting. So this module steps the body's coroutine. While the body waits, the caller
waits at a gate. The gate opens when the body can go on, or when the call is abandoned. Then the body moves to a task of its own,
still in its wait, and the caller goes on. The caller's task is never cancelled for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from clicket.engine.executors.stopping import Stopped, attempt_of, cancel_with_caller
from clicket.engine.live_call import Attempt, Call
from clicket.system.bridge import fulfil

__all__ = ["Opener", "cancel_wait", "first_step_ended", "rest_of", "step_through"]

Adopt = Callable[[Call, Coroutine[Any, Any, Any]], None]


class Opener:
    """The callback that opens a gate when the body can go on. `Wakeups` opens the gate in its place, one iteration of the loop earlier."""

    __slots__ = ("gate",)

    def __init__(self, gate: asyncio.Future[None]) -> None:
        self.gate = gate

    def __call__(self, _: asyncio.Future[Any]) -> None:
        fulfil(self.gate)


@coroutine
def step_through(steps: Any, waiting: Any, call: Call, adopt: Adopt) -> Generator[Any, Any, Any]:
    """Await the rest of a body that has taken its first step and waits.

    If the call is abandoned meanwhile, `adopt` gets the rest, and `Stopped` is raised.
    """
    attempt = attempt_of(call)
    while True:
        error: BaseException | None = None
        if attempt.must_stop:
            attempt.must_stop, error = False, asyncio.CancelledError()
        else:
            try:
                if isinstance(waiting, asyncio.Future):
                    yield from _gate(waiting, call, attempt)
                else:
                    yield waiting
            except BaseException as raised:
                error = raised
            if attempt.abandoned:
                adopt(call, rest_of(steps, waiting, error))
                raise Stopped(call.stopping or "cancel")
        try:
            waiting = steps.send(None) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value


def cancel_wait(attempt: Attempt) -> None:
    """Cancel what the body waits for; if it waits for nothing that can be cancelled, its next step raises."""
    if attempt.held is None or not attempt.held.cancel():
        attempt.must_stop = True


def _gate(waiting: asyncio.Future[Any], call: Call, attempt: Attempt) -> Generator[Any, Any, None]:
    """Wait until what the body waits for is done, or the engine opens `attempt.gate`."""
    waiting._asyncio_future_blocking = False  # no task awaits it: asyncio's own flag must be reset
    while True:
        gate: asyncio.Future[None] = waiting.get_loop().create_future()
        opens = Opener(gate)
        waiting.add_done_callback(opens)
        attempt.gate, attempt.held = gate, waiting
        try:
            yield from gate
            return
        except asyncio.CancelledError:
            # The caller, or a timeout inside the body, cancelled the task: what the body waits for is cancelled, as a
            # task would do it, and the body gets the cancellation from there. If the task was not cancelled, the caller is the
            # body of another call, which was stopped.
            task = asyncio.current_task()
            if call.stopping is None and task is not None and task.cancelling() <= attempt.cancels:
                cancel_with_caller(call)
            if not waiting.cancel():
                raise
        finally:
            attempt.gate = attempt.held = None
            waiting.remove_done_callback(opens)


@coroutine
def rest_of(steps: Any, waiting: Any, error: BaseException | None = None) -> Generator[Any, Any, Any]:
    """Continue, in the task that awaits this, a body that took its first steps: still waiting, or with the result of its wait."""
    if error is None and isinstance(waiting, asyncio.Future):
        waiting._asyncio_future_blocking = True
    try:
        if error is not None:
            waiting = steps.throw(error)
        while True:
            try:
                yield waiting
            except BaseException as raised:
                waiting = steps.throw(raised)
            else:
                waiting = steps.send(None)
    except StopIteration as end:
        return end.value


async def first_step_ended(value: Any, error: BaseException | None) -> Any:
    """A body that ended in its first step."""
    if error is not None:
        raise error
    return value
