"""Stage 6: the one outcome, in one commit. Every call comes here, however early it returned.

The stage's own time is what it takes to put the outcome together; the commit that makes it durable comes after, as no event
can tell of its own writing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.model import Stage
from clicket.ports import CacheUse

__all__ = ["Persist"]


class Persist:
    name = "persist"

    def __init__(self, journal: Journal, cache_use: Callable[[LiveCall], CacheUse | None]) -> None:
        self._journal = journal
        self._cache_use = cache_use
        self._clock = journal.clock.monotonic

    def __call__(self, call: LiveCall) -> None:
        started = self._clock()
        call.duration = started - call.submitted_at
        if call.progress is not None:
            self._last_progress(call, call.progress)
        if call.cache_key is not None:
            call.cache_use = self._cache_use(call)
        data = _outcome(call)
        call.work.append((self.name, Stage("ok", self._clock() - started)))
        at = self._journal.stamp(call)
        self._journal.record_stages(call, at, call.work)
        self._journal.advance(call, call.outcome, data, at)

    def _last_progress(self, call: LiveCall, last: dict[str, Any]) -> None:
        """A completed call that reported any progress reports 100; others keep the last one, even if it was merged away."""
        if call.outcome is State.COMPLETED and last["percentage"] != 100:
            step = last["step"] if last["total_steps"] is None else last["total_steps"]
            last = {**last, "step": step, "percentage": 100, "estimated_time_remaining": 0}
        if last is not call.progress_kept:
            self._journal.record(call, "progress", last)


def _outcome(call: LiveCall) -> dict[str, Any]:
    """What the terminal event says. An output that fits is stored once, as a value; its text is made from it."""
    data: dict[str, Any] = {"duration": call.duration}
    if call.outcome is not State.COMPLETED:
        data["error"] = to_builtins(call.error)
    elif call.truncated:
        data["content"] = call.content
        data["truncated"] = True
        data["artifact"] = call.artifact
    else:
        data["output"] = call.output
        if call.cached:
            data["cached"] = True
    if call.metadata:
        data["metadata"] = dict(call.metadata)
    return data
