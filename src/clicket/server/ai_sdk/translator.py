"""Events of a turn as chunks of one message of the AI SDK: its steps, and in them reasoning, text, tool calls and files.

Void text is removed by `reset-step`. A branch of a plan is shown when it is on record: the protocol has one open step at a time. Of agents
that are called, only tool calls are shown about which a person is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from clicket.agents import AgentEvent
from clicket.agents.event_stream import Position, position_of
from clicket.model.codec import decode, encode
from clicket.server.turn_follower import Followed, WaitingCall
from clicket.server.turn_questions import asked_from, question_text

__all__ = ["Chunk", "Translator", "frame", "message_id"]

Chunk = dict[str, Any]
_KINDS = {"text": "text", "thought": "reasoning"}
_REASONS = {"stop": "stop", "length": "length", "refusal": "content-filter"}


def frame(chunk: Chunk | None) -> bytes:
    """One server-sent event; None is the end of the stream."""
    return b"data: [DONE]\n\n" if chunk is None else b"data: %s\n\n" % encode(chunk)


def message_id(turn: int) -> str:
    """The id of the agent's message of a turn, the same whenever it is read."""
    return f"turn-{turn}"


class _Part:
    """A text, or the reasoning, of the step. `sent`: what the client has of it."""

    __slots__ = ("id", "is_open", "sent")

    def __init__(self) -> None:
        self.id = ""
        self.is_open = False
        self.sent = ""


class Translator:
    """Of one stream. `after`: the client has what comes up to this event."""

    def __init__(self, turn: int, after: Position | None = None) -> None:
        self._turn = turn
        self._after = after
        self._step = 0
        self._parts: dict[str, _Part] = {}
        """Of the step, by kind."""
        self._count = 0
        self._uses: dict[str, str] = {}
        """The tool calls that the client knows, by the ids of the runtime's calls."""
        self._output: dict[str, str] = {}

    def begin(self) -> list[Chunk]:
        return [{"type": "start", "messageId": message_id(self._turn)}]

    def take(self, followed: Followed) -> list[Chunk]:
        """The chunks for one event."""
        event, task = followed.event, followed.task
        if event.type == "tool_started" and task is None:
            self._uses[event.data["call_id"]] = event.data["id"]
        if self._after is not None and event.id and task is None and position_of(event.id) <= self._after:
            self._step = max(self._step, event.step)
            return []
        if task is not None:
            id = self._uses.get(event.data.get("call_id", ""))
            return _tool_result(id, event.data) if event.type == "tool_result" and id else []
        if event.data.get("branch"):
            return list(self._of_branch(event))
        return [*self._in_step(event), *self._translated(event)]

    def _translated(self, event: AgentEvent) -> Iterable[Chunk]:
        data = event.data
        match event.type:
            case "delta" if data["kind"] in _KINDS and data["text"]:
                return self._piece(data["kind"], data["text"])
            case "thought":
                return self._whole("thought", data["text"])
            case "message" if data["role"] == "assistant":
                return self._whole("text", data["text"])
            case "restart" | "retry":
                return self._void()
            case "tool_started":
                return [*self._closed(), _tool_call(data["id"], data["tool"], data["arguments"])]
            case "tool_progress" if data["kind"] == "output":
                return self._preliminary(data["call_id"], data.get("content"))
            case "tool_result":
                return _tool_result(data["id"], data)
            case "plan":
                return [{"type": "data-plan", "id": f"plan-{self._turn}", "data": data}]
            case "answer" | "handoff":
                return [{"type": f"data-{event.type}", "id": event.id, "data": data}]
            case "final":
                return self._end(data)
            case "error":
                return [*self._closed(), {"type": "error", "errorText": data["message"]}]
        return []

    def _of_branch(self, event: AgentEvent) -> Iterable[Chunk]:
        match event.type:
            case "message" if event.data["role"] == "assistant":
                id, text = f"text-{event.id}", event.data["text"]
                return [
                    {"type": "text-start", "id": id},
                    {"type": "text-delta", "id": id, "delta": text},
                    {"type": "text-end", "id": id},
                ]
            case "tool_started" | "tool_progress" | "tool_result":
                return self._translated(event)
        return []

    def _in_step(self, event: AgentEvent) -> list[Chunk]:
        if event.step <= self._step or event.type in ("state", "final", "error", "plan"):
            return []
        ended = [*self._closed(), {"type": "finish-step"}] if self._step else []
        self._parts.clear()
        self._step = event.step
        return [*ended, {"type": "start-step"}]

    # Text and reasoning.

    def _piece(self, kind: str, text: str) -> list[Chunk]:
        name = _KINDS[kind]
        part = self._parts.setdefault(kind, _Part())
        made: list[Chunk] = []
        if not part.is_open:
            made = self._closed()  # one of both is open at a time
            self._count += 1
            part.id, part.is_open = f"{name}-{self._turn}-{self._step}-{self._count}", True
            made.append({"type": f"{name}-start", "id": part.id})
        part.sent += text
        return [*made, {"type": f"{name}-delta", "id": part.id, "delta": text}]

    def _whole(self, kind: str, text: str) -> list[Chunk]:
        """The recorded message: what was not streamed of it, and its end."""
        made: list[Chunk] = []
        if not text.startswith(self._parts.get(kind, _Part()).sent):
            made = self._void()
        rest = text[len(self._parts.get(kind, _Part()).sent) :]
        made += self._piece(kind, rest) if rest else []
        return made + self._closed(kind)

    def _closed(self, kind: str = "") -> list[Chunk]:
        made: list[Chunk] = []
        for each, part in self._parts.items():
            if part.is_open and kind in ("", each):
                part.is_open = False
                made.append({"type": f"{_KINDS[each]}-end", "id": part.id})
        return made

    def _void(self) -> list[Chunk]:
        if not self._parts:
            return []
        self._parts.clear()
        return [{"type": "reset-step"}]

    # Tools.

    def _preliminary(self, call: str, content: Any) -> list[Chunk]:
        """The output so far of a tool that streams."""
        use = self._uses.get(call)
        if use is None or not isinstance(content, str):
            return []
        self._output[call] = self._output.get(call, "") + content
        return [{"type": "tool-output-available", "toolCallId": use, "output": self._output[call], "preliminary": True}]

    def waits(self, waiting: Iterable[WaitingCall]) -> list[Chunk]:
        """The turn goes on when these calls are decided: the questions, and the end of the stream."""
        made = self._closed()
        for each in waiting:
            record, asked = each.record, asked_from(each)
            use = asked.use_id or asked.question_id
            text = question_text(record)
            if record.waiting_for == "approval":
                if each.task is not None or not asked.use_id:
                    self._uses[record.id] = use
                    made.append(_tool_call(use, record.tool, encode(record.arguments).decode()))
                made.append(
                    {
                        "type": "tool-approval-request",
                        "approvalId": asked.question_id,
                        "toolCallId": use,
                        "reason": text,
                    }
                )
            else:
                data = {"id": record.id, "tool": record.tool, "waitingFor": record.waiting_for, "text": text}
                made.append({"type": "data-waiting", "id": asked.question_id, "data": data})
        return [*made, {"type": "finish-step"}, {"type": "finish", "finishReason": "tool-calls"}]

    # The end.

    def _end(self, data: dict[str, Any]) -> list[Chunk]:
        made = self._closed()
        stopped = data.get("stopped")
        if stopped == "cancelled":
            return [*made, {"type": "abort", "reason": data.get("text") or "The turn was stopped."}]
        if stopped != "finished":  # why it ended
            self._parts.clear()
            made += [{"type": "start-step"}, *self._piece("text", data.get("text") or ""), *self._closed()]
        names = ("stopped", "ended", "steps", "calls", "usage", "agent")
        metadata: Chunk = {"turn": self._turn, **{name: data[name] for name in names if name in data}}
        reason = _REASONS.get(data.get("ended") or "", "other") if stopped == "finished" else "other"
        return [*made, {"type": "finish-step"}, {"type": "finish", "finishReason": reason, "messageMetadata": metadata}]


def _tool_call(id: str, tool: str, arguments: str) -> Chunk:
    return {"type": "tool-input-available", "toolCallId": id, "toolName": tool, "input": _parsed(arguments)}


def _tool_result(id: str, data: dict[str, Any]) -> list[Chunk]:
    if data["success"]:
        made = [{"type": "tool-output-available", "toolCallId": id, "output": _parsed(data["content"])}]
    elif data.get("code") == "approval_denied":
        made = [{"type": "tool-output-denied", "toolCallId": id}]
    else:
        made = [{"type": "tool-output-error", "toolCallId": id, "errorText": data["content"]}]
    files = [
        {"type": "file", "url": f"/artifacts/{quote(each['artifact'], safe='')}", "mediaType": each["media_type"]}
        for each in data.get("files", ())
    ]
    return [*made, *files]


def _parsed(text: str) -> Any:
    """A value if it is JSON, else the text."""
    try:
        return decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
