"""Turns of an agent as tasks. A thread is a context, a turn is a task: its id names both, so any process finds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from clicket.agents import Agent, AgentEvent, AgentState, TurnDocument
from clicket.agents.threads import inner_thread
from clicket.kernel import State
from clicket.model import Record
from clicket.model.codec import encode
from clicket.model.time_text import utc_text
from clicket.runtime.runtime import Runtime
from clicket.server.a2a.rpc import A2AError
from clicket.server.turn_follower import WaitingCall, waiting_now
from clicket.server.turn_requests import Asked, ThreadRequests
from clicket.tools.question import question_of

__all__ = [
    "TERMINAL",
    "Tasks",
    "agent_message",
    "answer_artifact",
    "asked_of",
    "questions",
    "task_id",
    "task_place",
    "task_state",
]

_ID = re.compile(r"turn-([1-9][0-9]{0,8}):(.{1,512})", re.DOTALL)
_MAX_LISTED = 1_000
_STEP = 100
TERMINAL = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})
STATES = TERMINAL | {
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_AUTH_REQUIRED",
}
Json = dict[str, Any]


def task_id(thread: str, turn: int) -> str:
    return f"turn-{turn}:{thread}"


def task_place(id: str) -> tuple[str, int]:
    """Thread and turn of a task."""
    found = _ID.fullmatch(id)
    if found is None:
        raise not_found(id)
    return found[2], int(found[1])


def not_found(id: str) -> A2AError:
    return A2AError("TASK_NOT_FOUND", f"there is no task {id!r:.200}. ListTasks lists those that are there.")


def task_state(state: AgentState, stopped: str | None) -> str:
    """The state of a task whose turn has ended. A turn that a limit ended has not done what was asked."""
    if state is AgentState.FINISHED:
        return "TASK_STATE_COMPLETED"
    return "TASK_STATE_CANCELED" if stopped == "cancelled" else "TASK_STATE_FAILED"


def agent_message(task: str, context: str, number: int | str, *parts: Json) -> Json:
    return {
        "messageId": f"{task}/{number}",
        "contextId": context,
        "taskId": task,
        "role": "ROLE_AGENT",
        "parts": list(parts),
    }


def answer_artifact(text: str) -> Json:
    return {"artifactId": "answer", "name": "answer", "parts": [{"text": text}]}


def _plan_artifact(plan: Json) -> Json:
    return {"artifactId": "plan", "name": "plan", "parts": [{"data": plan}]}


def asked_of(waiting: Sequence[WaitingCall]) -> list[Asked]:
    """What a client is told of these calls, in an order of its own."""
    asked = (
        Asked(id=record.id, thread=record.thread, hash=(record.approval or {}).get("hash", ""))
        for record in (each.record for each in waiting)
    )
    return sorted(asked, key=lambda each: (each.thread, each.id))


def questions(waiting: Sequence[WaitingCall], task: str, context: str) -> tuple[str, Json]:
    """The state of a task that waits for these calls, and the message that says what for."""
    records = [each.record for each in waiting]
    ids = "+".join(f"{id}#{number}" if number > 1 else id for id, number in (each.wait for each in waiting))
    texts = [_question(record) for record in records]
    parts: list[Json] = [{"text": "\n".join(texts)}]
    for record in records:
        asked = record.approval or {}
        question = question_of(record.approval)
        data: Json = {
            "callId": record.id, "tool": record.tool, "arguments": record.arguments, "waitingFor": record.waiting_for,
            "hash": asked.get("hash", ""), "why": asked.get("why", ""), "approvers": asked.get("approvers", 1),
        }  # fmt: skip
        if question is not None:
            data["question"] = {
                "source": question.source,
                "message": question.message,
                "schema": question.schema,
                "url": question.url,
            }
        parts.append({"data": data})
    only_credentials = all(record.waiting_for == "credential" for record in records)
    state = "TASK_STATE_AUTH_REQUIRED" if only_credentials else "TASK_STATE_INPUT_REQUIRED"
    return state, agent_message(task, context, f"question-{ids}"[:200], *parts)


def _question(record: Record) -> str:
    if record.waiting_for == "credential":
        return f"{record.tool} needs a credential of the caller."
    if record.waiting_for == "external":
        return f"{record.tool} waits for a result of the client's own program."
    question = question_of(record.approval)
    if question is not None and question.schema is not None:
        return (
            f'{question.why} Answer with a data part {{"callId", "approved": true, "response": an object that fits question.schema}}, '
            "or deny."
        )
    if question is not None:
        return f"{question.why} Answer approve when it is done, or deny."
    shown = encode(record.arguments).decode()
    why = str((record.approval or {}).get("why") or "")
    return f"May {record.tool} run with {shown[:1_000]}?{f' {why}' if why else ''} Answer approve or deny."


class _Listed(msgspec.Struct, frozen=True):
    thread: str
    turn: int
    state: State
    output: Any
    at: float


class Tasks:
    """The tasks of one agent, for one caller. Tasks of other callers are not found."""

    def __init__(self, agent: Agent, runtime: Runtime) -> None:
        self._agent = agent
        self._runtime = runtime

    async def get(
        self, id: str, requests: ThreadRequests, history_length: int | None = None, *, told: bool = True
    ) -> Json:
        """`told`: the client gets the task, and its questions are written down as those that it knows."""
        thread, turn = task_place(id)
        view = await self._agent.look(thread)
        if turn > view.turns:
            if view.state is not AgentState.RUNNING or turn != view.turns + 1:
                raise not_found(id)
            events = await self._agent.recorded(thread, turn)
            waiting = await waiting_now(self._agent, self._runtime, thread, turn)
            status: Json = {"state": "TASK_STATE_WORKING", "timestamp": utc_text(view.updated_at)}
            if waiting:
                status["state"], status["message"] = questions(waiting, id, thread)
                if told:
                    await requests.report(turn, asked_of(waiting))
            artifacts = [] if view.plan is None else [_plan_artifact(view.plan)]
            said = [(str(event.data["role"]), str(event.data["text"])) for event in events if event.type == "message"]
            more: Json = {}
        else:
            document = await self._document(thread, turn)
            if document is None:
                raise not_found(id)
            status, artifacts = self._ended(document, id, thread)
            said = [(each.role, each.content) for each in document.as_written if each.role in ("user", "assistant")]
            usage = document.usage
            more = {
                "stopped": document.stopped,
                "ended": document.ended,
                "value": document.value,
                "steps": document.steps,
                "calls": document.calls,
                "usage": {
                    "inputTokens": usage.input_tokens,
                    "outputTokens": usage.output_tokens,
                    **({"cachedTokens": usage.cached_tokens} if usage.cached_tokens else {}),
                    **({"cacheWriteTokens": usage.cache_write_tokens} if usage.cache_write_tokens else {}),
                },
            }
        task: Json = {"id": id, "contextId": thread, "status": status, "artifacts": artifacts}
        task["metadata"] = {"clicket": {"agent": self._agent.name, "turn": turn, **more}}
        ids = await requests.message_ids()
        messages = [_message(id, thread, n, role, text, ids.get(turn)) for n, (role, text) in enumerate(said) if text]
        if history_length is None or history_length > 0:
            task["history"] = messages if history_length is None else messages[-history_length:]
        return task

    async def _document(self, thread: str, turn: int) -> TurnDocument | None:
        page = await self._agent.history(thread, after=turn - 1, limit=1)
        return next((document for document in page.turns if document.turn == turn), None)

    def _ended(self, document: TurnDocument, id: str, thread: str) -> tuple[Json, list[Json]]:
        state = task_state(document.state, document.stopped)
        status: Json = {"state": state, "timestamp": utc_text(document.at)}
        artifacts = [] if document.plan is None else [_plan_artifact(document.plan)]
        if state == "TASK_STATE_COMPLETED":
            artifacts.insert(0, answer_artifact(document.text))
        elif document.error or document.text:
            status["message"] = agent_message(id, thread, "end", {"text": document.error or document.text})
        return status, artifacts

    async def listed(
        self, context: str, state: str, after: float | None, page_size: int, token: str
    ) -> tuple[list[str], str, int]:
        """Ids of tasks, those that changed last first; the token of the next page; and how many there are in all. The last 1,000
        turns of the agent are looked at."""
        before = _place(token) if token else None
        found = [each for each in await self._turns(context) if after is None or each.at > after]
        if state:
            found = [each for each in found if await self._state(each) == state]
        ordered = sorted(((each.at, task_id(each.thread, each.turn)) for each in found), reverse=True)
        rest = [each for each in ordered if before is None or each < before]
        page = rest[:page_size]
        following = f"{page[-1][0]!r} {page[-1][1]}" if len(rest) > page_size else ""
        return [id for _, id in page], following, len(ordered)

    async def _turns(self, context: str) -> list[_Listed]:
        found: list[_Listed] = []
        cursor: str | None = None
        thread = inner_thread(self._agent.name, context) if context else None
        while len(found) < _MAX_LISTED:
            page = await self._runtime.history(
                tool=f"agent:{self._agent.name}", thread=thread, limit=_STEP, cursor=cursor
            )
            for record in page.items:
                given = record.arguments if isinstance(record.arguments, dict) else {}
                name, turn = given.get("thread"), given.get("turn")
                if isinstance(name, str) and isinstance(turn, int) and record.caller == self._runtime.host.caller:
                    found.append(_Listed(name, turn, record.state, record.output, record.updated_at))
            cursor = page.cursor
            if cursor is None:
                break
        return found

    async def _state(self, listed: _Listed) -> str:
        if not listed.state.is_terminal:
            waiting = await waiting_now(self._agent, self._runtime, listed.thread, listed.turn)
            return questions(waiting, "", "")[0] if waiting else "TASK_STATE_WORKING"
        if listed.state is State.CANCELLED:
            return "TASK_STATE_CANCELED"
        ended = listed.output if isinstance(listed.output, dict) else {}
        return "TASK_STATE_COMPLETED" if ended.get("state") == "finished" else "TASK_STATE_FAILED"


def _message(task: str, context: str, number: int, role: str, text: str, client_id: str | None) -> Json:
    if role == "assistant":
        return agent_message(task, context, number, {"text": text})
    own = client_id if number == 0 and client_id else f"{task}/{number}"
    return {"messageId": own, "contextId": context, "taskId": task, "role": "ROLE_USER", "parts": [{"text": text}]}


def _place(token: str) -> tuple[float, str]:
    at, _, id = token.partition(" ")
    try:
        return float(at), id
    except ValueError:
        raise A2AError("INVALID_PARAMS", "pageToken must be the nextPageToken of a page.") from None


def last_id(events: Sequence[AgentEvent]) -> str:
    """The id of the last recorded event."""
    return events[-1].id if events else ""
