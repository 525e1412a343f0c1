"""Ray's lane: bodies on an existing Ray cluster.

An attempt starts when its body has its resources: until then the call is `initializing` or `retrying`, and its record says that it
waits for resources. The body begins when that start is durable. If the worker or the node is lost, the call is retried if its tool
may be repeated, else it fails as `outcome_unknown`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Mapping
from secrets import token_hex
from typing import Any

import msgspec

from clicket.engine.executors.clocks import Clocks
from clicket.engine.executors.loop_lane import absorb_cancel, task_of
from clicket.engine.executors.processes import factories_for, target_of
from clicket.engine.executors.processes.file_outputs import output_in
from clicket.engine.executors.processes.wire import Job
from clicket.engine.executors.ray.cluster import Cluster, RayUnavailable
from clicket.engine.executors.ray.placed_body import PlacedBody
from clicket.engine.executors.sink import CallSink, relay, sent_context
from clicket.engine.executors.stopping import Stopped, abandon, attempt_of, keep_late, set_stopper, stop
from clicket.engine.journal import Journal
from clicket.engine.live_call import Call, Late
from clicket.errors import ClicketError
from clicket.model.codec import encode
from clicket.system.bridge import ThreadPool
from clicket.tools import STREAMED, Resources, Tool
from clicket.tools.deps import Factory

__all__ = ["RayLane"]

_START_LIMIT = 120.0
"""Seconds that a Ray worker may take to import a tool's module; the attempt's own time counts from the body's start."""
_PATIENCE = 1.0
"""Seconds without a place after which the record says what the call waits for."""
LOST_LIMIT = 60.0
"""Seconds that a call waits for a cluster that was lost, or is being started again: those of Ray's own processes."""
_TRY_EVERY = 0.5
_MAX_THREADS = 10_000
"""One thread waits for each body; the runtime's slots bound their number."""


class RayLane:
    """`max_wait`: seconds that a call waits for resources; None: as long as its deadline lets it."""

    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        clocks: Clocks,
        factories: Mapping[str, Factory],
        *,
        max_wait: float | None,
        make_sink: Callable[[Call], CallSink],
        on_returned: Callable[[Call, Late | None], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._clocks = clocks
        self._factories = factories
        self._max_wait = max_wait
        self._make_sink = make_sink
        self._on_returned = on_returned
        self._spawn = spawn
        self._threads = ThreadPool(_MAX_THREADS, "clicket-ray")

    async def prepare(self, call: Call) -> None:
        """Wait until the call's body has its resources. If the call is stopped meanwhile, it ends here.

        If the connection to the cluster is lost, another one is made, for up to `LOST_LIMIT` seconds: no body has begun.
        """
        if call.stopping is not None:
            raise Stopped(call.stopping)
        tool = call.required_tool()
        attempt = attempt_of(call)
        task = task_of(attempt)
        body = PlacedBody(self._cluster, self._threads, token_hex(8))
        clock = self._clocks.clock
        timers = [clock.call_later(_PATIENCE, lambda: self._spawn(self._report_wait(call)))]
        if self._max_wait is not None:
            timers.append(clock.call_later(self._max_wait, stop, call, "resources"))
        set_stopper(attempt, task.cancel)
        now = asyncio.get_running_loop().time
        give_up_at = math.inf
        try:
            while not await self._is_placed(call, tool, body, last_try=now() > give_up_at):
                give_up_at = min(give_up_at, now() + LOST_LIMIT)
                await self._end(body)  # a request whose answer was lost must not keep its place
                await asyncio.sleep(_TRY_EVERY)
                body = PlacedBody(self._cluster, self._threads, token_hex(8))
        except asyncio.CancelledError:
            task.uncancel()
            set_stopper(attempt, None)
            await self._end(body)
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            set_stopper(attempt, None)
            for timer in timers:
                timer.cancel()
        attempt.prepared = body

    async def _is_placed(self, call: Call, tool: Tool, body: PlacedBody, *, last_try: bool) -> bool:
        """Place the body. False: the connection was lost, and may be made again. After the last try that is an error."""
        try:
            await self._threads.run(self._cluster.connect)
            job = Job(
                target=target_of(tool, "ray"),
                arguments=msgspec.Raw(encode(call.arguments)),
                context=sent_context(call, tool.options.timeout),
                deps=factories_for(tool, self._factories),
            )
            await body.place(call.entry.tool, encode(job), _ray_options(_resources(tool)))
        except RayUnavailable as error:
            if last_try or not error.retryable:
                raise
            return False
        return True

    async def _report_wait(self, call: Call) -> None:
        """Note on the record what the call waits for, and whether any node could ever have it."""
        wanted = _resources(call.required_tool())
        try:
            nodes = await self._threads.run(
                lambda: self._cluster.attempts.capacity() if self._cluster.is_connected else []
            )
        except Exception:
            nodes = []
        text = f"Waits for resources of the Ray cluster: {wanted}."
        if nodes and not any(_fits(wanted, node) for node in nodes):
            text += f" None of its {len(nodes)} nodes is that large."
        if attempt_of(call).prepared is None and not call.ending and call.stopping is None:
            self._journal.record(call.entry, "note", {"text": text, "waiting_for": "resources"})
            self._journal.commit(call.entry)

    async def attempt(self, call: Call, tool: Tool) -> Any:
        attempt = attempt_of(call)
        body: PlacedBody = attempt.prepared
        attempt.prepared = None
        task = task_of(attempt)
        sink = self._make_sink(call)
        set_stopper(attempt, task.cancel)
        self._clocks.limit(call, _START_LIMIT)

        def started() -> None:
            sink.begin(call.request.timeout or tool.options.timeout)
            self._clocks.over(call)
            set_stopper(attempt, task.cancel)
            self._clocks.start(call, tool)

        try:
            reply = await body.run(
                started=started,
                message=lambda kind, data: relay(sink, kind, data),
                caught_up=sink.drain,
                repeatable=tool.options.reruns,
            )
        except asyncio.CancelledError:
            task.uncancel()
            set_stopper(attempt, None)
            if not await body.stop():
                abandon(call)
                self._spawn(self._wait_for_end(call, body))
            raise Stopped(call.stopping or "shutdown") from None
        finally:
            self._clocks.over(call)
            if body.answered:
                self._spawn(_forgotten(body))
        if call.stopping is not None:
            await absorb_cancel(call, task, 0)
            keep_late(attempt, None if reply is None else output_in(reply), None)
            raise Stopped(call.stopping)
        return STREAMED if reply is None else output_in(reply)

    async def _wait_for_end(self, call: Call, body: PlacedBody) -> None:
        """The call has ended, and Ray has not confirmed that its body did: its slot stays taken until then."""
        await body.ended()
        self._on_returned(call, None)

    def release(self, call: Call) -> None:
        """End a body that has its resources and was not run."""
        attempt = call.attempt
        if attempt is not None and attempt.prepared is not None:
            self._spawn(self._end(attempt.prepared))
            attempt.prepared = None

    async def _end(self, body: PlacedBody) -> None:
        try:
            await body.stop()
            await body.forget()
        except ClicketError:
            pass  # the connection is gone, and Ray ends the body with it

    async def close(self) -> None:
        """End the connection, if there is one."""
        if self._cluster.is_connected:
            await self._threads.run(self._cluster.close)
        self._threads.close(patience=0.2)


async def _forgotten(body: PlacedBody) -> None:
    with contextlib.suppress(RayUnavailable):  # the connection is gone, and Ray forgets with it
        await body.forget()


def _resources(tool: Tool) -> Resources:
    return tool.options.resources or Resources()


def _ray_options(wanted: Resources) -> dict[str, Any]:
    options: dict[str, Any] = {"num_cpus": wanted.cpu, "num_gpus": wanted.gpu}
    if wanted.memory is not None:
        options["memory"] = wanted.memory
    return options


def _fits(wanted: Resources, node: dict[str, float]) -> bool:
    return (
        wanted.cpu <= node.get("CPU", 0.0)
        and wanted.gpu <= node.get("GPU", 0.0)
        and (wanted.memory or 0) <= node.get("memory", 0.0)
    )
