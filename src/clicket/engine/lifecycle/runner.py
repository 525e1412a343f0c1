"""Runs attempts, each in its lane, until one succeeds or fails for good.

Timeouts and cancels stop work. A body that does not stop in time is abandoned, and the call records it; its slot stays
taken until the body has returned.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, cast

import msgspec
from msgspec import to_builtins

from clicket.engine.call.attempts import AfterAttempt, EndedAttempt, after_attempt
from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.deps import FACTORY_LIMIT, Deps
from clicket.engine.executors.lanes import PREPARED
from clicket.engine.executors.loop_lane import LoopLane, inline
from clicket.engine.executors.process_lane import ProcessLane
from clicket.engine.executors.processes import ProcessPool
from clicket.engine.executors.ray.cluster import Cluster
from clicket.engine.executors.ray_lane import RayLane
from clicket.engine.executors.retry import backoff, describe, transient
from clicket.engine.executors.sink import CallSink, SinkParts, context_for, gave_token
from clicket.engine.executors.stopping import (
    Parked,
    Stopped,
    attempt_of,
    can_stop,
    forget_stop,
    set_stopper,
    stop_error,
)
from clicket.engine.executors.thread_lane import ThreadLane
from clicket.engine.executors.tracebacks import log_failure, traceback_of
from clicket.engine.inputs import Inputs
from clicket.engine.live_call import Call
from clicket.errors import CredentialMissing, StoreUnavailable, UsageError
from clicket.kernel import State
from clicket.model.ports import sleep
from clicket.safety.vault import hide_error, hide_text
from clicket.system.bridge import ThreadPool, fulfil
from clicket.tools import Options, Pending, Tool
from clicket.tools.protocol import EndsItsCalls
from clicket.tools.question import InputNeeded

__all__ = ["Bodies", "Runner"]

_RUNNING = State.RUNNING
_AGAIN = 1.0
"""Seconds until a store is asked again that did not answer."""
_PARKED = {
    AfterAttempt.WAIT_FOR_CREDENTIAL: "credential",
    AfterAttempt.ASK_PERSON: "input",
    AfterAttempt.CHECK: "reconcile",
}


class Bodies(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Where bodies run that do not run on the loop."""

    thread_pool: ThreadPool
    processes: ProcessPool
    cluster: Cluster


class Runner:
    """`max_wait`: seconds that a call waits for resources of the Ray cluster."""

    def __init__(
        self,
        clocks: Clocks,
        sinks: SinkParts,
        bodies: Bodies,
        inputs: Inputs,
        deps: Deps,
        *,
        chance: random.Random,
        max_wait: float | None,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._sinks = sinks
        self._journal = journal = sinks.journal
        self._credentials = sinks.credentials
        self._deps = deps
        self._clock = journal.clock
        self._clocks = clocks
        self._chance = chance
        self._spawn = spawn
        self._does_not_stop = inputs.does_not_stop
        on_returned = inputs.returned_late
        self._loop = LoopLane(
            clocks, make_sink=self.sink_of, abandon=self._abandon, on_returned=on_returned, spawn=spawn
        )
        self._begin = self._loop.begin
        self._processes = ProcessLane(bodies.processes, clocks, deps.factories, make_sink=self.sink_of)
        self._ray = RayLane(
            bodies.cluster,
            journal,
            clocks,
            deps.factories,
            max_wait=max_wait,
            make_sink=self.sink_of,
            on_returned=on_returned,
            spawn=spawn,
        )
        self._lanes: dict[str, Callable[[Call, Tool], Awaitable[Any]]] = {
            "loop": self._loop.attempt,
            "external": self._attempt_external,
            "inline": inline,
            "thread": ThreadLane(bodies.thread_pool, clocks, on_returned=on_returned).attempt,
            "process": self._processes.attempt,
            "ray": self._ray.attempt,
        }

    async def close(self) -> None:
        self._clocks.close()
        await self._ray.close()

    def sink_of(self, call: Call) -> CallSink:
        """The call's sink, which its attempts share."""
        attempt = attempt_of(call)
        if attempt.sink is None:
            attempt.sink = CallSink(self._sinks, call)
        sink: CallSink = attempt.sink
        return sink

    def hold_clock(self, call: Call) -> None:
        """The time limit of the call's attempt stands still: one of its own calls waits for a person."""
        self.sink_of(call).hold_clock()
        self._clocks.unlimit(call)

    def release_clock(self, call: Call) -> None:
        left = self.sink_of(call).release_clock()
        if left is not None and not call.ending:
            self._clocks.limit(call, max(left, 0.0))

    def start(self, call: Call) -> Awaitable[None] | None:
        """Run a call. None: an async body ended in its first step, and its output is there."""
        tool = call.tool
        if (
            call.plan.lane != "loop"
            or call.entry.state is not _RUNNING
            or call.stopping is not None
            or tool.options.credentials  # type: ignore[union-attr]  # the find stage has run
            or (self._deps.in_use and self._deps.concern(call, tool))  # type: ignore[arg-type]  # as above
        ):
            return self.run(call)
        begin = self._begin
        begun = begin(call, tool)  # type: ignore[arg-type]  # as above
        if begun is None:
            return self._close_token(call) if _leaves_token(call) else None
        return self.run(call, begun)

    async def run(self, call: Call, begun: Awaitable[Any] | None = None) -> None:
        """Attempt until one succeeds (then its output is `call.output`), or raise what ended the last one.

        `begun`: the rest of a first attempt that is under way.
        """
        tool = call.required_tool()
        lane = self._lanes[call.plan.lane]
        attempt_of(call).task = asyncio.current_task()
        if tool.traits.wants_context:
            self.sink_of(call)
        try:
            if begun is None and call.entry.state is not State.RUNNING:
                # The lane has to be prepared, or the call is resumed.
                if call.plan.lane in PREPARED:
                    await (self._ray if call.plan.lane == "ray" else self._processes).prepare(call)
                await self.begin(call)
                await self._take_report(call)  # with the token of an earlier attempt, whose process has gone
            if call.stopping == "cancel" and call.entry.attempts > 1 and tool.traits.ends_its_calls:
                await self._journal.flush(call.entry)
                forget_stop(call)  # the body finds the request on record, and ends the calls of earlier attempts
            while call.stopping is None or begun is not None:
                try:
                    if tool.options.credentials:
                        await self._lend(call)
                    if begun is None and self._deps.in_use and self._deps.concern(call, tool):
                        await self._lend_deps(call)
                    call.output = await (lane(call, tool) if begun is None else self._loop.guarded(call, tool, begun))
                    if call.output is None and tool.options.external:
                        call.output = _left_open(attempt_of(call).sink)
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    begun = None
                    await self._go_on(call, tool.options, error)
                else:
                    if _leaves_token(call):
                        await self._close_token(call)
                    return
            raise Stopped(call.stopping)
        finally:
            (self._ray if call.plan.lane == "ray" else self._processes).release(call)

    def _abandon(self, call: Call) -> None:
        """The body did not stop in its grace: the call ends without it."""
        goes_on_elsewhere = call.stopping == "shutdown" or call.entry.fenced
        if call.required_tool().traits.ends_its_calls and not call.ending and not goes_on_elsewhere:
            self._spawn(self._abandon_without_calls(call))
        else:
            self._does_not_stop(call)

    async def _abandon_without_calls(self, call: Call) -> None:
        """The calls that the body made end before it: once its own end is on record, no process would look for them."""
        tool = cast("EndsItsCalls", call.required_tool())
        ctx = context_for(call, self.sink_of(call))
        while not self._journal.closed:  # else the next process ends them: the stop is on record
            try:
                await tool.end_calls(call.bound, ctx)
            except StoreUnavailable:
                await sleep(self._clock, _AGAIN)
            else:
                self._does_not_stop(call)
                return

    async def _lend(self, call: Call) -> None:
        await self._credentials.lend(call)
        if call.stopping is not None:
            raise Stopped(call.stopping)

    async def lend(self, call: Call) -> None:
        """Give the attempt the tokens and the deps that its tool declares."""
        if call.required_tool().options.credentials:
            await self._credentials.lend(call)
        await self._lend_deps(call)

    async def _lend_deps(self, call: Call) -> None:
        """Wait for factories, unless the call is stopped meanwhile."""
        making = self._deps.begin(call)
        if making:
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            set_stopper(attempt_of(call), lambda: fulfil(ready))
            self._clocks.limit(call, FACTORY_LIMIT)
            made = asyncio.ensure_future(asyncio.wait(making))
            made.add_done_callback(lambda _: fulfil(ready))
            try:
                await ready
            finally:
                made.cancel()
                self._clocks.over(call)
            if call.stopping is not None:
                raise Stopped(call.stopping)
        self._deps.lend(call)

    async def _attempt_external(self, call: Call, tool: Tool) -> Any:
        """An async body that gets a token: the token works before the body runs."""
        self.sink_of(call).make_token()
        await self._journal.flush(call.entry)
        return await self._loop.attempt(call, tool)

    async def _go_on(self, call: Call, options: Options, error: BaseException) -> None:
        """Begin another attempt, or raise what ends the body. What other processes wrote is read before that is decided."""
        if self._is_open(call):
            await self._journal.flush(call.entry)
            await self._take_report(call)
        verdict = after_attempt(_ended(call, options, error))
        if verdict is AfterAttempt.RETRY:
            await self._retry(call, options, error)
            return
        await self._close_after(call)
        if verdict in _PARKED:
            raise Parked(_PARKED[verdict], error) from error
        if verdict is AfterAttempt.STOP and call.stopping is not None:
            raise Stopped(call.stopping)
        raise error

    async def _retry(self, call: Call, options: Options, error: BaseException) -> None:
        """Back off and begin another attempt."""
        attempt = attempt_of(call)
        trace = ""
        if isinstance(error, Stopped):
            forget_stop(call)
            reason = stop_error(call, error.reason)
        else:
            reason = describe(error, retryable=True)
            trace = hide_text(traceback_of(error), call.secrets)
        attempt.retries += 1
        if attempt.sink is not None:
            attempt.sink.flush()
        delay = backoff(attempt.retries, options, error, self._chance)
        number = call.entry.attempts
        shown = to_builtins(hide_error(reason, call.secrets))
        data: dict[str, Any] = {"attempt": number, "error": shown, "delay": delay}
        if trace:
            data["traceback"] = trace
            log_failure(call.entry.tool, call.id, number, trace)
        self._journal.advance(call.entry, State.RETRYING, data)
        self._journal.commit(call.entry)
        try:
            await self._wait(call, delay)
        except Stopped:
            await self._close_after(call)  # the token of the last attempt works until the next one begins
            raise
        if call.plan.lane == "ray":
            await self._ray.prepare(call)
        await self.begin(call)
        await self._take_report(call)  # with the token of an earlier attempt

    async def _close_after(self, call: Call) -> None:
        """The attempt ends without an output."""
        if self._is_open(call):
            await self._close_token(call)

    @staticmethod
    def _is_open(call: Call) -> bool:
        """May a result from outside come, and count? A process that closes leaves that to the next owner of the call."""
        return call.stopping != "shutdown" and not attempt_of(call).abandoned and gave_token(call)

    async def _close_token(self, call: Call) -> None:
        """The token of this attempt works no more. A result that came while the body ran is the outcome."""
        closed = {
            "text": "No result from outside is taken for this attempt.",
            "external_closed": call.stopping or "ended",
        }
        self._journal.record(call.entry, "note", closed)
        await self._journal.flush(call.entry)
        await self._take_report(call)

    async def _take_report(self, call: Call) -> None:
        """A result from outside that is on record is the outcome, whatever the attempt was stopped for."""
        if any(event.type == "reported" for event in call.entry.events):
            forget_stop(call)
            if call.entry.state is State.RETRYING:  # no call ends well from there
                await self.begin(call)
            raise Parked("external")

    async def begin(self, call: Call) -> None:
        """Intent before effect: the attempt's start is durable before the tool's code runs."""
        self._journal.start(call.entry)
        await self._journal.flush(call.entry)

    async def _wait(self, call: Call, delay: float) -> None:
        """Back off, unless the call is stopped."""
        waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        attempt = attempt_of(call)
        timer = self._clock.call_later(delay, fulfil, waited)
        set_stopper(attempt, lambda: fulfil(waited))
        if call.stopping is not None:
            fulfil(waited)
        try:
            await waited
        finally:
            set_stopper(attempt, None)
            timer.cancel()
        if call.stopping is not None:
            raise Stopped(call.stopping)


def _left_open(sink: CallSink | None) -> Pending:
    """What an external tool meant that returned nothing."""
    if sink is None or not sink.gave_token:
        raise UsageError(
            "the body of an external tool returned without ctx.pending(), so no system has the token that ends the call. Call "
            "ctx.pending(), and send its token to the system that does the work."
        )
    return Pending("")


def _leaves_token(call: Call) -> bool:
    """Has the body returned an output of its own although it gave its token away?"""
    return gave_token(call) and type(call.output) is not Pending


def _ended(call: Call, options: Options, error: BaseException) -> EndedAttempt:
    attempt = attempt_of(call)
    needs: Literal["", "credential", "input"] = ""
    if isinstance(error, CredentialMissing) and error.provider in options.credentials:
        needs = "credential"
    elif isinstance(error, InputNeeded):
        needs = "input"
    has_retries = attempt.retries < call.plan.max_retries
    return EndedAttempt(
        needs=needs,
        stopped=error.reason if isinstance(error, Stopped) else "",
        is_transient=has_retries and transient(error, options),
        is_lost=getattr(error, "code", None) == "outcome_unknown",
        may_go_on=can_stop(call),
        is_attended=not (attempt.abandoned or attempt.caller_left),
        has_retries=has_retries,
        is_repeatable=options.repeatable,
        has_check=options.reconcile is not None,
    )
