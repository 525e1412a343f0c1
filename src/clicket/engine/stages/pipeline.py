"""Composes and times find, authorize, validate, execute, process, persist. No stage knows another.

The first three do not wait, and run in the process that accepts the call. A call that ends early goes straight to persist.
Stages raise; only this module turns errors into outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from msgspec import to_builtins

from clicket.engine.executors import (
    Parked,
    Stopped,
    cancel_with_caller,
    describe,
    is_abandoned,
    log_failure,
    park,
    state_of,
    stop_error,
    traceback_of,
    transient,
)
from clicket.engine.journal import Journal, Then
from clicket.engine.live_call import Call, Late
from clicket.engine.stages.authorize import Authorize
from clicket.engine.stages.execute import Execute
from clicket.engine.stages.find import Find
from clicket.engine.stages.persist import Persist
from clicket.engine.stages.process import Process
from clicket.engine.stages.validate import Deferred, Judged, Validate
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Stage, ToolCall, ToolError
from clicket.model.output import plain_output
from clicket.model.ports import Clock, mark
from clicket.model.replayed import Replayed
from clicket.safety.vault import Vault, hide, hide_error, hide_said, hide_text
from clicket.system.bridge import ThreadPool

__all__ = ["Pipeline", "refusal"]

_COMPLETED = State.COMPLETED
_DETAILS = ("problems", "status", "reason", "missing", "suggested")
"""The details of a refusal."""


class Pipeline:
    """The stages by name. `uncounted`: calls with a cost that the ledger does not have yet, and the future of its write."""

    def __init__(
        self,
        find: Find,
        authorize: Authorize,
        validate: Validate,
        execute: Execute,
        process: Process,
        persist: Persist,
        *,
        journal: Journal,
        vault: Vault,
        thread_pool: ThreadPool,
        uncounted: Mapping[Call, asyncio.Future[None]],
    ) -> None:
        self.find = find
        self.authorize = authorize
        self.validate = validate
        # Bound methods: calling an object costs twice as much.
        self._find = find.__call__
        self._validate = validate.__call__
        self._execute = execute.start
        self._process = process.__call__
        self._persist = persist.__call__
        self._take_recorded = process.take_recorded
        self._take_cached, self._take_result = process.take_cached, process.take_result
        self._checks_all = authorize.checks_all
        self._journal = journal
        self._vault = vault
        self._thread_pool = thread_pool
        self._uncounted = uncounted
        self._clock = journal.clock.monotonic
        self._observers = journal.observers

    # Admission.

    async def judge_ahead(self, request: ToolCall) -> Judged | None:
        """Judge arguments that are too big for the loop, in a thread; None: `admit` judges them, or there is no such tool."""
        found = self.find.known(request.tool)
        return (
            None
            if found is None
            else await self.validate.judge_ahead(request, found.tool, found.check, self._thread_pool)
        )

    def admit(self, call: Call, judged: Judged | None = None, may_defer: bool = False) -> bool:
        """Run the first three stages, which do not wait, and stage the call's first event. False: the call was refused.

        `may_defer`: raises `Deferred` if the arguments are to be judged ahead; `judged` is what `judge_ahead` returned.
        """
        clock, find, validate = self._clock, self._find, self._validate
        ended = call.stages
        name = "find"
        mark = call.submitted_at
        try:
            find(call)
            now = clock()
            ended["find"] = Stage("ok", now - mark)
            name = "authorize"
            mark = now
            if (
                call.entry.caller or self._checks_all or call.denied or call.origin.asks
            ):  # else there is nothing to check
                self.authorize(call)
            now = clock()
            ended["authorize"] = Stage("ok", now - mark)
            name = "validate"
            mark = now
            validate(call, judged, may_defer)
            ended["validate"] = Stage("ok", clock() - mark)
        except Deferred:
            raise
        except Exception as error:
            self.validate.look_for_secrets(call, judged)
            call.error = refused = refusal(error)
            call.outcome = State.FAILED
            ended[name] = Stage(refused.code, clock() - mark)
            call.recorded_stages = len(ended)
        created, arguments = self._created(call)
        if self._observers.trace is not None:
            created.update(self._observers.trace())
        self._journal.open(call.entry, created, arguments, ended)
        return call.error is None

    def readmit(self, call: Call) -> None:
        """Check a call of an earlier process again: the tool as it is now must still accept the call's arguments. The policy is not asked
        again: a person may have let the call run."""
        self.find.registered(call)
        self.validate(call)

    def restore(self, call: Call, stages: Mapping[str, Stage]) -> None:
        """Restore the recorded stage outcomes of a call that this process took over."""
        call.stages, call.recorded_stages = dict(stages), len(stages)

    def _created(self, call: Call) -> tuple[dict[str, Any], Any]:
        """The first event's data: all that another process needs to run the call. Refused arguments are not stored."""
        entry, request, tool = call.entry, call.request, call.tool
        data: dict[str, Any] = {
            "tool": entry.tool,
            "thread": entry.thread,
            "idempotency_key": call.idempotency_key,
        }
        if tool is not None:
            options = tool.options
            data["tool_version"] = options.version
            if options.sensitive:  # so that processes without the tool hide the same values
                data["sensitive"] = sorted(options.sensitive)
            if options.undo is not None:  # so that processes without the tool keep it for an undo
                data["undo"] = True
        if entry.caller:
            data["caller"] = entry.caller
        if call.origin.scopes:
            data["scopes"] = sorted(call.origin.scopes)
        if call.origin.requesters:
            data["requesters"] = sorted(call.origin.requesters)
        if call.origin.deps is not None:
            data["deps"] = sorted(call.origin.deps.names)
        if (
            request.metadata is not None
            or request.timeout is not None
            or request.deadline is not None
            or request.not_before is not None
            or request.priority
            or request.request_id is not None
        ):
            data.update(_more(call, self._journal.clock))
        if call.error is not None or call.secrets is not None:
            return data, self._shown_arguments(call, data)
        return data, call.arguments

    def _shown_arguments(self, call: Call, data: dict[str, Any]) -> Any:
        """The arguments without their secrets, which are sealed; None for refused ones, of which only a fingerprint is kept."""
        entry = call.entry
        request = call.request
        secrets = call.secrets
        tool = call.tool
        if call.error is not None:
            sensitive = tool.options.sensitive if tool is not None else frozenset[str]()
            data["refused"] = {**self._vault.fingerprint(request.arguments, sensitive), "reason": call.error.code}
            return None
        assert secrets is not None
        if secrets.masked:
            identity = (entry.caller, entry.thread, entry.id)
            data.update(self._vault.keep(identity, "created", call.arguments, request.metadata))
        return secrets.arguments

    # Running.

    def perform(self, call: Call) -> Awaitable[None] | None:
        """Execute and process. None: both stages are done, and `call.outcome` is set; else await the result."""
        if self._observers.around:
            return self._surrounded(call)
        clock = self._clock
        execute = self._execute
        process = self._process
        stages = call.stages
        now = mark = clock()
        try:
            waiting = execute(call)
            if waiting is not None:
                call.stage_at = mark
                return self._perform(call, waiting, "execute")
            now = clock()
            stages["execute"] = Stage("ok", now - mark)
            waiting = process(call)
            if waiting is not None:
                call.stage_at = now
                return self._perform(call, waiting, "process")
            stages["process"] = Stage("ok", clock() - now)
        except BaseException as error:
            call.stage_at = now
            self._stage_failed(call, "process" if "execute" in stages else "execute", error)
        else:
            call.outcome = _COMPLETED
        return None

    async def _surrounded(self, call: Call) -> None:
        leaves = [enter(call.entry) for enter in self._observers.around]
        try:
            call.stage_at = self._clock()
            await self._perform(call, self._execute(call), "execute")
        finally:
            for leave in reversed(leaves):
                leave()

    async def _perform(self, call: Call, waiting: Awaitable[None] | None, name: str) -> None:
        """Await the stage that is under way, then run the next."""
        try:
            if waiting is not None:
                await waiting
            if call.ending:
                return
            self._stage_ended(call, name)
            if name == "execute":
                name = "process"
                waiting = self._process(call)
                if waiting is not None:
                    await waiting
                if call.ending:
                    return
                self._stage_ended(call, name)
        except BaseException as error:
            self._stage_failed(call, name, error)
        else:
            call.outcome = State.COMPLETED

    def _stage_ended(self, call: Call, name: str) -> None:
        now = self._clock()
        call.stages[name] = Stage("ok", now - call.stage_at)
        call.stage_at = now

    def _stage_failed(self, call: Call, name: str, error: BaseException) -> None:
        """Turn a stage's exception into the call's outcome, unless the call has ended meanwhile."""
        if isinstance(error, asyncio.CancelledError):
            cancel_with_caller(call)
            error = Stopped(call.stopping or "cancel")
        if call.ending:
            return
        if isinstance(error, Parked):
            if call.stopping in (None, "attempt", "idle"):
                park(call, error)
                return
            error = Stopped(call.stopping)
        if isinstance(error, Stopped):
            self._stopped(call, error.reason)
            outcome = str(call.outcome)
        else:
            call.error = describe(error, retryable=transient(error, call.required_tool().options))
            call.outcome, call.traceback = State.FAILED, traceback_of(error)
            call.is_blameless = isinstance(error, ClicketError) and not error.blames_tool
            outcome = call.error.code
        call.stages[name] = Stage(outcome, self._clock() - call.stage_at)

    def _stopped(self, call: Call, reason: str) -> None:
        call.outcome = state_of(reason)
        call.error = stop_error(call, reason)
        if call.outcome is State.TIMEOUT:
            call.add_metadata("phase", reason)
        if is_abandoned(call):
            call.add_metadata("abandoned", True)

    async def take_result(self, call: Call, output: Any, seconds: float, *, came: str = "ok") -> None:
        """Process an output that did not come from the body: from outside, from the tool's check, or from a person. `seconds`: since the
        attempt began. `came`: what is recorded of the stage `execute`."""
        call.stages["execute"] = Stage(came, seconds)
        call.stage_at = self._clock()
        try:
            waiting = self._take_result(call, output)
            if waiting is not None:
                await waiting
            if call.ending:
                return
            self._stage_ended(call, "process")
        except BaseException as error:
            self._stage_failed(call, "process", error)
        else:
            call.outcome = State.COMPLETED

    # Ending.

    def end_stopped(
        self, call: Call, reason: str, then: Then, *, execute: bool = False, ran: float | None = None
    ) -> None:
        """End a call that `perform` does not run (any more): queued, waiting, or abandoned. `ran`: seconds since its attempt began."""
        self._stopped(call, reason)
        if execute or ran is not None:
            seconds = self._clock() - call.stage_at if ran is None else ran
            call.stages["execute"] = Stage(str(call.outcome), seconds)
        self.finish(call, then)

    def serve(self, call: Call, output: Any, text: str, then: Then) -> None:
        """End a call with an output from the cache."""
        waited = 0.0 if call.entry.durable else self._clock() - call.submitted_at
        self._take_cached(call, output, text)
        call.cached = True
        call.stages["execute"] = Stage("cached", waited)
        call.outcome = State.COMPLETED
        self.finish(call, then)

    def replay(self, call: Call, known: Replayed, then: Then) -> None:
        """End a call that was just admitted with the outcome of an equal one, in one commit: nothing has begun. A failure of that one says
        nothing about the tool now."""
        self._take_recorded(call, known)
        if known.note:
            call.add_metadata("recorded", known.note)
        call.cached = known.state is _COMPLETED
        call.error, call.is_blameless = known.error, True
        call.outcome = known.state
        call.stages["execute"] = Stage("recorded" if known.note else "not_recorded", 0.0)
        self.finish(call, then)

    def fail(self, call: Call, error: ToolError, then: Then, *, ran: float | None = None) -> None:
        """End a call as failed, for a reason that its tool has nothing to do with: its host died, or it was refused. `ran`: the
        tool itself failed, this many seconds after the attempt began."""
        call.outcome = State.FAILED
        call.error = error
        call.is_blameless = ran is None
        if ran is not None:
            call.stages["execute"] = Stage(error.code, ran)
        self.finish(call, then)

    def end_with(self, call: Call, error: BaseException, then: Then) -> None:
        """End a call with what ended its last attempt."""
        self._stage_failed(call, "execute", error)
        self.finish(call, then)

    async def answer(self, call: Call, output: Any, by: str, then: Then) -> None:
        """End a call with the output that a person gave in the tool's place. It passes the same stages as a tool's output."""
        call.answered = True
        call.add_metadata("answered_by", by)
        await self.take_result(call, output, 0.0, came="answered")
        if not call.ending:
            if (
                call.entry.state is State.RETRYING
            ):  # a person knows how the attempt in doubt ended: one commit with the outcome
                self._journal.advance(call.entry, State.RUNNING)
            self.finish(call, then)

    def finish(self, call: Call, then: Then) -> None:
        """Persist the one outcome; `then(call, error)` is called once it is durable, or cannot be made so. A second attempt to end
        the call finds `ending` set, and changes nothing. The ledger has what the call has cost before its outcome is on record."""
        assert not call.ending, "a call ends once"
        attempt = call.attempt
        if attempt is not None and attempt.sink is not None:
            attempt.sink.flush()
        if call.error is not None:
            call.error = hide_error(call.error, call.secrets)
            if call.traceback:
                call.traceback = hide_text(call.traceback, call.secrets)
                log_failure(call.entry.tool, call.id, call.entry.attempts, call.traceback)
        if call.metadata:
            call.replace_metadata(hide_said(call.metadata, call.secrets))
        call.ending = True
        if self._uncounted and call in self._uncounted:
            self._uncounted[call].add_done_callback(partial(self._after_costs, call, then))
            return
        persist = self._persist
        if not persist(call, then):
            self._commit_end(call, then)

    def _after_costs(self, call: Call, then: Then, counted: asyncio.Future[None]) -> None:
        # Cancelled: the runtime was closed while the store could not be written. The next one counts the cost, and ends the call.
        if not counted.cancelled() and not self._persist(call, then):
            self._commit_end(call, then)

    def _commit_end(self, call: Call, then: Then) -> None:
        attempt = call.attempt
        if attempt is not None and attempt.late is not None and not attempt.abandoned:
            self.keep_late(call, attempt.late)
        self._journal.commit(call.entry, partial(then, call))

    def keep_late(self, call: Call, late: Late) -> None:
        """Record what a body returned or raised after it was stopped. It never becomes the outcome."""
        value, error = late
        try:
            if error is not None:
                raise error
            data: dict[str, Any] = {"output": hide(plain_output(value)[0], call.secrets)}
        except BaseException as raised:
            data = {"error": to_builtins(hide_error(describe(raised, retryable=False), call.secrets))}
            trace = hide_text(traceback_of(raised), call.secrets)
            if trace:
                data["traceback"] = trace
        self._journal.record(call.entry, "late_result", data)


def _more(call: Call, clock: Clock) -> dict[str, Any]:
    """What most requests leave out."""
    request = call.request
    data = dict[str, Any]()
    if request.timeout is not None:
        data["timeout"] = request.timeout
    if request.deadline is not None:
        data["deadline"] = request.deadline
    if request.not_before is not None:
        data["not_before"] = request.not_before
    if request.deadline is not None or request.not_before is not None:
        data.update(mark(clock))
    if request.priority:
        data["priority"] = request.priority
    if request.request_id is not None:
        data["request_id"] = request.request_id
    metadata = request.metadata if call.secrets is None else call.secrets.metadata
    if metadata:
        data["metadata"] = metadata
    return data


def refusal(error: Exception) -> ToolError:
    """Why a call was not admitted. An unexpected error in a stage refuses the call, too: an unchecked call must not run."""
    if not isinstance(error, ClicketError):
        return describe(error, retryable=False)
    details = {name: error.details[name] for name in _DETAILS if name in error.details}
    return ToolError(code=error.code, message=error.message, type=type(error).__name__, details=details)
