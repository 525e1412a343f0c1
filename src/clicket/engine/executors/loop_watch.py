"""Notices bodies that block the event loop.

While a body computes or sleeps without `await`, nothing else on the loop runs: no timeout, no cancel, no renewal of leases. So a
thread looks at the loop's stack. It asks the loop for an answer when it finds a tool's body there, and reports the body if the
answer does not come in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType

from clicket import system
from clicket.engine.executors.caller_task import step_through
from clicket.engine.executors.loop_lane import LoopLane, inline
from clicket.engine.live_call import Call
from clicket.system.bridge import stack_of_this_thread
from clicket.tools.place import file_and_line, is_users

__all__ = ["LoopWatch"]

logger = logging.getLogger("clicket.execution")

LOOK_EVERY = 0.5
"""Seconds between two looks; a body that blocks for twice as long is seen."""
_PAUSED = 2.0
"""Seconds without a look after which the whole process was paused, not the loop alone."""
_BODIES: tuple[CodeType, ...] = (
    LoopLane.begin.__code__,
    LoopLane.guarded.__code__,
    inline.__code__,
    step_through.__code__,
)
"""The functions that run bodies on the loop. Each has a local variable `call`."""


class _Suspect:
    """A call whose body was on the stack; the loop sets `answered` once it runs something else."""

    def __init__(self, call: Call, since: float) -> None:
        self.call = call
        self.since = since
        self.answered = False
        self.told = False

    def answer(self) -> None:
        self.answered = True


class LoopWatch:
    """Watches the running loop. `patience`: how long any body may block it, whatever its timeout is."""

    def __init__(self, *, patience: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._stack = stack_of_this_thread()
        self._patience = patience
        self._suspect: _Suspect | None = None
        self._looked_at = 0.0
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        self._stop = system.current().repeat(self._look_again, LOOK_EVERY, "clicket-loop-watch")

    def close(self) -> None:
        if self._stop is not None:
            self._stop()

    def _look_again(self) -> bool:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self.look(system.monotonic())
        return not self._loop.is_closed()

    def look(self, now: float) -> None:
        found = _body_on(self._stack())
        if found is None:
            self._suspect = None
            self._looked_at = now
            return
        call, place = found
        suspect = self._suspect
        was_paused = now - self._looked_at > _PAUSED
        self._looked_at = now
        if suspect is None or suspect.call is not call or suspect.answered or was_paused:
            suspect = self._suspect = _Suspect(call, now)
            self._loop.call_soon_threadsafe(suspect.answer)
            return
        timeout = call.request.timeout or call.required_tool().options.timeout
        blocked = now - suspect.since
        if blocked <= min(timeout or self._patience, self._patience):
            return
        call.replace_metadata({**(call.metadata or {}), "blocked_loop": {"seconds": round(blocked, 3), "at": place}})
        if not suspect.told:
            suspect.told = True
            past = f", past its timeout of {timeout:g} s" if timeout is not None and blocked > timeout else ""
            logger.warning(
                "tool %r, call %s: its body has blocked the event loop for %.1f s%s, at %s. Meanwhile no other call, timeout or "
                "cancel of this process gets on. Await what takes long (asyncio.sleep, an async client), or declare the tool with "
                "`def`: then it runs in a thread.",
                call.entry.tool, call.id, blocked, past, place,
            )  # fmt: skip


def _body_on(frame: FrameType | None) -> tuple[Call, str] | None:
    """The call whose body is on a stack, and the innermost line of the user's own."""
    place = ""
    while frame is not None:
        if frame.f_code in _BODIES:
            call = frame.f_locals.get("call")
            return (call, place) if isinstance(call, Call) and place else None
        if not place and is_users(frame.f_code.co_filename):
            place = file_and_line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
