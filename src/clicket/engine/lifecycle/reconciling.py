"""Asks a tool's own check whether an attempt whose outcome is unknown had its effect (`@tool(reconcile=…)`).

Each try of the check is on record before it runs and after it, and has the tool's timeout. The call stays `running`: it completes with
the output that the check found, or runs again, or ends as it would have ended without a check. A process that dies meanwhile leaves
the call as it was, and the process that takes it over asks again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from clicket.engine.core import Core
from clicket.engine.executors import Stopped, backoff, describe
from clicket.engine.executors.sink import context_for
from clicket.engine.executors.thread_sink import ThreadSink
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.runner import Runner
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.model.ports import sleep
from clicket.safety.vault import hide_error, hide_text
from clicket.system.bridge import ThreadPool
from clicket.tools.reconcile import Answer, CallInDoubt, Continues, DidNotHappen, Happened, Unknown, is_answer

__all__ = ["Reconciling"]

logger = logging.getLogger("clicket.engine")

_TIMEOUT = 30.0
"""Seconds for one try, if the tool has no timeout."""
_AT_ONCE = 20
"""Checks that run at the same time: after a crash there may be many, and the outside system is asked by all of them."""
_WHY_AGAIN = {
    DidNotHappen: "had no effect, as the tool's check found; it is run again",
    Continues: "goes on elsewhere, as the tool's check found; it is continued",
}
_STOP = 1.0
"""Seconds that a check which took too long has to stop."""


class Reconciling:
    def __init__(
        self,
        core: Core,
        ending: Ending,
        runner: Runner,
        thread_pool: ThreadPool,
        chance: random.Random,
    ) -> None:
        self._journal = core.journal
        self._clock = core.clock
        self._pipeline = core.pipeline
        self._ending = ending
        self._runner = runner
        self._thread_pool = thread_pool
        self._chance = chance
        self._inputs = core.inputs
        self._spawn = core.spawn
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def can_ask(self, call: Call) -> bool:
        """Has the tool a check, and are the call's arguments readable here?"""
        if call.required_tool().options.reconcile is None or call.arguments_lost:
            return False
        try:
            self._pipeline.readmit(call)
        except Exception as error:
            logger.warning("call %s: its tool's check is not asked, because the tool changed: %s", call.id, error)
            return False
        return True

    def begin(self, call: Call, unknown: Callable[[str], None]) -> None:
        """Ask the check. `unknown(reason)` ends the call if the check cannot tell."""
        self._journal.wait_for(call.entry, "reconcile")
        self._spawn(self._settle(call, unknown))

    async def _settle(self, call: Call, unknown: Callable[[str], None]) -> None:
        try:
            answer = await self._answer(call)
        except ClicketError:  # another process has the call now, or the store is gone
            return
        if answer is None or not self._is_here(call):
            return
        self._journal.wait_for(call.entry, None)
        if isinstance(answer, Happened):
            call.add_metadata("reconciled", True)
            began_at = _started_at(call)
            await self._pipeline.take_result(call, answer.output, max(self._clock.now() - began_at, 0.0))
            if self._is_here(call):
                self._pipeline.finish(call, self._ending.on_outcome_durable)
        elif isinstance(answer, DidNotHappen | Continues):
            self._inputs.may_run_again(call, _WHY_AGAIN[type(answer)])
        else:
            unknown(hide_text(answer.shown, call.secrets))

    async def _answer(self, call: Call) -> Answer | None:
        """Try until the check answers. None: the call is not here any more."""
        entry = call.entry
        options = call.required_tool().options
        answer: Answer = Unknown("its check was not answered before the process died")
        tried = sum(
            event.type == "reconcile_started" and event.data.get("attempt") == entry.attempts for event in entry.events
        )
        for number in range(tried + 1, options.max_retries + 2):
            place = {"attempt": entry.attempts, "try": number}
            async with self._slots:
                if not self._is_here(call):
                    return None
                self._journal.record(entry, "reconcile_started", {**place, "worker": self._journal.worker})
                await self._journal.flush(entry)
                found, error = await self._ask(call)
            if not self._is_here(call):
                return None
            ended: dict[str, Any] = {**place, "outcome": _name(found)}
            if found is not None:
                answer = found
                if isinstance(found, Unknown):
                    ended["reason"] = hide_text(found.shown, call.secrets)
            else:
                shown = hide_error(describe(error or TimeoutError(), retryable=True), call.secrets)
                answer = Unknown(f"its check failed: {shown.message}")
                ended["error"] = to_builtins(shown)
                if number <= options.max_retries:
                    ended["delay"] = backoff(number, options, error or TimeoutError(), self._chance)
            self._journal.record(entry, "reconcile_ended", ended)
            while not entry.is_idle:  # what follows reads a cancel that comes meanwhile from the record
                await self._journal.flush(entry)
            if found is not None:
                break
            if "delay" in ended:
                await sleep(self._clock, ended["delay"])
        return answer if self._is_here(call) else None

    async def _ask(self, call: Call) -> tuple[Any, BaseException | None]:
        """One try: the answer, or why there is none."""
        tool = call.required_tool()
        sink = self._runner.sink_of(call)
        check = tool.options.reconcile
        seconds = tool.options.timeout or _TIMEOUT
        assert check is not None
        sink.begin(seconds)
        try:
            await self._runner.lend(call)
        except (ClicketError, Stopped) as error:
            return None, error
        doubt = CallInDoubt(
            id=call.id,
            tool=tool.name,
            arguments=dict(call.arguments or {}),
            idempotency_key=call.idempotency_key,
            attempt=call.entry.attempts,
            started_at=_started_at(call),
            thread=call.thread,
            caller=call.caller,
            cause=_cause(call),
            cancel_requested=any(event.type == "cancel_requested" for event in call.entry.events),
        )
        if _is_async(check):
            work: asyncio.Future[Any] = asyncio.ensure_future(_awaited(check(doubt, context_for(call, sink))))
        else:
            context = context_for(call, ThreadSink(sink))
            work = asyncio.ensure_future(self._thread_pool.run(lambda: check(doubt, context)))
        late = asyncio.ensure_future(sleep(self._clock, seconds))
        try:
            await asyncio.wait({work, late}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return None, TimeoutError(f"the check took longer than {seconds:g} s")
            answer = work.result()
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            return None, RuntimeError("the check raised CancelledError")
        except BaseException as error:
            return None, error
        finally:
            late.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=_STOP)
        if not is_answer(answer):
            kind = type(answer).__name__
            return Unknown(f"its check returned {kind}, not Happened, DidNotHappen, Continues or Unknown"), None
        return answer, None

    def _is_here(self, call: Call) -> bool:
        return not call.ending and call.failure is None and not call.entry.fenced


def _started_at(call: Call) -> float:
    """When the last attempt started."""
    return next(event.at for event in reversed(call.entry.events) if event.type == "attempt_started")


def _cause(call: Call) -> str:
    """Why the outcome of the last attempt is not known: as in `CallInDoubt.cause`."""
    doubt = None if call.attempt is None else call.attempt.doubt
    return "" if doubt is None else "stopped" if isinstance(doubt, Stopped) else "lost"


_NAMES: dict[type[Any], str] = {
    Happened: "happened",
    DidNotHappen: "did_not_happen",
    Continues: "continues",
    Unknown: "unknown",
}


def _name(answer: Any) -> str:
    return _NAMES.get(type(answer), "failed")


def _is_async(check: Any) -> bool:
    """Also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(type(check).__call__)


async def _awaited(work: Any) -> Any:
    return await work
