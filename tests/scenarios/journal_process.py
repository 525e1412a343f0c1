"""One simulated process of the property test: a real engine over a connection that the test controls, and scripted bodies."""

from __future__ import annotations

import asyncio
import contextlib
import random
import traceback
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal

from tests.scenarios.journal_faulty_store import FaultyStore
from tests.scenarios.journal_laws import CACHE_FOR, MAX_RETRIES

from clicket import Policy, RetryableError, Runtime, Settings, ToolContext, ToolResult, tool
from clicket.engine import Engine
from clicket.engine.slots.shared_slots import _PASS_ON
from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.runtime.compose import compose
from clicket.testing import StepClock

if TYPE_CHECKING:
    from tests.scenarios.journal_cluster import Cluster

__all__ = ["APPROVAL", "NAMES", "QUEUE", "Body", "Kind", "Process"]

GRACE, TIMEOUT, QUEUE, APPROVAL = 2.0, 10.0, 50.0, 80.0
NAMES = ("once", "again", "asked", "asked", "cached", "cached", "scarce", "scarce")
Kind = Literal["runner", "front", "observer"]
"""Roles: runs calls; accepts calls that others run; has no tools, and only reads and decides."""


class Body:
    """One attempt that waits for the test's instruction."""

    def __init__(self, cluster: Cluster, process: Process, ctx: ToolContext, tool: str, stubborn: bool) -> None:
        self.cluster, self.process, self.ctx, self.tool, self.stubborn = cluster, process, ctx, tool, stubborn
        self.id = ctx.call_id
        self.stale = process.is_stale
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> Any:
        cluster, name = self.cluster, (self.id, self.ctx.attempt)
        cluster.started[name] += 1
        if name not in self.process.faulty_store.durable_attempts:
            cluster.complaints.append(f"attempt {name} began before its start was durable")
        cluster.bodies.append(self)
        try:
            while True:
                word = await self._listen()
                if word == "return":
                    return f"{self.id}:{self.ctx.attempt}"
                if word == "retry":
                    raise RetryableError("again", retry_after=1.0)
                if word == "fail":
                    raise ValueError("no")
                if word == "emit":
                    self.ctx.emit("x")
                else:
                    self.ctx.progress(1, 2, "half")
        finally:
            cluster.bodies.remove(self)

    async def _listen(self) -> str:
        while True:
            try:
                word = await self.told
            except asyncio.CancelledError:
                if not self.stubborn or self.process.faulty_store.is_cut:
                    raise
            else:
                self.told = asyncio.get_running_loop().create_future()
                return word
            self.told = asyncio.get_running_loop().create_future()


class Process:
    """The parts of a runtime: engine, clock, connection."""

    engine: Engine
    clock: StepClock

    def __init__(self, cluster: Cluster, kind: Kind) -> None:
        self.cluster, self.kind = cluster, kind
        self.faulty_store = FaultyStore(cluster.place, cluster.traffic)
        self.waiters: dict[str, asyncio.Task[ToolResult]] = {}
        self.errands: set[asyncio.Task[None]] = set()
        self._doing: set[str] = set()
        self.given_up = self.ever_given_up = False
        self.renewed_at = float("-inf")

    @property
    def is_stale(self) -> bool:
        """The others consider it dead, or it still uses a slot from before that."""
        return self.given_up or self.cluster.now - self.renewed_at <= _PASS_ON

    async def open(self) -> None:
        self.clock = StepClock(self.cluster.now)
        settings = Settings(
            store="sqlite:///ours.db",  # not opened: the connection replaces it
            engine="workers" if self.kind == "front" else "local",
            max_concurrency=2,
            queue_timeout=QUEUE,
            cancel_grace=GRACE,
            lease=1e9,
            max_claims=4,
        )
        self.engine = await compose(
            [] if self.kind == "observer" else self._tools(),
            settings,
            store=self.faulty_store,
            policy=Policy(ask=["asked"], approval_timeout=APPROVAL),
            clock=self.clock,
            chance=random.Random(0),
        )
        self.chores = self.engine.chores
        self.runtime = Runtime(settings=settings)
        self.runtime._engine = self.engine

    def _tools(self) -> list[Any]:
        def body(ctx: ToolContext, name: str, stubborn: bool) -> Any:
            return Body(self.cluster, self, ctx, name, stubborn).run()

        options: dict[str, Any] = {"timeout": TIMEOUT, "max_retries": MAX_RETRIES, "retry_delay": 1.0}

        @tool(**options)
        async def once(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, "once", stubborn)

        @tool(idempotent=True, **options)
        async def again(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, "again", stubborn)

        @tool(recovery="ask", **options)
        async def asked(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, "asked", stubborn)

        @tool(read_only=True, cache=CACHE_FOR, **options)
        async def cached(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, "cached", stubborn)

        @tool(max_concurrency=1, **options)
        async def scarce(stubborn: bool, ctx: ToolContext) -> Any:
            return await body(ctx, "scarce", stubborn)

        return [once, again, asked, cached, scarce]

    def submit(self, id: str, name: str, stubborn: bool, deadline: float | None, direct: bool) -> None:
        self.waiters[id] = asyncio.ensure_future(self._call(id, name, stubborn, deadline, direct))

    async def _call(self, id: str, name: str, stubborn: bool, deadline: float | None, direct: bool) -> ToolResult:
        """A caller: one that waits from the start, or one that submits the call and waits later."""
        if direct:
            return await self.runtime.call(name, {"stubborn": stubborn}, id=id, deadline=deadline)
        handle = await self.runtime.submit(name, {"stubborn": stubborn}, id=id, deadline=deadline)
        return await handle.result()

    def send(self, errand: Coroutine[Any, Any, Any]) -> None:
        """A caller in this process makes a request. A failing or closed store may refuse it."""

        async def go() -> None:
            try:
                await errand
            except NotFound:
                pass
            except Exception as error:
                if not self.excuses(error):
                    self.cluster.complaints.append(f"an errand failed: {''.join(traceback.format_exception(error))}")

        self._keep(go())

    def excuses(self, error: BaseException) -> bool:
        """May a caller get this error, after what this process went through?"""
        if isinstance(error, StoreUnavailable):
            return self.faulty_store.is_broken or self.faulty_store.is_closed
        return getattr(error, "code", None) == "closed" and self.engine.is_closing

    def do(self, what: str) -> None:
        """The periodic chores, never concurrently: read requests of other processes, renew the lease, recover."""
        chores = {"listen": self.chores.read_signals, "renew": self._renew, "recover": self.chores.recover}

        async def go() -> None:
            with contextlib.suppress(ClicketError):  # the next chore repeats it
                await chores[what]()
            self._doing.discard(what)

        if what not in self._doing:
            self._doing.add(what)
            self._keep(go())

    def _keep(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(errand)
        self.errands.add(task)
        task.add_done_callback(self.errands.discard)

    async def _renew(self) -> None:
        await self.faulty_store.renew()
        if self.given_up:
            self.given_up, self.renewed_at = False, self.cluster.now

    async def die(self) -> None:
        await self.faulty_store.cut(self.cluster.observer.faulty_store)
        for _ in range(5):  # nothing may be left, whatever the close does
            for task in self.tasks():
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*self.tasks(), return_exceptions=True)
        self.engine.thread_pool.close()
        await self.engine.processes.close()

    def tasks(self) -> list[asyncio.Task[Any]]:
        return [*self.engine.tasks.running, *self.waiters.values(), *self.errands]
