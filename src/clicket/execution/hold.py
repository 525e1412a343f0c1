"""A body runs in its caller's task, and can be let go of.

Awaiting a body in the caller's own task costs no task and no turn of the loop. But a body that swallows its cancellation would
keep its caller waiting for ever. So the body is stepped by hand: what it waits for is passed on to the caller's task, and when
the call is abandoned the body is handed to a task of its own, in the middle of its wait, and the caller goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from clicket.execution.outcome import Stopped
from clicket.journal import LiveCall

__all__ = ["hold", "settled"]

Adopt = Callable[[LiveCall, Coroutine[Any, Any, Any]], None]


@coroutine
def hold(steps: Any, waiting: Any, call: LiveCall, adopt: Adopt) -> Generator[Any, Any, Any]:
    """Await the rest of a body that has taken its first step and waits.

    If the call is abandoned meanwhile, `adopt` gets the rest, and `Stopped` is raised.
    """
    while True:
        try:
            sent = yield waiting
        except BaseException as error:
            if call.abandoned:
                adopt(call, _rest(steps, error))
                raise Stopped(call.stopping or "cancel") from None
            step, value = steps.throw, error
        else:
            step, value = steps.send, sent
        try:
            waiting = step(value)
        except StopIteration as end:
            return end.value


@coroutine
def _rest(steps: Any, error: BaseException) -> Generator[Any, Any, Any]:
    """The body from where it was left, beginning with what its wait ended in."""
    try:
        waiting = steps.throw(error)
        while True:
            try:
                sent = yield waiting
            except BaseException as raised:
                waiting = steps.throw(raised)
            else:
                waiting = steps.send(sent)
    except StopIteration as end:
        return end.value


async def settled(value: Any, error: BaseException | None) -> Any:
    """A body that ended in its first step."""
    if error is not None:
        raise error
    return value
