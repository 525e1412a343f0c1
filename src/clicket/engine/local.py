"""Runs calls in this process: accept, wait for a slot, start, settle. The journal is the truth; this only moves things along.

Accepting does not wait: the first three stages, the slot and the intent are staged at once and become durable in one commit.
What follows hangs on that commit's callback, so a caller who goes away in the middle breaks nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, cast

from clicket.bridge import Workers, fulfil
from clicket.engine.approvals import ask, decided
from clicket.engine.audit import AuditLog
from clicket.engine.caching import CacheOptions, Caching
from clicket.engine.conduct import Conductor, refusal_of
from clicket.engine.handover import close_started, give_away
from clicket.engine.limits import Limits, Plans
from clicket.engine.live_calls import LiveCalls
from clicket.engine.room import Room
from clicket.engine.settling import Settling
from clicket.engine.sharing import Pump, SharedSlots
from clicket.errors import ClicketError, UsageError
from clicket.execution import STOPPABLE, Limiter, ProcessPool, Runner, Wait
from clicket.hub import Hub
from clicket.journal import Journal, LiveCall, Observers
from clicket.kernel import State
from clicket.model import Event, ToolCall, ToolResult
from clicket.model.codec import as_text, clean
from clicket.model.ids import new_id
from clicket.pipeline import Authorize, Execute, Find, Persist, Pipeline, Policy, Process, Validate
from clicket.ports import Clock, Store, Stored
from clicket.tools import Registry
from clicket.vault import Vault, hide_text

__all__ = ["LocalEngine"]

logger = logging.getLogger("clicket.engine")

_INNER_ROOM = 1_000
"""How many calls of clicket's own parts are claimed at once: they hold no slot."""


class LocalEngine:
    """One per runtime, on one event loop. `gives_away`: calls are accepted here, and run by other runtimes."""

    def __init__(
        self,
        registry: Registry,
        store: Store,
        policy: Policy,
        limits: Limits,
        caching: CacheOptions,
        clock: Clock,
        chance: random.Random,
        *,
        gives_away: bool = False,
        vault: Vault | None = None,
        observers: Observers | None = None,
    ) -> None:
        self.registry = registry
        self.store = store
        self.policy = policy
        self.limits = limits
        self.clock = clock
        self.gives_away = gives_away
        self.vault = vault or Vault()
        self._live = LiveCalls()
        self.live = self._live.calls
        self.find_live, self.remember = self._live.find, self._live.add
        self.lingering: set[LiveCall] = set()
        self.superseded: set[LiveCall] = set()  # lost and claimed anew while their bodies run
        self.broken: set[int] = set()  # keys of calls that could not be taken up; nobody else could, either
        self.closing = False
        self.closed = False
        settling = Settling(self)
        self.accepted, self.settled = settling.accepted, settling.settled
        self.answer, self.dismiss = settling.answer, settling.dismiss
        self._returned = settling.returned
        self.audit = AuditLog(store, clock, self.spawn)
        self.journal = Journal(store, clock, self.spawn, observers=observers)
        self.journal.vault = self.vault
        self.journal.on_request = self._requested
        self.journal.on_unsaved = self.answer
        self.workers = Workers(limits.worker_threads, "clicket-worker")
        self.results = Workers(1, "clicket-results")
        self.processes = ProcessPool(
            size=limits.worker_processes,
            memory=limits.worker_memory,
            grace=limits.cancel_grace,
            warm=int(any(tool.options.isolation == "process" for tool in registry)),
        )
        self.runner = Runner(
            self.journal, self.workers, self.processes,
            chance=chance, grace=limits.cancel_grace, abandon=settling.abandon, returned=settling.returned, spawn=self.spawn,
        )  # fmt: skip
        self.slots = SharedSlots(store, clock, self.spawn)
        self.hub = Hub(registry, store, clock, self.slots, self.spawn)
        self.caching = Caching(
            store, clock, self.slots, caching, serve=self._serve, run=self._go, keep=self.stand, spawn=self.spawn
        )
        self.authorize = Authorize(policy, max_size=limits.max_arguments_size)
        self.pipeline = Pipeline(
            (
                Find(registry, self.hub.check),
                self.authorize,
                Validate(max_size=limits.max_arguments_size),
                Execute(self.runner),
                Process(store, self.results),
                Persist(self.journal, self.caching.use_of),
            ),
            self.journal,
            self.vault,
        )
        self.limiter = Limiter(max_queue=limits.max_queue, start=self.begin)
        self.plans = Plans(limits)
        self.pump = Pump(store, self.limiter, rooms=self._rooms, take_up=self.take_up, spawn=self.spawn)
        self.followers: dict[int, list[asyncio.Event]] = {}
        self.on_request: Callable[[], None] | None = None
        self.on_claimed: Callable[[list[Stored]], Coroutine[Any, Any, object]] | None = None
        self.shares = store.durability != "none"
        store.on_hint = self._heard
        self.tasks: set[asyncio.Task[Any]] = set()
        self.on_close: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self._loop = asyncio.get_running_loop()
        self.room = Room(self)
        self.release = self.room.release
        conductor = Conductor(self)
        self.conduct, self.breathe = conductor.conduct, conductor.breathe

    # Accepting.

    def accept(
        self,
        request: ToolCall,
        *,
        caller: str = "",
        scopes: frozenset[str] = frozenset(),
        prefer_sync: bool = False,
        direct: bool = False,
        trial: str | None = None,
        vouched: bool = False,
        inner: bool = False,
        denied: str = "",
    ) -> LiveCall:
        """Take a call in. Its first commit is under way when this returns; nothing is visible before it is durable.

        `direct`: whoever made it goes on to `conduct` it. `vouched`: the hub has just said that its tool may be used. `inner`:
        it is made by a part of clicket's own, for a tool that nobody else can call. `denied`: it goes on record as refused, for
        this reason.
        """
        if self.closing:
            raise UsageError("the runtime is closed; open it with `async with Runtime(...)`.")
        minted = new_id()
        call = LiveCall(
            request=request,
            id=request.id or minted,
            caller=caller,
            created_at=self.clock.now(),
            submitted_at=self.clock.monotonic(),
            idempotency_key=minted,
        )
        if scopes:
            call.scopes = scopes
        if trial is not None:
            call.trial = trial
        if vouched:
            call.vouched = True
        if inner:
            call.inner = True
        if denied:
            call.denied = denied
        if prefer_sync:
            call.prefer_sync = True
        call.direct = direct
        if not self.pipeline.admit(call):
            if call.verdict == "deny":
                self.audit.refused(call)
            self.remember(call)
            self.pipeline.finish(call, self.settled)
            return call
        self.enlist(call)
        return call

    def enlist(self, call: LiveCall) -> None:
        """An admitted call goes to approval, into a slot, or into the line."""
        self.plans.fit(call)
        if call.required_tool().options.cache:
            self.caching.fit(call)
        if call.verdict == "ask":
            self.remember(call)
            ask(self, call)
            if self.gives_away:
                give_away(self, call)
            else:
                self.journal.commit(call, self.accepted)
        elif call.cache_key is None and (call.inner or not self.gives_away):
            self.queue(call)
        else:
            self.proceed(call)
        if call.request.deadline is not None and not call.settling:
            call.deadline_timer = self.clock.call_later(call.request.deadline, self.expire, call, "deadline")

    def proceed(self, call: LiveCall) -> None:
        """Nothing stands in the way any more: serve it from the cache, or run it."""
        if call.cache_key is not None and call.state is State.PENDING:
            self.remember(call)
            self.caching.enter(call)
        else:
            self._run(call)

    def _run(self, call: LiveCall) -> None:
        if self.gives_away and not call.inner:
            give_away(self, call)
        else:
            self.queue(call)

    def _go(self, call: LiveCall) -> None:
        """The cache has nothing for it, perhaps after a while: nobody is there to hear an error but the call itself."""
        try:
            self._run(call)
        except ClicketError as error:
            self.accepted(call, error)

    def _serve(self, call: LiveCall, output: Any) -> None:
        call.output, call.content, call.cached = output, as_text(output), True
        self.pipeline.serve(call, self.settled)

    def _rooms(self) -> dict[str, int]:
        """How many more calls of each tool could start here."""
        rooms = dict.fromkeys(self.registry.inner_names, _INNER_ROOM)
        if not self.gives_away:
            rooms.update((tool.name, self.plans.room(tool, self.limiter.used)) for tool in self.registry)
        return rooms

    async def take_up(self, claimed: list[Stored]) -> None:
        assert self.on_claimed is not None, "recovery is wired in when the runtime opens"
        await self.on_claimed(claimed)

    def queue(self, call: LiveCall) -> None:
        """Take a slot now or stand in line. `QueueFull` leaves no trace of a new call; one that exists always gets a place."""
        taken = self.limiter.take(call, force=bool(call.events))
        self.remember(call)
        if taken:
            self.begin(call)
        else:
            self.stand(call)

    def stand(self, call: LiveCall) -> None:
        """The call is durable while it waits, and does not wait for ever."""
        if call.staged or not call.events:
            self.journal.commit(call, self.accepted)
        if self.limits.queue_timeout is not None and call.queue_timer is None:
            waited = self.clock.monotonic() - call.submitted_at if call.events else 0.0
            left = max(self.limits.queue_timeout - waited, 0.0)
            call.queue_timer = self.clock.call_later(left, self.expire, call, "queue")

    def begin(self, call: LiveCall) -> None:
        """The slot is taken: say so, and start once that is durable."""
        if len(call.needs) > 1 and not self.room.has(call):  # more is limited than the runtime itself
            return
        if call.queue_timer is not None:
            call.queue_timer.cancel()
        if call.lane != "process":
            self.journal.start(call, call.attempt + 1)
        elif call.state is State.PENDING:
            self.journal.advance(call, State.INITIALIZING)
        self.journal.commit(call, self._launch)

    def _heard(self, kind: str, key: int) -> None:
        """A hint from another process. Whoever waits would have looked by itself, only later."""
        heard = self.followers if kind == "any" else (key,)
        for follower in [each for heard_key in heard for each in self.followers.get(heard_key, ())]:
            follower.set()
        if kind in ("health", "any"):
            self.hub.heard()
        if kind in ("work", "any"):
            self.pump.nudge()
        if kind in ("slot", "any"):
            self.room.look()
            self.caching.slot_freed()
        if kind in ("request", "any") and self.on_request is not None:
            self.on_request()

    # Running and settling.

    def _launch(self, call: LiveCall, error: ClicketError | None) -> None:
        if error is not None or call.accepted is not None:
            self.accepted(call, error)
        if error is not None:
            return
        if call.settling:
            self.release(call)
        elif call.direct and call.lane == "loop" and (call.turn is None or not call.turn.done()):
            call.ready = True
            if call.turn is not None:
                fulfil(call.turn)
        else:
            self.drive_apart(call)

    def drive_apart(self, call: LiveCall) -> None:
        call.direct = False
        call.task = task = self._loop.create_task(self._drive(call))
        self.tasks.add(task)

    async def outcome(self, call: LiveCall) -> ToolResult:
        """The result of a live call. Whoever stops waiting disturbs nobody else."""
        if call.result is not None:
            return call.result
        refusal = refusal_of(call)
        if refusal is not None:
            raise refusal
        waiter = Wait(loop=self._loop)
        call.waiters.append(waiter)
        result: ToolResult = await waiter
        return result

    async def _drive(self, call: LiveCall) -> None:
        try:
            await self.pipeline.perform(call)
            self.performed(call)
        except Exception:
            logger.exception("call %s could not be brought to its end", call.id)
        finally:
            self.tasks.discard(cast("asyncio.Task[Any]", call.task))  # signing off saves the loop a callback

    def performed(self, call: LiveCall) -> None:
        if not call.settling:
            if call.stopping == "shutdown" and call.outcome is State.CANCELLED and self.shares:
                close_started(self, call)
            else:
                self.pipeline.finish(call, self.settled)
        elif not call.detached:  # the call was abandoned, and its body is back
            self._returned(call, call.late)

    # Stopping.

    def cancel(self, call: LiveCall, reason: str) -> bool:
        """Ask a live call to end as cancelled. False: it has ended, or is just about to."""
        if call.settling or call.stopping not in STOPPABLE:
            return False
        call.cancel_reason = reason = hide_text(clean(reason), call.secrets)
        self.journal.record(call, "cancel_requested", {"reason": reason})
        self.stop(call, "cancel")
        self.journal.commit(call)
        return True

    def expire(self, call: LiveCall, reason: str) -> None:
        if not call.settling and call.stopping in STOPPABLE:
            self.stop(call, reason)

    def stop(self, call: LiveCall, reason: str) -> None:
        if call.queued or call.waiting_for is not None or not call.slot:
            self.limiter.leave(call)
            call.waiting_for = None
            self.pipeline.stop(call, reason, self.settled)
        else:
            self.runner.stop(call, reason)

    def _requested(self, call: LiveCall, events: list[Event]) -> None:
        """Another process wrote a request into a call of ours."""
        for event in events:
            if event.type == "cancel_requested" and not call.settling and call.stopping in STOPPABLE:
                call.cancel_reason = clean(event.data.get("reason", ""))
                self.stop(call, "cancel")
            elif event.type == "approval_given" and call.waiting_for == "approval" and not call.settling:
                decided(self, call, event.data)
                self.journal.commit(call)

    async def refresh(self, call: LiveCall) -> None:
        """Bring a live call up to date with what others wrote into it, by writing nothing on top of what we know."""
        if call.inflight is None:
            await self.journal.flush(call)

    def forget(self, call: LiveCall) -> None:
        if call.cache_key is not None:
            self.caching.left(call)
        if call.trial is not None:
            self.slots.give(call.trial)
            call.trial = None
        if call.deadline_timer is not None:
            call.deadline_timer.cancel()
        if call.queue_timer is not None:
            call.queue_timer.cancel()
        self._live.remove(call)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Every task has a parent: the engine waits for its tasks when it closes."""
        task = self._loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the engine failed", exc_info=task.exception())
