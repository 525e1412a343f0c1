"""A body runs in its caller's task, and can be let go of.

Awaiting a body in the caller's own task costs no task and no turn of the loop. But a body that swallows its cancellation would
keep its caller waiting for ever. So the body is stepped by hand: what it waits for is passed on to the caller's task, and when
the call is abandoned the body is handed to a task of its own, in the middle of its wait, and the caller goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CoroutineType, coroutine
from typing import Any

from clicket.execution.outcome import Stopped
from clicket.journal import LiveCall

__all__ = ["hold"]

Adopt = Callable[[LiveCall, Coroutine[Any, Any, Any]], None]


@coroutine
def hold(body: Awaitable[Any], call: LiveCall, adopt: Adopt) -> Generator[Any, Any, Any]:
    """Await `body` until it ends or the call is abandoned; then `adopt` gets the rest of it, and `Stopped` is raised."""
    steps: Any = body if type(body) is CoroutineType else body.__await__()
    try:
        waiting = steps.send(None)
    except StopIteration as end:
        return end.value
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
