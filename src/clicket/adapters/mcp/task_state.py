"""The stored state of a task: one call for each round of input requests, and the answers of a round that is not complete.

The task's id is the id of its first call. The calls of later rounds have the same id with `.2`, `.3` …, so every server finds
them, and each round starts once. Incomplete answers are stored as a document, sealed if the server has a secret key. Without a
key, answers that contain a secret must arrive all at once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from clicket.adapters.mcp.input_requests import Round, fits
from clicket.adapters.mcp.request_context import RequestContext
from clicket.adapters.mcp.results import client_message, input_requests_of
from clicket.errors import ClicketError, NotFound, UsageError
from clicket.model import Record, ToolResult, result_of
from clicket.model.ports import Store
from clicket.runtime.runtime import Runtime
from clicket.safety.vault import Identity, has_token

__all__ = ["KIND", "TaskState", "TaskSweep", "add_answers", "cancel_answers", "load_task"]

logger = logging.getLogger("clicket.mcp")

KIND = "mcp-task"
_MAX_ROUNDS = 1_000
_TRIES = 20
SWEEP_EVERY = 60.0
"""Seconds between two steps of the sweep."""
_SWEEP_STEP = 20
_LOST = (
    "its arguments hold a secret that only its first process knew, so it cannot be run from the record. Submit it again; "
    "with the same CLICKET_SECRET_KEY in every process such calls outlive their process."
)


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """`current` is the call of the latest round, `unanswered` its input requests that have no answer yet."""

    first: Record
    current: Record
    round: int = 1
    result: ToolResult | None = None
    asked: dict[str, Any] = {}
    unanswered: dict[str, Any] = {}
    cancelled: bool = False
    lost: str = ""
    """Why the task cannot go on."""

    @property
    def identity(self) -> Identity:
        return self.first.caller, self.first.thread, self.first.id


class _PartialAnswers(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answers of one round that is not complete. `cancelled`: the client cancelled the task."""

    round: int
    answers: dict[str, Any] = {}
    sealed: dict[str, str] = {}
    cancelled: bool = False


async def load_task(request: RequestContext, id: str) -> TaskState:
    """Read a task, and start its next round if all answers are there. A task of another API key is not found."""
    first = current = await _record(request, id, None)
    if first is None or current is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no task {id!r}. It may have expired, or belong to another key.")
    for number in range(1, _MAX_ROUNDS):
        if not current.state.is_terminal:
            return TaskState(first=first, current=current, round=number)
        result = await _result(request, current)
        asked = input_requests_of(result, request.runtime.registry.get(current.tool))
        task = TaskState(first=first, current=current, round=number, result=result, asked=asked)
        if not asked:
            return task
        after = await _record(request, f"{id}.{number + 1}", first.thread)
        if after is None:
            return await _with_partial_answers(request, task)
        current = after
    raise MCPError(types.INTERNAL_ERROR, f"Task {id!r} asked {_MAX_ROUNDS} times.")


async def _record(request: RequestContext, id: str, thread: str | None) -> Record | None:
    try:
        return await request.runtime.get(id, thread=thread)
    except NotFound:
        return None
    except UsageError:  # the client chose the id, and used it in two threads: take the request's thread
        return await request.runtime.get(id, thread=request.thread)


async def _result(request: RequestContext, record: Record) -> ToolResult:
    if record.truncated:
        return await (await request.runtime.handle(record.id, thread=record.thread)).result()
    return result_of(record)


async def _with_partial_answers(request: RequestContext, task: TaskState) -> TaskState:
    partial, _ = await _read(request, task)
    unanswered = {key: question for key, question in task.asked.items() if key not in partial.answers}
    if partial.cancelled or unanswered:
        return msgspec.structs.replace(task, unanswered=unanswered, cancelled=partial.cancelled)
    return await _start_round(request, task, partial.answers)  # the server that should have started it is gone


# Answers.


async def add_answers(request: RequestContext, task: TaskState, given: Mapping[str, Any]) -> None:
    """Store the answers that fit an open input request; start the next round when all are there."""
    for _ in range(_TRIES):
        partial, version = await _read(request, task)
        if partial.cancelled:
            return
        fitting = {
            key: value
            for key, value in given.items()
            if key in task.asked and key not in partial.answers and fits(value, task.asked[key])
        }
        answers = {**partial.answers, **fitting}
        if all(key in answers for key in task.asked) and not (await _start_round(request, task, answers)).lost:
            return
        if not fitting or await _write(request, task, _PartialAnswers(task.round, answers), version):
            return
    raise MCPError(types.INTERNAL_ERROR, "Too many answers at once; send yours again.")


async def cancel_answers(request: RequestContext, task: TaskState) -> None:
    """Cancel a task that waits for answers."""
    for _ in range(_TRIES):
        partial, version = await _read(request, task)
        if await _write(request, task, msgspec.structs.replace(partial, cancelled=True), version):
            return


async def _read(request: RequestContext, task: TaskState) -> tuple[_PartialAnswers, int]:
    document = await request.runtime.store.document(KIND, _document_key(task))
    if document is None:
        return _PartialAnswers(task.round), 0
    try:
        partial = msgspec.json.decode(document.body, type=_PartialAnswers)
    except msgspec.MsgspecError:
        partial = _PartialAnswers(0)
    if partial.round != task.round:  # left by a server that started the next round and died
        return _PartialAnswers(task.round), document.version
    if partial.sealed:
        whole = request.runtime.vault.unseal(task.identity, KIND, partial.sealed)
        partial = msgspec.structs.replace(partial, answers=whole["arguments"] if whole else {}, sealed={})
    return partial, document.version


async def _write(request: RequestContext, task: TaskState, partial: _PartialAnswers, version: int) -> bool:
    vault = request.runtime.vault
    if partial.answers and vault.seals:
        partial = msgspec.structs.replace(
            partial, answers={}, sealed=vault.keep(task.identity, KIND, partial.answers, None)
        )
    elif has_token(partial.answers):
        raise MCPError(
            types.INVALID_PARAMS,
            "An answer looks like a secret, and this server has no key to seal it with. Answer all questions at once.",
        )
    body = msgspec.json.encode(partial)
    return bool(await request.runtime.store.put_document(KIND, _document_key(task), body, version))


def _document_key(task: TaskState) -> str:
    return msgspec.json.encode(task.identity).decode()


async def _start_round(request: RequestContext, task: TaskState, answers: dict[str, Any]) -> TaskState:
    """Submit the call of the next round, with all answers so far."""
    runtime = request.runtime
    first = task.first
    arguments, _, lost = runtime.arguments_of(first)
    _, before, lost_too = runtime.arguments_of(task.current)
    if lost or lost_too:
        return msgspec.structs.replace(task, lost=_LOST)
    known = ((before or {}).get("mcp") or {}).get("answers") or {}
    after = Round(task.round + 1, {**known, **answers})
    try:
        await runtime.submit(
            first.tool, arguments, thread=first.thread, id=after.call_id(first.id), metadata=after.metadata
        )
    except ClicketError as error:
        raise MCPError(types.INTERNAL_ERROR, client_message(error)) from error
    await runtime.store.delete_document(KIND, _document_key(task))
    return await load_task(request, first.id)


# Removal.


class TaskSweep:
    """Deletes incomplete answers of tasks whose calls retention has removed. Several processes may do so at once."""

    def __init__(self) -> None:
        self._next_at = float("-inf")
        self._after = ""

    def sweep_soon(self, runtime: Runtime) -> None:
        """Check the next few documents in the background, unless that was done a moment ago."""
        now = runtime.clock.now()
        if now >= self._next_at:
            self._next_at = now + SWEEP_EVERY
            runtime.spawn(self._step(runtime.store))

    async def _step(self, store: Store) -> None:
        try:
            documents = await store.documents(KIND, after=self._after, limit=_SWEEP_STEP)
            self._after = documents[-1].key if len(documents) == _SWEEP_STEP else ""
            for document in documents:
                if not await _has_call(store, document.key):
                    await store.delete_document(KIND, document.key)
        except ClicketError as error:
            logger.info("answers of removed tasks could not be deleted: %s", error)


async def _has_call(store: Store, key: str) -> bool:
    try:
        caller, thread, id = msgspec.json.decode(key, type=Identity)
    except msgspec.MsgspecError:  # no task has such a key
        return False
    return bool(await store.load(id, thread, caller))
