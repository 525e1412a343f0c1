"""A task as the store has it: a chain of calls, one for each round of questions, and the answers that are not complete yet.

The task's id is its first call's; the next rounds' calls have the same id with `.2`, `.3` …, so whoever looks finds the chain,
and a round is started once, whoever starts it. An incomplete set of answers lies in the store as a paper, sealed if there is a
key; without one, answers that hold a secret must come all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from clicket.errors import ClicketError, NotFound, UsageError
from clicket.mcp.listing import find_tool
from clicket.mcp.questions import Round, fits
from clicket.mcp.results import questions_of, told
from clicket.mcp.visit import Visit
from clicket.model import Record, ToolResult, result_of
from clicket.vault import Identity, has_token

__all__ = ["KIND", "Chain", "answer", "drop", "look_up"]

KIND = "mcp-task"
_MAX_ROUNDS = 1_000
_TRIES = 20
_LOST = (
    "its arguments hold a secret that only its first process knew, so it cannot be run from the record. Submit it again; "
    "with the same CLICKET_SECRET_KEY in every process such calls outlive their process."
)


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """How a task stands. `questions` are those of the present round that nobody has answered."""

    first: Record
    now: Record
    round: int = 1
    result: ToolResult | None = None
    asked: dict[str, Any] = {}
    questions: dict[str, Any] = {}
    cancelled: bool = False
    lost: str = ""
    """Why it cannot go on."""

    @property
    def identity(self) -> Identity:
        return self.first.caller, self.first.thread, self.first.id


class _Draft(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answers of one round, or the word that nobody wants them any more."""

    round: int
    answers: dict[str, Any] = {}
    sealed: dict[str, str] = {}
    cancelled: bool = False


async def look_up(who: Visit, id: str) -> Chain:
    """Follow the chain to its present end. A task of another key is not found."""
    first = now = await _record(who, id, None)
    if first is None or now is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no task {id!r}. It may have expired, or belong to another key.")
    for number in range(1, _MAX_ROUNDS):
        if not now.state.is_terminal:
            return Chain(first=first, now=now, round=number)
        result = await _result(who, now)
        asked = questions_of(result, find_tool(who.runtime, now.tool))
        chain = Chain(first=first, now=now, round=number, result=result, asked=asked)
        if not asked:
            return chain
        after = await _record(who, f"{id}.{number + 1}", first.thread)
        if after is None:
            return await _with_draft(who, chain)
        now = after
    raise MCPError(types.INTERNAL_ERROR, f"Task {id!r} asked {_MAX_ROUNDS} times.")


async def _record(who: Visit, id: str, thread: str | None) -> Record | None:
    try:
        return await who.runtime.get(id, thread=thread)
    except NotFound:
        return None
    except UsageError:  # the id was chosen by the client, and used in two threads: the request's one is meant
        return await who.runtime.get(id, thread=who.thread)


async def _result(who: Visit, record: Record) -> ToolResult:
    if record.truncated:
        return await (await who.runtime.handle(record.id, thread=record.thread)).result()
    return result_of(record)


async def _with_draft(who: Visit, chain: Chain) -> Chain:
    draft, _ = await _read(who, chain)
    unanswered = {key: question for key, question in chain.asked.items() if key not in draft.answers}
    if draft.cancelled or unanswered:
        return msgspec.structs.replace(chain, questions=unanswered, cancelled=draft.cancelled)
    return await _go_on(who, chain, draft.answers)  # whoever was to start the next round is gone


# Answers.


async def answer(who: Visit, chain: Chain, given: Mapping[str, Any]) -> None:
    """Take the answers that fit an open question; start the next round with the last one."""
    for _ in range(_TRIES):
        draft, version = await _read(who, chain)
        if draft.cancelled:
            return
        fitting = {
            key: value
            for key, value in given.items()
            if key in chain.asked and key not in draft.answers and fits(value, chain.asked[key])
        }
        answers = {**draft.answers, **fitting}
        if all(key in answers for key in chain.asked) and not (await _go_on(who, chain, answers)).lost:
            return
        if not fitting or await _write(who, chain, _Draft(chain.round, answers), version):
            return
    raise MCPError(types.INTERNAL_ERROR, "Too many answers at once; send yours again.")


async def drop(who: Visit, chain: Chain) -> None:
    """Nobody wants the answers any more."""
    for _ in range(_TRIES):
        draft, version = await _read(who, chain)
        if await _write(who, chain, msgspec.structs.replace(draft, cancelled=True), version):
            return


async def _read(who: Visit, chain: Chain) -> tuple[_Draft, int]:
    document = await who.runtime.store.document(KIND, _key(chain))
    if document is None:
        return _Draft(chain.round), 0
    try:
        draft = msgspec.json.decode(document.body, type=_Draft)
    except msgspec.MsgspecError:
        draft = _Draft(0)
    if draft.round != chain.round:  # left by somebody who started the next round and died
        return _Draft(chain.round), document.version
    if draft.sealed:
        whole = who.runtime.vault.unseal(chain.identity, KIND, draft.sealed)
        draft = msgspec.structs.replace(draft, answers=whole["arguments"] if whole else {}, sealed={})
    return draft, document.version


async def _write(who: Visit, chain: Chain, draft: _Draft, version: int) -> bool:
    vault = who.runtime.vault
    if draft.answers and vault.seals:
        draft = msgspec.structs.replace(draft, answers={}, sealed=vault.keep(chain.identity, KIND, draft.answers, None))
    elif has_token(draft.answers):
        raise MCPError(
            types.INVALID_PARAMS,
            "An answer holds what looks like a secret, and this server has no key to keep it. Answer all questions at once.",
        )
    body = msgspec.json.encode(draft)
    return bool(await who.runtime.store.put_document(KIND, _key(chain), body, version))


def _key(chain: Chain) -> str:
    return msgspec.json.encode(chain.identity).decode()


async def _go_on(who: Visit, chain: Chain, answers: dict[str, Any]) -> Chain:
    """Start the next round: the same call, with all answers so far."""
    runtime, first = who.runtime, chain.first
    arguments, _, lost = runtime.arguments_of(first)
    _, before, lost_too = runtime.arguments_of(chain.now)
    if lost or lost_too:
        return msgspec.structs.replace(chain, lost=_LOST)
    known = ((before or {}).get("mcp") or {}).get("answers") or {}
    after = Round(chain.round + 1, {**known, **answers})
    try:
        await runtime.submit(
            first.tool, arguments, thread=first.thread, id=after.call_id(first.id), metadata=after.metadata
        )
    except ClicketError as error:
        raise MCPError(types.INTERNAL_ERROR, told(error)) from error
    await runtime.store.delete_document(KIND, _key(chain))
    return await look_up(who, first.id)
