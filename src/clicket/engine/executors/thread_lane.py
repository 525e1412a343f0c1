"""The threads' lane: blocking bodies. A thread cannot be ended, so a body that does not return in time is abandoned, and the call
records it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.sink import context_for
from clicket.engine.executors.stopping import Stopped, abandon, attempt_of, keep_late, set_stopper
from clicket.engine.executors.thread_sink import ThreadSink
from clicket.engine.live_call import Call, Late
from clicket.system.bridge import ThreadPool, fulfil
from clicket.tools import Tool

__all__ = ["ThreadLane"]


class ThreadLane:
    """`on_returned` is called when an abandoned body has returned."""

    def __init__(
        self, thread_pool: ThreadPool, clocks: Clocks, *, on_returned: Callable[[Call, Late | None], None]
    ) -> None:
        self._thread_pool = thread_pool
        self._clocks = clocks
        self._on_returned = on_returned

    async def attempt(self, call: Call, tool: Tool) -> Any:
        attempt = attempt_of(call)
        sink = attempt.sink
        if sink is not None:
            sink.begin(call.request.timeout or tool.options.timeout)
        self._clocks.start(call, tool)
        body = tool.run_sync or tool.run
        if tool.is_async and body is tool.run:
            body = _run_async_body(body)
        ctx = context_for(call, ThreadSink(sink)) if sink is not None else None
        bound = call.bound
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()

        def done(value: Any, error: BaseException | None) -> None:
            if outcome.done():
                self._on_returned(call, (value, error))
            else:
                fulfil(outcome, value, error)

        def give_up() -> None:
            if not outcome.done():
                abandon(call)
                outcome.set_exception(Stopped(call.stopping or "cancel"))

        def stop() -> None:
            # After a deadline there is no grace; after a cancel the body has a moment to see ctx.cancelled and return.
            if call.stopping in ("cancel", "shutdown"):
                self._clocks.start_grace(call, give_up)
            else:
                give_up()

        set_stopper(attempt, stop)
        self._thread_pool.submit(lambda: context.run(body, bound, ctx), done)
        try:
            output = await outcome
        except Stopped:
            raise
        except BaseException as error:
            if call.stopping is None:
                raise
            keep_late(attempt, None, error)
            raise Stopped(call.stopping) from error
        finally:
            self._clocks.over(call)
        if call.stopping is not None:
            keep_late(attempt, output, None)
            raise Stopped(call.stopping)
        return output


def _run_async_body(body: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Run an async body (isolation="thread") on a loop of its own in the thread."""

    def run(bound: Any, ctx: Any) -> Any:
        async def main() -> Any:
            return await body(bound, ctx)

        return asyncio.run(main())

    return run
