"""An agent's turn in the terminal: its words to stdout, everything else to stderr. Foreign text is cleaned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from clicket.agents import AgentEvent
from clicket.agents.plan import PLAN_NAMES
from clicket.cli.chat_board import Board
from clicket.cli.terminal import Terminal, clean
from clicket.cli.words import duration, short
from clicket.model import Event, Record

__all__ = ["ChatView", "PlanView", "plan_lines", "usage_words"]

_STEPS = {
    "not_started": ("○", "-", "bright_black"),
    "in_progress": ("▶", ">", "bold cyan"),
    "completed": ("✓", "x", "green"),
    "blocked": ("✗", "!", "red"),
}


class ChatView:
    """Shows events one after the other. Where stdout is no terminal it gets the answer alone, once it is there."""

    def __init__(self, terminal: Terminal, record: Callable[[str], Record | None]) -> None:
        self._terminal = terminal
        self._record = record
        self.board = Board(terminal)
        self._streams = terminal.out.is_terminal
        self._said = ""
        """What of the answer under way is on the screen."""
        self._last = ""
        self._began: float | None = None
        self._started: dict[str, Mapping[str, Any]] = {}
        self._plans = PlanView(plain=terminal.plain)

    def take(self, event: AgentEvent) -> None:
        self._began = event.at if self._began is None else self._began
        draw = getattr(self, f"_{event.type}", None)
        if draw is not None:
            draw(event)

    def watch(self, event: Event) -> None:
        """What happened to a tool call, in its own words."""
        self.board.take(event)

    def remark(self, text: Text | str, style: str = "bright_black") -> None:
        """A line aside; an answer that is being written is broken off for it."""
        self._break()
        self._terminal.say(text, style=style)

    def end(self) -> None:
        """Nothing more comes of this turn."""
        self._break()
        self.board.clear()
        self._began, self._last, self._started = None, "", {}

    # The model's words.

    def _state(self, event: AgentEvent) -> None:
        if event.data["to"] == "running":
            self.board.think()

    def _delta(self, event: AgentEvent) -> None:
        if event.data["kind"] == "text" and self._streams and not event.data.get("fork") and not self.board.busy:
            self.board.thought()
            self._write(event.data["text"])

    def _thought(self, event: AgentEvent) -> None:
        self.remark(f"  {short(' '.join(event.data['text'].split()), 160)}", "bright_black italic")

    def _message(self, event: AgentEvent) -> None:
        text = event.data["text"]
        if event.data["role"] != "assistant" or not text:
            return
        if event.data.get("fork"):
            self.remark(f"  {self._sign('»', '>>')} {short(' '.join(text.split()), 160)}")
            return
        self._last = text
        if self._streams:
            self.board.hide()
            self._complete(text)

    def _complete(self, text: str) -> None:
        """Write what of a text is not on the screen yet."""
        if not text.startswith(self._said):
            self._break()
        self._write(text[len(self._said) :])
        self._break()

    def _write(self, text: str) -> None:
        self._terminal.write_text(text)
        self._said += text

    def _break(self) -> None:
        if self._said:
            self._terminal.write("" if self._said.endswith("\n") else "\n")
            self._said = ""

    def _retry(self, event: AgentEvent) -> None:
        data = event.data
        self.remark(
            f"  the model did not answer: {short(data['error'], 160)}; again in {duration(data['delay'])}", "yellow"
        )

    # Its tools.

    def _tool_started(self, event: AgentEvent) -> None:
        data = event.data
        self._started[data["id"]] = data
        self._break()
        if data["tool"] in PLAN_NAMES:
            return  # the plan is drawn as one
        if self._terminal.interactive:
            self.board.open(data["call_id"], data["tool"], data["arguments"])
        else:
            self._terminal.say(f"  {self._sign('→', '->')} {clean(data['tool'])} {short(data['arguments'], 100)}")

    def _tool_result(self, event: AgentEvent) -> None:
        data = event.data
        asked = self._started.pop(data["id"], {})
        self.board.close(asked.get("call_id", data["call_id"]))
        if data["tool"] not in PLAN_NAMES or not data["success"]:
            self.remark(self._result(data, str(asked.get("arguments", ""))), "")
        if not self._started:
            self.board.think()

    def _result(self, data: Mapping[str, Any], arguments: str) -> Text:
        mark, style = (self._sign("✓", "+"), "green") if data["success"] else (self._sign("✗", "x"), "red")
        line = Text("  ").append(mark, style).append(f" {clean(data['tool'])}", "bold")
        line.append(f" {short(arguments, 60)}", "bright_black")
        said = " ".join(data["content"].split())
        if said:
            line.append(f"  {self._sign('→', '->')} {short(said, 90)}", "" if data["success"] else "red")
        record = self._record(data["call_id"]) if data["call_id"] else None
        return line.append(_facts(record), "bright_black")

    def _plan(self, event: AgentEvent) -> None:
        for line in self._plans.take(event.data):
            self.remark(line, "")

    def _sign(self, sign: str, plain: str) -> str:
        return plain if self._terminal.plain else sign

    # The end.

    def _final(self, event: AgentEvent) -> None:
        data = event.data
        self.board.clear()
        if data["stopped"] != "finished":
            self.remark(data["text"], "yellow")
        elif not self._streams or data["text"] != self._last:
            self._break()
            self._write(data["text"])
            self._break()
        words = [f"{data['stopped']}", _count(data["steps"], "step")]
        if data.get("calls"):
            words.append(_count(data["calls"], "tool call"))
        words += usage_words(data.get("usage", {}))
        if self._began is not None and event.at > self._began:
            words.append(duration(event.at - self._began))
        self.remark(" · ".join(words))

    def _error(self, event: AgentEvent) -> None:
        self.board.clear()
        self._break()
        self._terminal.complain("agent_failed", event.data["message"])


class PlanView:
    """A new plan is told whole, later only the steps that went on."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._before: list[tuple[str, str]] = []

    def take(self, plan: Mapping[str, Any]) -> list[Text]:
        before, now = self._before, [(step["text"], step["status"]) for step in plan["steps"]]
        self._before = now
        lines = plan_lines(plan, plain=self._plain)
        if [text for text, _ in before] != [text for text, _ in now]:
            return lines
        return [line for line, was, step in zip(lines[1:], before, now, strict=True) if was != step]


def usage_words(usage: Mapping[str, Any]) -> list[str]:
    """What was read, written and paid, in the currency of the prices."""
    words = []
    if usage.get("input_tokens") or usage.get("output_tokens"):
        words.append(f"{usage.get('input_tokens', 0):,} tokens in, {usage.get('output_tokens', 0):,} out")
    if usage.get("cost"):
        words.append(f"cost {usage['cost']:.4g}")
    return words


def plan_lines(plan: Mapping[str, Any], *, plain: bool) -> list[Text]:
    """A plan, a line for each step with its state."""
    lines = [Text(f"  {clean(plan.get('title') or 'Plan')}", "bold")]
    for number, step in enumerate(plan.get("steps", ()), 1):
        sign, letter, style = _STEPS.get(step["status"], ("?", "?", ""))
        line = Text("  ").append(letter if plain else sign, style).append(f" {number}. {short(step['text'], 90)}")
        if step["status"] == "blocked" and step.get("notes"):
            line.append(f"  {short(step['notes'], 90)}", "red")
        lines.append(line)
    return lines


def _facts(record: Record | None) -> str:
    if record is None:
        return ""
    words = [duration(record.duration)] if record.duration is not None else []
    if len(record.attempts) > 1:
        words.append(f"{len(record.attempts)} attempts")
    return f"  {', '.join(words)}" if words else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
