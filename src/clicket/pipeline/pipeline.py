"""find, authorize, validate, execute, process, persist: composed here, timed here, and blind to each other.

The first three do not wait for anything and run where the call is submitted. An early return goes straight to persist,
never past it. Stages raise; this is the one place that turns errors into outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import to_builtins

from clicket.errors import ClicketError
from clicket.execution import Stopped, describe, state_of, stop_error, transient
from clicket.journal import Journal, LiveCall, Then
from clicket.kernel import State
from clicket.model import Stage as StageRecord
from clicket.model import ToolError
from clicket.model.arguments import parse_arguments
from clicket.model.output import plain_output
from clicket.pipeline.stage import Stage
from clicket.ports import Clock, mark
from clicket.vault import Secrets, Vault, hide, hide_error, hide_said, look, watch_for

__all__ = ["Pipeline"]

_ADMISSION = 3
_MAX_LOOKED_AT = 1024 * 1024
_TOLD = ("problems", "status", "reason", "missing", "suggested")
"""What a refusal tells beside its message."""


class Pipeline:
    def __init__(self, stages: Sequence[Stage], journal: Journal, vault: Vault | None = None) -> None:
        self.stages = tuple(stages)
        self._journal = journal
        self._vault = vault or Vault()
        self._admission = self.stages[:_ADMISSION]
        self._work = self.stages[_ADMISSION:-1]
        self._persist = self.stages[-1]
        self._clock = journal.clock.monotonic
        self._around = journal.observers.around

    def admit(self, call: LiveCall) -> bool:
        """Run the stages that need no waiting, and stage the call's first events. False: it was refused."""
        clock = self._clock
        ended: list[tuple[str, StageRecord]] = []
        mark = clock()
        for stage in self._admission:
            try:
                stage(call)
            except Exception as error:
                if call.secrets is None:
                    call.secrets = _secrets(call)
                call.error = refusal(error)
                call.outcome = State.FAILED
                ended.append((stage.name, StageRecord(call.error.code, clock() - mark)))
                break
            now = clock()
            ended.append((stage.name, StageRecord("ok", now - mark)))
            mark = now
        created = _created(call, self._journal.clock, self._vault)
        if self._journal.observers.trace is not None:
            created.update(self._journal.observers.trace())
        self._journal.record(call, "created", created, call.created_at)
        self._journal.record_stages(call, call.created_at, ended)
        return call.error is None

    def perform(self, call: LiveCall) -> Coroutine[Any, Any, None]:
        """Execute and process. Afterwards `call.outcome` says how it ended, unless somebody ended it meanwhile."""
        return self._surrounded(call) if self._around else self._perform(call)

    async def _surrounded(self, call: LiveCall) -> None:
        leaves = [enter(call) for enter in self._around]
        try:
            await self._perform(call)
        finally:
            for leave in reversed(leaves):
                leave()

    async def _perform(self, call: LiveCall) -> None:
        clock = self._clock
        mark = call.stage_at = clock()
        for stage in self._work:
            outcome = "ok"
            try:
                waiting = stage(call)
                if waiting is not None:
                    await waiting
            except BaseException as error:
                outcome = self._failed(call, error)
            if call.settling:
                return
            now = clock()
            call.work.append((stage.name, StageRecord(outcome, now - mark)))
            mark = now
            if outcome != "ok":
                return
        call.outcome = State.COMPLETED

    def _failed(self, call: LiveCall, error: BaseException) -> str:
        """Turn what a stage raised into the call's outcome; returns the stage's."""
        if isinstance(error, asyncio.CancelledError):
            call.caller_left = True
            if call.stopping is None:
                call.stopping, call.cancel_reason = "cancel", "its caller was cancelled"
            error = Stopped(call.stopping)
        if isinstance(error, Stopped):
            self._stopped(call, error.reason)
            return str(call.outcome)
        call.error = describe(error, retryable=transient(error, call.required_tool().options))
        call.outcome = State.FAILED
        call.blameless = not getattr(error, "blames_tool", True)
        return call.error.code

    def _stopped(self, call: LiveCall, reason: str) -> None:
        call.outcome = state_of(reason)
        call.error = stop_error(call, reason)
        if call.outcome is State.TIMEOUT:
            call.metadata["phase"] = reason
        if call.abandoned:
            call.metadata["abandoned"] = True

    def stop(self, call: LiveCall, reason: str, then: Then, *, execute: bool = False) -> None:
        """End a call that is not (or no longer) in the hands of `perform`: queued, waiting, or abandoned."""
        self._stopped(call, reason)
        if execute:
            call.work.append(("execute", StageRecord(str(call.outcome), self._clock() - call.stage_at)))
        self.finish(call, then)

    def serve(self, call: LiveCall, then: Then) -> None:
        """End a call with an output that did not have to be made."""
        waited = 0.0 if call.events else self._clock() - call.submitted_at
        call.work.append(("execute", StageRecord("cached", waited)))
        call.outcome = State.COMPLETED
        self.finish(call, then)

    def fail(self, call: LiveCall, error: ToolError, then: Then) -> None:
        """End a call that cannot go on."""
        call.outcome, call.error = State.FAILED, error
        self.finish(call, then)

    def finish(self, call: LiveCall, then: Then) -> None:
        """Persist: one outcome. Who comes second finds `settling` set and changes nothing."""
        assert not call.settling, "a call ends once"
        if call.sink is not None:
            call.sink.flush()
        if call.error is not None:
            call.error = hide_error(call.error, call.secrets)
        if call.metadata:
            call.metadata = hide_said(call.metadata, call.secrets)
        call.settling = True
        self._persist(call)
        if call.late is not None and not call.abandoned:
            self.keep_late(call, call.late)
        self._journal.commit(call, then)

    def keep_late(self, call: LiveCall, late: tuple[Any, BaseException | None]) -> None:
        """What a body brought after it was told to stop: on record, but never the outcome."""
        value, error = late
        try:
            if error is not None:
                raise error
            data: dict[str, Any] = {"output": hide(plain_output(value)[0], call.secrets)}
        except BaseException as raised:
            data = {"error": to_builtins(hide_error(describe(raised, retryable=False), call.secrets))}
        self._journal.record(call, "late_result", data)


def _created(call: LiveCall, clock: Clock, vault: Vault) -> dict[str, Any]:
    """The first event's data: all that is needed to run the call again elsewhere. Refused arguments are never kept."""
    request, secrets = call.request, call.secrets
    metadata = request.metadata if secrets is None else secrets.metadata
    data: dict[str, Any] = {
        "tool": request.tool,
        "thread": request.thread,
        "idempotency_key": call.idempotency_key,
    }
    if call.error is not None:
        sensitive = call.tool.options.sensitive if call.tool is not None else frozenset[str]()
        data["refused"] = {**vault.fingerprint(request.arguments, sensitive), "reason": call.error.code}
    elif secrets is None:
        data["arguments"] = call.arguments
    else:
        data["arguments"] = secrets.arguments
        if secrets.masked:
            identity = (call.caller, request.thread, call.id)
            data.update(vault.keep(identity, "created", call.arguments, request.metadata))
    if call.tool is not None:
        data["tool_version"] = call.tool.options.version
        if call.tool.options.sensitive:  # for those who have not the tool, and are to hide the same
            data["sensitive"] = sorted(call.tool.options.sensitive)
    if call.caller:
        data["caller"] = call.caller
    if call.scopes:
        data["scopes"] = sorted(call.scopes)
    if request.timeout is not None:
        data["timeout"] = request.timeout
    if request.deadline is not None:
        data["deadline"] = request.deadline
        data.update(mark(clock))
    if request.priority:
        data["priority"] = request.priority
    if request.request_id is not None:
        data["request_id"] = request.request_id
    if metadata:
        data["metadata"] = metadata
    return data


def _secrets(call: LiveCall) -> Secrets | None:
    """Of a call that was refused before anybody looked for them: a policy or a parser may have quoted one."""
    try:
        arguments = parse_arguments(call.request.arguments, max_size=_MAX_LOOKED_AT)
    except ClicketError:
        arguments = {}
    sensitive = call.tool.options.sensitive if call.tool is not None else frozenset[str]()
    found = look(arguments, call.request.metadata, sensitive)
    if found is not None:
        watch_for(found)
    return found


def refusal(error: Exception) -> ToolError:
    """Why a call was not admitted. A stage that breaks refuses, too: what it could not judge must not run."""
    if not isinstance(error, ClicketError):
        return describe(error, retryable=False)
    details = {name: error.details[name] for name in _TOLD if name in error.details}
    return ToolError(code=error.code, message=error.message, type=type(error).__name__, details=details)
