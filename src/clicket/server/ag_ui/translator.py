"""Events of an agent as events of AG-UI. Messages, tool calls, steps and sub-agents are opened and closed as the protocol demands.

Ids are derived from the turn, so a run that is read again has the same ones. Events that an earlier run has had are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clicket.agents import AgentEvent
from clicket.agents.event_stream import position_of
from clicket.model.chat import Usage
from clicket.server.ag_ui.wire import Event, assistant_id, event, result_id, tool_call
from clicket.server.turn_follower import Followed, SubTask
from clicket.server.turn_questions import tool_call_id

__all__ = ["Translator"]

_KINDS = {"text": "TEXT_MESSAGE", "thought": "REASONING_MESSAGE"}
Place = tuple[str, str]
"""The call of the agent whose event it is (empty: the turn's own), and the branch of its turn."""


class _OpenText:
    """A message, or a thought, that is being streamed."""

    def __init__(self, id: str, step: int) -> None:
        self.id = id
        self.step = step
        self.sent = ""


class Translator:
    """Of one run. `after` and `until`: the run's range of recorded events, by agent (see `TurnRequest`)."""

    def __init__(self, turn: int, after: dict[str, str], until: dict[str, str] | None = None) -> None:
        self._turn = turn
        self._after = after
        self._until = until
        self.position: dict[str, str] = {}
        """The last recorded event of each agent so far."""
        self.usage = Usage()
        self.messages: list[Event] = []
        """The messages of this run, as the client has them if it reads all events."""
        self.has_discarded = False
        """A message was streamed that the model then gave up: a snapshot removes it."""
        self._steps: dict[Place, int] = {}
        self._open: dict[tuple[Place, str], _OpenText] = {}
        self._retries: dict[tuple[Place, int], int] = {}
        self._answered: set[str] = set()
        self._tasks: dict[str, SubTask] = {}
        self._ended_tasks: set[str] = set()

    @property
    def has_reached_its_end(self) -> bool:
        """Every event up to `until` was read."""
        return self._until is not None and all(
            position_of(self.position.get(name, "")) >= position_of(id) for name, id in self._until.items()
        )

    def take(self, followed: Followed) -> list[Event]:
        """The events for one event of an agent."""
        source, task = followed.event, followed.task
        name = "" if task is None else task.id
        past = False
        if source.id:
            self.position[name] = source.id
            place = position_of(source.id)
            past = place <= position_of(self._after.get(name, ""))
            if self._until is not None and place > position_of(self._until.get(name, "")):
                past = True
        elif self._until is not None:  # a live event belongs to a later run
            past = True
        if source.type == "tool_result":
            id = tool_call_id(source.data["id"], task)
            known = id in self._answered
            self._answered.add(id)
            if known and not past:  # of a background call, whose first result said that it was started
                return [*self._begun(task, source), self._custom("background_result", source, task)]
        return [] if past else [*self._begun(task, source), *self._translated(source, task)]

    def _translated(self, source: AgentEvent, task: SubTask | None) -> Iterable[Event]:
        match source.type:
            case "delta":
                return self._delta(source, task)
            case "thought":
                return self._whole(source, task, "thought", source.data["text"])
            case "message" if source.data["role"] == "assistant":
                return self._whole(source, task, "text", source.data["text"])
            case "tool_started":
                return self._tool_started(source, task)
            case "tool_result":
                return self._tool_result(source, task)
            case "tool_progress" | "retry" | "fallback" | "restart" | "handoff" | "undone":
                discarded = self._discard(source, task) if source.type in ("retry", "restart") else []
                return [*discarded, self._custom(source.type, source, task)]
            case "plan" if task is None:
                return [_delta("add", "plan", source)]
            case "state" if task is None:
                return [_delta("replace", "state", source, source.data["to"])]
            case "usage":
                self.usage += msgspec.convert(source.data, Usage)
            case "final" | "error" if task is not None:
                return self._task_ended(source, task)
        return []

    # Steps and sub-agents are begun before their first event, and ended after their last.

    def _begun(self, task: SubTask | None, source: AgentEvent) -> list[Event]:
        made = [] if task is None else self._task_begun(task, source.at)
        place = (_name(task), source.data.get("branch", ""))
        if source.step and source.type not in ("state", "final", "error") and self._steps.get(place) != source.step:
            made += self._step_ended(place, source.at)
            self._steps[place] = source.step
            made.append(self._step("STEP_STARTED", place, source.at))
        return made

    def _step_ended(self, place: Place, at: float) -> list[Event]:
        if place not in self._steps:
            return []
        closing = [each for kind in _KINDS for each in self._closed(place, kind, at)]
        ended = self._step("STEP_FINISHED", place, at)
        del self._steps[place]
        return [*closing, ended]

    def _step(self, type: str, place: Place, at: float) -> Event:
        task, branch = place
        name = f"{branch and f'task {branch}, '}step {self._steps[place]}"
        return event(type, at, stepName=name, subagentRunId=task or None)

    def _task_begun(self, task: SubTask, at: float) -> list[Event]:
        if task.id in self._tasks:
            return []
        made = [] if task.parent is None else self._task_begun(task.parent, at)
        self._tasks[task.id] = task
        started = event(
            "SUBAGENT_STARTED",
            at,
            subagentRunId=task.id,
            name=task.agent,
            parentToolCallId=tool_call_id(task.use_id, task.parent),
            parentSubagentRunId=_name(task.parent) or None,
        )
        return [*made, started]

    def _task_ended(self, source: AgentEvent, task: SubTask) -> list[Event]:
        made = [
            each for place in list(self._steps) if place[0] == task.id for each in self._step_ended(place, source.at)
        ]
        self._ended_tasks.add(task.id)
        if source.type == "error":
            return [*made, event("SUBAGENT_ERROR", source.at, subagentRunId=task.id, message=source.data["message"])]
        result = {name: source.data.get(name) for name in ("text", "stopped", "ended", "value")}
        return [*made, event("SUBAGENT_FINISHED", source.at, subagentRunId=task.id, result=result)]

    def close(self, at: float, asked: dict[str, list[str]] | None = None) -> list[Event]:
        """End what is open. `asked`: the run is interrupted; the interrupts of each sub-agent, by the id of its call."""
        made = [each for place in list(self._steps) for each in self._step_ended(place, at)]
        for id in reversed([id for id in self._tasks if id not in self._ended_tasks]):
            self._ended_tasks.add(id)
            outcome = None if asked is None else {"type": "suspended", "interruptIds": asked.get(id, [])}
            made.append(event("SUBAGENT_FINISHED", at, subagentRunId=id, outcome=outcome))
        return made

    # Messages.

    def _delta(self, source: AgentEvent, task: SubTask | None) -> list[Event]:
        kind = source.data["kind"]
        if kind not in _KINDS or not source.data["text"]:
            return []
        open, made = self._opened(source, task, kind)
        return [*made, self._content(open, source.data["text"], kind, source, task)]

    def _whole(self, source: AgentEvent, task: SubTask | None, kind: str, text: str) -> list[Event]:
        """The recorded message: what was not streamed of it, and its end."""
        place = (_name(task), source.data.get("branch", ""))
        open = self._open.get((place, kind))
        discarded: list[Event] = []
        if open is not None and not text.startswith(open.sent):
            discarded = self._discard(source, task)
        open, made = self._opened(source, task, kind)
        rest = text[len(open.sent) :]
        content = [self._content(open, rest, kind, source, task)] if rest else []
        return [*discarded, *made, *content, *self._closed(place, kind, source.at)]

    def _opened(self, source: AgentEvent, task: SubTask | None, kind: str) -> tuple[_OpenText, list[Event]]:
        place = (_name(task), source.data.get("branch", ""))
        open = self._open.get((place, kind))
        if open is not None:
            return open, []
        id = self._message_id(source, task)
        owner = _name(task) or None
        if kind == "text":
            open = _OpenText(id, source.step)
            started = [event("TEXT_MESSAGE_START", source.at, messageId=id, role="assistant", subagentRunId=owner)]
            self._message(id, owner)["content"] = ""
        else:
            open = _OpenText(f"{id}-thought", source.step)
            started = [
                event("REASONING_START", source.at, messageId=open.id, subagentRunId=owner),
                event("REASONING_MESSAGE_START", source.at, messageId=open.id, role="reasoning", subagentRunId=owner),
            ]
        self._open[place, kind] = open
        return open, started

    def _content(self, open: _OpenText, text: str, kind: str, source: AgentEvent, task: SubTask | None) -> Event:
        open.sent += text
        if kind == "text":
            self._message(open.id, _name(task) or None)["content"] = open.sent
        owner = _name(task) or None
        return event(f"{_KINDS[kind]}_CONTENT", source.at, messageId=open.id, delta=text, subagentRunId=owner)

    def _closed(self, place: Place, kind: str, at: float) -> list[Event]:
        open = self._open.pop((place, kind), None)
        owner = place[0] or None
        if open is None:
            return []
        types = ("TEXT_MESSAGE_END",) if kind == "text" else ("REASONING_MESSAGE_END", "REASONING_END")
        return [event(type, at, messageId=open.id, subagentRunId=owner) for type in types]

    def _discard(self, source: AgentEvent, task: SubTask | None) -> list[Event]:
        """The model gave up a message that was being streamed. The next one has another id."""
        place = (_name(task), source.data.get("branch", ""))
        open = self._open.get((place, "text"))
        made = [each for kind in _KINDS for each in self._closed(place, kind, source.at)]
        if made:
            self._retries[place, source.step] = self._retries.get((place, source.step), 0) + 1
        if open is not None:
            self.has_discarded = True
            self.messages = [message for message in self.messages if message["id"] != open.id]
        return made

    def _message_id(self, source: AgentEvent, task: SubTask | None) -> str:
        branch = source.data.get("branch", "")
        retry = self._retries.get(((_name(task), branch), source.step), 0)
        id = assistant_id(source.turn, source.step, branch, _name(task))
        return f"{id}-r{retry}" if retry else id

    def _message(self, id: str, owner: str | None) -> Event:
        """The message of the agent with this id; it is made if there is none."""
        found = next((each for each in self.messages if each["id"] == id), None)
        if found is None:
            found = {"id": id, "role": "assistant"}
            if owner is not None:
                found["subagentRunId"] = owner
            self.messages.append(found)
        return found

    # Tools.

    def _tool_started(self, source: AgentEvent, task: SubTask | None) -> list[Event]:
        data = source.data
        owner = _name(task) or None
        parent = self._message_id(source, task)
        id = tool_call_id(data["id"], task)
        self._message(parent, owner).setdefault("toolCalls", []).append(tool_call(id, data["tool"], data["arguments"]))
        return [
            event(
                "TOOL_CALL_START", source.at,
                toolCallId=id, toolCallName=data["tool"], parentMessageId=parent, subagentRunId=owner,
                metadata={"clicket": {"callId": data["call_id"]}} if data["call_id"] else None,
            ),
            event("TOOL_CALL_ARGS", source.at, toolCallId=id, delta=data["arguments"], subagentRunId=owner),
            event("TOOL_CALL_END", source.at, toolCallId=id, subagentRunId=owner),
        ]  # fmt: skip

    def _tool_result(self, source: AgentEvent, task: SubTask | None) -> list[Event]:
        data = source.data
        owner = _name(task) or None
        id = tool_call_id(data["id"], task)
        made: Event = {"id": result_id(self._turn, id), "role": "tool", "toolCallId": id, "content": data["content"]}
        if owner is not None:
            made["subagentRunId"] = owner
        self.messages.append(made)
        more = {name: data[name] for name in ("success", "code", "state", "artifact", "background") if name in data}
        return [
            event(
                "TOOL_CALL_RESULT", source.at,
                messageId=made["id"], toolCallId=id, content=data["content"], role="tool", subagentRunId=owner,
                metadata={"clicket": {"callId": data["call_id"], **more}},
            )
        ]  # fmt: skip

    def _custom(self, name: str, source: AgentEvent, task: SubTask | None) -> Event:
        value: dict[str, Any] = {"step": source.step, **source.data}
        return event("CUSTOM", source.at, name=f"clicket.{name}", value=value, subagentRunId=_name(task) or None)


def _name(task: SubTask | None) -> str:
    return "" if task is None else task.id


def _delta(op: str, field: str, source: AgentEvent, value: Any = None) -> Event:
    changed = {"op": op, "path": f"/clicket/{field}", "value": source.data if value is None else value}
    return event("STATE_DELTA", source.at, delta=[changed])
