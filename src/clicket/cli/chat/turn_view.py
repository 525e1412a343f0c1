"""Draws an agent's turn: the answer on stdout, everything else on stderr. Text from outside is cleaned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from rich.text import Text

from clicket.agents import AgentEvent
from clicket.agents.decision_words import in_words
from clicket.agents.plan import PLAN_NAMES
from clicket.cli.chat.live_calls import LiveCalls
from clicket.cli.formatting import count_of, duration, one_line, short
from clicket.cli.terminal import Terminal, clean
from clicket.model import Record
from clicket.model.ids import alias_of

__all__ = ["PlanView", "TurnView", "plan_lines", "usage_words"]

_CUT = {
    "length": "the answer is cut: the model reached its limit of tokens (max_answer_tokens)",
    "refusal": "the model declined to answer",
    "empty": "the model answered without any text",
}
_STOPPED = {"refused": "refused", "invalid_output": "no answer fits the type"}
_STEPS = {
    "not_started": ("○", "-", "bright_black"),
    "in_progress": ("▶", ">", "bold cyan"),
    "completed": ("✓", "x", "green"),
    "blocked": ("✗", "!", "red"),
}


class TurnView:
    """Draws events in their order. If stdout is not a terminal, it gets only the answer, once the turn has ended."""

    def __init__(self, terminal: Terminal, record: Callable[[str], Record | None]) -> None:
        self._terminal = terminal
        self._record = record
        self.live = LiveCalls(terminal)
        self._streams = terminal.out.is_terminal
        self._written = ""
        """The part of the current message that is on the screen."""
        self._last_message = ""
        self._value: Any = None
        """The typed answer of the turn."""
        self._began: float | None = None
        self._started: dict[str, Mapping[str, Any]] = {}
        self._plans = PlanView(plain=terminal.plain)

    def take(self, event: AgentEvent) -> None:
        data = event.data
        self._began = event.at if self._began is None else self._began
        match event.type:
            case "state" if data["to"] == "running":
                self.live.think()
            case "delta" if data["kind"] == "text" and self._streams and not data.get("branch") and not self.live.busy:
                self.live.stop_thinking()
                self._write(data["text"])
            case "thought":
                self.remark(f"  {one_line(data['text'], 160)}", "bright_black italic")
            case "message" if data["role"] == "assistant" and data["text"]:
                self._message(data)
            case "decision":
                said = one_line(in_words(data["by"], data["on"], data["value"]), 240)
                self.remark(f"  {said}", "yellow" if _is_strict(data["value"]) else "bright_black")
            case "answer":
                self._value = data["value"]
            case "handoff" | "undone":
                self.remark(f"  {_handed(data) if event.type == 'handoff' else _undone(data)}", "cyan")
            case "fallback" | "restart" | "retry":
                self.remark(f"  {_asked_again(event)}", "yellow")
            case "tool_started":
                self._tool_started(data)
            case "tool_result":
                self._tool_result(data)
            case "plan":
                for line in self._plans.take(data):
                    self.remark(line, "")
            case "final":
                self._final(data, event.at)
            case "error":
                self.live.clear()
                self._end_line()
                self._terminal.complain("agent_failed", data["message"])

    def remark(self, text: Text | str, style: str = "bright_black") -> None:
        """A line on stderr. A message that is being written is broken off for it."""
        self._end_line()
        self._terminal.say(text, style=style)

    def end(self) -> None:
        """The turn has ended, or is no longer shown."""
        self._end_line()
        self.live.clear()
        self._began, self._last_message, self._value, self._started = None, "", None, {}

    def _message(self, data: Mapping[str, Any]) -> None:
        text = self._readable(data["text"])
        if data.get("branch"):
            self.remark(f"  {self._sign('»', '>>')} {one_line(text, 160)}")
            return
        self._last_message = text
        if self._streams:
            self.live.hide()
            if not text.startswith(self._written):
                self._end_line()
            self._write(text[len(self._written) :])
            self._end_line()

    def _readable(self, text: str) -> str:
        """A typed answer with a line for each of its parts; a program that reads stdout gets it as it is."""
        if self._value is None or not self._streams:
            return text
        value = msgspec.json.encode(self._value)
        return msgspec.json.format(value, indent=2).decode() if text.encode() == value else text

    def _write(self, text: str) -> None:
        self._terminal.write_text(text)
        self._written += text

    def _end_line(self) -> None:
        if self._written:
            self._terminal.write("" if self._written.endswith("\n") else "\n")
            self._written = ""

    def _tool_started(self, data: Mapping[str, Any]) -> None:
        self._started[data["id"]] = data
        self._end_line()
        if data["tool"] in PLAN_NAMES:
            return  # the plan is drawn when it changes
        if self._terminal.interactive:
            self.live.open(data["call_id"], data["tool"], data["arguments"])
        else:
            self._terminal.say(f"  {self._sign('→', '->')} {clean(data['tool'])} {short(data['arguments'], 100)}")

    def _tool_result(self, data: Mapping[str, Any]) -> None:
        started = self._started.pop(data["id"], {})
        self.live.close(started.get("call_id", data["call_id"]))
        if data["tool"] not in PLAN_NAMES or not data["success"]:
            self.remark(self._result(data, str(started.get("arguments", ""))), "")
        if not self._started:
            self.live.think()

    def _result(self, data: Mapping[str, Any], arguments: str) -> Text:
        mark, style = (self._sign("✓", "+"), "green") if data["success"] else (self._sign("✗", "x"), "red")
        line = Text("  ").append(mark, style).append(f" {clean(data['tool'])}", "bold")
        line.append(f" {short(arguments, 60)}", "bright_black")
        content = one_line(data["content"], 90)
        if content:
            line.append(f"  {self._sign('→', '->')} {content}", "" if data["success"] else "red")
        record = self._record(data["call_id"]) if data["call_id"] else None
        facts = [duration(record.duration)] if record is not None and record.duration is not None else []
        if record is not None and len(record.attempts) > 1:
            facts.append(f"{len(record.attempts)} attempts")
        return line.append(f"  {', '.join(facts)}" if facts else "", "bright_black")

    def _sign(self, sign: str, plain: str) -> str:
        return plain if self._terminal.plain else sign

    def _final(self, data: Mapping[str, Any], at: float) -> None:
        self.live.clear()
        if data["stopped"] != "finished":
            self.remark(data["text"], "yellow")
        elif not self._streams or self._readable(data["text"]) != self._last_message:
            self._end_line()
            self._write(self._readable(data["text"]))
            self._end_line()
        cut = _CUT.get(data.get("ended") or "")
        if cut is not None:
            self.remark(cut, "yellow")
        facts = [_STOPPED.get(data["stopped"], data["stopped"]), count_of(data["steps"], "step")]
        if data.get("calls"):
            facts.append(count_of(data["calls"], "tool call"))
        facts += usage_words(data.get("usage", {}))
        if self._began is not None and at > self._began:
            facts.append(duration(at - self._began))
        self.remark(" · ".join(facts))


def _is_strict(decision: Any) -> bool:
    """Does it refuse, or ask a person?"""
    return isinstance(decision, Mapping) and decision.get("do") in ("refuse", "ask")


class PlanView:
    """Draws a new plan whole, and later only the steps whose status changed."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._before: list[tuple[str, str]] = []

    def take(self, plan: Mapping[str, Any]) -> list[Text]:
        before = self._before
        now = [(step["text"], step["status"]) for step in plan["steps"]]
        self._before = now
        lines = plan_lines(plan, plain=self._plain)
        if [text for text, _ in before] != [text for text, _ in now]:
            return lines
        return [line for line, was, step in zip(lines[1:], before, now, strict=True) if was != step]


def plan_lines(plan: Mapping[str, Any], *, plain: bool) -> list[Text]:
    """The title, and one line for each step with its status."""
    lines = [Text(f"  {clean(plan.get('title') or 'Plan')}", "bold")]
    for number, step in enumerate(plan.get("steps", ()), 1):
        sign, letter, style = _STEPS.get(step["status"], ("?", "?", ""))
        line = Text("  ").append(letter if plain else sign, style).append(f" {number}. {short(step['text'], 90)}")
        if step["status"] == "blocked" and step.get("notes"):
            line.append(f"  {short(step['notes'], 90)}", "red")
        lines.append(line)
    return lines


def usage_words(usage: Mapping[str, Any]) -> list[str]:
    """Tokens read and written, and their cost in the currency of the prices."""
    words = []
    if usage.get("input_tokens") or usage.get("output_tokens"):
        cached = [
            f"{usage[name]:,} {what}"
            for name, what in (("cached_tokens", "from the cache"), ("cache_write_tokens", "written to the cache"))
            if usage.get(name)
        ]
        aside = f" ({', '.join(cached)})" if cached else ""
        words.append(f"{usage.get('input_tokens', 0):,} tokens in{aside}, {usage.get('output_tokens', 0):,} out")
    if usage.get("cost"):
        words.append(f"cost {usage['cost']:.4g}")
    return words


def _undone(data: dict[str, Any]) -> str:
    calls = ", ".join(f"{each['tool']} ({alias_of(each['call'])})" for each in data["calls"])
    return one_line(f"undone since the last turn: {calls}", 240)


def _handed(data: Mapping[str, Any]) -> str:
    """Who hands over to whom. Without a tool call, the turn begins with the agent that had the thread last."""
    if not data["id"]:
        return f"{clean(data['to'])} goes on"
    because = f": {one_line(data['reason'], 160)}" if data["reason"] else ""
    return f"{clean(data['from'])} hands over to {clean(data['to'])}{because}"


def _asked_again(event: AgentEvent) -> str:
    """Why the model, or another one, is asked again."""
    data = event.data
    if event.type == "restart":
        return "the answer begins again"
    error = short(data["error"], 160)
    if event.type == "retry":
        return f"the model did not answer: {error}; again in {duration(data['delay'])}"
    then = f"; {clean(data['next'])} is asked" if data["next"] else ""
    return f"{clean(data['model'])} gave no answer ({data['reason']}: {error}){then}"
